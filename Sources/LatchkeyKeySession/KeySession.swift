// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization

/// The keys of a viewing session, and the place where those who need keys meet those who have them.
///
/// Pipelines demand keys and read their status; resource loaders or the application answer. Every method is
/// thread-safe and none blocks; work happens on tasks. When the last reference goes, open requests are cancelled.
public final class KeySession: Sendable {
    let core: Mutex<Core>
    private let plays = PlayNotes()
    let statusRevision = Atomic<UInt64>(0)
    let guardCount = Atomic<Int>(0)
    let configuration: KeySessionConfiguration
    let clock: KeySessionClock
    /// What a session server has to agree to before keys are of use. Nil: nobody counts.
    public let viewing: ViewingPermit?
    /// Random; the same in all requests of this session, so that a key server can count its leases together.
    let playbackSessionID = UInt64.random(in: 0 ... .max)
    private let random: @Sendable () -> Double
    private static let lastID = Atomic<UInt64>(0)

    /// A session with these loaders, asked in order. It works until `close` or until nobody holds it; thread-safe from
    /// the start.
    public convenience init(
        loaders: [any ResourceLoader] = [], configuration: KeySessionConfiguration = KeySessionConfiguration()
    ) {
        self.init(loaders: loaders, configuration: configuration, clock: .system) { Double.random(in: 0...1) }
    }

    /// `KeySessionConfiguration.prefetchesUsedKeysOnly`
    public var prefetchesUsedKeysOnly: Bool { configuration.prefetchesUsedKeysOnly }

    /// `random`, 0 to 1, spreads renewals.
    init(
        loaders: [any ResourceLoader], configuration: KeySessionConfiguration = KeySessionConfiguration(),
        limits: KeySessionState.Limits = KeySessionState.Limits(), clock: KeySessionClock,
        random: @escaping @Sendable () -> Double = { 0 }
    ) {
        core = Mutex(
            Core(
                state: KeySessionState(
                    limits: limits, renewalPolicy: configuration.renewalPolicy,
                    holdsAtEndOfLease: configuration.holdsAtEndOfLease),
                gate: configuration.viewing == nil ? .unguarded : .closed, loaders: loaders))
        viewing = configuration.viewing.map { ViewingPermit($0) }
        self.configuration = configuration
        self.clock = clock
        self.random = random
        viewing?.setOwner(self)
        guard let integrity = configuration.integrity else { return }
        core.withLock { $0.awaitsFirstLook = true }
        integrity.watch(self)
    }

    deinit {
        let (open, timer, endings) = core.withLock { (Array($0.open.values), $0.timer, $0.endings) }
        timer?.task.cancel()
        for ending in endings.values { ending() }
        for open in open { open.request.dismiss() }
        viewing?.close()
        endReport(for: [])
    }

    // MARK: Status

    /// How the session stands to a key; nil is the key of media without a KID. Cheap: one short lock, one look-up.
    ///
    /// To read a key is to use it: a lease is renewed only where somebody read one of its keys since it began. A key is
    /// never usable past the end of its lease, also where the session's timer is late.
    public func status(of keyID: KeyID?) -> KeyStatus {
        let status = core.withLock { core -> KeyStatus? in
            guard !core.state.leases.isEmpty, core.state.leases.isOverdue(keyID, at: clock.now()) else {
                return core.hold(core.state.use(keyID))
            }
            return nil
        }
        if let status { return status }
        advance()
        return core.withLock { $0.hold($0.state.status(of: keyID)) }
    }

    /// Whether the key is usable now, which makes it one in use. Nobody hears of anything by this call: a lease that is
    /// over and was not told of makes the answer no.
    public func isAtHand(_ keyID: KeyID) -> Bool {
        core.withLock { core in
            guard core.state.leases.isEmpty || !core.state.leases.isOverdue(keyID, at: clock.now()) else {
                return false
            }
            if case .usable = core.hold(core.state.use(keyID)) { return true }
            return false
        }
    }

