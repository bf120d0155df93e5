// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// The steps that events are made of.
extension KeySessionState {
    var overflow: KeyError {
        .malformedRequest("more than \(limits.pending) keys wait for an answer; the media names too many KIDs")
    }

    static func notInResponse(_ missing: [Slot], keys: Keys) -> KeyError {
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
    func assign(_ keys: Keys, to slots: [Slot]) -> [Slot: ContentKey] {
        var assigned: [Slot: ContentKey] = keys.byID.reduce(into: [:]) { $0[$1.key] = $1.value }
        if slots.contains(nil) {
            assigned[nil] = keys.withoutID ?? (keys.byID.count == 1 ? keys.byID.first?.value : nil)
        } else if let key = keys.withoutID, slots.count == 1, let slot = slots.first, assigned[slot] == nil {
            assigned[slot] = key
        }
        return assigned
    }

    /// The keys and their rules under the names that count now: whoever answers may know of the second names alone.
    /// `certain` are those of the request, which nobody else goes by.
    func renamed(_ keys: Keys, by certain: [KeyID: KeyID] = [:]) -> Keys {
        var keys = keys
        for (old, new) in secondNames where certain[old] == nil && entries[old] == nil { keys.rename(old, to: new) }
        for (old, new) in certain { keys.rename(old, to: new) }
        return keys
    }

    /// An answer belongs to the session, so its keys count although the request is over. They replace none.
    mutating func answerLate(
        _ id: UInt64, with keys: Keys, at now: ContinuousClock.Instant, random: Double
    ) -> Action {
        guard let request = settled[id], !isOver(keys.terms, for: id, at: now) else { return Action() }
        let keys = renamed(keys)
        let late = assign(keys, to: Array(request.slots)).filter { slot, _ in
            if case .usable = entries[slot]?.entry { false } else { true }
        }
        var action = Action(isCounted: true)
        install(late, keys.terms, for: id, at: now, random, into: &action)
        return action
    }

    mutating func install(
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
        // Media without a KID has the key under none, beside its own.
        let first = keys.first?.value
        let count = keys.values.allSatisfy { key in first.map { $0 == key } ?? false } ? 1 : keys.count
        for slot in keys.keys {
            let requirement = terms?.requirement(of: slot, amongKeys: count)
            let policy = terms?.policy(of: slot, amongKeys: count)
            if requirements[slot] != requirement || outputPolicies[slot] != policy {
                protection[slot] = nil
                // The same key may have other rules now: whoever uses it has to look again.
                action.changesStatus = true
            }
            requirements[slot] = requirement
            outputPolicies[slot] = policy
        }
        if let terms, terms.isLimited {
            action.begun.append((begin(terms, for: Set(keys.keys), from: start ?? now, id, random), id))
        }
        let elapsed: Duration = start.map { $0.duration(to: now) } ?? .zero
        action.events.append(.usable(requestID: id, Self.sorted(keys.keys), elapsed: elapsed))
    }

    mutating func fail(
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
            outputPolicies[slot] = nil
            protection[slot] = nil
        }
    }

    static func sorted(_ slots: some Sequence<Slot>) -> [KeyID] {
        slots.compactMap(\.self).map { ($0.description, $0) }.sorted { $0.0 < $1.0 }.map(\.1)
    }
}
