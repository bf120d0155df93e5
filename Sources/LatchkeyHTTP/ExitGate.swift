// SPDX-License-Identifier: MPL-2.0

import Glibc

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
