// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection

/// What time does to keys.
extension KeySessionState {
    /// When `advance` is to be called next. Nil: no lease is running.
    var deadline: ContinuousClock.Instant? { closure == nil ? leases.deadline : nil }

    /// The status for somebody who is going to use the key.
    mutating func use(_ slot: Slot) -> KeyStatus {
        leases.use(slot)
        return status(of: slot)
    }

    /// The clock has come to `now`: leases that are over end, and those in use are renewed when it is time.
    ///
    /// A key that nobody read since its lease began is not renewed. At the end it is forgotten, and asked for again
    /// when somebody wants it; so keys that a stream rotated away cost nothing.
    mutating func advance(to now: ContinuousClock.Instant, makeID: () -> UInt64) -> Action {
        guard closure == nil, !leases.isEmpty else { return Action() }
        var action = Action()
        for (id, lease) in leases.due(at: now) {
            if lease.isOver(at: now) { expire(id, into: &action) }
        }
        // The end of one lease may end the renewal of another.
        for (id, lease) in leases.due(at: now) {
            if lease.rental.map({ $0 <= now }) ?? false { leases.endRental(of: id) }
            guard lease.request == nil, lease.renewal.map({ $0 <= now }) ?? false else { continue }
            if lease.isUsed {
                beginRenewal(of: lease.slots, as: makeID(), at: now, into: &action)
            } else {
                leases.setRenewal(nil, of: id)
            }
        }
        return action
    }

    /// Asks for keys anew that are usable now. Those without a key, or with a renewal under way, are left out.
    mutating func renew(
        _ slots: Set<Slot>, keySystem: KeySystem?, as id: UInt64, at now: ContinuousClock.Instant
    ) -> Action {
        guard closure == nil else { return Action() }
        var action = Action()
        beginRenewal(of: slots, keySystem: keySystem, as: id, at: now, into: &action)
        action.isCounted = !action.renewals.isEmpty
        return action
    }

    /// Forgets these keys where they are usable, by any of their names, also as that of media without a KID. What else has
    /// come for a name is not of the same licence, and stays.
    mutating func withdraw(_ keys: [KeyID: ContentKey], because error: KeyError) -> Action {
        guard closure == nil else { return Action() }
        var action = Action()
        var withdrawn: [Slot: [ContentKey]] = [nil: Array(keys.values)]
        for (name, key) in keys {
            for slot in Set([name, secondNames[name] ?? name]) { withdrawn[slot, default: []].append(key) }
        }
        let slots: [Slot] = [nil] + Self.sorted(withdrawn.keys).map(Optional.some)
        let usable = slots.filter { slot in
            guard case .usable(let key) = entries[slot]?.entry else { return false }
            return withdrawn[slot]?.contains { $0 == key } ?? false
        }
        guard !usable.isEmpty else { return action }
        for slot in usable {
            _ = endLease(of: slot, into: &action)
            entries[slot] = nil
        }
        action.changesStatus = true
        action.events.append(.expired(usable.compactMap(\.self), error, wasInUse: false))
        return action
    }

    /// Makes a request again for what it lacks, under another id. Nil `requested` where it is over.
    mutating func retry(_ id: UInt64, as newID: UInt64, at now: ContinuousClock.Instant) -> Action {
        guard closure == nil, let request = requests[id] else { return Action() }
        let slots = request.slots.filter(request.missing.contains)
        var action = Action(requested: slots, isCounted: true)
        settle(id, into: &action)
        requests[newID] = Request(
            slots: slots, keySystem: request.keySystem, missing: request.missing, renamed: request.renamed, start: now,
            renewedLeases: request.renewedLeases)
        if let held = request.renewedLeases {
            for slot in slots { renewals[slot] = newID }
            for lease in held { leases.setRequest(newID, of: lease) }
        } else {
            for slot in slots { set(slot, .pending(newID)) }
            action.changesStatus = true
        }
        return action
    }

    /// Whether the answer to a renewal brings no more time than its keys have.
    func isObsolete(_ keys: Keys, for id: UInt64) -> Bool {
        guard let request = requests[id], request.isRenewal, let end = keys.terms?.end else { return false }
        let held = request.slots.filter(request.missing.contains).compactMap { leases.id(of: $0) }
            .compactMap { leases.leases[$0]?.end }
        guard let earliest = held.min() else { return false }
        return request.start + end <= earliest
    }

