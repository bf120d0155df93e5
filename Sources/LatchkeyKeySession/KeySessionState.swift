// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection

/// The keys and the requests of a session, as a value: events in, actions out, no effects.
///
/// A slot is a KID, or nil for the key of media without a KID. Request ids come from outside and are never used twice.
struct KeySessionState {
    typealias Slot = KeyID?

    /// Media names its KIDs, so a hostile stream must not fill the memory with them.
    struct Limits {
        /// Slots that are remembered. Above this, the older half of those that are not pending is forgotten.
        var slots = 65_536
        /// Slots that may be pending at the same time. Above this, demands are refused.
        var pending = 16_384
        /// Requests that are over and may still get a late answer.
        var settledRequests = 256
    }

    /// What the caller does after the lock.
    struct Action {
        /// The slots to request, in the order of the demand. Nil: no request.
        var requested: [Slot]?
        /// Requests that are over.
        var settled: [UInt64] = []
        /// Those of them that got no key, or not all.
        var failed: Set<UInt64> = []
        /// Renewals to request.
        var renewals: [Renewal] = []
        /// Leases that begin, with the request whose answer brought them.
        var begun: [(lease: UInt64, request: UInt64?)] = []
        /// Leases that are over.
        var ended: [UInt64] = []
        /// In order.
        var events: [KeyEvent] = []
        /// Whether any status changed.
        var changesStatus = false
        /// Whether the answer counted.
        var isCounted = false
    }

    /// A request for keys that are usable now.
    struct Renewal {
        let id: UInt64
        let slots: [Slot]
        let leases: [UInt64]
    }

    /// Keys without the form in which they came.
    struct Keys {
        var byID: [KeyID: ContentKey] = [:]
        var withoutID: ContentKey?
        /// Nil: without an end.
        var terms: KeyTerms?
        /// The form in which a stored key is to be kept from now on.
        var updatedPersistableKey: [UInt8]?

        /// The key that came under one name, and its rules, are for another.
        mutating func rename(_ old: KeyID, to new: KeyID) {
            if let key = byID.removeValue(forKey: old) { byID[new] = key }
            if let policy = terms?.outputPolicies.removeValue(forKey: old) { terms?.outputPolicies[new] = policy }
        }
    }

    enum Entry {
        case pending(UInt64)
        case usable(ContentKey)
        case failed(KeyError, UInt64)

        var isPending: Bool { if case .pending = self { true } else { false } }
    }

    struct Request {
        var slots: [Slot]
        let keySystem: KeySystem?
        var missing: Set<Slot>
        /// KIDs under which keys may still come, and for which they are now.
        var renamed: [KeyID: KeyID] = [:]
        /// KIDs that whoever answers may not know of: the request was made under others, which they replaced.
        var untold: Set<Slot> = []
        /// Whether the request says KIDs to whoever answers.
        var saysKeyIDs = true
        let start: ContinuousClock.Instant
        /// The leases that it is to renew; nil where it is no renewal. The keys of one are usable while it is pending.
        var renewedLeases: [UInt64]?
        var isRenewal: Bool { renewedLeases != nil }
    }

    struct Settled {
        let slots: Set<Slot>
        let keySystem: KeySystem?
        let start: ContinuousClock.Instant
    }

    let limits: Limits
    let renewalPolicy: KeyRenewalPolicy
    /// `KeySessionConfiguration.holdsAtEndOfLease`
    let holdsAtEndOfLease: Bool
    var entries: [Slot: (entry: Entry, age: UInt64)] = [:]
    var lastAge: UInt64 = 0
    var pendingCount = 0
    var requests: [UInt64: Request] = [:]
    var settled: [UInt64: Settled] = [:]
    var settledOrder: [UInt64] = []
    var closure: KeyError?
    var leases = KeyLeases()
    /// The renewal that is under way for a key.
    var renewals: [Slot: UInt64] = [:]
    /// What the licences want of outputs, and whether these have it.
    var requirements: [Slot: OutputRequirement] = [:]
    var outputPolicies: [Slot: OutputPolicy] = [:]
    /// KIDs under which keys and rules may still come, and for which they are now.
    var secondNames: [KeyID: KeyID] = [:]
    var protection: [Slot: ExternalProtectionStatus] = [:]
    /// Counts failures. Zero before the first.
    var generation: UInt64 = 0
    /// The failures of requests whose answers had no key for them at all.
    var emptyAnswers: Set<UInt64> = []

    init(
        limits: Limits = Limits(), renewalPolicy: KeyRenewalPolicy = KeyRenewalPolicy(), holdsAtEndOfLease: Bool = false
    ) {
        self.limits = limits
        self.renewalPolicy = renewalPolicy
        self.holdsAtEndOfLease = holdsAtEndOfLease
    }

    // MARK: Reading

    func status(of slot: Slot) -> KeyStatus {
        // Not to be retried: a generation that no demand reaches.
        if let closure { return .failed(closure, generation: .max) }
        switch entries[slot]?.entry {
        case .pending(let id): return .pending(requestID: id)
        case .usable(let key): return .usable(key)
        case .failed(let error, let generation): return .failed(error, generation: generation)
        case nil where pendingCount >= limits.pending: return .failed(overflow, generation: .max)
        case nil: return .absent
        }
    }

    /// The other keys of the request that failed for this one.
    func failed(with keyID: KeyID) -> [KeyID] {
        guard case .failed(_, let generation) = entries[keyID]?.entry else { return [] }
        return entries.compactMap { slot, value in
            guard case .failed(_, generation) = value.entry, slot != keyID else { return nil }
            return slot
        }
    }

    /// Whether this key failed because an answer had none of the keys that the request was for.
    func failedWithoutAny(_ keyID: KeyID) -> Bool {
        guard case .failed(_, let generation) = entries[keyID]?.entry else { return false }
        return emptyAnswers.contains(generation)
    }

    /// The slots of a pending request that have no key yet, in the order of the demand.
    func missing(in id: UInt64) -> [Slot] {
        guard let request = requests[id] else { return [] }
        return request.slots.filter(request.missing.contains)
    }

    /// The requests that wait for one of these slots.
    func requests(for slots: [Slot]) -> Set<UInt64> {
        slots.reduce(into: []) { requests, slot in
            if case .pending(let id) = entries[slot]?.entry { requests.insert(id) }
        }
    }

    /// The key system of a request that is pending or can still get a late answer; `.some(nil)` where it named none.
    func keySystem(ofRequest id: UInt64) -> KeySystem?? {
        if let request = requests[id] { return .some(request.keySystem) }
        if let request = settled[id] { return .some(request.keySystem) }
        return nil
    }

    func start(ofRequest id: UInt64) -> ContinuousClock.Instant? { requests[id]?.start ?? settled[id]?.start }
}
