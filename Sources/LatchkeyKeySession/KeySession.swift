// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization

/// The keys of a viewing session, and the connection between the users of keys and their sources.
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
    /// What a session server has to agree to before keys are of use. Nil: no session server.
    public let viewing: ViewingPermit?
    /// Random; the same in all requests of this session, so that a key server can count its leases together.
    let playbackSessionID = UInt64.random(in: 0 ... .max)
    private let random: @Sendable () -> Double
    private static let lastID = Atomic<UInt64>(0)

    /// A session with these loaders, asked in order. It works until `close` or until its last reference goes;
    /// thread-safe from the start.
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

    /// How the session stands to a key, by any of its names; nil is the key of media without a KID. Cheap: one short lock.
    ///
    /// Reading a key counts as use: a lease is renewed only if one of its keys was read since it began. A key is never
    /// usable past the end of its lease, even if the session's timer is late.
    public func status(of keyID: KeyID?) -> KeyStatus {
        let status = core.withLock { core -> KeyStatus? in
            let name = core.state.current(keyID)
            guard !core.state.leases.isEmpty, core.state.leases.isOverdue(name, at: clock.now()) else {
                return core.hold(core.state.use(keyID))
            }
            return nil
        }
        if let status { return status }
        advance()
        return core.withLock { $0.hold($0.state.status(of: keyID)) }
    }

    /// Whether the key is usable now. The call counts as use of the key, and sends no event: if the lease is over and
    /// that was not reported yet, the answer is no.
    public func isAtHand(_ keyID: KeyID) -> Bool {
        core.withLock { core in
            let name = core.state.current(keyID)
            guard core.state.leases.isEmpty || !core.state.leases.isOverdue(name, at: clock.now()) else {
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

    /// Adds a loader behind those that are there. Pending requests that no loader took are offered to it.
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
    /// and stands for no other URI; a KID that stood for the URI before passes its key or its request on to it, and
    /// answers as it does from then on. A failure is not passed on: the key may be asked for again, and where the request is
    /// refused later that was made before the media's KID was known, it is made once more. Else the KID is a random one. A
    /// refusal of a request that tells the server no KID stands in any case, and so does the status 401 or 403 of a FairPlay-style
    /// key server.
    public func keyID(forURI uri: String, mediaKeyID: KeyID? = nil) -> KeyID {
        let (keyID, requests) = perform { core -> (KeySessionState.Action, (KeyID, [KeyLoadingRequest])) in
            let answer = core.names.keyID(forURI: uri, mediaKeyID: mediaKeyID) {
                KeyID(high: .random(in: 1 ... .max), low: .random(in: 0 ... .max))
            }
            guard let replaced = answer.replaced else { return (KeySessionState.Action(), (answer.keyID, [])) }
            let isInURI = uri.hasPrefix(Self.keyInURI)
            let action = core.state.rename(replaced, to: answer.keyID, isInURI: isInURI)
            return (action, (answer.keyID, core.askAgain(core.state.requests(for: [answer.keyID]))))
        }
        for request in requests { ask(for: request) }
        return keyID
    }

    /// The URI by which a playlist names the key of this KID, where it is known from `keyID(forURI:mediaKeyID:)`.
    public func keyURI(of keyID: KeyID) -> String? { core.withLock { $0.names.uri(of: keyID) } }

    // MARK: Requests

    /// Starts one request for those of the KIDs that are neither usable nor pending, nor failed (see
    /// `KeyDemand.retryFailuresUpTo`). No such KID: no request. Loaders are asked on a task, later. The demand's own
    /// loaders are also offered the pending requests for its KIDs that no loader took yet. If a demand says nothing of
    /// a key that a playlist names, what the last demand said of it still counts.
    public func demand(_ demand: KeyDemand) {
        noteChecksums(of: demand.initializationData)
        let id = Self.makeID()
        let start = clock.now()
        beginViewing(retryFailuresUpTo: demand.retryRefusalsUpTo ?? demand.retryFailuresUpTo, isDemanded: true)
        var demand = demand
        demand.mediaURL = demand.mediaURL.map { configuration.originalMediaURL($0) ?? $0 }
        let requests = perform { [demand] core -> (KeySessionState.Action, [KeyLoadingRequest]) in
            var demand = demand
            let slots: [KeySessionState.Slot] =
                demand.keyIDs.isEmpty ? [nil] : demand.keyIDs.map { core.state.current($0) }
            demand.keyIDs = slots.compactMap(\.self)
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

    /// Withdraws a request: the keys that it still lacks fail. The loader that took it is notified. Returns false if
    /// the request is not pending. The keys of a renewal stay usable until their lease ends.
    @discardableResult
    public func fail(requestID id: UInt64, with error: KeyError) -> Bool {
        let now = clock.now()
        // A key server may refuse a key because the viewing session is over. That is the news.
        let error = viewing?.loss ?? error
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

    /// Makes keys usable that need no request. Requests that lack nothing else end.
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

    /// Playback with this key begins: the first sample of it is decrypted while the pipeline plays, or the pipeline begins to
    /// play samples that were decrypted before. The session's loaders are notified on a task. Neither looking at media nor
    /// preroll in PAUSED is playing.
    public func didStartPlaying(_ keyID: KeyID?) {
        _ = mayPlay(keyID)
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

    /// Whether the key may be used for playing now. False if its license counts from the first play and that is not written down:
    /// it is from now on, once for all users of the key. Then the key is usable, or has failed, and observers hear of it.
    package func mayPlay(_ keyID: KeyID?) -> Bool {
        guard awaitsFirstPlay(keyID) else { return true }
        let notes = perform { core -> (KeySessionState.Action, Set<PlayNote>) in
            let notes = core.state.beginPlayNotes(of: keyID)
            // Elements may decrypt with the key since before they played: they have to look again.
            return (KeySessionState.Action(changesStatus: !notes.isEmpty), notes)
        }
        for note in notes {
            plays.add { [weak self] in
                guard let self else { return }
                var failure: KeyError?
                do throws(KeyError) { try await note.write(self) } catch { failure = error }
                perform { [failure] core in (core.state.endPlayNote(note, failure), ()) }
            }
        }
        return false
    }

    /// What `didStartPlaying` was told of, and is not written down yet. A license that ends some time after its first play
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

extension KeySession {
    /// Runs `body` when the session is over; now, where it is. One body for each owner: the latest.
    func atEnd(_ owner: ObjectIdentifier, _ body: @escaping @Sendable () -> Void) {
        let (isOver, old) = core.withLock { core in
            guard core.state.closure == nil else { return (true, nil as (@Sendable () -> Void)?) }
            // The old one may own something whose end calls the session, so it goes after the lock.
            return (false, core.endings.updateValue(body, forKey: owner))
        }
        if isOver { body() }
        withExtendedLifetime(old) {}
    }

    /// Changes the state under the lock, then acts.
    @discardableResult
    func perform<Value: Sendable>(_ change: (inout Core) -> (KeySessionState.Action, Value)) -> Value {
        let (value, settled) = core.withLock { core in
            let (action, value) = change(&core)
            core.events += action.events
            core.keepOrigins(of: action)
            // Inside the lock, so that no thread reads a new status under an old revision and keeps it as current.
            if action.changesStatus { statusRevision.add(1, ordering: .releasing) }
            setTimer(&core)
            return (
                value,
                action.settled.compactMap { id in
                    core.open.removeValue(forKey: id).map { ($0, action.failed.contains(id)) }
                }
            )
        }
        for (open, hasFailed) in settled {
            open.request.dismiss(hasFailed: hasFailed)
            if !hasFailed { for request in open.renewed { request.setStatus(.renewed) } }
        }
        deliver()
        return value
    }

    /// Delivers what is queued, unless another thread does already: that keeps the order without a lock around
    /// observers.
    private func deliver() {
        let isMine = core.withLock { core in
            if core.isDelivering || core.events.isEmpty { return false }
            core.isDelivering = true
            return true
        }
        guard isMine else { return }
        while let (event, observers) = nextEvent() {
            for observer in observers { observer.body(event) }
        }
    }

    private func nextEvent() -> (KeyEvent, [Observer])? {
        core.withLock { core in
            guard !core.events.isEmpty else {
                core.isDelivering = false
                return nil
            }
            return (core.events.removeFirst(), core.observers)
        }
    }

    /// Offers the request to its loaders, one by one, until one takes it. The process has to be as it was built, where that
    /// is watched, and where there is a session server, that has to agree first. The task does not keep the session.
    func ask(for request: KeyLoadingRequest) {
        let storedKeys = request.keySystem == .fairPlay ? configuration.storedKeyClock : nil
        Task { [weak self, viewing, integrity = configuration.integrity] in
            if let violation = await integrity?.violation() {
                self?.close(violation)
                return
            }
            do throws(KeyError) {
                if self?.needsNoViewing == false {
                    self?.beginViewing(retryFailuresUpTo: 0)
                    try await viewing?.established()
                }
                // Loaders may answer on threads that must not wait for the store.
                await storedKeys?.prepare()
                while let loader = self?.nextLoader(for: request.id) {
                    if self?.beginViewing(for: loader) == true { try await viewing?.established() }
                    if Self.offer(request, to: loader) { return }
                }
            } catch {
                self?.fail(requestID: request.id, with: error)
            }
        }
    }

    /// Whether no further loader is to be asked.
    private static func offer(_ request: KeyLoadingRequest, to loader: any ResourceLoader) -> Bool {
        if request.isFinished { return true }
        request.willOffer(to: loader)
        let isTaken =
            request.isRenewal ? loader.shouldWaitForRenewal(of: request) : loader.shouldWaitForLoading(of: request)
        guard isTaken else { return request.isFinished }
        if !request.take(by: loader) { loader.didCancel(request) }
        return true
    }

    /// Nil when all were asked, which is then an event, or when the request is over.
    private func nextLoader(for id: UInt64) -> (any ResourceLoader)? {
        let loader = core.withLock { core -> (any ResourceLoader)? in
            guard let open = core.open[id] else { return nil }
            if let next = core.nextLoader(for: open) {
                core.open[id]?.asked.append(next)
                return next
            }
            core.open[id]?.isAsking = false
            core.events.append(.untaken(open.request, origin: open.origin))
            return nil
        }
        if loader == nil { deliver() }
        return loader
    }
}

extension KeySession {
    /// Asks for the keys of a request anew, ahead of the end of their lease, as AVFoundation's
    /// `renewExpiringResponseData(for:)`. Loaders get a request whose `isRenewal` is set. The keys stay usable
    /// meanwhile. False where there is nothing to renew: no key of it is usable, or a renewal is under way.
    @discardableResult
    public func renewExpiringResponseData(for request: KeyLoadingRequest) -> Bool {
        let id = Self.makeID()
        let now = clock.now()
        let slots: Set<KeySessionState.Slot> =
            request.keyIDs.isEmpty ? [nil] : Set(request.keyIDs.map { Optional($0) })
        let requests = perform { core -> (KeySessionState.Action, [KeyLoadingRequest]) in
            var action = core.state.renew(slots, keySystem: request.keySystem, as: id, at: now)
            let requests = core.open(&action, renewing: request, for: self)
            return (action, requests)
        }
        for request in requests { ask(for: request) }
        return !requests.isEmpty
    }

    /// These keys may not be used any more: they are forgotten, and asked for again when a caller wants them. Other keys that
    /// came under the same names stay.
    func withdraw(_ keys: [KeyID: ContentKey], because error: KeyError) {
        perform { core in (core.state.withdraw(keys, because: error), ()) }
    }

    /// The clock has come to a deadline.
    func advance() {
        let now = clock.now()
        let requests = perform { core -> (KeySessionState.Action, [KeyLoadingRequest]) in
            var action = core.state.advance(to: now, makeID: Self.makeID)
            let requests = core.open(&action, renewing: nil, for: self)
            return (action, requests)
        }
        for request in requests { ask(for: request) }
    }

    /// Sees to it that `advance` is called at the next deadline. Blocks no thread.
    func setTimer(_ core: inout Core) {
        let deadline = core.state.deadline
        guard deadline != core.timer?.deadline else { return }
        core.timer?.task.cancel()
        core.timer = deadline.map { deadline in
            let sleep = clock.sleep
            let task = Task { [weak self] in
                guard (try? await sleep(deadline)) != nil else { return }
                self?.timerFired(deadline)
            }
            return (deadline, task)
        }
    }

    private func timerFired(_ deadline: ContinuousClock.Instant) {
        let isCurrent = core.withLock { core in
            guard core.timer?.deadline == deadline else { return false }
            core.timer = nil
            return true
        }
        if isCurrent { advance() }
    }

    // MARK: Answers

    /// The answer of the loader that took the request. Where it cannot be used for a reason that may pass, the loader
    /// says whether to make the request again.
    func respond(to request: KeyLoadingRequest, with result: Result<KeyAnswer, KeyError>) -> Bool {
        guard let keySystem = core.withLock({ $0.state.keySystem(ofRequest: request.id) }) else { return false }
        let loader = request.answerer
        let outcome = result.flatMap { answer in
            Result { () throws(KeyError) in try answer.keys(for: keySystem, of: request) }
        }
        if let reason = retryReason(of: outcome, for: request), request.attempt < KeyLoadingRequest.maximumAttempts,
            let loader, loader.shouldRetry(request, reason: reason), retry(request)
        {
            return false
        }
        switch outcome {
        case .success(let keys):
            guard retryReason(of: outcome, for: request) == .receivedObsoleteContentKey else {
                let isCounted = answer(request.id, with: keys)
                if isCounted {
                    if let key = keys.updatedPersistableKey {
                        loader?.didUpdatePersistableContentKey(key, for: request)
                    }
                    report(request, to: loader)
                }
                return isCounted
            }
            return fail(requestID: request.id, with: .leaseExpired("the renewal brings no more time than there is"))
        case .failure(let error):
            let isCounted = refuse(request.id, with: error)
            if isCounted { loader?.didFail(request, with: error) }
            return isCounted
        }
    }

    /// The answer is that there is no key. That counts unless the media has said since which KID is meant: then the
    /// request is made again for that one.
    func refuse(_ id: UInt64, with error: KeyError) -> Bool {
        if core.withLock({ $0.state.isUntold(id) }), retry(requestID: id) { return false }
        guard error.isOfService, let viewing, viewing.mayBeLost, core.withLock({ $0.open[id] != nil }) else {
            return fail(requestID: id, with: error)
        }
        // The key server may know before this client does that the viewing session is over. Then that is told.
        Task { [weak self] in
            let isReplaced = await viewing.check()
            if isReplaced, self?.retry(requestID: id) == true { return }
            self?.fail(requestID: id, with: error)
        }
        return true
    }

    private func retry(requestID id: UInt64) -> Bool {
        guard let request = core.withLock({ $0.open[id]?.request }) else { return false }
        return request.attempt < KeyLoadingRequest.maximumAttempts && retry(request)
    }

    /// In seconds since 1970-01-01 00:00 UTC, by the trusted clock of stored keys. Throws `invalidConfiguration` if there is
    /// none, or it cannot be used.
    func storedKeyTime() throws(KeyError) -> UInt64 {
        guard let keys = configuration.storedKeyClock else {
            throw .invalidConfiguration(
                "stored keys need a trusted clock, and there is no place for its store; set HOME")
        }
        return try keys.time()
    }

    func didNotStore(_ request: KeyLoadingRequest, _ error: KeyError) {
        log("\(request.description): \(error)")
        perform { _ in
            (KeySessionState.Action(events: [.notStored(request, error, origin: request.origin)]), ())
        }
    }

    private func report(_ request: KeyLoadingRequest, to loader: (any ResourceLoader)?) {
        guard let loader else { return }
        let error = (request.keyIDs.isEmpty ? [nil] : request.keyIDs.map(Optional.some)).lazy.compactMap { keyID in
            if case .failed(let error, _) = self.core.withLock({ $0.state.status(of: keyID) }) { error } else { nil }
        }.first
        if let error { loader.didFail(request, with: error) } else { loader.didSucceed(request) }
    }

    private func retryReason(
        of outcome: Result<KeySessionState.Keys, KeyError>, for request: KeyLoadingRequest
    ) -> KeyRetryReason? {
        switch outcome {
        case .failure(let error):
            if error.isSameKind(as: .timedOut("")) { return .timedOut }
            return error.isSameKind(as: .leaseExpired("")) ? .receivedResponseWithExpiredLease : nil
        case .success(let keys):
            let now = clock.now()
            return core.withLock { core in
                if core.state.isOver(keys.terms, for: request.id, at: now) { return .receivedResponseWithExpiredLease }
                return core.state.isObsolete(keys, for: request.id) ? .receivedObsoleteContentKey : nil
            }
        }
    }

    /// Makes the request again for the keys that are missing. False where it is over.
    private func retry(_ request: KeyLoadingRequest) -> Bool {
        let id = Self.makeID()
        let now = clock.now()
        let again = perform { core -> (KeySessionState.Action, KeyLoadingRequest?) in
            var action = core.state.retry(request.id, as: id, at: now)
            guard let slots = action.requested, let open = core.open[request.id] else { return (action, nil) }
            let again = KeyLoadingRequest(id: id, repeating: request, keyIDs: slots.compactMap(\.self), session: self)
            core.open[id] = OpenRequest(
                request: again, origin: open.origin, loaders: open.loaders, renewed: open.renewed)
            action.events.append(.requested(again, origin: open.origin))
            return (action, again)
        }
        guard let again else { return false }
        request.setStatus(.retried)
        ask(for: again)
        return true
    }
}

extension KeySession {
    /// Says that playback with this session begins; nil if no session server counts that.
    ///
    /// What is not played any more is ended at the session server, so keep the answer while you play.
    public func beginPlayback() -> PlaybackUse? { viewing.map { PlaybackUse($0, id: Self.makeID()) } }

    /// Whether the session is closed, for good.
    public var isClosed: Bool { core.withLock { $0.state.closure != nil } }

    /// Why the session is closed, or is closed in a moment because its viewing session is lost. A key that fails from here on
    /// fails for this. Nil: the session goes on.
    package var endReason: KeyError? { core.withLock { $0.state.closure } ?? viewing?.loss }

    /// Sets the viewing session up, and waits for it, as ahead of a license that no request of this session asks for.
    /// Throws why there is none. Without a session server, returns at once.
    package func establishViewing() async throws(KeyError) {
        guard let viewing else { return }
        // What is stored plays on meanwhile.
        if needsNoViewing { viewing.begin(unlessLeft: true) } else { beginViewing(retryFailuresUpTo: generation) }
        try await viewing.established()
    }

    /// Whether the content is stored on this device: then its stored keys need no viewing session, where the configuration
    /// allows that. What has to be asked of a server brings one about.
    package func setContentIsStored(_ isStored: Bool) {
        changeStorage { core in
            core.isSaidToBeStored = isStored
            return true
        }
    }

    /// The same, as far as playbacks know (`PlaybackUse.setPlaysFile`).
    func playedFilesDidChange() {
        changeStorage { core in
            let before = core.contentIsStored
            core.playsFiles = viewing?.playsFilesOnly == true && !core.hadViewing
            return core.contentIsStored != before
        }
    }

    /// `change` returns whether what was known of the content counts anew.
    private func changeStorage(_ change: (inout Core) -> Bool) {
        guard let viewing, viewing.allowsOffline else { return }
        let begins = perform { core -> (KeySessionState.Action, Bool) in
            guard change(&core) else { return (KeySessionState.Action(), false) }
            switch (core.gate, core.contentIsStored) {
            case (.closed, true), (.opening, true), (.refused, true):
                let events = core.setGate(.unneeded) + core.state.usableEvents
                return (KeySessionState.Action(events: events, changesStatus: true), false)
            case (.unneeded, false):
                let action = KeySessionState.Action(events: core.setGate(.closed), changesStatus: true)
                return (action, !core.state.entries.isEmpty)
            default: return (KeySessionState.Action(), false)
            }
        }
        if begins { beginViewing(retryFailuresUpTo: generation) }
    }

    /// Whether what plays is stored on this device.
    private var needsNoViewing: Bool { core.withLock { core in if case .unneeded = core.gate { true } else { false } } }

    /// Has a viewing session set up, if one is wanted before this loader is asked; false if none is.
    private func beginViewing(for loader: any ResourceLoader) -> Bool {
        guard let viewing, needsNoViewing, !loader.isLocal else { return false }
        viewing.begin(unlessLeft: true)
        return true
    }

    /// Sees to it that a viewing session is there or on its way. Behind the last playback, only a demand brings one about.
    private func beginViewing(retryFailuresUpTo generation: UInt64, isDemanded: Bool = false) {
        guard let viewing, viewing.isWanted(byDemand: isDemanded) else { return }
        let begins = core.withLock { core in
            guard core.state.closure == nil, core.gate.begins(retryFailuresUpTo: generation) else { return false }
            core.gate = .opening
            return true
        }
        if begins { viewing.begin() }
    }

    /// The viewing session is there, or not: keys that the session has are of use, or not.
    func setGate(_ gate: ViewingGate) {
        perform { core in
            guard core.state.closure == nil else { return (KeySessionState.Action(), ()) }
            var events = core.setGate(gate)
            if case .open = gate { events += core.state.usableEvents }
            return (KeySessionState.Action(events: events, changesStatus: true), ())
        }
    }

    /// Nothing plays with the session any more. What begins then may be clear at first, and is not withheld.
    func endViewing() {
        perform { core in
            guard core.state.closure == nil else { return (KeySessionState.Action(), ()) }
            core.playsFiles = false
            let gate = core.contentIsStored ? ViewingGate.unneeded : .closed
            core.wasOpen = false
            return (KeySessionState.Action(events: core.setGate(gate), changesStatus: true), ())
        }
    }

    /// Whether the process is watched, so that keys have to come through a session.
    package var isWatched: Bool { configuration.integrity != nil }

    /// No other process inspects this one, and it is as it was built: keys that the session has may be used.
    func processIsSound() {
        perform { core in
            guard core.state.closure == nil, core.awaitsFirstLook else { return (KeySessionState.Action(), ()) }
            core.awaitsFirstLook = false
            return (KeySessionState.Action(events: core.state.usableEvents, changesStatus: true), ())
        }
    }

    /// There is no viewing session, and so no key. Requests that wait for it fail by themselves.
    func refuse(_ error: KeyError) {
        perform { core in
            guard core.state.closure == nil else { return (KeySessionState.Action(), ()) }
            let usable = core.state.usableKeyIDs
            // A file whose keys are not stored either is as any other content.
            guard !core.isSaidToBeStored, !core.playsFiles || usable.isEmpty else {
                // What is stored plays on; what was asked for fails.
                let events = core.setGate(.unneeded) + core.state.usableEvents
                return (KeySessionState.Action(events: events, changesStatus: true), ())
            }
            core.state.generation += 1
            let gate = ViewingGate.refused(error, generation: core.state.generation)
            var action = KeySessionState.Action(events: core.setGate(gate), changesStatus: true)
            action.events += usable.map { .failed(requestID: 0, $0, error) }
            return (action, ())
        }
    }

    func tell(_ notice: ClockNotice) {
        perform { _ in (KeySessionState.Action(events: [.clockSetBack(notice)]), ()) }
    }

    func tell(_ notice: ViewingNotice) {
        perform { _ in (KeySessionState.Action(events: [.viewing(notice)]), ()) }
    }
}
