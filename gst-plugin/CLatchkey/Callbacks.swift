// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyHTTP

/// The way to the application's functions. It closes when the process exits, as what they work with goes then, and when the
/// application says so. Thread-safe.
enum Callbacks {
    private static let gate = ClosingGate()

    /// Before the first: what is registered for the exit later runs sooner, while the application's data is still there.
    private static let endsAtExit: Void = { _ = atexit { Callbacks.gate.close() } }()

    /// Calls them in `body`. Nil, without a call, if the way is closed.
    @discardableResult
    static func call<Result>(_ body: () -> Result) -> Result? { gate.pass(body) }

    /// Something of the application's may be called from now on.
    static func willBegin() { endsAtExit }

    static func stop() { gate.close() }
}
