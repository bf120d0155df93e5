// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Which readings count: the first and a bad one at once, a good one behind others only after it was confirmed. A value; time
/// comes from outside.
///
/// A reading that differs from the one before is held against the readings since the last confirmation, and the
/// strictest of all of them counts. It is confirmed by another reading that says the same, `delay` or more after it came.
public struct OutputStability: Sendable {
    /// Links that come and go are rarely more; from then on nothing is known.
    private static let heldLimit = 8

    public let delay: Duration
    private var current: OutputFacts?
    private var since: Duration = .zero
    /// Other readings since the last confirmation.
    private var held: [OutputFacts] = []

    public init(delay: Duration = .milliseconds(500)) { self.delay = delay }

    /// A reading, at a time that never goes back. Whether `facts` are others now.
    public mutating func read(_ facts: OutputFacts, at now: Duration) -> Bool {
        let before = self.facts
        if facts != current {
            if let current, current != .untold, !held.contains(current) { held.append(current) }
            if held.count > Self.heldLimit { held = [.unreadable("they change all the time")] }
            held.removeAll { $0 == facts }
            (current, since) = (facts, now)
        } else if now - since >= delay {
            held = []
        }
        return before != self.facts
    }

    /// The readings that count, the latest first. The strictest decision on any of them holds.
    public var facts: [OutputFacts] { [current ?? .unreadable("they were not read yet")] + held }
    /// Whether nothing but the latest reading counts.
    public var isConfirmed: Bool { current != nil && held.isEmpty }
}

extension OutputEvaluator {
    /// The strictest decision on any of these.
    public func decide(_ policies: [OutputPolicy], facts: [OutputFacts]) -> OutputDecision {
        facts.reduce(.allow) { $0.stricter(decide(policies, facts: $1)) }
    }
}
