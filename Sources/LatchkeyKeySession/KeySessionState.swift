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
            if let note = terms?.playNotes.removeValue(forKey: old) { terms?.playNotes[new] = note }
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
        /// KIDs that the answering party may not know of: the request was made under others, which they replaced.
        var untold: Set<Slot> = []
        /// Whether the request tells KIDs to the answering party.
        var saysKeyIDs = true
        /// Whether to ask for one of its keys alone, after a refusal, would bring the same refusal.
        var aloneIsNoUse = false
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
    /// What the licenses want of outputs, and whether these have it.
    var requirements: [Slot: OutputRequirement] = [:]
    var outputPolicies: [Slot: OutputPolicy] = [:]
    /// What has to be written down before a key may be played, and what of it is being so.
    var playNotes: [Slot: PlayNote] = [:]
    var playNotesUnderWay: Set<PlayNote> = []
    /// KIDs under which keys and rules may still come, and for which they are now.
    var secondNames: [KeyID: KeyID] = [:]
    var protection: [Slot: ExternalProtectionStatus] = [:]
    /// Counts failures. Zero before the first.
    var generation: UInt64 = 0
    /// The failures of requests whose answers had no key for them at all, and of keys that were asked for alone.
    var emptyAnswers: Set<UInt64> = []
    /// The refusals of requests that told no KID: under another name, the same would be asked again.
    var namelessRefusals: Set<UInt64> = []

    init(
        limits: Limits = Limits(), renewalPolicy: KeyRenewalPolicy = KeyRenewalPolicy(), holdsAtEndOfLease: Bool = false
    ) {
        self.limits = limits
        self.renewalPolicy = renewalPolicy
        self.holdsAtEndOfLease = holdsAtEndOfLease
    }

    // MARK: Reading

    /// The name under which the key is kept: another one, if this is a second name.
    func current(_ slot: Slot) -> Slot {
        guard let keyID = slot, entries[slot] == nil else { return slot }
        return secondNames[keyID] ?? keyID
    }

    /// By any name of the key.
    func status(of slot: Slot) -> KeyStatus {
        // Not to be retried: a generation that no demand reaches.
        if let closure { return .failed(closure, generation: .max) }
        switch entries[current(slot)]?.entry {
        case .pending(let id): return .pending(requestID: id)
        case .usable(let key): return .usable(key)
        case .failed(let error, let generation): return .failed(error, generation: generation)
        case nil where pendingCount >= limits.pending: return .failed(overflow, generation: .max)
        case nil: return .absent
        }
    }

    /// The other keys of the request that failed for this one.
    func failed(with keyID: KeyID) -> [KeyID] {
        let name = current(keyID)
        guard case .failed(_, let generation) = entries[name]?.entry else { return [] }
        return entries.compactMap { slot, value in
            guard case .failed(_, generation) = value.entry, slot != name else { return nil }
            return slot
        }
    }

    /// Whether this key failed because an answer had none of the keys that the request was for.
    func failedWithoutAny(_ keyID: KeyID) -> Bool {
        guard case .failed(_, let generation) = entries[current(keyID)]?.entry else { return false }
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

/// What happens to a session.
extension KeySessionState {
    /// Demands these slots.
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

    /// A KID turns out to be another's second name. What is known of it counts for the other from now on, and both answer
    /// the same; if both are known, each stays as it is. A failure is forgotten: the other was never asked for, unless the
    /// request told no KID and was refused. The other may be known alone, as from a license that came before.
    ///
    /// `isInURI`: a playlist may have the key itself in a `data:` URI.
    mutating func rename(_ old: KeyID, to new: KeyID, isInURI: Bool = false) -> Action {
        guard closure == nil, entries[old] == nil || entries[new] == nil else { return Action() }
        if secondNames.count < limits.slots { secondNames.addName(old, for: new) }
        // Shaka Packager writes the KID where it has no URI of the key. It was taken for the key.
        if isInURI, !hasTerms(old), case .usable(let key) = entries[old]?.entry, let keyOfName = ContentKey(new.bytes),
            key == keyOfName
        {
            var action = Action(changesStatus: true)
            _ = endLease(of: old, into: &action)
            action.failed = Set(action.settled)
            entries[old] = nil
            protection[old] = nil
            return action
        }
        guard let entry = entries.removeValue(forKey: old)?.entry else {
            return Action(changesStatus: entries[new] != nil)
        }
        if case .failed(_, let generation) = entry {
            if namelessRefusals.contains(generation) { set(new, entry) }
            return Action(changesStatus: true, isCounted: true)
        }
        if entry.isPending { pendingCount -= 1 }
        set(new, entry)
        leases.rename(old, to: new)
        requirements[new] = requirements.removeValue(forKey: old)
        outputPolicies[new] = outputPolicies.removeValue(forKey: old)
        protection[new] = protection.removeValue(forKey: old)
        playNotes[new] = playNotes.removeValue(forKey: old)
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

    /// Whether a license came with the key, and says anything.
    private func hasTerms(_ slot: Slot) -> Bool {
        leases.id(of: slot) != nil || requirements[slot] != nil || outputPolicies[slot] != nil || playNotes[slot] != nil
    }

    /// What the request says to the answering party: this KID; or no KID, whatever its keys are called.
    mutating func note(_ id: UInt64, says keyID: KeyID) { requests[id]?.untold.remove(keyID) }

    mutating func noteSaysNoKeyID(_ id: UInt64) {
        requests[id]?.saysKeyIDs = false
        requests[id]?.untold = []
    }

    /// To ask for one of its keys alone is of no use: if they fail, each does for itself.
    mutating func noteAloneIsNoUse(_ id: UInt64) { requests[id]?.aloneIsNoUse = true }

    /// Whether a key is missing under a KID that the answering party may not know of.
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
        playNotes = [:]
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

/// What time does to keys.
extension KeySessionState {
    /// When `advance` is to be called next. Nil: no lease is running.
    var deadline: ContinuousClock.Instant? { closure == nil ? leases.deadline : nil }

    /// The status for a caller that is going to use the key.
    mutating func use(_ slot: Slot) -> KeyStatus {
        leases.use(current(slot))
        return status(of: slot)
    }

    /// The clock has come to `now`: leases that are over end, and those in use are renewed when it is time.
    ///
    /// A key that was not read since its lease began is not renewed. At the end it is forgotten, and asked for again
    /// when a caller wants it; so keys that a stream rotated away cost nothing.
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
        beginRenewal(of: Set(slots.map { current($0) }), keySystem: keySystem, as: id, at: now, into: &action)
        action.isCounted = !action.renewals.isEmpty
        return action
    }

    /// Forgets these keys where they are usable, by any of their names, also as that of media without a KID. What else has
    /// come for a name is not of the same license, and stays.
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
        // Renewals of them bring nothing.
        action.failed.formUnion(action.settled)
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
    private mutating func endRenewal(_ id: UInt64, _ request: Request) {
        for slot in request.slots where renewals[slot] == id { renewals[slot] = nil }
        for lease in request.renewedLeases ?? [] where leases.leases[lease]?.request == id {
            leases.setRequest(nil, of: lease)
        }
    }

    /// The next attempt, while there is time for one.
    private mutating func retryRenewal(of slots: [Slot], at now: ContinuousClock.Instant) {
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

/// What playing does to keys.
extension KeySessionState {
    /// What has to be written down before the key may be played. Without a KID, that may be any key of the session.
    func playNotes(of slot: Slot) -> Set<PlayNote> {
        guard slot == nil else { return playNotes[current(slot)].map { [$0] } ?? [] }
        return playNotes.reduce(into: []) { notes, present in
            if case .usable = entries[present.key]?.entry { notes.insert(present.value) }
        }
    }

    /// The same, without what is being written down already.
    mutating func beginPlayNotes(of slot: Slot) -> Set<PlayNote> {
        let new = playNotes(of: slot).subtracting(playNotesUnderWay)
        playNotesUnderWay.formUnion(new)
        return new
    }

    /// It is written down, or could not be: then its keys fail.
    mutating func endPlayNote(_ note: PlayNote, _ error: KeyError?) -> Action {
        playNotesUnderWay.remove(note)
        var action = Action()
        var slots: [Slot] = []
        for (slot, present) in playNotes where present == note {
            playNotes[slot] = nil
            if case .usable = entries[slot]?.entry { slots.append(slot) }
        }
        guard !slots.isEmpty else { return action }
        action.changesStatus = true
        if let error {
            generation += 1
            for slot in slots {
                _ = endLease(of: slot, into: &action)
                set(slot, .failed(error, generation))
            }
        }
        for keyIDs in Self.names(slots) {
            action.events.append(
                error.map { .failed(requestID: 0, keyIDs, $0) } ?? .usable(requestID: nil, keyIDs, elapsed: .zero))
        }
        return action
    }

    /// As events name them: the KIDs, and an empty list for the key of media without a KID.
    static func names(_ slots: [Slot]) -> [[KeyID]] {
        let keyIDs = sorted(slots)
        return (keyIDs.isEmpty ? [] : [keyIDs]) + (slots.contains(nil) ? [[]] : [])
    }

    var usableKeyIDs: [[KeyID]] {
        let usable = entries.compactMap { slot, value -> Slot? in
            if case .usable = value.entry { slot } else { nil }
        }
        return Self.names(usable)
    }

    /// Says of each key that is there that it can be used.
    var usableEvents: [KeyEvent] { usableKeyIDs.map { .usable(requestID: nil, $0, elapsed: .zero) } }
}

/// The steps that events are made of.
extension KeySessionState {
    var overflow: KeyError {
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

    /// The keys and their rules under the names that count now: an answer may use the second names alone. `certain` are
    /// those of the request, which no other request uses.
    func renamed(_ keys: Keys, by certain: [KeyID: KeyID] = [:]) -> Keys {
        var keys = keys
        for (old, new) in secondNames where certain[old] == nil && entries[old] == nil { keys.rename(old, to: new) }
        for (old, new) in certain { keys.rename(old, to: new) }
        return keys
    }

    /// An answer belongs to the session, so its keys count although the request is over. They replace none.
    private mutating func answerLate(
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
                // Users of a key with a lease have to look again, so that the next renewal knows of the use.
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
                // The same key may have other rules now: its users have to look again.
                action.changesStatus = true
            }
            requirements[slot] = requirement
            outputPolicies[slot] = policy
            let note = terms?.playNote(of: slot, amongKeys: count)
            if playNotes[slot] != note { action.changesStatus = true }
            playNotes[slot] = note
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
        if error.isRefusal, requests[id]?.saysKeyIDs == false, namelessRefusals.count < limits.slots {
            namelessRefusals.insert(generation)
        }
        let aloneIsNoUse = requests[id]?.aloneIsNoUse == true
        for (index, slot) in slots.enumerated() {
            if index > 0, aloneIsNoUse { generation += 1 }
            set(slot, .failed(error, generation))
            // As an answer to a request for it alone.
            if aloneIsNoUse, emptyAnswers.count < limits.slots { emptyAnswers.insert(generation) }
        }
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
            playNotes[slot] = nil
        }
    }

    static func sorted(_ slots: some Sequence<Slot>) -> [KeyID] {
        slots.compactMap(\.self).map { ($0.description, $0) }.sorted { $0.0 < $1.0 }.map(\.1)
    }
}
