// SPDX-License-Identifier: MPL-2.0

/// The viewing sessions of all accounts. A value: the time and the tokens come from outside.
struct SessionBook {
    /// Sessions that are kept, those that are over included. Above this, nobody gets one.
    static let limit = 200_000
    /// How long it is remembered that a session is over, and why.
    static let memory = Duration.seconds(600)

    struct Session: Equatable {
        let id: String
        let account: String
        let device: String
        let group: String
        let content: String
        /// Ends this session, sent with the setup of another one.
        let terminationCode: String
        var token: String
        /// Its use is forgiven until a newer one is used: the answers that brought newer ones may have been lost.
        var previousToken: String?
        var lastHeard: Duration
        /// Counts up: the smallest is the oldest.
        let order: Int
        /// Why it is over.
        var end: End?
    }

    enum End: String {
        case teardown = "ended by the client"
        case expired = "no heartbeat in time"
        case terminated = "ended for another session"
        case administrator = "ended by the administrator"
    }

    enum Refusal: Error, Equatable {
        case limit([Session])
        case tokenUnknown
        case over(End)
        case sessionUnknown
        /// The name is that of a session of another account.
        case nameTaken
        case full
    }

    struct Counters: Equatable {
        var setups = 0
        var refusals = 0
        var beats = 0
        var refusedBeats = 0
        /// Heartbeats later than one interval after the one before.
        var lateBeats = 0
        var ends: [End: Int] = [:]
    }

    let settings: SessionSettings
    private(set) var sessions: [String: Session] = [:]
    private(set) var counters = Counters()
    private var lastOrder = 0
    private var nextSweep = Duration.zero

    init(settings: SessionSettings) { self.settings = settings }

    private var patience: Duration { .seconds(settings.interval * settings.missedBeats) }

    /// Sessions that count, oldest first.
    func live(at now: Duration) -> [Session] {
        sessions.values.filter { $0.end == nil && now - $0.lastHeard <= patience }.sorted { $0.order < $1.order }
    }

    /// A new session; for a name that is there already, the same one with another token.
    mutating func setUp(
        _ id: String, account: String, device: String, group: String, content: String, terminating code: String?,
        token: String, terminationCode: String, now: Duration
    ) throws(Refusal) -> Session {
        sweep(now)
        if var known = sessions[id], known.end == nil {
            guard known.account == account else { throw .nameTaken }
            known.previousToken = known.token
            known.token = token
            known.lastHeard = now
            sessions[id] = known
            return known
        }
        if let code, let other = sessions.values.first(where: { $0.terminationCode == code && $0.account == account }) {
            finish(other.id, .terminated, now)
        }
        let own = live(at: now).filter { $0.account == account }
        try makeRoom(among: own, limit: settings.perAccount, now)
        try makeRoom(
            among: own.filter { $0.group == group && sessions[$0.id]?.end == nil }, limit: settings.perDeviceGroup, now)
        guard sessions.count < Self.limit else { throw .full }
        lastOrder += 1
        counters.setups += 1
        let session = Session(
            id: id, account: account, device: device, group: group, content: content,
            terminationCode: terminationCode, token: token, lastHeard: now, order: lastOrder)
        sessions[id] = session
        return session
    }

    private mutating func makeRoom(among own: [Session], limit: Int, _ now: Duration) throws(Refusal) {
        guard limit > 0, own.count >= limit else { return }
        guard settings.atLimit == .oldest, let oldest = own.first else {
            counters.refusals += 1
            throw .limit(own)
        }
        finish(oldest.id, .terminated, now)
    }

    /// Takes a heartbeat, and gives the session the next token. `token` nil: the server's style has none.
    mutating func beat(_ id: String, token: String?, next: String, now: Duration) throws(Refusal) -> Session {
        sweep(now)
        do throws(Refusal) {
            guard var session = sessions[id] else { throw .sessionUnknown }
            if session.end == nil, now - session.lastHeard > patience { finish(id, .expired, now) }
            if let end = sessions[id]?.end { throw .over(end) }
            if let token {
                guard token == session.token || token == session.previousToken else { throw .tokenUnknown }
            }
            counters.beats += 1
            if now - session.lastHeard > .seconds(settings.interval) { counters.lateBeats += 1 }
            if token == nil || token != session.previousToken { session.previousToken = session.token }
            session.token = next
            session.lastHeard = now
            sessions[id] = session
            return session
        } catch {
            counters.refusedBeats += 1
            throw error
        }
    }

    /// The session that one of the tokens is the latest of, or the one before. A license is a sign of life.
    mutating func touch(_ tokens: [String], now: Duration) -> String? {
        sweep(now)
        let found = sessions.values.first { session in
            session.end == nil && now - session.lastHeard <= patience
                && (tokens.contains(session.token) || session.previousToken.map(tokens.contains) == true)
        }
        guard let id = found?.id else { return nil }
        sessions[id]?.lastHeard = now
        return id
    }

    /// Ends a session. Throws where there is none.
    mutating func end(_ id: String, _ end: End, now: Duration) throws(Refusal) {
        guard let session = sessions[id] else { throw .sessionUnknown }
        if let end = session.end { throw .over(end) }
        finish(id, end, now)
    }

    private mutating func finish(_ id: String, _ end: End, _ now: Duration) {
        guard var session = sessions[id], session.end == nil else { return }
        session.end = end
        session.lastHeard = now
        sessions[id] = session
        counters.ends[end, default: 0] += 1
    }

    /// Once a second at most, so that a crowd of clients does not make it slow.
    private mutating func sweep(_ now: Duration) {
        guard now >= nextSweep else { return }
        nextSweep = now + .seconds(1)
        for session in sessions.values {
            if session.end != nil {
                if now - session.lastHeard > Self.memory { sessions[session.id] = nil }
            } else if now - session.lastHeard > patience {
                finish(session.id, .expired, now)
            }
        }
    }
}

/// How the session server counts.
public struct SessionSettings: Sendable, Equatable {
    /// What happens at a limit.
    public enum Limit: String, Sendable, CaseIterable {
        /// The new session is refused, with the list of those that are in its way.
        case refuse
        /// The oldest one is ended.
        case oldest
    }

    /// Sessions that an account may have at once; 0: any number.
    public var perAccount = 2
    /// Sessions that the devices of one group of an account may have at once; 0: any number.
    public var perDeviceGroup = 0
    /// For both limits.
    public var atLimit = Limit.refuse
    /// Seconds between heartbeats, as clients are told.
    public var interval = 60
    /// How many of them may be missing before a session is over.
    public var missedBeats = 3
    /// What clients have to authenticate with; nil: nothing.
    public var credential: String?

    /// Whether licenses are only for requests that show the token of a session.
    public var guardsLicenses = false
    /// How many seconds the clock that `Date` and `Expires` come from is ahead; negative: behind.
    public var clockSkew = 0

    /// Two sessions an account, heartbeats of a minute, and nobody has to authenticate.
    public init() {}
}
