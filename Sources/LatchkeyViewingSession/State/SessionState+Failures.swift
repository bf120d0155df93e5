// SPDX-License-Identifier: MPL-2.0

extension SessionState {
    // MARK: Setting up

    mutating func failSetup(
        _ failure: SessionFailure, _ action: inout Action, _ random: inout some RandomNumberGenerator
    ) {
        if failure.kind == .unknown { isUnconfirmed = true }
        if phase == .tearingDown {
            // Playback ended while the setup was under way.
            if isUnconfirmed, policy.endsUnconfirmed { return send(.teardown, &action) }
            return finishTeardown(isGone: true, &action)
        }
        self.failure = failure
        switch failure.kind {
        case .unknown:
            let next = now + backoff(policy.retryBase, retryAfter: failure.retryAfter, &random)
            guard next < windowEnd ?? .min else { return deny(failure, &action) }
            nextAttempt = next
        case .credential where !hasRefreshedCredential: askForCredential(&action)
        case .limit, .credential, .ended, .refused, .insecure, .expired: deny(failure, &action)
        }
    }

    /// There will be no session. The server may have one all the same: then it is ended.
    mutating func deny(_ failure: SessionFailure, _ action: inout Action) {
        action.notices.append(.setupError(failure))
        forgetTimes()
        self.failure = failure
        if token != nil || reference != nil || isUnconfirmed && policy.endsUnconfirmed {
            beginTeardown(.denied, &action)
        } else {
            removeRecord(&action)
            phase = .denied
        }
    }

    // MARK: Heartbeats

    mutating func failBeat(
        _ failure: SessionFailure, _ action: inout Action, _ random: inout some RandomNumberGenerator
    ) {
        self.failure = failure
        switch failure.kind {
        case .unknown: retryBeat(failure, &action, &random)
        // A number of sessions that is too high ends this one.
        case .ended, .limit: endedByServer(failure, &action, &random)
        case .credential where phase == .verifying: endedByServer(failure, &action, &random)
        case .credential where !hasRefreshedCredential: askForCredential(&action)
        case .credential, .refused, .insecure, .expired: lose(failure, endsSession: true, &action)
        }
    }

    private mutating func retryBeat(
        _ failure: SessionFailure, _ action: inout Action, _ random: inout some RandomNumberGenerator
    ) {
        if phase == .verifying {
            let next = now + backoff(policy.retryBase, retryAfter: failure.retryAfter, &random)
            guard next < windowEnd ?? .min else { return lose(failure, endsSession: true, &action) }
            nextAttempt = next
            return
        }
        if phase == .active {
            phase = .grace
            action.notices.append(.heartbeatError(failure, isFinal: false))
        }
        var delay = backoff(policy.retryBase, retryAfter: failure.retryAfter, &random)
        if retryBudget >= 10 {
            retryBudget -= 10
        } else {
            delay = max(delay, part(0.5, 0.8, of: interval, &random))
        }
        // The last attempt leaves time for its answer.
        let last = leaseEnd - min(policy.requestTimeout, interval / 4)
        let next = last > now ? min(now + delay, last) : now + delay
        nextAttempt = next < leaseEnd ? next : nil
    }

    private mutating func endedByServer(
        _ failure: SessionFailure, _ action: inout Action, _ random: inout some RandomNumberGenerator
    ) {
        let wasAbsent = phase == .verifying
        guard wasAbsent ? policy.replacesSessionAfterAbsence : policy.replacesEndedSession, !hasReplaced else {
            return lose(failure, endsSession: failure.kind == .credential, &action)
        }
        hasReplaced = true
        action.notices.append(.heartbeatError(failure, isFinal: false))
        // A token that is refused does not say that the session is gone: its record is left for the next start.
        if failure.kind == .credential { leaveRecord(&action) } else { removeRecord(&action) }
        let delay = wasAbsent ? Int64.random(in: 0...SessionPolicy.returnSpread, using: &random) : 0
        let end = wasAbsent ? .min : min(leaseEnd, now + SessionPolicy.replacementTime)
        beginSetup(&action, after: delay, playingUntil: end)
    }

    /// Playback must not go on. `endsSession`: the server may still hold the session.
    mutating func lose(_ failure: SessionFailure, endsSession: Bool, _ action: inout Action) {
        action.notices.append(.heartbeatError(failure, isFinal: true))
        wasLostWhileAway = awaySince != nil || isInBackground
        forgetTimes()
        self.failure = failure
        if endsSession { return beginTeardown(.lost, &action) }
        cancelPending(&action)
        removeRecord(&action)
        phase = .lost
    }

    func expiry() -> SessionFailure {
        var failure = failure ?? SessionFailure(.expired)
        failure.kind = .expired
        return failure
    }

    // MARK: Credentials

    private mutating func askForCredential(_ action: inout Action) {
        hasRefreshedCredential = true
        nextAttempt = nil
        credentialEnd = now + policy.credentialWindow
        action.wantsCredential = true
    }

    mutating func receiveCredential(
        _ isNew: Bool, _ action: inout Action, _ random: inout some RandomNumberGenerator
    ) {
        guard credentialEnd != nil else { return }
        credentialEnd = nil
        let failure = failure ?? SessionFailure(.credential)
        switch phase {
        case .settingUp: isNew ? send(.setup, &action) : deny(failure, &action)
        case .active, .grace, .verifying: isNew ? send(.beat, &action) : lose(failure, endsSession: true, &action)
        case .idle, .dormant, .denied, .lost, .tearingDown, .closed: break
        }
    }

    // MARK: Ending

    mutating func beginTeardown(_ ending: Ending, _ action: inout Action) {
        self.ending = ending
        phase = .tearingDown
        forgetTimes()
        attempts = 0
        windowEnd = now + policy.teardownWindow
        // The answer to a setup tells what there is to end.
        if pending?.kind == .setup { return }
        cancelPending(&action)
        if token != nil || reference != nil || policy.endsUnconfirmed {
            send(.teardown, &action)
        } else {
            finishTeardown(isGone: true, &action)
        }
    }

    mutating func failTeardown(
        _ failure: SessionFailure, _ action: inout Action, _ random: inout some RandomNumberGenerator
    ) {
        if failure.kind == .ended { return finishTeardown(isGone: true, &action) }
        if failure.kind == .unknown {
            let next = now + backoff(500, retryAfter: failure.retryAfter, &random)
            if next < windowEnd ?? .min {
                nextAttempt = next
                return
            }
        }
        action.notices.append(.teardownError(failure))
        finishTeardown(isGone: false, &action)
    }

    /// `isGone`: the server does not hold the session. Otherwise the record stays, and tells the next start.
    mutating func finishTeardown(isGone: Bool, _ action: inout Action) {
        if isGone { removeRecord(&action) } else { leaveRecord(&action) }
        cancelPending(&action)
        token = nil
        reference = nil
        forgetTimes()
        switch ending {
        case .closed:
            phase = .closed
            action.notices.append(.closed)
        case .lost: phase = .lost
        case .denied: phase = .denied
        case .dormant:
            phase = .dormant
            action.notices.append(.released)
        }
        if startsAgain, ending != .closed { start(&action) }
    }

    /// No time counts any more.
    mutating func forgetTimes() {
        nextAttempt = nil
        windowEnd = nil
        credentialEnd = nil
        leaseEnd = .min
    }
}
