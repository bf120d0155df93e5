// SPDX-License-Identifier: MPL-2.0

/// One viewing session: a value that events change, and that says what to do.
///
/// It has no clock, no timer, no network and no randomness of its own. Times are milliseconds by any clock that never goes
/// back and goes on while the machine sleeps (`CLOCK_BOOTTIME`). The caller calls `handle` with `.tick` when `deadline`
/// comes.
///
/// - At most one request is under way. An answer counts only if it is for that request.
/// - The lease runs from the time at which the last accepted request was *sent*. At its end the gate closes, whatever
///   else is going on.
/// - Before a server can know of a session, the session is written down; the note goes when the server has ended it.
public struct SessionState: Equatable, Sendable {
    /// Where the end of a session leads to.
    enum Ending: Equatable, Sendable {
        case closed, lost, denied, dormant
    }

    /// As it was made with; it does not change.
    public var policy: SessionPolicy { rules.policy }
    /// Shared by copies: a server of clients has many states with one policy.
    let rules: Rules
    /// Changed by `handle` alone.
    public internal(set) var phase = Phase.idle
    /// Counts setups. Answers to requests of an earlier one change nothing.
    public internal(set) var generation: UInt32 = 0
    /// The request that is under way; nil for none.
    public internal(set) var pending: Request?
    /// The server's latest; nil before a setup was granted and after a teardown. A secret.
    public internal(set) var token: SessionToken?
    /// The server's name for the session; nil as for `token`.
    public internal(set) var reference: String?
    /// Milliseconds between heartbeats, as the server last said.
    public internal(set) var interval: Int64
    /// How many intervals the server waits for a heartbeat, as it last said.
    public internal(set) var missedBeats: Int64
    /// Why the session was denied or lost.
    public internal(set) var failure: SessionFailure?

    /// By the latest event; never goes back.
    var now: Int64 = .min
    /// Playback must not go on from here.
    var leaseEnd: Int64 = .min
    /// When the accepted request was sent that the lease counts from.
    var acceptedAt: Int64 = .min
    /// When the next request is due.
    var nextAttempt: Int64?
    /// Failures one after another.
    var attempts = 0
    /// In tenths of a retry.
    var retryBudget: Int
    /// When setting up, verifying or tearing down is given up.
    var windowEnd: Int64?
    /// When the application must have brought a credential.
    var credentialEnd: Int64?
    var hasRefreshedCredential = false
    var hasReplaced = false
    var hasRecord = false
    /// A setup had no answer: the server may hold the session.
    var isUnconfirmed = false
    /// The setup that was granted, so that its answer is not taken for another session's when it comes twice.
    var grantedSetup: UInt32 = 0
    var isPaused = false
    var isInBackground = false
    /// Paused or suspended since then. In the background alone, what plays keeps the session.
    var awaySince: Int64?
    var isAsleep = false
    var wasLostWhileAway = false
    var ending = Ending.closed
    var startsAgain = false
    var lastNumber: UInt32 = 0

    final class Rules: Equatable, Sendable {
        let policy: SessionPolicy

        init(_ policy: SessionPolicy) { self.policy = policy.bounded }

        static func == (left: Rules, right: Rules) -> Bool { left === right || left.policy == right.policy }
    }

    /// A session that has not started. Intervals and counts outside of what is believed are brought into range.
    public init(policy: SessionPolicy = SessionPolicy()) { self.init(rules: Rules(policy)) }

    /// As many sessions as wanted that share one copy of the policy.
    public static func sessions(_ count: Int, policy: SessionPolicy) -> [SessionState] {
        Array(repeating: SessionState(policy: policy), count: count)
    }

    private init(rules: Rules) {
        self.rules = rules
        let policy = rules.policy
        interval = policy.interval
        missedBeats = policy.missedBeats
        retryBudget = policy.retryReserve * 10
    }

    /// Whether media may be decrypted and shown, as of the latest event. With `.tick` at each `deadline`, that is always.
    public var isOpen: Bool {
        switch phase {
        // Setting up: where the session replaces one whose lease has not run out.
        case .active, .grace, .settingUp: now < leaseEnd
        default: false
        }
    }

    /// The same at a later time, also where the tick for it is late.
    public func isOpen(at time: Int64) -> Bool { isOpen && time < leaseEnd }

    /// Whether the server is believed to hold the session, and heartbeats keep it.
    var isLive: Bool { phase == .active || phase == .grace }

    /// Ended for a pause, or about to be, until playback goes on.
    public var isReleased: Bool { phase == .dormant || phase == .tearingDown && ending == .dormant }

    /// Whether the session ended against our will: playback must not go on.
    package var isLost: Bool { phase == .lost || phase == .tearingDown && ending == .lost }

