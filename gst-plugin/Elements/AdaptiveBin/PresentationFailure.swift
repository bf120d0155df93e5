// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyManifests
import LatchkeyProtection

/// Why something of a presentation cannot be had, with the error that the demuxer posts and the status that it answers
/// to the stock demuxer. Names the URL without its query, and what to do.
struct PresentationFailure: Error, Sendable {
    enum Kind: Sendable {
        /// The origin does not answer, or not with what was asked for.
        case notFound, notAuthorized, network
        /// No URL that can be fetched.
        case url
        /// What came is no manifest, or one that cannot be read.
        case format
        case unsupported
        case key
    }

    /// What may pass by itself.
    enum Cause: Sendable {
        case status(Int)
        /// No connection, or one that broke.
        case connection
        /// Something else came, as where a network wants a log-in.
        case foreign(ForeignContent)
        case other
    }

    let kind: Kind
    let text: String
    let advice: String
    /// For the stock demuxer: the origin's own, if that is no success; where the origin cannot be reached, 502, after which
    /// it tries again; else 404, after which it gives up.
    var status = 404
    var cause = Cause.other

    /// Trying again cannot help.
    var isFinal: Bool {
        switch kind {
        case .url, .format, .unsupported, .key: true
        case .notFound, .notAuthorized, .network: false
        }
    }

    /// It may be had later, without anybody's doing.
    var mayPass: Bool {
        switch cause {
        case .status(let status): status >= 500
        case .connection, .foreign: true
        case .other: false
        }
    }

    /// The origin has answered, or what is in its place.
    var isAnswer: Bool {
        switch cause {
        case .status, .foreign: true
        case .connection, .other: false
        }
    }

    /// No connection, or one that broke.
    var isOfConnection: Bool { if case .connection = cause { true } else { false } }

    /// The origin has nothing of that name.
    var isAbsence: Bool {
        if case .status(let status) = cause { status == 404 || status == 410 } else { false }
    }

    /// The origin has nothing of the byte range, or nothing of one that ends behind the resource.
    var refusesRange: Bool { if case .status(416) = cause { true } else { false } }

    /// The origin has no time for it now.
    var isBusy: Bool { if case .status(let status) = cause { [408, 425, 429].contains(status) } else { false } }

    /// The origin does not give it to this client, or has nothing of that name. Not that it has no time.
    var isRefusal: Bool {
        if case .status(let status) = cause { 400...499 ~= status && !isBusy } else { false }
    }

    func post(on element: ElementReference) {
        switch kind {
        case .notFound: element.postError(GST_RESOURCE_ERROR_NOT_FOUND, text, debug: advice)
        case .notAuthorized: element.postError(GST_RESOURCE_ERROR_NOT_AUTHORIZED, text, debug: advice)
        case .network, .url: element.postError(GST_RESOURCE_ERROR_OPEN_READ, text, debug: advice)
        case .format: element.postError(GST_STREAM_ERROR_DEMUX, text, debug: advice)
        case .unsupported: element.postError(GST_STREAM_ERROR_DECRYPT, text, debug: advice)
        case .key: element.postError(GST_STREAM_ERROR_DECRYPT_NOKEY, text, debug: advice)
        }
    }
}

extension PresentationFailure {
    /// The origin answered with a status that is no success.
    static func status(_ status: Int, of what: String, at url: String) -> PresentationFailure {
        let place = HTTPRequest(url: url).printableURL
        // Workaround (GStreamer >=1.22): at 204, the stock demuxer aborts the process or waits for ever.
        guard !(200...299 ~= status) else {
            return PresentationFailure(
                kind: .format,
                text: "The \(what) \(place) cannot be used: HTTP status \(status) does not bring all of it.",
                advice: "Check what the server sends under that URL.", cause: .status(status))
        }
        let (kind, advice): (Kind, String) =
            switch status {
            case 401, 403, 407:
                (
                    .notAuthorized,
                    "Check the cookies, tokens and headers that the source element sends. Another origin than the manifest's gets "
                        + "them if source-header-origins names it."
                )
            case 404, 410: (.notFound, "Check the URL; the presentation may have been moved or taken away.")
            default: (.network, "The server has a problem; try again later.")
            }
        return PresentationFailure(
            kind: kind, text: "The \(what) \(place) cannot be had: HTTP status \(status).", advice: advice,
            status: status, cause: .status(status))
    }

    /// Something else came in the place of a playlist, a manifest or media.
    static func foreign(_ content: ForeignContent, inPlaceOf what: String, at url: String) -> PresentationFailure {
        PresentationFailure(
            kind: .format, text: "\(HTTPRequest(url: url).printableURL) is no \(what) but \(content.rawValue).",
            advice:
                "Open the URL in a browser: a log-in page of the network or an error of the server may be in its place.",
            cause: .foreign(content))
    }

    static func transport(_ error: HTTPError, of what: String) -> PresentationFailure {
        if error.isSameKind(as: .invalidURL("")) {
            return PresentationFailure(
                kind: .url, text: "The \(what) cannot be had: \(error).",
                advice:
                    "Adaptive media is fetched by http and https alone. Let a web server on this machine serve local "
                    + "files, such as python3 -m http.server.")
        }
        if error.isSameKind(as: .tooLarge("")) {
            return PresentationFailure(
                kind: .format, text: "The \(what) cannot be used: \(error).",
                advice: "Check what the server sends under that URL.")
        }
        guard error.isTemporary else {
            return PresentationFailure(
                kind: .network, text: "The \(what) cannot be had: \(error).",
                advice: "Check the server, its certificate and its redirects, and the clock of this machine.")
        }
        return PresentationFailure(
            kind: .network, text: "The \(what) cannot be had: \(error).",
            advice: "Check the network, the proxy settings and the server.", status: 502, cause: .connection)
    }
}

