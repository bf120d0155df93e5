// SPDX-License-Identifier: MPL-2.0

/// How one kind of session server is spoken to: data, which a JSON file may hold.
///
/// Texts may have names in braces that stand for values: `{session}` is the client's own number of the session,
/// `{token}` the server's latest token, `{reference}` the server's name for the session, `{credential}` what the
/// application authenticates with, `{termination}` the code that ends another session, and every other name a parameter
/// of the configuration, as `{account}`. A header, a query item or a field of which a value is missing is left out.
public struct SessionAdapter: Hashable, Sendable, Codable {
    /// One request.
    public struct Exchange: Hashable, Sendable, Codable {
        public var method: String
        /// Behind the server's URL. `{reference}` alone: the URL that the server gave.
        public var path: String
        /// Percent-encoded.
        public var query: [String: String]
        public var headers: [String: String]
        /// The members of a JSON object; nil: no body.
        public var fields: [String: String]?

        public init(
            _ method: String, _ path: String, query: [String: String] = [:], headers: [String: String] = [:],
            fields: [String: String]? = nil
        ) {
            self.method = method
            self.path = path
            self.query = query
            self.headers = headers
            self.fields = fields
        }
    }

    /// Where things are in an answer. A place is the names of members with dots between them, or `header:NAME`.
    public struct Answer: Hashable, Sendable, Codable {
        /// Nil: the server has no tokens. Else every accepted setup and heartbeat has one.
        public var token: String?
        public var reference: String?
        /// Time between heartbeats, in `intervalUnit` milliseconds.
        public var interval: String?
        public var intervalUnit: Int
        public var missedBeats: String?
        /// Whether `Expires` minus `Date` is the time for which the server holds the session.
        public var expiresHeader: Bool
        public var code: String?
        public var message: String?
        /// A list of objects.
        public var conflicts: String?
        /// In such an object.
        public var conflictReference: String?
        public var conflictLabel: String?
        public var conflictTermination: String?

        public init(
            token: String? = nil, reference: String? = nil, interval: String? = nil, intervalUnit: Int = 1000,
            missedBeats: String? = nil, expiresHeader: Bool = false, code: String? = nil, message: String? = nil,
            conflicts: String? = nil, conflictReference: String? = nil, conflictLabel: String? = nil,
            conflictTermination: String? = nil
        ) {
            self.token = token
            self.reference = reference
            self.interval = interval
            self.intervalUnit = intervalUnit
            self.missedBeats = missedBeats
            self.expiresHeader = expiresHeader
            self.code = code
            self.message = message
            self.conflicts = conflicts
            self.conflictReference = conflictReference
            self.conflictLabel = conflictLabel
            self.conflictTermination = conflictTermination
        }
    }

    /// What an error means. The first rule that fits counts; what is not named fits everything.
    public struct Rule: Hashable, Sendable, Codable {
        public var request: SessionState.Request.Kind?
        public var status: Int?
        public var code: String?
        public var means: Meaning

        public init(
            _ means: Meaning, request: SessionState.Request.Kind? = nil, status: Int? = nil, code: String? = nil
        ) {
            self.means = means
            self.request = request
            self.status = status
            self.code = code
        }
    }

    /// The names of `SessionFailure.Kind` in a file.
    public enum Meaning: String, Hashable, Sendable, Codable {
        case retry, limit, credential, ended, refused

        var kind: SessionFailure.Kind {
            switch self {
            case .retry: .unknown
            case .limit: .limit
            case .credential: .credential
            case .ended: .ended
            case .refused: .refused
            }
        }
    }

    public var name: String
    public var setup: Exchange
    public var heartbeat: Exchange
    public var teardown: Exchange
    public var answer: Answer
    public var rules: [Rule]
    /// Whether every answer of the server itself is JSON. Then one that is not comes from something on the way, and says
    /// nothing about the session.
    public var errorsAreJSON: Bool
    /// Whether the server knows the session by `{session}` from the first request on: a setup that is sent again is the
    /// same session, and a teardown ends it, whether or not the setup was ever answered.
    public var knowsClientSession: Bool

    public init(
        name: String, setup: Exchange, heartbeat: Exchange, teardown: Exchange, answer: Answer, rules: [Rule] = [],
        errorsAreJSON: Bool, knowsClientSession: Bool
    ) {
        self.name = name
        self.setup = setup
        self.heartbeat = heartbeat
        self.teardown = teardown
        self.answer = answer
        self.rules = rules
        self.errorsAreJSON = errorsAreJSON
        self.knowsClientSession = knowsClientSession
    }

    func exchange(_ kind: SessionState.Request.Kind) -> Exchange {
        switch kind {
        case .setup: setup
        case .beat: heartbeat
        case .teardown: teardown
        }
    }

    /// Whether ending a session takes the token, so that a record has to hold it.
    var endsWithToken: Bool { teardown.mentions("{token}") }
}

extension SessionAdapter.Exchange {
    func mentions(_ name: String) -> Bool {
        path.contains(name)
            || [query, headers, fields ?? [:]].contains { $0.values.contains { $0.contains(name) } }
    }
}

extension SessionState.Request.Kind: Codable {
    /// In files, a heartbeat has its whole name.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        switch try container.decode(String.self) {
        case "setup": self = .setup
        case "heartbeat": self = .beat
        case "teardown": self = .teardown
        case let name:
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "“\(name)” is none of setup, heartbeat, teardown")
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self == .beat ? "heartbeat" : rawValue)
    }
}