    /// Changes whenever any status changes, before the call that changed it returns. While it is the same, what was
    /// read by `status(of:)` after it still holds. One atomic load.
    public var revision: UInt64 { statusRevision.load(ordering: .acquiring) }

    /// The number of the latest failure, for `KeyDemand.retryFailuresUpTo`.
    public var generation: UInt64 { core.withLock { $0.state.generation } }

    // MARK: Loaders and observers

    /// Adds a loader behind those that are there. Pending requests that nobody took are offered to it.
    public func addLoader(_ loader: any ResourceLoader) {
        let resumed = core.withLock { core in
            core.loaders.append(loader)
            return core.resume()
        }
        for request in resumed { ask(for: request) }
    }

    /// Takes a loader away. What it took already is its own to finish.
    public func removeLoader(_ loader: any ResourceLoader) {
        // The caller has a reference: the loader does not go under the lock.
        core.withLock { core in
            guard let index = core.loaders.firstIndex(where: { $0 === loader }) else { return }
            core.loaders.remove(at: index)
            for id in core.open.keys { core.open[id]?.asked.removeAll { $0 === loader } }
        }
    }

    /// Which of the systems that some content offers has a loader with keys for it; nil if none has. One that a loader
    /// names comes first, in the order in which loaders are asked. If loaders have keys for any system, Clear Key needs
    /// nothing but them.
    public func preferredSystem(of available: [ProtectionSystem]) -> ProtectionSystem? {
        let sources = core.withLock { $0.loaders }.map(\.keySystems)
        for named in sources.compactMap(\.self) {
            if let system = available.first(where: { KeySystem($0).map(named.contains) ?? false }) { return system }
        }
        guard sources.contains(where: { $0 == nil }) else { return nil }
        return available.first { KeySystem($0) == .clearKey } ?? available.first { KeySystem($0) != nil }
    }

    /// Delivers every event from now on, one at a time and in order, outside the session's lock, on the thread that
    /// caused one of them. `body` must not block; it may call the session.
    ///
    /// The session keeps `body` until the observation ends, so `body` should hold its owner weakly.
    public func observe(_ body: @escaping @Sendable (KeyEvent) -> Void) -> KeyObservation {
        let id = Self.makeID()
        core.withLock { $0.observers.append(Observer(id: id, body: body)) }
        return KeyObservation(id: id, session: self)
    }

    func removeObserver(_ id: UInt64) {
        // The body may own something whose end calls the session, so it goes after the lock.
        _ = core.withLock { core in
            let removed = core.observers.filter { $0.id == id }
            core.observers.removeAll { $0.id == id }
            return removed
        }
    }

    // MARK: Keys that a playlist names

    /// The KID that stands for a key that a playlist names by URI: the same for the same URI, as long as the session
    /// lives and unless thousands of others came after it.
    ///
    /// `mediaKeyID` is the KID that the media has beside this URI, where it has one. It is taken where it is not zero
    /// and stands for no other URI; a KID that stood for the URI before passes its key or its request on to it. A
    /// failure is not passed on: the key may be asked for again, and where the request is refused later that was made
    /// before the media's KID was known, it is made once more. Else the KID is a random one.
    public func keyID(forURI uri: String, mediaKeyID: KeyID? = nil) -> KeyID {
        let (keyID, requests) = perform { core -> (KeySessionState.Action, (KeyID, [KeyLoadingRequest])) in
            let answer = core.names.keyID(forURI: uri, mediaKeyID: mediaKeyID) {
                KeyID(high: .random(in: 1 ... .max), low: .random(in: 0 ... .max))
            }
            guard let replaced = answer.replaced else { return (KeySessionState.Action(), (answer.keyID, [])) }
            let action = core.state.rename(replaced, to: answer.keyID)
            return (action, (answer.keyID, core.askAgain(core.state.requests(for: [answer.keyID]))))
        }
        for request in requests { ask(for: request) }
        return keyID
    }

