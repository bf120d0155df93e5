// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
public import LatchkeyProtection

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
    /// In order. If none of them fits, the HTTP status decides.
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

extension SessionAdapter {
    static let maximumSize = 256 * 1024

    /// The adapter that a JSON text describes. Throws `invalidConfiguration` with `name` and what is wrong: also where it
    /// has a member that is not known, so that a misspelt one is not silent.
    public init(json bytes: [UInt8], name: String) throws(KeyError) {
        guard bytes.count <= Self.maximumSize, let json = SessionJSON(bytes) else {
            throw .invalidConfiguration("\(name) is no JSON text of at most \(Self.maximumSize / 1024) KiB")
        }
        if let unknown = Self.unknownMember(json) {
            throw .invalidConfiguration("\(name): the member \(unknown) is not known")
        }
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(bytes))
        } catch let error as DecodingError {
            throw .invalidConfiguration("\(name): \(Self.text(error))")
        } catch {
            throw .invalidConfiguration("\(name) is no description of a session server")
        }
        for (exchange, title) in [(setup, "setup"), (heartbeat, "heartbeat"), (teardown, "teardown")] {
            guard exchange.path.hasPrefix("/") || exchange.path == "{reference}" else {
                throw .invalidConfiguration(
                    "\(name): \(title).path is “\(exchange.path)”; it must start with a slash, or be {reference}")
            }
        }
        guard answer.intervalUnit > 0, answer.intervalUnit <= 86_400_000 else {
            throw .invalidConfiguration(
                "\(name): answer.intervalUnit is \(answer.intervalUnit); it must be from 1 to 86400000 milliseconds")
        }
    }

    /// The JSON text of the adapter.
    public var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(self)).map { Array($0) } ?? []
    }

    private static func unknownMember(_ json: SessionJSON) -> String? {
        let exchange = ["method", "path", "query", "headers", "fields"]
        let known: [String: [String]] = [
            "": ["name", "setup", "heartbeat", "teardown", "answer", "rules", "errorsAreJSON", "knowsClientSession"],
            "setup": exchange, "heartbeat": exchange, "teardown": exchange,
            "answer": [
                "token", "reference", "interval", "intervalUnit", "missedBeats", "expiresHeader", "code", "message",
                "conflicts", "conflictReference", "conflictLabel", "conflictTermination",
            ],
            "rules": ["request", "status", "code", "means"],
        ]
        func unknown(_ json: SessionJSON?, _ name: String) -> String? {
            switch json {
            case .object(let members):
                members.keys.sorted().first { known[name]?.contains($0) == false }
                    .map { name.isEmpty ? $0 : "\(name).\($0)" }
            case .array(let items): items.lazy.compactMap { unknown($0, name) }.first
            default: nil
            }
        }
        guard case .object(let members) = json else { return nil }
        return known.keys.sorted().lazy.compactMap { unknown($0.isEmpty ? json : members[$0], $0) }.first
    }

    private static func text(_ error: DecodingError) -> String {
        func place(_ path: [any CodingKey]) -> String {
            path.map { key in key.intValue.map(String.init) ?? key.stringValue }.joined(separator: ".")
        }
        switch error {
        case .keyNotFound(let key, let context): return "\(place(context.codingPath + [key])) is missing"
        case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
            return "\(place(context.codingPath)): \(context.debugDescription)"
        @unknown default: return "cannot be read"
        }
    }
}

extension SessionAdapter {
    /// Every adapter that is shipped.
    public static let shipped = [latchkey, terminate]

    /// Latchkey's own shape, which its reference server speaks. See `docs/sessions.md`.
    ///
    /// The codes are those that are public of a widespread session service.
    public static let latchkey = SessionAdapter(
        name: "latchkey",
        setup: Exchange(
            "POST", "/sessions", headers: ["Authorization": "Bearer {credential}"],
            fields: [
                "sessionId": "{session}", "accountId": "{account}", "deviceId": "{device}",
                "deviceGroup": "{device-group}", "contentId": "{content}", "terminate": "{termination}",
            ]),
        heartbeat: Exchange(
            "POST", "/sessions/{session}/heartbeat", headers: ["Authorization": "Bearer {credential}"],
            fields: ["token": "{token}"]),
        teardown: Exchange(
            "DELETE", "/sessions/{session}", headers: ["Authorization": "Bearer {credential}"]),
        answer: Answer(
            token: "token", interval: "heartbeatInterval", missedBeats: "missedHeartbeats", code: "errorCode",
            message: "message", conflicts: "conflicts", conflictReference: "sessionId", conflictLabel: "deviceId",
            conflictTermination: "terminationCode"),
        rules: latchkeyRules,
        errorsAreJSON: true, knowsClientSession: true)

