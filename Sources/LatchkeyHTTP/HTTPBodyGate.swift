// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// Holds a body back while its receiver has no room for more. For one exchange at a time. Thread-safe.
public final class HTTPBodyGate: Sendable {
    private struct State {
        var isClosed = false
        /// What a transport waits with; nil: nothing waits.
        var resume: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    /// An open one.
    public init() {}

    /// No further piece comes before `open`. Called by the receiver itself; from elsewhere, one may be on its way.
    public func close() { state.withLock { $0.isClosed = true } }

    /// Pieces come again. Of an open gate, nothing.
    public func open() {
        let resume = state.withLock { state in
            state.isClosed = false
            defer { state.resume = nil }
            return state.resume
        }
        resume?()
    }

    /// For transports that have a piece to hand over: whether it has to wait. `resume` is called then, once, when it may
    /// come, on the thread that opens the gate.
    public func holds(_ resume: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            if state.isClosed { state.resume = resume }
            return state.isClosed
        }
    }
}
