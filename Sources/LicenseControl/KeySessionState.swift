// SPDX-License-Identifier: MPL-2.0

import KeySystems
import ProtectionModel

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
        let start: ContinuousClock.Instant
        /// The leases that it is to renew; nil where it is no renewal. The keys of one are usable while it is pending.
        var renewedLeases: [UInt64]?
        var isRenewal: Bool { renewedLeases != nil }
    }

    private struct Settled {
        let slots: Set<Slot>
        let keySystem: KeySystem?
        let start: ContinuousClock.Instant
    }

    private let limits: Limits
    let renewalPolicy: KeyRenewalPolicy
    var entries: [Slot: (entry: Entry, age: UInt64)] = [:]
    private var lastAge: UInt64 = 0
    private var pendingCount = 0
    var requests: [UInt64: Request] = [:]
    private var settled: [UInt64: Settled] = [:]
    private var settledOrder: [UInt64] = []
    private(set) var closure: KeyError?
    var leases = KeyLeases()
    /// The renewal that is under way for a key.
    var renewals: [Slot: UInt64] = [:]
    /// What the licences want of outputs, and whether these have it.
    var requirements: [Slot: OutputRequirement] = [:]
    var protection: [Slot: ExternalProtectionStatus] = [:]
    /// Counts failures. Zero before the first.
    var generation: UInt64 = 0

    init(limits: Limits = Limits(), renewalPolicy: KeyRenewalPolicy = KeyRenewalPolicy()) {
        self.limits = limits
        self.renewalPolicy = renewalPolicy
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

    // MARK: Events

    /// Somebody needs these slots.
    mutating func demand(
        _ slots: [Slot], keySystem: KeySystem?, retryFailuresUpTo limit: UInt64, as id: UInt64,
        at now: ContinuousClock.Instant
    ) -> Action {
        if let closure {
            return Action(events: [.failed(requestID: id, slots.compactMap(\.self), closure)])
        }
        var seen: Set<Slot> = []
        let missing = slots.filter { slot in
            switch entries[slot]?.entry {
            case .pending, .usable: false
            case .failed(_, let generation): generation <= limit && seen.insert(slot).inserted
            case nil: seen.insert(slot).inserted
            }
        }
        guard !missing.isEmpty else { return Action() }
        guard missing.count <= limits.pending - pendingCount else {
            return Action(events: [.failed(requestID: id, missing.compactMap(\.self), overflow)])
        }
        for slot in missing { set(slot, .pending(id)) }
        requests[id] = Request(slots: missing, keySystem: keySystem, missing: seen, start: now)
        return Action(requested: missing, changesStatus: true, isCounted: true)
    }

    /// Keys for a request. The slots that they leave without a key fail. `random`, 0 to 1, spreads renewals.
    mutating func answer(
        _ id: UInt64, with keys: Keys, at now: ContinuousClock.Instant, random: Double = 0
    ) -> Action {
        guard closure == nil else { return Action() }
        if isOver(keys.terms, for: id, at: now) {
            return fail(id, with: .leaseExpired("the answer allows its keys for no time"), at: now)
        }
        guard let request = requests[id] else { return answerLate(id, with: keys, at: now, random: random) }
        var action = Action(isCounted: true)
        var keys = keys
        for (old, new) in request.renamed {
            if let key = keys.byID.removeValue(forKey: old) { keys.byID[new] = key }
        }
        install(assign(keys, to: request.slots), keys.terms, for: id, at: now, random, into: &action)
        guard let open = requests[id] else { return action }
        let missing = request.slots.filter(open.missing.contains)
        fail(missing, of: id, with: Self.notInResponse(missing, keys: keys), at: now, into: &action)
        return action
    }

    /// Keys that came without a request, or that answer request `id` in part and leave it pending.
    mutating func install(
        _ keys: Keys, for id: UInt64? = nil, at now: ContinuousClock.Instant, random: Double = 0
    ) -> Action {
        guard closure == nil, !isOver(keys.terms, for: id, at: now) else { return Action() }
        var slots: [Slot: ContentKey] = keys.byID.reduce(into: [:]) { $0[$1.key] = $1.value }
        if let key = keys.withoutID { slots[nil] = key }
        var action = Action(isCounted: true)
        install(slots, keys.terms, for: id, at: now, random, into: &action)
        return action
    }

    /// A KID turns out to be another's second name. What is known of it counts for the other from now on, and nothing
    /// for itself; where both are known, each stays as it is.
    mutating func rename(_ old: KeyID, to new: KeyID) -> Action {
        guard closure == nil, entries[new] == nil, let entry = entries.removeValue(forKey: old)?.entry else {
            return Action()
        }
        if entry.isPending { pendingCount -= 1 }
        set(new, entry)
        leases.rename(old, to: new)
        requirements[new] = requirements.removeValue(forKey: old)
        protection[new] = protection.removeValue(forKey: old)
        let owner: UInt64? =
            if case .pending(let id) = entry { id } else { renewals.removeValue(forKey: old) }
        if let id = owner, var request = requests[id] {
            if request.isRenewal { renewals[new] = id }
            request.slots = request.slots.map { $0 == old ? new : $0 }
            if request.missing.remove(old) != nil { request.missing.insert(new) }
            request.renamed[old] = new
            requests[id] = request
        }
        return Action(changesStatus: true, isCounted: true)
    }

    /// The request is denied or withdrawn. An error for a request that is over changes nothing.
    mutating func fail(_ id: UInt64, with error: KeyError, at now: ContinuousClock.Instant) -> Action {
        guard requests[id] != nil else { return Action() }
        var action = Action(isCounted: true)
        fail(missing(in: id), of: id, with: error, at: now, into: &action)
        return action
    }

    /// The end. Every key is unusable from here on.
    mutating func close(_ reason: KeyError, at now: ContinuousClock.Instant) -> Action {
        guard closure == nil else { return Action() }
        let error = reason.isSameKind(as: .sessionClosed("")) ? reason : .sessionClosed(reason.description)
        var action = Action(changesStatus: true, isCounted: true)
        for id in requests.keys.sorted() { fail(missing(in: id), of: id, with: error, at: now, into: &action) }
        closure = error
        entries = [:]
        action.ended = leases.leases.keys.sorted()
        leases.removeAll()
        renewals = [:]
        requirements = [:]
        protection = [:]
        settled = [:]
        settledOrder = []
        generation += 1
        action.events.append(.closed(reason))
        return action
    }
}