    /// These KIDs, and those that stood for the same keys before: a loader may have answered under one of them.
    func names(of keyIDs: [KeyID]) -> [KeyID] {
        core.withLock { core in
            keyIDs + core.state.secondNames.filter { keyIDs.contains($0.value) }.map(\.key)
        }
    }

    /// The URI by which a playlist names the key of this KID, where it is known from `keyID(forURI:mediaKeyID:)`.
    public func keyURI(of keyID: KeyID) -> String? { core.withLock { $0.names.uri(of: keyID) } }

    // MARK: Requests

    /// Starts one request for those of the KIDs that are neither usable nor pending, nor failed (see
    /// `KeyDemand.retryFailuresUpTo`). No such KID: no request. Loaders are asked on a task, later. The demand's own
    /// loaders are also offered the pending requests for its KIDs, where nobody took them yet. A demand that says
    /// nothing of a key that a playlist names goes on with what the last one said.
    public func demand(_ demand: KeyDemand) {
        noteChecksums(of: demand.initializationData)
        let id = Self.makeID()
        let start = clock.now()
        let slots = demand.keyIDs.isEmpty ? [nil] : demand.keyIDs.map(Optional.some)
        beginViewing(retryFailuresUpTo: demand.retryRefusalsUpTo ?? demand.retryFailuresUpTo)
        var demand = demand
        demand.mediaURL = demand.mediaURL.map { configuration.originalMediaURL($0) ?? $0 }
        let requests = perform { [demand] core -> (KeySessionState.Action, [KeyLoadingRequest]) in
            var demand = demand
            core.names.complete(&demand)
            let joined = core.join(demand, slots: slots)
            var action = core.state.demand(
                slots, keySystem: demand.keySystem, retryFailuresUpTo: demand.retryFailuresUpTo,
                retryRefusalsUpTo: demand.retryRefusalsUpTo, as: id, at: start)
            guard let requested = action.requested else { return (action, joined) }
            let request = KeyLoadingRequest(
                id: id, demand: demand, keyIDs: requested.compactMap(\.self), keyURI: core.keyURI(of: requested),
                session: self)
            core.open[id] = OpenRequest(request: request, origin: demand.origin, loaders: demand.loaders)
            action.events.append(.requested(request, origin: demand.origin))
            return (action, joined + [request])
        }
        for request in requests { ask(for: request) }
    }

    /// Answers a request, as the application does. Keys in an answer that comes late, after the request failed, count
    /// as well. False where the answer did not count: unknown request, session closed, a late error.
    @discardableResult
    public func respond(toRequest id: UInt64, with result: Result<KeyAnswer, KeyError>) -> Bool {
        let (known, request) = core.withLock { ($0.state.keySystem(ofRequest: id), $0.open[id]?.request) }
        guard let keySystem = known else { return false }
        do throws(KeyError) {
            return answer(id, with: try result.get().keys(for: keySystem, of: request))
        } catch {
            return refuse(id, with: error)
        }
    }

    /// Withdraws a request: the keys that it still lacks fail. The loader that took it is told. False where the
    /// request is not pending. The keys of a renewal stay usable until their lease ends.
    @discardableResult
    public func fail(requestID id: UInt64, with error: KeyError) -> Bool {
        let now = clock.now()
        return perform { core in
            let action = core.state.fail(id, with: error, at: now)
            return (action, action.isCounted)
        }
    }

    func answer(_ id: UInt64, with keys: KeySessionState.Keys) -> Bool {
        let now = clock.now()
        let random = random()
        return perform { core in
            let action = core.state.answer(id, with: keys, at: now, random: random)
            return (action, action.isCounted)
        }
    }

    /// Makes keys usable that nobody has to ask for. Requests that lack nothing else end.
    public func install(_ keys: [KeyID: ContentKey], terms: KeyTerms? = nil) {
        install(KeySessionState.Keys(byID: keys, terms: terms), for: nil)
    }