    /// Whether a heartbeat ahead of its time can tell more than is known. Not where the server has just confirmed the session:
    /// what is refused from the first moment on, for millions of clients, is no reason to ask it twice.
    func canBeChecked(at time: Int64) -> Bool {
        phase == .active && !isAsleep && credentialEnd == nil && !policy.isKeptByLicenses
            && time - acceptedAt >= SessionPolicy.confirmedFor
    }

    /// Whether a pause has lasted for as long as the session is kept for one.
    func isPauseOver(at time: Int64) -> Bool {
        guard let awaySince, isLive else { return false }
        return time >= awaySince + policy.pauseLimit
    }

    /// Whether there is nothing left to do, so that the session can be forgotten.
    public var isOver: Bool { phase == .closed }

    /// When `.tick` is due; nil: never.
    public var deadline: Int64? {
        var earliest = Int64.max
        func consider(_ time: Int64?) { if let time { earliest = min(earliest, time) } }
        if let pending { consider(pending.sentAt + pending.timeout) }
        if !isAsleep, credentialEnd == nil { consider(nextAttempt) }
        consider(credentialEnd)
        consider(windowEnd)
        if isLive || isOpen, leaseEnd < .max { consider(leaseEnd) }
        if let awaySince, isLive { consider(awaySince + policy.pauseLimit) }
        return earliest == .max ? nil : earliest
    }

    /// Takes an event in, and says what to do.
    public mutating func handle(
        _ event: Event, at time: Int64, random: inout some RandomNumberGenerator
    ) -> Action {
        let wasOpen = isOpen
        now = max(now, time)
        var action = Action()
        endLease(event, &action)
        switch event {
        case .start: start(&action)
        case .stop: stop(&action)
        case .tick: tick(&action, &random)
        case .reply(let request, let reply): receive(reply, to: request, &action, &random)
        case .adopt(let grant, let sentAt): adopt(grant, sentAt: sentAt, &action, &random)
        case .credential(let isNew): receiveCredential(isNew, &action, &random)
        case .pause: setAway(paused: true, &action)
        case .awaitPlay: if awaySince != nil, !isAsleep { awaySince = now }
        case .play: setAway(paused: false, &action)
        case .background: isInBackground = true
        case .foreground:
            isInBackground = false
            setAway(&action)
        case .suspend: suspend(&action)
        case .resume: resume(&action, &random)
        case .check: if canBeChecked(at: now) { send(.beat, &action) }
        }
        if isOpen != wasOpen { action.gate = isOpen ? .opened : .closed }
        return action
    }

    static func clamp(_ value: Int64, _ range: ClosedRange<Int64>) -> Int64 {
        min(max(value, range.lowerBound), range.upperBound)
    }

    /// A random part of `value`, from `low` to `high` of it.
    func part(
        _ low: Double, _ high: Double, of value: Int64, _ random: inout some RandomNumberGenerator
    ) -> Int64 {
        Int64(Double(value) * Double.random(in: low...high, using: &random))
    }
}

extension SessionState {
    /// Where a session stands. The raw value is for logs.
    public enum Phase: String, Equatable, Sendable {
        /// Before the first `start`.
        case idle
        /// A setup is under way, or waits for its next try.
        case settingUp
        /// The server holds the session, and the last heartbeat was accepted.
        case active
        /// A heartbeat failed; the server still waits for another one.
        case grace
        /// The process stood still for longer than the server waits. One heartbeat tells what became of the session.
        case verifying
        /// Ended for a pause; another one is set up when playback goes on.
        case dormant
        /// The server refused the session; `failure` says why. `start` asks again.
        case denied
        /// The session ended against our will; `failure` says why. `start` asks for another.
        case lost
        /// A teardown is under way; what comes after it is decided.
        case tearingDown
        /// Over, and nothing is left to do.
        case closed
    }

    // MARK: Setting up

    private mutating func failSetup(
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

    private mutating func failBeat(
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

    private mutating func receiveCredential(
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

    private mutating func beginTeardown(_ ending: Ending, _ action: inout Action) {
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

    private mutating func failTeardown(
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
    private mutating func finishTeardown(isGone: Bool, _ action: inout Action) {
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
    private mutating func forgetTimes() {
        nextAttempt = nil
        windowEnd = nil
        credentialEnd = nil
        leaseEnd = .min
    }
}

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

    private mutating func beginSetup(_ action: inout Action, after delay: Int64 = 0, playingUntil: Int64 = .min) {
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
        if isPauseOver(at: now) { beginTeardown(.dormant, &action) }
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

    private mutating func setAway(paused: Bool? = nil, _ action: inout Action) {
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

    private mutating func cancelPending(_ action: inout Action) {
        guard let pending else { return }
        if action.send == pending { action.send = nil } else { action.cancels = pending }
        self.pending = nil
    }

    private mutating func removeRecord(_ action: inout Action) {
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

    /// A setup that is not waited for any more was granted after all.
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
        if policy.isKeptByLicenses { (nextAttempt, leaseEnd) = (nil, .max) }
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
    private mutating func backoff(
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
