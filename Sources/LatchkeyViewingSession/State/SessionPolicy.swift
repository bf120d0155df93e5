// SPDX-License-Identifier: MPL-2.0

/// How a session is set up, kept and ended. Milliseconds throughout.
///
/// The defaults are chosen for a crowd: with a million clients, they keep the load of the server even and bring it back
/// gently after an outage. `Tests/Benchmarks/session-herd` shows what other values do.
public struct SessionPolicy: Hashable, Sendable {
    /// Time between two heartbeats as the server counts it, where its answers name none.
    public var interval: Int64 = 60_000
    /// How many intervals the server waits for a heartbeat before it gives the session up, where its answers name none.
    public var missedBeats: Int64 = 3
    /// Playback ends this long before the server gives the session up.
    public var safety: Int64 = 2_000
    /// The longest wait for an answer. A heartbeat never waits longer than a quarter of the interval.
    public var requestTimeout: Int64 = 10_000
    /// The first retry comes after this, each further one after twice as long, up to `retryCap`; shortened at random by
    /// up to one half.
    public var retryBase: Int64 = 8_000
    /// The longest wait between retries, before it is shortened at random.
    public var retryCap: Int64 = 30_000
    /// How many retries may follow each other at once. Each heartbeat earns a tenth of another one. Without any left, a
    /// failed heartbeat is tried again when the next one is due.
    public var retryReserve = 12
    /// How long a session may take to be set up, with all retries.
    public var setupWindow: Int64 = 25_000
    /// How long the application may take for a new credential.
    public var credentialWindow: Int64 = 10_000
    /// How long ending a session is tried at once. What fails is left for the next start.
    public var teardownWindow: Int64 = 2_000
    /// Paused or suspended for so long, the session is ended and set up again when playback goes on.
    public var pauseLimit: Int64 = 1_800_000
    /// Whether a session that the server has ended is set up again, once, before playback stops.
    public var replacesEndedSession = false
    /// Whether a session that was lost while the machine slept, or the application was in the background, is set up
    /// again.
    public var replacesSessionAfterAbsence = true
    /// Whether the session is ended when the machine goes to sleep.
    public var endsBeforeSleep = false
    /// Whether licenses keep the session, each renewal being a heartbeat to the server that gives them: then no heartbeats
    /// are sent, and the leases of keys are what ends playback.
    public var isKeptByLicenses = false
    /// Whether the server can end a session that it never confirmed, by the number that the client gave it.
    public var endsUnconfirmed = true

    /// Heartbeat intervals that are believed: 5 s to 24 h.
    public static let intervals: ClosedRange<Int64> = 5_000...86_400_000
    /// Numbers of missed heartbeats that are believed.
    public static let missedBeatCounts: ClosedRange<Int64> = 2...1000
    /// A timer that is later than this says that the process stood still.
    static let lateness: Int64 = 5_000
    /// While a session takes the place of one that the server has ended, what plays goes on for so long.
    static let replacementTime: Int64 = 1_000
    /// For so long after a request that the server has accepted, it is believed to have the session.
    static let confirmedFor: Int64 = 1_000
    /// What depends on the answer to a heartbeat ahead of its time waits for so long.
    static let checkPatience: Int64 = 2_000
    /// Sessions that sleep has ended come back spread over this time.
    static let returnSpread: Int64 = 5_000

    /// The longest of the times above that counts, a year: an application may say `.max` for “never”.
    private static let longestTime: Int64 = 365 * 86_400_000

    /// The same, with nothing in it that overflows when it is added up.
    var bounded: SessionPolicy {
        var policy = self
        let times: [WritableKeyPath<SessionPolicy, Int64>] = [
            \.safety, \.requestTimeout, \.retryBase, \.retryCap, \.setupWindow, \.credentialWindow, \.teardownWindow,
            \.pauseLimit,
        ]
        for time in times { policy[keyPath: time] = SessionState.clamp(policy[keyPath: time], 0...Self.longestTime) }
        // A pause that begins anew must not be over at once.
        policy.pauseLimit = max(policy.pauseLimit, 1)
        policy.interval = SessionState.clamp(interval, Self.intervals)
        policy.missedBeats = SessionState.clamp(missedBeats, Self.missedBeatCounts)
        policy.retryReserve = min(max(retryReserve, 0), 1_000_000)
        return policy
    }

    /// The defaults above.
    public init() {}
}
