// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
public import LatchkeyProtection

/// Why the agent could not do what it was asked. `description` is for people: it says what is wrong with what, and what
/// to do; URLs in it have no query. `code` is for programs.
public struct AgentError: Error, Hashable, Sendable {
    /// The kinds of errors. Those that may pass by themselves are worth another try (`isTemporary`).
    public enum Code: String, Sendable, CaseIterable {
        /// The content URL cannot be fetched by any means here.
        case invalidURL = "invalid URL"
        /// No answer from the content's server.
        case unreachable
        /// The content's server answered with an error status.
        case serverError = "server error"
        /// What came is not what the content type says, such as the web page of a captive portal.
        case invalidContent = "invalid content"
        /// It is what the type says, and of a kind that is not played.
        case unsupportedContent = "unsupported content"
        /// A license was asked for where nothing is protected.
        case notProtected = "not protected"
        /// No license was acquired.
        case licenseNotAcquired = "no license acquired"
        /// The configuration, the license store or an element cannot be used.
        case configuration
        /// The agent, or its playback, was ended meanwhile.
        case cancelled
    }

    /// The kind.
    public let code: Code
    /// What it is about, in words.
    public let reason: String
    /// Of the content's server, for `serverError`; of the license service, for `licenseNotAcquired`, where it refused by one.
    public let httpStatus: Int?
    /// Why there is no license, for `licenseNotAcquired`.
    public let keyError: KeyError?

    private init(_ code: Code, _ reason: String, httpStatus: Int? = nil, keyError: KeyError? = nil) {
        self.code = code
        self.reason = reason
        self.httpStatus = httpStatus
        self.keyError = keyError
    }

    static func invalidURL(_ reason: String) -> AgentError { AgentError(.invalidURL, reason) }
    static func unreachable(_ reason: String) -> AgentError { AgentError(.unreachable, reason) }
    static func serverError(_ status: Int, at url: String) -> AgentError {
        AgentError(
            .serverError, "\(HTTPRequest(url: url).printableURL) answers with HTTP status \(status)", httpStatus: status
        )
    }
    static func invalidContent(_ reason: String, at url: String) -> AgentError {
        AgentError(.invalidContent, "\(HTTPRequest(url: url).printableURL): \(reason)")
    }
    static func unsupportedContent(_ reason: String, at url: String) -> AgentError {
        AgentError(.unsupportedContent, "\(HTTPRequest(url: url).printableURL): \(reason)")
    }
    /// What the text of a `KeyError` has of an HTTP status; nil unless a server refused the key by one.
    package static func httpStatus(in text: String) -> Int? {
        let kind = KeyError.serverStatus("").shortDescription
        // A session server refuses no key.
        guard text.hasPrefix(kind), !text.hasPrefix("\(kind): no viewing session: "),
            let place = text.firstRange(of: " status ")
        else { return nil }
        // The first one is no word of the server's: behind its URL, which has no space.
        let rest = text[place.upperBound...]
        return Int(rest.prefix { $0.isNumber })
    }
    static let notProtected = AgentError(.notProtected, "the content needs no license")
    static func licenseNotAcquired(_ error: KeyError) -> AgentError {
        AgentError(
            .licenseNotAcquired, error.description, httpStatus: httpStatus(in: error.description), keyError: error)
    }
    static func configuration(_ reason: String) -> AgentError {
        // The kind of a key error says the same.
        AgentError(.configuration, String(reason.trimmingPrefix("invalid configuration: ")))
    }
    static func cancelled(_ reason: String) -> AgentError { AgentError(.cancelled, reason) }

    /// Whether the same call may succeed later without further action.
    public var isTemporary: Bool {
        switch code {
        case .unreachable, .invalidContent: true
        case .serverError: httpStatus.map { $0 >= 500 || $0 == 408 || $0 == 429 } ?? false
        default: false
        }
    }
}

extension AgentError: CustomStringConvertible {
    /// The kind and the reason.
    public var description: String { "\(code.rawValue): \(reason)" }
}
