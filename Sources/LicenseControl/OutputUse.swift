// SPDX-License-Identifier: MPL-2.0

import ProtectionModel

/// Whose media may be on its way to the screen, as a value: the keys that decryptors use now, and those that they used a
/// moment ago.
struct OutputUse {
    typealias Slot = KeyID?
    typealias Instant = ContinuousClock.Instant

    /// Players queue up to half a minute of decrypted media.
    static let linger = Duration.seconds(60)

    private var current: [UInt64: Slot] = [:]
    private var past: [Slot: Instant] = [:]
    /// Why keys may not be used for a medium, since outputs have long lacked what the licences want.
    var violations: [OutputPolicy.Media: String] = [:]

    /// `user` decrypts media of this key from now on. Whether a key came to be in use by that.
    mutating func begin(_ slot: Slot, by user: UInt64, at now: Instant) -> Bool {
        if let old = current[user], old == slot { return false }
        let isNew = !slots(at: now).contains(slot)
        if let old = current.updateValue(slot, forKey: user) { past[old] = now + Self.linger }
        past = past.filter { $0.value > now }
        return isNew
    }

    /// `user` is gone, and with it what it made.
    mutating func end(_ user: UInt64) { current[user] = nil }

    func slots(at now: Instant) -> Set<Slot> {
        Set(current.values).union(past.lazy.filter { $0.value > now }.map(\.key))
    }
}
