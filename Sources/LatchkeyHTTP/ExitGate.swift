// SPDX-License-Identifier: MPL-2.0

import Glibc
import Synchronization

/// The way into libraries that clean up when the process exits, while our threads still run. From then on, a thread that
/// wants in waits for the end of the process.
package enum ExitGate {
    private static let gate = ClosingGate()

    package static func pass<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        if let result = try gate.pass(body) { return result }
        while true { pause() }
    }

    /// The same for what can be left out: nil from then on.
    package static func passIfOpen<Result, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        try gate.pass(body)
    }

    /// For a function of `atexit`.
    package static func close() { gate.close() }
}

/// A way in that closes once, for good. Thread-safe.
package final class ClosingGate: Sendable {
    private struct State {
        /// The thread that may pass alone.
        var closer: pthread_t?
        /// A thread is in it once for each `pass` that it is inside of.
        var inside: [pthread_t] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Runs `body`. Nil, without having run it, if another thread has closed the gate and this one is not inside yet.
    package func pass<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result? {
        let thread = pthread_self()
        let isOpen = state.withLock { state in
            let isOpen = state.closer == nil || state.closer == thread || state.inside.contains(thread)
            if isOpen { state.inside.append(thread) }
            return isOpen
        }
        guard isOpen else { return nil }
        defer {
            state.withLock { state in
                if let place = state.inside.lastIndex(of: thread) { state.inside.remove(at: place) }
            }
        }
        return try body()
    }

    /// Only this thread passes from now on. Waits until the other threads inside are out, for two seconds at most.
    package func close() {
        let thread = pthread_self()
        state.withLock { $0.closer = thread }
        for _ in 0..<2_000 where state.withLock({ $0.inside.contains { $0 != thread } }) { usleep(1_000) }
    }
}