// MARK: Steps

extension KeySessionState {
    private var overflow: KeyError {
        .malformedRequest("more than \(limits.pending) keys wait for an answer; the media names too many KIDs")
    }

    private static func notInResponse(_ missing: [Slot], keys: Keys) -> KeyError {
        let names = missing.compactMap(\.self)
        guard !names.isEmpty else {
            return .keyNotInResponse(
                "the media names no KID and the answer has \(keys.byID.count) keys; answer with the only one")
        }
        let list = names.prefix(4).map(\.description).joined(separator: ", ")
        let more = names.count > 4 ? " and \(names.count - 4) more" : ""
        return .keyNotInResponse("the answer has no key for KID \(list)\(more)")
    }

    /// Gives a key without KID to the slot that it must be for.
    private func assign(_ keys: Keys, to slots: [Slot]) -> [Slot: ContentKey] {
        var assigned: [Slot: ContentKey] = keys.byID.reduce(into: [:]) { $0[$1.key] = $1.value }
        if slots.contains(nil) {
            assigned[nil] = keys.withoutID ?? (keys.byID.count == 1 ? keys.byID.first?.value : nil)
        } else if let key = keys.withoutID, slots.count == 1, let slot = slots.first, assigned[slot] == nil {
            assigned[slot] = key
        }
        return assigned
    }

