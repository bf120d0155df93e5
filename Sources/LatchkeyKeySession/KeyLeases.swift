// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection

/// The leases of a session's keys, as a value. Keys that came in one answer share a lease.
struct KeyLeases {
    typealias Slot = KeyID?
    typealias Instant = ContinuousClock.Instant

    struct Lease {
        var slots: Set<Slot>
        let keySystem: KeySystem?
        /// Nil: none.
        let end: Instant?
        /// When the use has to have begun. Nil where there is no such time, or it came and the keys were in use.
        var rental: Instant?
        /// Nil where there is no renewal, or none any more.
        var renewal: Instant?
        /// The renewal that is under way.
        var request: UInt64?
        /// Whether one of the keys was read since the lease began.
        var isUsed = false

        func isOver(at now: Instant) -> Bool {
            [end, isUsed ? nil : rental].contains { $0.map { $0 <= now } ?? false }
        }

        /// When something is to be done.
        var deadline: Instant? {
            [end, rental, request == nil ? renewal : nil].compactMap(\.self).min()
        }
    }

    private(set) var leases: [UInt64: Lease] = [:]
    private var bySlot: [Slot: UInt64] = [:]
    private var lastID: UInt64 = 0

    var isEmpty: Bool { leases.isEmpty }

    /// When something is to be done next.
    var deadline: Instant? { leases.values.lazy.compactMap(\.deadline).min() }

    func id(of slot: Slot) -> UInt64? { bySlot[slot] }

    /// Begins one lease for all the slots. They have none.
    mutating func begin(_ lease: Lease) -> UInt64 {
        lastID += 1
        leases[lastID] = lease
        for slot in lease.slots { bySlot[slot] = lastID }
        return lastID
    }

    /// The slot has no lease any more. Returns its lease where that ended with it.
    @discardableResult
    mutating func release(_ slot: Slot) -> UInt64? {
        guard let id = bySlot.removeValue(forKey: slot) else { return nil }
        leases[id]?.slots.remove(slot)
        guard leases[id]?.slots.isEmpty == true else { return nil }
        leases[id] = nil
        return id
    }

    mutating func rename(_ old: Slot, to new: Slot) {
        guard let id = bySlot.removeValue(forKey: old) else { return }
        bySlot[new] = id
        leases[id]?.slots.remove(old)
        leases[id]?.slots.insert(new)
    }

    /// Notes that the key is read.
    mutating func use(_ slot: Slot) {
        guard let id = bySlot[slot], leases[id]?.isUsed == false else { return }
        leases[id]?.isUsed = true
    }

    /// The renewal under way, or none.
    mutating func setRequest(_ request: UInt64?, of id: UInt64) { leases[id]?.request = request }

    /// The next attempt; nil: none.
    mutating func setRenewal(_ renewal: Instant?, of id: UInt64) { leases[id]?.renewal = renewal }

    /// Drops the time by which the use had to begin.
    mutating func endRental(of id: UInt64) { leases[id]?.rental = nil }

    /// What is due, in order of the leases. Nothing changes.
    func due(at now: Instant) -> [(id: UInt64, lease: Lease)] {
        leases.filter { $0.value.deadline.map { $0 <= now } ?? false }.sorted { $0.key < $1.key }
            .map { ($0.key, $0.value) }
    }

    /// Whether the key may not be used any more, though the session has not noticed yet.
    func isOverdue(_ slot: Slot, at now: Instant) -> Bool {
        bySlot[slot].flatMap { leases[$0] }?.isOver(at: now) ?? false
    }

    mutating func removeAll() {
        leases = [:]
        bySlot = [:]
    }
}

/// When leases are renewed.
public struct KeyRenewalPolicy: Sendable, Hashable {
    /// The part of a lease after which the renewal is asked for, 0 to 1.
    public var fraction: Double
    /// The part of a lease by which that moment is earlier at random, so that players who started together do not
    /// all ask at once.
    public var jitter: Double
    /// The least time between a renewal that failed and the next one. The next comes when half of what is left of the
    /// lease is over.
    public var retryInterval: Duration

    /// Parts are brought into 0 to 1, and the interval to 10 ms at least, so that no value makes a loop without a
    /// pause.
    public init(fraction: Double = 0.8, jitter: Double = 0.05, retryInterval: Duration = .seconds(1)) {
        self.fraction = min(max(fraction, 0), 1)
        self.jitter = min(max(jitter, 0), 1)
        self.retryInterval = max(retryInterval, .milliseconds(10))
    }

    /// The time from a lease's start to its renewal. `random` is 0 to 1.
    func renewal(of lease: Duration, random: Double) -> Duration {
        lease * max(0, fraction - jitter * min(max(random, 0), 1))
    }

    /// The time from a failure to the next attempt; nil where too little of the lease is left.
    func retry(left: Duration) -> Duration? {
        let half = left / 2
        return half < retryInterval ? nil : half
    }
}
