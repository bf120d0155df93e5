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
        /// The application says that the content is stored on this device.
        var isSaidToBeStored = false
        /// All that is played are files, and no viewing session was needed yet: keys that come with one may not be stored.
        var playsFiles = false
        private(set) var hadViewing = false
        /// The process is watched (`IntegrityWatch`), and its first check is not over yet.
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

        /// The content needs no viewing session as long as its keys are stored, too.
        var contentIsStored: Bool { isSaidToBeStored || playsFiles }

        /// What was decrypted before is not to be shown now: its viewing session is not there.
        private var withholds: Bool { wasOpen && !gate.isOpen }

        /// What observers have to be told of it.
        mutating func setGate(_ new: ViewingGate) -> [KeyEvent] {
            let before = withholds
            gate = new
            if case .open = new { hadViewing = true }
            wasOpen = wasOpen || gate.isOpen
            return withholds == before ? [] : [.withheld(withholds)]
        }

        /// The status of a key that the session has, for a caller that wants to use it.
        func hold(_ status: KeyStatus) -> KeyStatus {
            guard awaitsFirstLook, case .usable = status else { return gate.hold(status) }
            return .pending(requestID: 0)
        }
    }

    /// Whether no request for a key is under way, and observers have been told what became of the last one. Who begins to observe
    /// after that hears nothing of it. False, too, while they are told anything at all. Any thread.
    package func hasToldFate(of keyID: KeyID?) -> Bool {
        core.withLock { core in
            guard !core.isDelivering, core.events.isEmpty else { return false }
            if case .pending = core.state.status(of: keyID) { return false }
            return true
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

    /// The requests that no loader took and that have a loader to ask now.
    mutating func resume() -> [KeyLoadingRequest] {
        let stalled = open.values.filter { !$0.isAsking && nextLoader(for: $0) != nil }
        for entry in stalled { open[entry.request.id]?.isAsking = true }
        return stalled.map(\.request).sorted { $0.id < $1.id }
    }
}

extension KeySession.Core {
    /// Remembers what brought the keys of leases that begin, as long as these last.
    mutating func keepOrigins(of action: KeySessionState.Action) {
        for (lease, request) in action.begun {
            guard let open = request.flatMap({ open[$0] }) else { continue }
            origins[lease] = KeySession.LeaseOrigin(
                request: open.request, origin: open.origin, loaders: open.loaders)
        }
        for lease in action.ended { origins[lease] = nil }
    }

    /// Makes the renewals that the action wants.
    mutating func open(
        _ action: inout KeySessionState.Action, renewing original: KeyLoadingRequest?, for session: KeySession
    ) -> [KeyLoadingRequest] {
        var requests: [KeyLoadingRequest] = []
        for renewal in action.renewals {
            let held = renewal.leases.compactMap { origins[$0] }
            let keyIDs = renewal.slots.compactMap(\.self)
            let first = original ?? held.first?.request
            let request =
                first.map { KeyLoadingRequest(id: renewal.id, renewing: $0, keyIDs: keyIDs, session: session) }
                ?? KeyLoadingRequest(
                    id: renewal.id, demand: KeyDemand(keyIDs: keyIDs), keyIDs: keyIDs,
                    keyURI: keyURI(of: renewal.slots), isRenewal: true, session: session)
            let renewed = held.map(\.request) + (original.map { [$0] } ?? [])
            open[renewal.id] = KeySession.OpenRequest(
                request: request, origin: held.first?.origin ?? 0, loaders: held.first?.loaders ?? [], renewed: renewed)
            action.events.append(.requested(request, origin: held.first?.origin ?? 0))
            requests.append(request)
        }
        return requests
    }
}