    private mutating func beginRenewal(
        of slots: Set<Slot>, keySystem: KeySystem? = nil, as id: UInt64, at now: ContinuousClock.Instant,
        into action: inout Action
    ) {
        let usable = slots.filter { slot in
            guard case .usable = entries[slot]?.entry else { return false }
            return renewals[slot] == nil
        }
        let held = Set(usable.compactMap { leases.id(of: $0) })
        guard !usable.isEmpty else {
            for lease in Set(slots.compactMap { leases.id(of: $0) }) where leases.leases[lease]?.request == nil {
                leases.setRenewal(nil, of: lease)
            }
            return
        }
        let ordered: [Slot] = (usable.contains(nil) ? [nil] : []) + Self.sorted(usable).map(Optional.some)
        requests[id] = Request(
            slots: ordered, keySystem: keySystem ?? held.min().flatMap { leases.leases[$0]?.keySystem },
            missing: usable, start: now, renewedLeases: held.sorted())
        for slot in usable { renewals[slot] = id }
        for lease in held { leases.setRequest(id, of: lease) }
        action.renewals.append(Renewal(id: id, slots: ordered, leases: held.sorted()))
    }

    /// The renewal is over, with or without keys.
    mutating func endRenewal(_ id: UInt64, _ request: Request) {
        for slot in request.slots where renewals[slot] == id { renewals[slot] = nil }
        for lease in request.renewedLeases ?? [] where leases.leases[lease]?.request == id {
            leases.setRequest(nil, of: lease)
        }
    }

    /// The next attempt, while there is time for one.
    mutating func retryRenewal(of slots: [Slot], at now: ContinuousClock.Instant) {
        for lease in Set(slots.compactMap { leases.id(of: $0) }) {
            let pause = leases.leases[lease].flatMap { $0.end }.flatMap {
                renewalPolicy.retry(left: now.duration(to: $0))
            }
            leases.setRenewal(pause.map { now + $0 }, of: lease)
        }
    }

    /// A new key takes the place of a usable one. Whether that had a lease.
    mutating func endLease(of slot: Slot, into action: inout Action) -> Bool {
        let hadLease = leases.id(of: slot) != nil
        if let ended = leases.release(slot) { action.ended.append(ended) }
        if let renewal = renewals.removeValue(forKey: slot) { remove(slot, from: renewal, into: &action) }
        return hadLease
    }

    /// Whether an answer that comes now allows its keys for no time.
    func isOver(_ terms: KeyTerms?, for id: UInt64?, at now: ContinuousClock.Instant) -> Bool {
        guard let terms else { return false }
        let start = id.flatMap { self.start(ofRequest: $0) } ?? now
        return terms.isOver(after: start.duration(to: now))
    }

    /// Over a hundred years, and far from what an instant can hold.
    private static let longest = Duration.seconds(4_000_000_000)

    /// Begins a lease for keys that have none.
    mutating func begin(
        _ terms: KeyTerms, for slots: Set<Slot>, from start: ContinuousClock.Instant, _ id: UInt64?, _ random: Double
    ) -> UInt64 {
        leases.begin(
            KeyLeases.Lease(
                slots: slots, keySystem: id.flatMap { keySystem(ofRequest: $0) } ?? nil,
                end: terms.end.map { start + min($0, Self.longest) },
                rental: terms.rental.map { start + min($0, Self.longest) },
                renewal: terms.lease.map { start + renewalPolicy.renewal(of: min($0, Self.longest), random: random) }))
    }

    /// The renewal can still be answered late.
    private mutating func withdrawRenewal(
        of lease: KeyLeases.Lease, with error: KeyError, into action: inout Action
    ) {
        guard let id = lease.request, let request = requests[id] else { return }
        let lost = request.slots.filter { lease.slots.contains($0) && request.missing.contains($0) }
        for slot in lost { renewals[slot] = nil }
        requests[id]?.missing.subtract(lost)
        if requests[id]?.missing.isEmpty == true {
            action.failed.insert(id)
            settle(id, into: &action)
        }
        if !lost.isEmpty { action.events.append(.renewalFailed(requestID: id, lost.compactMap(\.self), error)) }
    }

    private mutating func expire(_ id: UInt64, into action: inout Action) {
        guard let lease = leases.leases[id] else { return }
        let names = Self.sorted(lease.slots)
        let error = KeyError.leaseExpired(
            names.isEmpty
                ? "the key of media without a KID"
                : "KID \(names.prefix(4).map(\.description).joined(separator: ", "))"
                    + (names.count > 4 ? " and \(names.count - 4) more" : ""))
        withdrawRenewal(of: lease, with: error, into: &action)
        let isFinal = lease.isUsed && !holdsAtEndOfLease
        if isFinal { generation += 1 }
        for slot in lease.slots {
            leases.release(slot)
            guard case .usable = entries[slot]?.entry else { continue }
            if isFinal { set(slot, .failed(error, generation)) } else { entries[slot] = nil }
        }
        action.ended.append(id)
        action.changesStatus = true
        action.events.append(.expired(names, error, wasInUse: isFinal))
    }
}
