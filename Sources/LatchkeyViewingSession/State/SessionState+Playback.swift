// SPDX-License-Identifier: MPL-2.0

extension SessionState {
    // MARK: Beginning and ending

    mutating func start(_ action: inout Action) {
        // What plays is about to stand still; `resume` sets it up.
        if isAsleep, isReleased { return }
        switch phase {
        case .idle, .dormant, .denied, .lost:
            hasReplaced = false
            beginSetup(&action)
        case .tearingDown: startsAgain = ending != .closed
        case .settingUp, .active, .grace, .verifying, .closed: break
        }
    }

    mutating func beginSetup(_ action: inout Action, after delay: Int64 = 0, playingUntil: Int64 = .min) {
        startsAgain = false
        wasLostWhileAway = false
        forgetTimes()
        generation += 1
        token = nil
        reference = nil
        failure = nil
        attempts = 0
        hasRefreshedCredential = false
        isUnconfirmed = false
        phase = .settingUp
        leaseEnd = playingUntil
        windowEnd = now + delay + policy.setupWindow
        if delay > 0 { nextAttempt = now + delay } else { send(.setup, &action) }
    }

    mutating func stop(_ action: inout Action) {
        switch phase {
        case .idle, .dormant, .denied, .lost:
            phase = .closed
            action.notices.append(.closed)
        case .settingUp, .active, .grace, .verifying: beginTeardown(.closed, &action)
        case .tearingDown:
            ending = .closed
            startsAgain = false
        case .closed: break
        }
    }

    // MARK: Time

    /// Sees to it that nothing plays past the end of the lease, before anything else happens.
    mutating func endLease(_ event: Event, _ action: inout Action) {
        guard isLive, now >= leaseEnd else { return }
        // A timer that is this late means that the process stood still; the server may have been patient.
        if isAsleep || event == .resume || now - leaseEnd > SessionPolicy.lateness {
            cancelPending(&action)
            forgetTimes()
            attempts = 0
            phase = .verifying
            if !isAsleep { verify(&action) }
        } else {
            lose(expiry(), endsSession: true, &action)
        }
    }

    private mutating func verify(_ action: inout Action) {
        windowEnd = now + policy.setupWindow
        send(.beat, &action)
    }

    mutating func tick(_ action: inout Action, _ random: inout some RandomNumberGenerator) {
        if let pending, now >= pending.sentAt + pending.timeout {
            action.cancels = pending
            self.pending = nil
            let failure = SessionFailure(.unknown, message: "no answer within \(pending.timeout) ms")
            fail(pending.kind, failure, &action, &random)
        }
        if let credentialEnd, now >= credentialEnd { receiveCredential(false, &action, &random) }
        if let windowEnd, now >= windowEnd { windowPassed(&action) }
        if let awaySince, isLive, now >= awaySince + policy.pauseLimit { beginTeardown(.dormant, &action) }
        if !isAsleep, credentialEnd == nil, let nextAttempt, now >= nextAttempt { sendWhatIsDue(&action) }
    }

    private mutating func sendWhatIsDue(_ action: inout Action) {
        switch phase {
        case .settingUp: send(.setup, &action)
        case .active, .grace, .verifying: send(.beat, &action)
        case .tearingDown: send(.teardown, &action)
        case .idle, .dormant, .denied, .lost, .closed: nextAttempt = nil
        }
    }

    private mutating func windowPassed(_ action: inout Action) {
        let failure = failure ?? SessionFailure(.unknown, message: "no answer in time")
        switch phase {
        case .settingUp:
            cancelPending(&action)
            isUnconfirmed = true
            deny(failure, &action)
        case .verifying: lose(failure, endsSession: true, &action)
        case .tearingDown:
            action.notices.append(.teardownError(failure))
            finishTeardown(isGone: false, &action)
        case .idle, .active, .grace, .dormant, .denied, .lost, .closed: windowEnd = nil
        }
    }

    // MARK: Away

    mutating func setAway(paused: Bool? = nil, _ action: inout Action) {
        isPaused = paused ?? isPaused
        awaySince = isPaused || isAsleep ? awaySince ?? now : nil
        if awaySince == nil, !isInBackground || isReleased { comeBack(&action) }
    }

    private mutating func comeBack(_ action: inout Action) {
        let mayReplace = wasLostWhileAway && policy.replacesSessionAfterAbsence
        switch phase {
        case .dormant: start(&action)
        case .lost where mayReplace: start(&action)
        case .tearingDown where ending == .dormant || ending == .lost && mayReplace: startsAgain = true
        case .idle, .settingUp, .active, .grace, .verifying, .denied, .lost, .tearingDown, .closed: break
        }
    }

    mutating func suspend(_ action: inout Action) {
        isAsleep = true
        awaySince = awaySince ?? now
        if policy.endsBeforeSleep, isLive { beginTeardown(.dormant, &action) }
    }

    mutating func resume(_ action: inout Action, _ random: inout some RandomNumberGenerator) {
        guard isAsleep else { return }
        isAsleep = false
        if !isPaused { awaySince = nil }
        switch phase {
        case .verifying where pending == nil && nextAttempt == nil && credentialEnd == nil: verify(&action)
        case .active, .grace:
            guard let due = nextAttempt, due <= now else { return }
            let spread = min(SessionPolicy.returnSpread, max(0, leaseEnd - now) / 4)
            nextAttempt = now + Int64.random(in: 0...spread, using: &random)
        case .dormant where awaySince == nil:
            hasReplaced = false
            beginSetup(&action, after: Int64.random(in: 1...SessionPolicy.returnSpread, using: &random))
        case .tearingDown where ending == .dormant && awaySince == nil: startsAgain = true
        case .idle, .settingUp, .verifying, .dormant, .denied, .lost, .tearingDown, .closed: break
        }
    }
}
