// SPDX-License-Identifier: MPL-2.0

/// Why a key is not there.
///
/// `description` is for people: it names the KID or the URL and what to do. `shortDescription` has no values in it and
/// suits metrics. Neither ever contains a key, a license body or a credential.
public struct KeyError: Error, Hashable, Sendable {
    private enum Code: String {
        case noLoader = "no loader"
        case denied
        case keyNotInResponse = "key not in response"
        case malformedResponse = "malformed response"
        case malformedRequest = "malformed request"
        case network
        case serverStatus = "server status"
        case timedOut = "timed out"
        case cancelled
        case sessionClosed = "session closed"
        case invalidConfiguration = "invalid configuration"
        case leaseExpired = "lease expired"
    }

    private let code: Code
    private let detail: String

    private init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    /// No loader took the request, and the application did not answer it.
    public static func noLoader(_ detail: String) -> KeyError { KeyError(.noLoader, detail) }
    /// The license service, or the application, refuses the key.
    public static func denied(_ detail: String) -> KeyError { KeyError(.denied, detail) }
    /// There was an answer, but not for the KID that was asked for.
    public static func keyNotInResponse(_ detail: String) -> KeyError { KeyError(.keyNotInResponse, detail) }
    /// The answer cannot be read.
    public static func malformedResponse(_ detail: String) -> KeyError { KeyError(.malformedResponse, detail) }
    /// A request that this side cannot make or read.
    public static func malformedRequest(_ detail: String) -> KeyError { KeyError(.malformedRequest, detail) }
    /// The license service cannot be reached.
    public static func network(_ detail: String) -> KeyError { KeyError(.network, detail) }
    /// The license service answered with an HTTP status that is no success.
    public static func serverStatus(_ detail: String) -> KeyError { KeyError(.serverStatus, detail) }
    /// No answer came before the deadline.
    public static func timedOut(_ detail: String) -> KeyError { KeyError(.timedOut, detail) }
    /// The request was withdrawn.
    public static func cancelled(_ detail: String) -> KeyError { KeyError(.cancelled, detail) }
    /// The session that the key belongs to is closed.
    public static func sessionClosed(_ detail: String) -> KeyError { KeyError(.sessionClosed, detail) }
    /// A property, a keys file or a configuration file that cannot be used.
    public static func invalidConfiguration(_ detail: String) -> KeyError { KeyError(.invalidConfiguration, detail) }
    /// The time for which the license allowed the key is over. FairPlay's number for it is -42656.
    public static func leaseExpired(_ detail: String) -> KeyError { KeyError(.leaseExpired, detail) }

    /// The kind of failure alone.
    public var shortDescription: String { code.rawValue }

    /// What `description` says beside the kind.
    public var reason: String { detail }

    /// Whether the key was asked for and is not available: to ask again in the same playback changes nothing.
    public var isRefusal: Bool {
        switch code {
        case .denied, .keyNotInResponse, .malformedResponse, .network, .serverStatus, .timedOut: true
        case .noLoader, .malformedRequest, .cancelled, .sessionClosed, .invalidConfiguration, .leaseExpired: false
        }
    }

    /// Whether `other` is of the same kind, whatever the details.
    public func isSameKind(as other: KeyError) -> Bool { code == other.code }
}

extension KeyError: CustomStringConvertible {
    /// The kind of failure and the details, with the KID or the URL and what to do.
    public var description: String { detail.isEmpty ? code.rawValue : "\(code.rawValue): \(detail)" }
}
