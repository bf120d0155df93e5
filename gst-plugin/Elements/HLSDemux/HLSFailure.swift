// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

typealias HLSFailure = PresentationFailure
typealias HLSOrigin = PresentationOrigin

extension HLSFailure {
    /// A web page where a playlist should be.
    static func webPage(at url: String) -> HLSFailure {
        HLSFailure(
            kind: .format,
            text: "\(HTTPRequest(url: url).printableURL) is no playlist but a web page.",
            advice: "A log-in page of the network or an error page of the server may answer in place of the playlist: "
                + "open the URL in a browser.", cause: .webPage)
    }

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

    /// `name` is how the key is called in front of people.
    static func key(_ name: String, _ error: KeyError) -> HLSFailure {
        HLSFailure(
            kind: .key, text: "There is no key for \(name): \(error).",
            advice: "Give the key with a keys file, set a licence service, or answer the latchkey-key-request message.")
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
