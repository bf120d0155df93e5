// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// Outputs as the application tells them: it owns the screen, or knows a platform's own interface. Thread-safe.
public final class ApplicationOutputs: OutputProvider {
    private let facts: Mutex<OutputFacts>
    private let signal = WakeUp()

    /// Until the application says something, nothing is known.
    public init(_ facts: OutputFacts = .untold) { self.facts = Mutex(facts) }

    /// Tells the outputs as they are from now on. Whoever watches hears of it at once.
    public func set(_ facts: OutputFacts) {
        self.facts.withLock { $0 = facts }
        signal.send()
    }

    public func read() -> OutputFacts { facts.withLock { $0 } }
    public var hintDescriptor: Int32? { signal.descriptor }
    public func takeHints() { signal.clear() }
}
