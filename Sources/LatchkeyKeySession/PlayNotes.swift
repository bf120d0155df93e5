// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Synchronization

/// What has to be written down before a key may be played, because its license counts from the first play. One object for all
/// names of the key.
final class PlayNote: Sendable, Hashable {
    /// Returns when it is written down. Throws why it cannot be.
    let write: @Sendable (KeySession) async throws(KeyError) -> Void

    init(_ write: @escaping @Sendable (KeySession) async throws(KeyError) -> Void) { self.write = write }

    static func == (one: PlayNote, other: PlayNote) -> Bool { one === other }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// Tasks that write down that something is played, so that the end of playback can wait for them. Thread-safe.
public final class PlayNotes: Sendable {
    private struct State {
        var next: UInt64 = 0
        var running: [UInt64: Task<Void, Never>] = [:]
        var waiting: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())

    /// Nothing to wait for.
    public init() {}

    /// Whether there is nothing to wait for.
    public var isEmpty: Bool { state.withLock { $0.running.isEmpty } }

    /// Calls this as soon as there is nothing to wait for: on this thread where that is now, else on the task that ended
    /// last. It must not block.
    public func whenEmpty(_ body: @escaping @Sendable () -> Void) {
        let isEmpty = state.withLock { state in
            if !state.running.isEmpty { state.waiting.append(body) }
            return state.running.isEmpty
        }
        if isEmpty { body() }
    }

    /// Does this on a task.
    public func add(_ note: @escaping @Sendable () async -> Void) {
        state.withLock { state in
            let number = state.next
            state.next &+= 1
            // Made inside the lock, so that its end cannot come before its entry.
            state.running[number] = Task { [weak self] in
                await note()
                self?.didEnd(number)
            }
        }
    }

    private func didEnd(_ number: UInt64) {
        let bodies = state.withLock { state -> [@Sendable () -> Void] in
            state.running.removeValue(forKey: number)
            guard state.running.isEmpty else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for body in bodies { body() }
    }

    /// Returns when all that was added before has ended.
    public func finish() async {
        for task in state.withLock({ Array($0.running.values) }) { await task.value }
    }
}
