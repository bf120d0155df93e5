// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Why a request of a session was not granted, and what follows from that.
public struct SessionFailure: Error, Hashable, Sendable {
    /// What follows from the failure: another try, a question to the application, or the end.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// The result is unknown: no answer, an answer that makes no sense, a server in trouble. Tried again.
        case unknown = "no answer"
        /// As many sessions as are allowed. Never tried again without being asked.
        case limit = "session limit reached"
        /// The credential or the token is not good. A new credential is asked for, once.
        case credential = "credential refused"
        /// The server does not have the session any more.
        case ended = "session ended by the server"
        /// Anything else that trying again does not mend.
        case refused
        /// No trustworthy connection.
        case insecure = "no secure connection"
        /// The time in which the server would have had to be heard is over.
        case expired = "heartbeat deadline passed"
    }

    /// A session that stands in the way.
    public struct Conflict: Hashable, Sendable {
        /// The server's name for it.
        public var reference: String
        /// The device or the title, as the server tells it.
        public var label: String
        /// Ends this session when it is sent with a setup; nil where the server offers none. A secret.
        public var terminationCode: String?

        /// For adapters of one's own. A label is for people and may be empty.
        public init(reference: String, label: String = "", terminationCode: String? = nil) {
            self.reference = reference
            self.label = label
            self.terminationCode = terminationCode
        }
    }

    /// Decides what the session does.
    public var kind: Kind
    /// The HTTP status; nil where there was no answer.
    public var status: Int?
    /// The server's own code.
    public var code: String?
    /// The server's words, or what went wrong.
    public var message: String
    /// Milliseconds after which the server wants to be asked again.
    public var retryAfter: Int64?
    /// Oldest first, as far as the server says.
    public var conflicts: [Conflict]

    /// For transports and adapters of one's own; `message` must not hold a secret, as it is logged.
    public init(
        _ kind: Kind, status: Int? = nil, code: String? = nil, message: String = "", retryAfter: Int64? = nil,
        conflicts: [Conflict] = []
    ) {
        self.kind = kind
        self.status = status
        self.code = code
        self.message = message
        self.retryAfter = retryAfter
        self.conflicts = conflicts
    }
}

extension SessionFailure: CustomStringConvertible {
    /// Kind, status, code and message, for a log. Conflicts and their codes are left out.
    public var description: String {
        var text = kind.rawValue
        if let status { text += ", HTTP status \(status)" }
        if let code { text += ", code \(code)" }
        return message.isEmpty ? text : "\(text): \(message)"
    }
}

extension SessionFailure.Conflict: Redacted {
    /// Label and reference, never the termination code.
    public var description: String { label.isEmpty ? reference : "\(reference) (\(label))" }
    /// The same two, so that the termination code does not show in `dump`.
    public var shown: KeyValuePairs<String, Any> { ["reference": reference, "label": label] }
}
