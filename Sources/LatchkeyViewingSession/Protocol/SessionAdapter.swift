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
        /// Of HTTP: `POST`, `PUT`.
        public var method: String
        /// Behind the server's URL. `{reference}` alone: the URL that the server gave.
        public var path: String
        /// The items of the query by name; names and values are percent-encoded when they are filled in.
        public var query: [String: String]
        /// Name and value. One whose value is missing is not sent.
        public var headers: [String: String]
        /// The members of a JSON object; nil: no body.
        public var fields: [String: String]?

        /// `method` and `path` are those of HTTP; without `fields`, the request has no body.
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
        /// Where a setup's answer names the session: its id or its URL. Nil: the client's number is enough.
        public var reference: String?
        /// Time between heartbeats, in `intervalUnit` milliseconds.
        public var interval: String?
        /// 1000 for an interval in seconds, 1 for milliseconds.
        public var intervalUnit: Int
        /// Where the answer says how many intervals the server waits. Nil: `SessionPolicy.missedBeats` counts.
        public var missedBeats: String?
        /// Whether `Expires` minus `Date` is the time for which the server holds the session.
        public var expiresHeader: Bool
        /// Where an error has the server's own code, which `Rule.code` compares.
        public var code: String?
        /// Where an error has its text for people.
        public var message: String?
        /// Where an error has the list of sessions that stand in the way: a list of objects.
        public var conflicts: String?
        /// Where in such an object the server's name for that session is.
        public var conflictReference: String?
        /// Where in such an object the device or the title is.
        public var conflictLabel: String?
        /// Where in such an object the code is that ends that session; see `{termination}`.
        public var conflictTermination: String?

        /// What is not given, the server does not send.
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
        /// Nil: any request.
        public var request: SessionState.Request.Kind?
        /// The HTTP status. Nil: any.
        public var status: Int?
        /// The server's own code, compared to the letter. Nil: any, and none.
        public var code: String?
        /// What the session makes of it.
        public var means: Meaning

        /// A rule without conditions fits every error, so it comes last.
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
        /// `retry` is `SessionFailure.Kind.unknown`; the others have the name of their kind.
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

    /// For messages and settings.
    public var name: String
    /// Begins a session.
    public var setup: Exchange
    /// Keeps the session.
    public var heartbeat: Exchange
    /// Ends the session. With a status of success, the body of the answer is not looked into.
    public var teardown: Exchange
    /// The same places for the answers to all three, and for errors.
    public var answer: Answer
    /// In order. What none of them fits is told by the HTTP status.
    public var rules: [Rule]
    /// Whether every answer of the server itself is JSON. Then one that is not comes from something on the way, and says
    /// nothing about the session.
    public var errorsAreJSON: Bool
    /// Whether the server knows the session by `{session}` from the first request on: a setup that is sent again is the
    /// same session, and a teardown ends it, whether or not the setup was ever answered.
    public var knowsClientSession: Bool

    /// Nothing is checked here: a template that cannot be filled shows with the first request.
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
    /// In files, a heartbeat has its whole name. Throws `DecodingError` for any other name.
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

    /// Writes the same three names.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self == .beat ? "heartbeat" : rawValue)
    }
}
