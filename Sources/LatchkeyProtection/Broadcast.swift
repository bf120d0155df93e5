// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// Gives every listener each value, in order. Thread-safe; a slow listener delays nothing, and loses the oldest of more than
/// `limit` values instead.
package final class Broadcast<Value: Sendable>: Sendable {
    private struct State {
        var listeners: [UInt64: AsyncStream<Value>.Continuation] = [:]
        var lastID: UInt64 = 0
        var isFinished = false
    }

    private let state = Mutex(State())
    private let limit: Int

    /// The most values that wait for one listener.
    package init(limit: Int = 1024) { self.limit = limit }

    deinit { finish() }

    /// Everything from now on. Ends with `finish`.
    package func stream(beginningWith first: Value? = nil) -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(of: Value.self, bufferingPolicy: .bufferingNewest(limit))
        if let first { continuation.yield(first) }
        let id = state.withLock { state -> UInt64? in
            guard !state.isFinished else { return nil }
            state.lastID += 1
            state.listeners[state.lastID] = continuation
            return state.lastID
        }
        guard let id else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in self?.forget(id) }
        return stream
    }

    private func forget(_ id: UInt64) {
        // The continuation's end must not come under the lock.
        let gone = state.withLock { $0.listeners.removeValue(forKey: id) }
        withExtendedLifetime(gone) {}
    }

    /// Gives the value to everybody who listens.
    package func send(_ value: Value) {
        for listener in state.withLock({ Array($0.listeners.values) }) { listener.yield(value) }
    }

    /// Ends all streams; later ones end at once.
    package func finish() {
        let listeners = state.withLock { state in
            state.isFinished = true
            defer { state.listeners = [:] }
            return Array(state.listeners.values)
        }
        for listener in listeners { listener.finish() }
    }
}
