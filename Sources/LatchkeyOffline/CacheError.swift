// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyContainers
import LatchkeyStorage

/// Why content could not be cached, or read from the cache. `description` is for people: it names the file or the URL,
/// without a query, and says what to do. What was cached before stays.
public struct CacheError: Error, Hashable, Sendable {
    /// The kinds of errors. Those that may pass by themselves are worth another try (`isTemporary`).
    public enum Code: String, Sendable, CaseIterable {
        /// The URL cannot be fetched here.
        case invalidURL = "invalid URL"
        /// No answer from the content's server.
        case unreachable
        /// The content's server answered with an error status.
        case serverError = "server error"
        /// What came is not what was asked for, such as the web page of a captive portal.
        case invalidContent = "invalid content"
        /// It is what its type says, and cannot be cached: live streams, say.
        case unsupportedContent = "unsupported content"
        /// The content at the server is another than the one of which a part is cached. Purge it and start again; what is
        /// cached still plays.
        case contentChanged = "content changed"
        /// No room is left.
        case diskFull = "disk full"
        /// The files of the cache may not be written or read.
        case notPermitted = "not permitted"
        /// What is on disk is not what was stored: the index of the item, or a file. It is fetched again where there is a
        /// network.
        case damaged
        /// A key of the content is not kept: nothing but playback has asked for it yet, its server does not give it to a
        /// download, or it was kept on another device. Playback needs the network for it.
        case licenseNotKept = "license cannot be kept"
        /// A later version of this library made the item. It is left alone, and plays from the network.
        case laterVersion = "later version"
        /// Another process uses the item: it writes to it, or, for a purge, has it open.
        case inUse = "in use"
        /// The disk or the file system failed.
        case inputOutput = "input or output"
        /// It is not in the cache, or was purged meanwhile.
        case notCached = "not cached"
        /// It was paused or purged meanwhile.
        case cancelled
    }

    /// The kind.
    public let code: Code
    /// What it is about, in words.
    public let reason: String
    /// Of the content's server, for `serverError`.
    public let httpStatus: Int?
    /// Where content is that cannot be used: `reason` begins with it. Without a query.
    package let url: String?
    /// The server has something else than media there: not the network, and not for a while.
    private(set) var isNoMedia = false

    package init(_ code: Code, _ reason: String, httpStatus: Int? = nil) {
        self.init(code, reason, httpStatus: httpStatus, url: nil)
    }

    private init(_ code: Code, _ reason: String, httpStatus: Int? = nil, url: String?) {
        self.code = code
        self.reason = (url.map { "\($0): " } ?? "") + reason
        self.httpStatus = httpStatus
        self.url = url
    }

    /// Whether the same call may succeed later without further action.
    public var isTemporary: Bool {
        switch code {
        case .unreachable, .inUse: true
        case .serverError: httpStatus.map { $0 >= 500 || $0 == 408 || $0 == 429 } ?? false
        default: false
        }
    }

    static func serverError(_ status: Int, at url: String) -> CacheError {
        CacheError(.serverError, "\(printable(url)) answers with HTTP status \(status)", httpStatus: status)
    }

    package static func invalidContent(_ reason: String, at url: String) -> CacheError {
        CacheError(.invalidContent, reason, url: printable(url))
    }

    static func noMedia(at url: String) -> CacheError {
        var error = invalidContent(
            "it is no media: it begins neither as MP4, MPEG-TS, WebM or sound does nor as subtitles do; check what the "
                + "server has at that URL", at: url)
        error.isNoMedia = true
        return error
    }

    package static func unsupportedContent(_ reason: String, at url: String) -> CacheError {
        CacheError(.unsupportedContent, reason, url: printable(url))
    }

    init(_ error: FormatError, at url: String) {
        self =
            error.isSameKind(as: .unsupported(""))
            ? .unsupportedContent(error.reason, at: url) : .invalidContent(error.description, at: url)
    }

    init(_ error: HTTPError) {
        let code: Code =
            if error.isSameKind(as: .invalidURL("")) || error.isSameKind(as: .invalidRequest("")) {
                .invalidURL
            } else if error.isSameKind(as: .cancelled("")) {
                .cancelled
            } else if error.isSameKind(as: .tooLarge("")) {
                .unsupportedContent
            } else {
                .unreachable
            }
        let hint = code == .unsupportedContent ? "; byte ranges have to be supported for large files" : ""
        // The kind that the description begins with says the same.
        self.init(code, (code == .invalidURL || code == .cancelled ? error.reason : "\(error)") + hint)
    }

    /// A URL for people: without query, fragment and user information.
    static func printable(_ url: String) -> String { HTTPRequest(url: url).printableURL }
}

extension CacheError: CustomStringConvertible {
    /// The kind and the reason.
    public var description: String { "\(code.rawValue): \(reason)" }
}

extension CacheError: SQLiteFailure {
    package static func busy(_ detail: String) -> Self { Self(.inUse, detail) }
    package static func corrupted(_ detail: String) -> Self { Self(.damaged, detail) }
    package static func diskFull(_ detail: String) -> Self { Self(.diskFull, detail) }
    package static func inputOutput(_ detail: String) -> Self { Self(.inputOutput, detail) }
    package static func readOnly(_ detail: String) -> Self { Self(.notPermitted, detail) }
    package static func cannotOpen(_ detail: String) -> Self { Self(.notPermitted, detail) }
    // No manifest is long enough for a URL like that.
    package static func recordTooLarge(_ detail: String) -> Self { Self(.damaged, detail) }
}
