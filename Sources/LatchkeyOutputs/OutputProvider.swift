// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// Where the facts come from.
public protocol OutputProvider: AnyObject, Sendable {
    /// Reads all outputs anew. Never waits for a link; may be called on any thread, on one at a time.
    func read() -> OutputFacts
    /// A descriptor that is readable when outputs may have changed, or nil. A hint: watchers read now and then, too.
    var hintDescriptor: Int32? { get }
    /// Takes the hints away, so that the descriptor is not readable any more.
    func takeHints()
}

extension OutputProvider {
    public var hintDescriptor: Int32? { nil }
    public func takeHints() {}
}

/// Outputs as the application reports them: it owns the screen, or knows a platform's own interface. Thread-safe.
public final class ApplicationOutputs: OutputProvider {
    private let facts: Mutex<OutputFacts>
    private let signal = WakeUp()

    /// Until the application says something, nothing is known.
    public init(_ facts: OutputFacts = .untold) { self.facts = Mutex(facts) }

    /// Sets the outputs as they are from now on. Watchers are notified at once.
    public func set(_ facts: OutputFacts) {
        self.facts.withLock { $0 = facts }
        signal.send()
    }

    public func read() -> OutputFacts { facts.withLock { $0 } }
    public var hintDescriptor: Int32? { signal.descriptor }
    public func takeHints() { signal.clear() }
}
