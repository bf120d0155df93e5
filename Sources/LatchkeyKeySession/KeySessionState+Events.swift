// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection

/// What happens to a session.
extension KeySessionState {
    /// Somebody needs these slots.
    mutating func demand(
        _ slots: [Slot], keySystem: KeySystem?, retryFailuresUpTo limit: UInt64,
        retryRefusalsUpTo refusalLimit: UInt64? = nil, as id: UInt64, at now: ContinuousClock.Instant
    ) -> Action {
        if let closure {
            return Action(events: [.failed(requestID: id, slots.compactMap(\.self), closure)])
        }
        var seen: Set<Slot> = []
        let missing = slots.filter { slot in
            switch entries[slot]?.entry {
            case .pending, .usable: false
            case .failed(let error, let generation):
                generation <= (error.isRefusal ? refusalLimit ?? limit : limit) && seen.insert(slot).inserted
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
        let keys = renamed(keys, by: request.renamed)
        install(assign(keys, to: request.slots), keys.terms, for: id, at: now, random, into: &action)
        guard let open = requests[id] else { return action }
        let missing = request.slots.filter(open.missing.contains)
        fail(missing, of: id, with: Self.notInResponse(missing, keys: keys), at: now, into: &action)
        if !open.isRenewal, missing.count == request.slots.count, emptyAnswers.count < limits.slots {
            emptyAnswers.insert(generation)
        }
        return action
    }

    /// Keys that came without a request, or that answer request `id` in part and leave it pending.
    mutating func install(
        _ keys: Keys, for id: UInt64? = nil, at now: ContinuousClock.Instant, random: Double = 0
    ) -> Action {
        guard closure == nil, !isOver(keys.terms, for: id, at: now) else { return Action() }
        let keys = renamed(keys)
        var slots: [Slot: ContentKey] = keys.byID.reduce(into: [:]) { $0[$1.key] = $1.value }
        if let key = keys.withoutID { slots[nil] = key }
        var action = Action(isCounted: true)
        install(slots, keys.terms, for: id, at: now, random, into: &action)
        return action
    }

    /// A KID turns out to be another's second name. What is known of it counts for the other from now on, and nothing
    /// for itself; where both are known, each stays as it is. A failure is forgotten: nobody was asked for the other.
    mutating func rename(_ old: KeyID, to new: KeyID) -> Action {
        guard closure == nil, entries[new] == nil, let entry = entries.removeValue(forKey: old)?.entry else {
            return Action()
        }
        if case .failed = entry { return Action(changesStatus: true, isCounted: true) }
        if entry.isPending { pendingCount -= 1 }
        if secondNames.count < limits.slots { secondNames.addName(old, for: new) }
        set(new, entry)
        leases.rename(old, to: new)
        requirements[new] = requirements.removeValue(forKey: old)
        outputPolicies[new] = outputPolicies.removeValue(forKey: old)
        protection[new] = protection.removeValue(forKey: old)
        let owner: UInt64? =
            if case .pending(let id) = entry { id } else { renewals.removeValue(forKey: old) }
        if let id = owner, var request = requests[id] {
            if request.isRenewal { renewals[new] = id }
            request.slots = request.slots.map { $0 == old ? new : $0 }
            if request.missing.remove(old) != nil { request.missing.insert(new) }
            request.renamed.addName(old, for: new)
            if request.saysKeyIDs { request.untold.insert(new) }
            requests[id] = request
        }
        return Action(changesStatus: true, isCounted: true)
    }

    /// What the request says to whoever answers: this KID; or no KID, whatever its keys are called.
    mutating func note(_ id: UInt64, says keyID: KeyID) { requests[id]?.untold.remove(keyID) }

    mutating func noteSaysNoKeyID(_ id: UInt64) {
        requests[id]?.saysKeyIDs = false
        requests[id]?.untold = []
    }

    /// Whether a key is missing under a KID that whoever answers the request may not know of.
    func isUntold(_ id: UInt64) -> Bool {
        requests[id].map { !$0.isRenewal && !$0.untold.isDisjoint(with: $0.missing) } ?? false
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
        outputPolicies = [:]
        secondNames = [:]
        protection = [:]
        settled = [:]
        settledOrder = []
        generation += 1
        action.events.append(.closed(reason))
        return action
    }
}

extension [KeyID: KeyID] {
    /// Whatever had `old` as its name now has `new`, too.
    fileprivate mutating func addName(_ old: KeyID, for new: KeyID) {
        for (name, present) in self where present == old { self[name] = new }
        self[old] = new
    }
}