    private static let latchkeyRules: [Rule] = {
        var rules = [Rule(.ended, request: .beat, code: "1007"), Rule(.limit, code: "1007")]
        for code in ["4000", "4001"] { rules.append(Rule(.retry, code: code)) }
        for code in ["1003", "1004", "1006"] { rules.append(Rule(.credential, code: code)) }
        for code in ["1000", "1001", "1005", "1008", "1009", "1011", "1012", "1013", "1017", "1018", "3001", "3004"] {
            rules.append(Rule(.refused, code: code))
        }
        return rules
    }()

    /// Services that answer a setup with a place to send heartbeats to, name conflicting sessions with 409, end them for a
    /// client that sends their code along, and tell an ended one with 410: the shape of Adobe's public Concurrency
    /// Monitoring API, version 2.
    public static let terminate = SessionAdapter(
        name: "terminate",
        setup: Exchange(
            "POST", "/sessions/{provider}/{account}",
            headers: ["Authorization": "Basic {credential}", "X-Terminate": "{termination}"],
            fields: ["deviceId": "{device}", "contentId": "{content}"]),
        heartbeat: Exchange("POST", "{reference}", headers: ["Authorization": "Basic {credential}"]),
        teardown: Exchange("DELETE", "{reference}", headers: ["Authorization": "Basic {credential}"]),
        answer: Answer(
            reference: "header:Location", expiresHeader: true, code: "code", message: "message",
            conflicts: "conflicts", conflictReference: "sessionId", conflictLabel: "attributes.deviceId",
            conflictTermination: "terminationCode"),
        rules: [Rule(.limit, request: .setup, status: 409), Rule(.ended, status: 409)],
        errorsAreJSON: false, knowsClientSession: false)
}

/// A JSON text as a value.
indirect enum SessionJSON: Decodable {
    case object([String: SessionJSON])
    case array([SessionJSON])
    case string(String)
    case number(Double)
    case other

    /// Nil where the bytes are no JSON text, or one that nests too deep.
    init?(_ bytes: [UInt8]) {
        guard JSONNesting.isBounded(bytes), let json = try? JSONDecoder().decode(Self.self, from: Data(bytes)) else {
            return nil
        }
        self = json
    }

    init(from decoder: any Decoder) throws {
        if let text = try? decoder.singleValueContainer().decode(String.self) {
            self = .string(text)
        } else if let number = try? decoder.singleValueContainer().decode(Double.self) {
            self = .number(number)
        } else if var list = try? decoder.unkeyedContainer() {
            var items: [SessionJSON] = []
            while !list.isAtEnd { items.append(try list.decode(SessionJSON.self)) }
            self = .array(items)
        } else if let object = try? decoder.container(keyedBy: Name.self) {
            var members: [String: SessionJSON] = [:]
            for name in object.allKeys { members[name.stringValue] = try object.decode(SessionJSON.self, forKey: name) }
            self = .object(members)
        } else {
            self = .other
        }
    }

    /// What the members lead to. Of a list on the way, the first item.
    func value(at path: ArraySlice<Substring>) -> SessionJSON? {
        guard let name = path.first else { return self }
        switch self {
        case .object(let members): return members[String(name)]?.value(at: path.dropFirst())
        case .array(let items): return items.first?.value(at: path)
        case .string, .number, .other: return nil
        }
    }

    /// A text, or a whole number as text.
    var text: String? {
        switch self {
        case .string(let text): text
        case .number(let number): Int64(exactly: number).map { "\($0)" }
        case .object, .array, .other: nil
        }
    }

    var number: Double? {
        switch self {
        case .number(let number): number
        case .string(let text): Double(text)
        case .object, .array, .other: nil
        }
    }

    /// RFC 8259, 7.
    static func quote(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}
