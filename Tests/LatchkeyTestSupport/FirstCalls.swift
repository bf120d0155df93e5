// SPDX-License-Identifier: MPL-2.0

/// Calls of a library of which each may be the first in a process, for suites that try this.
public struct FirstCalls: Sendable {
    public typealias Call = @Sendable () async throws -> Void

    /// Of each: the name of its group, and the place in it.
    public let names: [String]
    private let calls: [String: Call]

    /// No name of a call.
    public struct Unknown: Error {}

    public init(_ groups: KeyValuePairs<String, [Call]>) {
        let named = groups.flatMap { name, calls in
            calls.enumerated().map { number, call in (name: "\(name) \(number + 1)", call: call) }
        }
        names = named.map(\.name)
        calls = Dictionary(uniqueKeysWithValues: named.map { ($0.name, $0.call) })
    }

    public func call(_ name: String) async throws {
        guard let call = calls[name] else { throw Unknown() }
        try await call()
    }

    /// All of them, in an order that follows from the seed.
    public func callAll(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        for name in names.shuffled(using: &generator) { try await call(name) }
    }
}