typealias HLSFailure = PresentationFailure
typealias HLSOrigin = PresentationOrigin

extension HLSFailure {
    static func format(_ error: FormatError) -> HLSFailure {
        if error.isSameKind(as: .unsupported("")) {
            return HLSFailure(
                kind: .unsupported, text: "The media cannot be decrypted: \(error.reason).",
                advice: "Ask for a presentation with a key format that can be used; key-formats chooses among several.")
        }
        return HLSFailure(
            kind: .format, text: "A playlist cannot be used: \(error).",
            advice: "Check what the server sends under that URL.")
    }

    /// A stream that began clear has become encrypted, and this decryptor could not be put into it.
    static func noDecryptor(_ factory: String) -> HLSFailure {
        HLSFailure(
            kind: .unsupported,
            text:
                "The samples of a stream that was clear when it began are encrypted now, and \(factory), which decrypts "
                + "them, cannot be put into GStreamer's parser.",
            advice:
                "See whether gst-inspect-1.0 \(factory) shows the element: all of Latchkey has to be installed. If it "
                + "does, open the presentation again, so that the parser begins with it.")
    }

    /// The program map says that samples are encrypted, and the playlist does not. `segment`: its URL, if that is known.
    static func lacksKeyLine(_ segment: String?) -> HLSFailure {
        HLSFailure(
            kind: .key,
            text: (segment.map { "The segment \($0)" } ?? "A segment")
                + " is encrypted with SAMPLE-AES, as its program map says, and the playlist has no EXT-X-KEY that says with which "
                + "key.",
            advice: "Ask for a playlist that names the key, or for media that is clear.")
    }

    /// A box of a fragment says that its samples are encrypted, and the init segment does not. `segment`: the URL of what was
    /// fetched last, if that is known.
    static func undeclared(_ box: String, _ track: UInt32, _ segment: String?) -> PresentationFailure {
        PresentationFailure(
            kind: .unsupported,
            text: "In a fragment, \(box) says that samples of track \(track) are encrypted, and the init segment "
                + "does not say how." + (segment.map { " The last segment came from \($0)." } ?? ""),
            advice: "Ask for media whose init segment names the encryption, or for media that is clear.")
    }

    /// The init segment says that each sample of the track has an IV, and a fragment has none. `segment`: as for `undeclared`.
    static func silent(_ track: UInt32, _ segment: String?) -> PresentationFailure {
        PresentationFailure(
            kind: .unsupported,
            text: "In a fragment, the encrypted samples of track \(track) have no IV: no box “senc” or “saiz” has one."
                + (segment.map { " The last segment came from \($0)." } ?? ""),
            advice: "Ask for media whose fragments have these boxes, or for media that is clear.")
    }

    /// The init segment says that the pictures of the track are encrypted with a constant IV, and a fragment has no subsamples.
    /// `segment`: as for `undeclared`.
    static func unmapped(_ track: UInt32, _ segment: String?) -> PresentationFailure {
        PresentationFailure(
            kind: .unsupported,
            text:
                "In a fragment, the encrypted samples of track \(track) have no subsamples: no box “senc” or “saiz” "
                + "has them. GStreamer before 1.22.6 takes such pictures for clear."
                + (segment.map { " The last segment came from \($0)." } ?? ""),
            advice: "Ask for media whose fragments have these boxes, or use GStreamer 1.22.6 or later.")
    }

    /// In a fragment, the box alone tells how samples of the track are encrypted. `segment`: as for `undeclared`.
    static func unread(_ box: String, _ track: UInt32, _ segment: String?) -> PresentationFailure {
        PresentationFailure(
            kind: .unsupported,
            text:
                "In a fragment, \(box) alone tells how the samples of track \(track) are encrypted. GStreamer's "
                + "demuxer needs “saiz” and “saio”."
                + (segment.map { " The last segment came from \($0)." } ?? ""),
            advice: "Ask for media whose fragments have the boxes “saiz” and “saio”.")
    }

    /// `name` is how the key is called in front of people.
    static func key(_ name: String, _ error: KeyError) -> HLSFailure {
        HLSFailure(
            kind: .key, text: "There is no key for \(name): \(error).",
            advice: "Give the key with a keys file, set a license service, or answer the latchkey-key-request message.")
    }

    /// A segment that is encrypted as a whole, and has no padding or no media in it.
    static func wrongKey(_ key: HLSKey, at url: String) -> HLSFailure {
        .media("segment", at: url, "what the key decrypts is no media (\(key))")
    }

    /// Encrypted media that cannot be what the playlist says.
    static func media(_ what: String, at url: String, _ reason: String) -> HLSFailure {
        HLSFailure(
            kind: .format, text: "The \(what) \(HTTPRequest(url: url).printableURL) cannot be used: \(reason).",
            advice: "Either the key or the media is a wrong one.")
    }
}

/// Why the demuxer cannot start.
enum AdaptiveStartFailure: Error {
    case configuration(KeyError)
    case loopback(HTTPError)

    func post(on element: ElementReference) {
        switch self {
        case .configuration(let error): element.postError(GST_RESOURCE_ERROR_SETTINGS, "\(error).", debug: "")
        case .loopback(let error): element.postError(GST_RESOURCE_ERROR_OPEN_READ, "\(error).", debug: "")
        }
    }
}
