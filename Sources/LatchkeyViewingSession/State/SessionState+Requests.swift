// SPDX-License-Identifier: MPL-2.0

extension SessionState {
    /// Sends the request that the phase calls for. Not while another one is under way.
    mutating func send(_ kind: Request.Kind, _ action: inout Action) {
        guard pending == nil, lastNumber < .max else { return }
        if kind == .setup, !hasRecord {
            hasRecord = true
            action.records.append(.write(generation: generation, token: nil, reference: nil))
        }
        lastNumber += 1
        let request = Request(
            kind: kind, generation: generation, number: lastNumber, sentAt: now, timeout: timeout(of: kind),
            token: token, reference: reference)
        pending = request
        nextAttempt = nil
        action.send = request
    }

    private func timeout(of kind: Request.Kind) -> Int64 {
        switch kind {
        case .setup: policy.requestTimeout
        case .beat: min(policy.requestTimeout, interval / 4)
        case .teardown: min(policy.requestTimeout, max(policy.teardownWindow, 1))
        }
    }

    mutating func cancelPending(_ action: inout Action) {
        guard let pending else { return }
        if action.send == pending { action.send = nil } else { action.cancels = pending }
        self.pending = nil
    }

    mutating func removeRecord(_ action: inout Action) {
        guard hasRecord else { return }
        hasRecord = false
        action.records.append(.remove(generation: generation))
    }

    mutating func leaveRecord(_ action: inout Action) {
        guard hasRecord else { return }
        hasRecord = false
        action.records.append(.leave(generation: generation))
    }

    // MARK: Answers

    mutating func receive(
        _ reply: Reply, to request: Request, _ action: inout Action, _ random: inout some RandomNumberGenerator
    ) {
        guard let pending, pending.number == request.number else {
            return disposeOfStray(reply, request, &action)
        }
        self.pending = nil
        switch (reply, request.kind) {
        case (.failed(let failure), _): fail(request.kind, failure, &action, &random)
        case (.granted(let grant), .setup): setUp(grant, request, &action, &random)
        case (.granted(let grant), .beat): accept(grant, sentAt: request.sentAt, &action, &random)
        case (.granted, .teardown): finishTeardown(isGone: true, &action)
        }
    }

    /// A setup that nobody waits for any more was granted after all.
    private func disposeOfStray(_ reply: Reply, _ request: Request, _ action: inout Action) {
        guard request.kind == .setup, request.number != grantedSetup, case .granted(let grant) = reply else { return }
        // A server that knows the client's own number takes a repeated setup for the same session.
        guard request.generation != generation || !policy.endsUnconfirmed else { return }
        action.dispose = Stray(generation: request.generation, token: grant.token, reference: grant.reference)
    }

    mutating func fail(
        _ kind: Request.Kind, _ failure: SessionFailure, _ action: inout Action,
        _ random: inout some RandomNumberGenerator
    ) {
        switch kind {
        case .setup: failSetup(failure, &action, &random)
        case .beat: failBeat(failure, &action, &random)
        case .teardown: failTeardown(failure, &action, &random)
        }
    }

    // MARK: Grants

    private mutating func setUp(
        _ grant: SessionGrant, _ request: Request, _ action: inout Action, _ random: inout some RandomNumberGenerator
    ) {
        grantedSetup = request.number
        if phase == .tearingDown {
            token = grant.token
            reference = grant.reference
            return send(.teardown, &action)
        }
        if let interval = grant.interval, !SessionPolicy.intervals.contains(interval) {
            token = grant.token
            reference = grant.reference
            let failure = SessionFailure(
                .refused,
                message: "\(grant.intervalPlace) has a heartbeat interval of \(interval) ms; "
                    + "it must be from 5 s to 24 h")
            return deny(failure, &action)
        }
        accept(grant, sentAt: request.sentAt, isFirst: true, &action, &random)
        action.notices.append(.established)
    }

    /// The server has taken a request: the lease counts from when it was sent.
    mutating func accept(
        _ grant: SessionGrant, sentAt: Int64, isFirst: Bool = false, _ action: inout Action,
        _ random: inout some RandomNumberGenerator
    ) {
        if let interval = grant.interval, SessionPolicy.intervals.contains(interval) { self.interval = interval }
        if let missedBeats = grant.missedBeats {
            self.missedBeats = Self.clamp(missedBeats, SessionPolicy.missedBeatCounts)
        }
        let known = (token, reference)
        token = grant.token ?? token
        reference = grant.reference ?? reference
        if known.0 != token || known.1 != reference {
            action.records.append(.write(generation: generation, token: token, reference: reference))
        }
        phase = .active
        acceptedAt = sentAt
        leaseEnd = sentAt + interval * missedBeats - policy.safety
        attempts = 0
        windowEnd = nil
        failure = nil
        hasRefreshedCredential = false
        if !isFirst { retryBudget = min(retryBudget + 1, policy.retryReserve * 10) }
        nextAttempt = max(now, sentAt + part(isFirst ? 0.05 : 0.5, 0.8, of: interval, &random))
        if policy.isKeptByLicences { (nextAttempt, leaseEnd) = (nil, .max) }
    }

    mutating func adopt(
        _ grant: SessionGrant, sentAt: Int64, _ action: inout Action, _ random: inout some RandomNumberGenerator
    ) {
        let sentAt = min(sentAt, now)
        switch phase {
        case .idle, .dormant, .denied, .lost:
            generation += 1
            hasRecord = true
            action.records.append(.write(generation: generation, token: nil, reference: nil))
            accept(grant, sentAt: sentAt, isFirst: true, &action, &random)
            action.notices.append(.established)
        case .active, .grace:
            guard sentAt > acceptedAt else { return }
            cancelPending(&action)
            accept(grant, sentAt: sentAt, &action, &random)
        case .settingUp, .verifying, .tearingDown, .closed:
            action.dispose = Stray(generation: generation, token: grant.token, reference: grant.reference)
        }
    }

    // MARK: Retries

    /// Milliseconds until the next attempt: equal jitter, and what the server asks for.
    mutating func backoff(
        _ base: Int64, retryAfter: Int64?, _ random: inout some RandomNumberGenerator
    ) -> Int64 {
        let ceiling = min(policy.retryCap, base << Int64(min(attempts, 16)))
        attempts += 1
        let delay = part(0.5, 1, of: ceiling, &random)
        guard let asked = retryAfter else { return delay }
        let retryAfter = Self.clamp(asked, 0...SessionPolicy.intervals.upperBound)
        return max(delay, retryAfter + part(0, 0.25, of: min(retryAfter, 20_000), &random))
    }
}
