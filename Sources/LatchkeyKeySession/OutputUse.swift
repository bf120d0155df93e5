// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Whose media may be on its way to the screen, as a value: the keys that decryptors use now, and those that they used a
/// moment ago. And what guards said of them.
struct OutputUse {
    typealias Slot = KeyID?
    typealias Instant = ContinuousClock.Instant

    /// Players queue up to half a minute of decrypted media.
    static let linger = Duration.seconds(60)

    /// What guards were told of a key, and when.
    struct Notice: Hashable {
        let slot: Slot
        let policy: OutputPolicy
        fileprivate let turn: UInt64
    }

    private var current: [UInt64: Slot] = [:]
    private var past: [Slot: Instant] = [:]
    /// The keys that all guards have acted on, with what their licences wanted then.
    private var answered: [Slot: OutputPolicy] = [:]
    /// Counts the changes of guards.
    private var turn: UInt64 = 0
    /// Why keys may not be used for a medium, by who says so: outputs have long lacked what the licences want.
    private var violations: [ObjectIdentifier: [OutputPolicy.Media: String]] = [:]

    /// `user` decrypts media of this key from now on. What guards have to hear of before it does; nil where all of them
    /// have acted on it.
    mutating func begin(_ slot: Slot, wanting policy: OutputPolicy, by user: UInt64, at now: Instant) -> Notice? {
        if let old = current.updateValue(slot, forKey: user), old != slot { past[old] = now + Self.linger }
        past = past.filter { $0.value > now }
        let inUse = slots(at: now)
        answered = answered.filter { inUse.contains($0.key) }
        return answered[slot] == policy ? nil : Notice(slot: slot, policy: policy, turn: turn)
    }

    /// Every guard has acted on a notice. Those that came since have not.
    mutating func didAnswer(_ notice: Notice) {
        if notice.turn == turn { answered[notice.slot] = notice.policy }
    }

    /// `user` is gone. What it made may be in the queues behind it, unless nothing is shown any more.
    mutating func end(_ user: UInt64, at now: Instant, isShown: Bool) {
        guard let old = current.removeValue(forKey: user), isShown else { return }
        past[old] = now + Self.linger
    }

    /// Nothing is shown any more, so the queues are empty.
    mutating func forgetPast() { past = [:] }

    func slots(at now: Instant) -> Set<Slot> {
        Set(current.values).union(past.lazy.filter { $0.value > now }.map(\.key))
    }

    // MARK: Guards

    /// Others than before; what those say that are gone does not count.
    mutating func guardsDidChange(to guards: [ObjectIdentifier]) {
        turn &+= 1
        answered = [:]
        violations = violations.filter { guards.contains($0.key) }
    }

    /// Nil: none any more. Whether that is news.
    mutating func setViolation(_ reason: String?, for media: OutputPolicy.Media, by owner: ObjectIdentifier) -> Bool {
        guard violations[owner]?[media] != reason else { return false }
        violations[owner, default: [:]][media] = reason
        return true
    }

    /// One of the reasons, the same one as long as there are no others.
    func violation(for media: OutputPolicy.Media) -> String? { violations.values.compactMap { $0[media] }.min() }
}
