// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Synchronization

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

    /// These keys may not be used any more: they are forgotten, and asked for again when somebody wants them. Other keys
    /// that came under the same names stay.
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

    /// Whoever answers has no key. That counts unless the media has said since which KID is meant: then the request is
    /// made again for that one.
    func refuse(_ id: UInt64, with error: KeyError) -> Bool {
        let request = core.withLock { $0.state.isUntold(id) ? $0.open[id]?.request : nil }
        if let request, request.attempt < KeyLoadingRequest.maximumAttempts, retry(request) { return false }
        return fail(requestID: id, with: error)
    }

    /// In seconds since 1970-01-01 00:00 UTC, by the trusted clock of stored keys, or the session's if there is none. Throws
    /// `invalidConfiguration` if the trusted clock cannot be used.
    func storedKeyTime() throws(KeyError) -> UInt64 {
        guard let keys = configuration.persistableKeys else { return UInt64(clamping: clock.date()) }
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