    /// The key of media without a KID.
    public func install(keyWithoutID key: ContentKey) { install(KeySessionState.Keys(withoutID: key), for: nil) }

    /// Ends the session: every key is unusable, every request cancelled, and later demands fail with `sessionClosed`.
    /// Answers do not count any more. A second call does nothing.
    public func close(_ reason: KeyError) {
        // Loaders go after the lock: the end of one may call the session.
        let now = clock.now()
        let (loaders, endings) = perform { core in
            defer { (core.loaders, core.endings) = ([], [:]) }
            return (core.state.close(reason, at: now), (core.loaders, Array(core.endings.values)))
        }
        for ending in endings { ending() }
        viewing?.close()
        endReport(for: loaders)
        withExtendedLifetime(loaders) {}
    }

    /// Writes down that the session is over, on a task.
    private func endReport(for loaders: [any ResourceLoader]) {
        guard let reports = configuration.expiredSessionReports else { return }
        let (session, date, log) = (playbackSessionID, clock.date(), configuration.log)
        Task {
            let ended = reports.end(session, at: date) { log(ExpiredSessionReports.complaint($0)) }
            guard let report = ended else { return }
            for loader in loaders { loader.didGenerateExpiredSessionReport(report) }
        }
    }

    // MARK: Playing

    /// Somebody plays with this key: the first sample of it is decrypted while the pipeline plays, or the pipeline begins
    /// to play samples that were decrypted before. The session's loaders hear of it, on a task. Neither looking at media nor
    /// preroll in PAUSED is playing.
    public func didStartPlaying(_ keyID: KeyID?) {
        let loaders = core.withLock(\.loaders)
        guard !loaders.isEmpty else { return }
        plays.add { [weak self] in
            guard let self else { return }
            for loader in loaders {
                loader.didStartPlaying(keyID, in: self)
                await loader.finishNotingPlays()
            }
        }
    }

    /// What `didStartPlaying` was told of, and is not written down yet. A licence that ends some time after its first play
    /// would begin anew, if the process ended before.
    public var unwrittenPlays: PlayNotes { plays }

    // MARK: For requests

    func log(_ text: String) { configuration.log(text) }

    func provide(_ keys: [KeyID: ContentKey], for id: UInt64) { install(KeySessionState.Keys(byID: keys), for: id) }

    /// Whether a request waits that every loader declined. Only the application, or a loader that is added, can answer it.
    public func isUntaken(requestID id: UInt64) -> Bool { core.withLock { $0.open[id]?.isAsking == false } }

    func missingKeyIDs(in id: UInt64) -> [KeyID] {
        core.withLock { $0.state.missing(in: id).compactMap(\.self) }
    }

    /// Whether the session made the KID for a URI, because no media has said one.
    public func isMade(_ keyID: KeyID) -> Bool { core.withLock { $0.names.isMade(keyID) } }

    /// An SPC was made for the request.
    func note(_ exchange: FairPlayExchange, ofRequest id: UInt64) {
        core.withLock { core in
            guard exchange.sendsIntegrity else { return core.state.noteSaysNoKeyID(id) }
            if let keyID = exchange.options.mediaKeyID { core.state.note(id, says: keyID) }
        }
    }

    /// Some of the keys of a request, with their terms. The request stays open.
    func provide(_ answer: KeyAnswer, for request: KeyLoadingRequest) throws(KeyError) {
        install(try answer.keys(for: request.keySystem, of: request), for: request.id)
    }

    private func install(_ keys: KeySessionState.Keys, for id: UInt64?) {
        let end = clock.now()
        let random = random()
        perform { core in (core.state.install(keys, for: id, at: end, random: random), true) }
    }

    static func makeID() -> UInt64 { lastID.add(1, ordering: .relaxed).newValue }
}