    /// An answer belongs to the session, so its keys count although the request is over. They replace none.
    private mutating func answerLate(
        _ id: UInt64, with keys: Keys, at now: ContinuousClock.Instant, random: Double
    ) -> Action {
        guard let request = settled[id], !isOver(keys.terms, for: id, at: now) else { return Action() }
        let late = assign(keys, to: Array(request.slots)).filter { slot, _ in
            if case .usable = entries[slot]?.entry { false } else { true }
        }
        var action = Action(isCounted: true)
        install(late, keys.terms, for: id, at: now, random, into: &action)
        return action
    }

    private mutating func install(
        _ keys: [Slot: ContentKey], _ terms: KeyTerms?, for id: UInt64?, at now: ContinuousClock.Instant,
        _ random: Double, into action: inout Action
    ) {
        guard !keys.isEmpty else { return }
        let start = id.flatMap { self.start(ofRequest: $0) }
        for (slot, key) in keys {
            switch entries[slot]?.entry {
            case .pending(let owner):
                remove(slot, from: owner, into: &action)
            case .usable(let present):
                let hadLease = endLease(of: slot, into: &action)
                // Whoever uses a key with a lease has to look again, so that the next renewal knows of the use.
                if present == key, !hadLease, terms?.isLimited != true { continue }
            case .failed, nil:
                break
            }
            set(slot, .usable(key))
            action.changesStatus = true
        }
        for slot in keys.keys {
            if requirements[slot] != terms?.outputRequirement { protection[slot] = nil }
            requirements[slot] = terms?.outputRequirement
        }
        if let terms, terms.isLimited {
            action.begun.append((begin(terms, for: Set(keys.keys), from: start ?? now, id, random), id))
        }
        let elapsed: Duration = start.map { $0.duration(to: now) } ?? .zero
        action.events.append(.usable(requestID: id, Self.sorted(keys.keys), elapsed: elapsed))
    }

    private mutating func fail(
        _ slots: [Slot], of id: UInt64, with error: KeyError, at now: ContinuousClock.Instant, into action: inout Action
    ) {
        action.failed.insert(id)
        if requests[id]?.isRenewal == true {
            settle(id, into: &action)
            retryRenewal(of: slots, at: now)
            action.events.append(.renewalFailed(requestID: id, slots.compactMap(\.self), error))
            return
        }
        generation += 1
        for slot in slots { set(slot, .failed(error, generation)) }
        settle(id, into: &action)
        action.changesStatus = true
        action.events.append(.failed(requestID: id, slots.compactMap(\.self), error))
    }

    mutating func remove(_ slot: Slot, from id: UInt64, into action: inout Action) {
        requests[id]?.missing.remove(slot)
        if requests[id]?.missing.isEmpty == true { settle(id, into: &action) }
    }

    mutating func settle(_ id: UInt64, into action: inout Action) {
        guard let request = requests.removeValue(forKey: id) else { return }
        if request.isRenewal { endRenewal(id, request) }
        action.settled.append(id)
        settled[id] = Settled(slots: Set(request.slots), keySystem: request.keySystem, start: request.start)
        settledOrder.append(id)
        if settledOrder.count > limits.settledRequests { settled[settledOrder.removeFirst()] = nil }
    }

    mutating func set(_ slot: Slot, _ entry: Entry) {
        let old = entries[slot]
        if old == nil, entries.count >= limits.slots { forgetOlderHalf() }
        if old?.entry.isPending == true { pendingCount -= 1 }
        if entry.isPending { pendingCount += 1 }
        lastAge += 1
        entries[slot] = (entry, lastAge)
    }

    /// A forgotten key that is still in use is asked for again.
    private mutating func forgetOlderHalf() {
        let ages = entries.values.filter { !$0.entry.isPending }.map(\.age).sorted()
        guard !ages.isEmpty else { return }
        let limit = ages[ages.count / 2]
        for (slot, value) in entries where !value.entry.isPending && value.age <= limit {
            entries[slot] = nil
            leases.release(slot)
            requirements[slot] = nil
            protection[slot] = nil
        }
    }

    static func sorted(_ slots: some Sequence<Slot>) -> [KeyID] {
        slots.compactMap(\.self).map { ($0.description, $0) }.sorted { $0.0 < $1.0 }.map(\.1)
    }
}
