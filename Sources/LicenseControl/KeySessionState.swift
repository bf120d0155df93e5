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
        /// In order.
        var events: [KeyEvent] = []
        /// Whether any status changed.
        var changesStatus = false
        /// Whether the answer counted.
        var isCounted = false
    }

    /// Keys without the form in which they came.
    struct Keys {
        var byID: [KeyID: ContentKey] = [:]
        var withoutID: ContentKey?
    }

    private enum Entry {
        case pending(UInt64)
        case usable(ContentKey)
        case failed(KeyError, UInt64)

        var isPending: Bool { if case .pending = self { true } else { false } }
    }

    private struct Request {
        var slots: [Slot]
        let keySystem: KeySystem?
        var missing: Set<Slot>
        /// KIDs under which keys may still come, and for which they are now.
        var renamed: [KeyID: KeyID] = [:]
        let start: ContinuousClock.Instant
    }

    private struct Settled {
        let slots: Set<Slot>
        let keySystem: KeySystem?
    }

    private let limits: Limits
    private var entries: [Slot: (entry: Entry, age: UInt64)] = [:]
    private var lastAge: UInt64 = 0
    private var pendingCount = 0
    private var requests: [UInt64: Request] = [:]
    private var settled: [UInt64: Settled] = [:]
    private var settledOrder: [UInt64] = []
    private var closure: KeyError?
    /// Counts failures. Zero before the first.
    private(set) var generation: UInt64 = 0

    init(limits: Limits = Limits()) {
        self.limits = limits
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

    /// Keys for a request. The slots that they leave without a key fail.
    mutating func answer(_ id: UInt64, with keys: Keys, at now: ContinuousClock.Instant) -> Action {
        guard closure == nil else { return Action() }
        guard let request = requests[id] else { return answerLate(id, with: keys) }
        var action = Action(isCounted: true)
        var keys = keys
        for (old, new) in request.renamed {
            if let key = keys.byID.removeValue(forKey: old) { keys.byID[new] = key }
        }
        install(assign(keys, to: request.slots), for: id, at: now, into: &action)
        guard let open = requests[id] else { return action }
        let missing = request.slots.filter(open.missing.contains)
        fail(missing, of: id, with: Self.notInResponse(missing, keys: keys), into: &action)
        return action
    }

    /// Keys that came without a request, or that answer request `id` in part and leave it pending.
    mutating func install(_ keys: Keys, for id: UInt64? = nil, at now: ContinuousClock.Instant) -> Action {
        guard closure == nil else { return Action() }
        var slots: [Slot: ContentKey] = keys.byID.reduce(into: [:]) { $0[$1.key] = $1.value }
        if let key = keys.withoutID { slots[nil] = key }
        var action = Action(isCounted: true)
        install(slots, for: id, at: now, into: &action)
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
        if case .pending(let id) = entry, var request = requests[id] {
            request.slots = request.slots.map { $0 == old ? new : $0 }
            if request.missing.remove(old) != nil { request.missing.insert(new) }
            request.renamed[old] = new
            requests[id] = request
        }
        return Action(changesStatus: true, isCounted: true)
    }

    /// The request is denied or withdrawn. An error for a request that is over changes nothing.
    mutating func fail(_ id: UInt64, with error: KeyError) -> Action {
        guard requests[id] != nil else { return Action() }
        var action = Action(isCounted: true)
        fail(missing(in: id), of: id, with: error, into: &action)
        return action
    }

    /// The end. Every key is unusable from here on.
    mutating func close(_ reason: KeyError) -> Action {
        guard closure == nil else { return Action() }
        let error = reason.isSameKind(as: .sessionClosed("")) ? reason : .sessionClosed(reason.description)
        var action = Action(changesStatus: true, isCounted: true)
        for id in requests.keys.sorted() { fail(missing(in: id), of: id, with: error, into: &action) }
        closure = error
        entries = [:]
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
    private mutating func answerLate(_ id: UInt64, with keys: Keys) -> Action {
        guard let request = settled[id] else { return Action() }
        let late = assign(keys, to: Array(request.slots)).filter { slot, _ in
            if case .usable = entries[slot]?.entry { false } else { true }
        }
        var action = Action(isCounted: true)
        install(late, for: id, at: nil, into: &action)
        return action
    }

    private mutating func install(
        _ keys: [Slot: ContentKey], for id: UInt64?, at now: ContinuousClock.Instant?, into action: inout Action
    ) {
        guard !keys.isEmpty else { return }
        let start = id.flatMap { requests[$0]?.start }
        for (slot, key) in keys {
            switch entries[slot]?.entry {
            case .pending(let owner):
                requests[owner]?.missing.remove(slot)
                if requests[owner]?.missing.isEmpty == true { settle(owner, into: &action) }
            case .usable(let present) where present == key:
                continue
            case .usable, .failed, nil:
                break
            }
            set(slot, .usable(key))
            action.changesStatus = true
        }
        let elapsed: Duration = if let start, let now { start.duration(to: now) } else { .zero }
        action.events.append(.usable(requestID: id, Self.sorted(keys.keys), elapsed: elapsed))
    }

    private mutating func fail(_ slots: [Slot], of id: UInt64, with error: KeyError, into action: inout Action) {
        generation += 1
        for slot in slots { set(slot, .failed(error, generation)) }
        settle(id, into: &action)
        action.changesStatus = true
        action.events.append(.failed(requestID: id, slots.compactMap(\.self), error))
    }

    private mutating func settle(_ id: UInt64, into action: inout Action) {
        guard let request = requests.removeValue(forKey: id) else { return }
        action.settled.append(id)
        settled[id] = Settled(slots: Set(request.slots), keySystem: request.keySystem)
        settledOrder.append(id)
        if settledOrder.count > limits.settledRequests { settled[settledOrder.removeFirst()] = nil }
    }

    private mutating func set(_ slot: Slot, _ entry: Entry) {
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
        entries = entries.filter { $0.value.entry.isPending || $0.value.age > limit }
    }

    private static func sorted(_ slots: some Sequence<Slot>) -> [KeyID] {
        slots.compactMap(\.self).map { ($0.description, $0) }.sorted { $0.0 < $1.0 }.map(\.1)
    }
}
