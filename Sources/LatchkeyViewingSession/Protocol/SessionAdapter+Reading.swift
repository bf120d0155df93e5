// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
public import LatchkeyProtection

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
