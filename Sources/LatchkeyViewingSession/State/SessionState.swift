// SPDX-License-Identifier: MPL-2.0

/// One viewing session: a value that events change, and that says what to do.
///
/// It has no clock, no timer, no network and no randomness of its own. Times are milliseconds by any clock that never
/// goes back and goes on while the machine sleeps (`CLOCK_BOOTTIME`). Whoever drives it calls `handle` with `.tick` when
/// `deadline` comes.
///
/// - At most one request is under way. An answer counts only where it is for that request.
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
        case .play: setAway(paused: false, &action)
        case .background: isInBackground = true
        case .foreground:
            isInBackground = false
            setAway(&action)
        case .suspend: suspend(&action)
        case .resume: resume(&action, &random)
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
