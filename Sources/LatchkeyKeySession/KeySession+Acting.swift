// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization

extension KeySession {
    /// What the session's lock guards. Everything is computed under the lock and acted on after it.
    struct Core {
        var state: KeySessionState
        var gate: ViewingGate
        /// The gate was open, and media may have passed.
        var wasOpen = false
        /// The content needs no viewing session as long as its keys are stored, too.
        var contentIsStored = false
        /// Nobody has looked at the process yet, where it is watched (`IntegrityWatch`).
        var awaitsFirstLook = false
        var names = KeyNames()
        var checksums = KeyChecksums()
        var open: [UInt64: OpenRequest] = [:]
        /// What brought the keys of each lease.
        var origins: [UInt64: LeaseOrigin] = [:]
        var timer: (deadline: ContinuousClock.Instant, task: Task<Void, Never>)?
        var loaders: [any ResourceLoader]
        var observers: [Observer] = []
        var events: [KeyEvent] = []
        var isDelivering = false
        /// What others do when the session is over, by who wants it.
        var endings: [ObjectIdentifier: @Sendable () -> Void] = [:]
        var guards: [WeakOutputGuard] = []
        var playbacks: [UInt: WeakPlayback] = [:]
        /// KIDs that the content is known to use, among all that it names.
        var used: Set<KeyID> = []
        var use = OutputUse()

        /// What was decrypted before is not to be shown now: its viewing session is not there.
        private var withholds: Bool { wasOpen && !gate.isOpen }

        /// What observers have to be told of it.
        mutating func setGate(_ new: ViewingGate) -> [KeyEvent] {
            let before = withholds
            gate = new
            wasOpen = wasOpen || gate.isOpen
            return withholds == before ? [] : [.withheld(withholds)]
        }

        /// How a key stands that the session has, to whoever wants to use it.
        func hold(_ status: KeyStatus) -> KeyStatus {
            guard awaitsFirstLook, case .usable = status else { return gate.hold(status) }
            return .pending(requestID: 0)
        }
    }

    /// A pending request and how far it got with the loaders.
    struct OpenRequest {
        let request: KeyLoadingRequest
        let origin: UInt64
        /// From those who demand the keys. Asked before the session's own.
        var loaders: [any ResourceLoader]
        /// Those of both that were asked.
        var asked: [any ResourceLoader] = []
        /// False once every loader declined. Stays true when one took it.
        var isAsking = true
        /// Those whose keys it brings anew.
        var renewed: [KeyLoadingRequest] = []
    }

    /// What a renewal is made of.
    struct LeaseOrigin {
        let request: KeyLoadingRequest
        let origin: UInt64
        let loaders: [any ResourceLoader]
    }

    struct Observer {
        let id: UInt64
        let body: @Sendable (KeyEvent) -> Void
    }

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
            // Inside the lock, so that nobody reads a new status under an old revision and keeps it as current.
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

    /// Delivers what is queued, unless somebody does already: that keeps the order without a lock around observers.
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
        let storedKeys = request.keySystem == .fairPlay ? configuration.persistableKeys : nil
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

    /// Whether nobody else is to be asked.
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

extension KeySession.Core {
    /// Lets a demand's loaders also see the requests that already wait for its keys. Returns those to ask for again.
    mutating func join(_ demand: KeyDemand, slots: [KeySessionState.Slot]) -> [KeyLoadingRequest] {
        guard !demand.loaders.isEmpty else { return [] }
        for id in state.requests(for: slots) {
            let loaders = demand.loaders.filter { new in open[id]?.loaders.contains { $0 === new } == false }
            open[id]?.loaders += loaders
        }
        return resume()
    }

    /// The first that was not asked yet. For stored content, those that ask no server come before all others, which may
    /// need a viewing session.
    func nextLoader(for request: KeySession.OpenRequest) -> (any ResourceLoader)? {
        let others = (request.loaders + loaders).filter { loader in !request.asked.contains { $0 === loader } }
        let local = if case .unneeded = gate { others.first(where: \.isLocal) } else { nil as (any ResourceLoader)? }
        return local ?? others.first
    }

    /// Begins again with those of the requests that no loader took.
    mutating func askAgain(_ ids: Set<UInt64>) -> [KeyLoadingRequest] {
        for id in ids where open[id]?.isAsking == false {
            open[id]?.asked = []
        }
        return resume()
    }

    /// The URI of the first of the keys that has one.
    func keyURI(of slots: [KeySessionState.Slot]) -> String? {
        for case let keyID? in slots {
            if let uri = names.uri(of: keyID) { return uri }
        }
        return nil
    }

    /// The requests that nobody took and that have a loader to ask now.
    mutating func resume() -> [KeyLoadingRequest] {
        let stalled = open.values.filter { !$0.isAsking && nextLoader(for: $0) != nil }
        for entry in stalled { open[entry.request.id]?.isAsking = true }
        return stalled.map(\.request).sorted { $0.id < $1.id }
    }
}
