// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// Gives every listener each value, in order. Thread-safe; a slow listener delays nothing, and loses the oldest of more than
/// `limit` values instead.
package final class Broadcast<Value: Sendable>: Sendable {
    private struct State {
        /// What a new listener gets first; nil: nothing.
        var last: Value?
        var listeners: [UInt64: AsyncStream<Value>.Continuation] = [:]
        var lastID: UInt64 = 0
        var isFinished = false
    }

    private let state: Mutex<State>
    private let limit: Int
    private let repeatsLast: Bool

    /// `limit`: the most values that wait for one listener. `first`: what listeners begin with until something is sent, and with
    /// the last of that then; nil: with what is sent next.
    package init(limit: Int = 1024, beginningWith first: Value? = nil) {
        self.limit = limit
        repeatsLast = first != nil
        state = Mutex(State(last: first))
    }

    deinit { finish() }

    /// Everything from now on. Ends with `finish`.
    package func stream() -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(of: Value.self, bufferingPolicy: .bufferingNewest(limit))
        let id = state.withLock { state -> UInt64? in
            // Under the lock: what is sent next comes behind it, and nothing is missed.
            if let last = state.last { continuation.yield(last) }
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

    /// Gives the value to everybody who listens, in the order of the calls. Never waits for a listener.
    package func send(_ value: Value) {
        state.withLock { state in
            if repeatsLast { state.last = value }
            for listener in state.listeners.values { listener.yield(value) }
        }
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
