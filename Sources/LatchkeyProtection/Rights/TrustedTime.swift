// SPDX-License-Identifier: MPL-2.0

/// What the trusted clock says at one moment.
public struct TrustedTime: Hashable, Sendable {
    /// Why the time can be relied on, or why not.
    public enum Trust: Hashable, Sendable {
        /// Set by signed time since the machine started.
        case signed
        /// The system clock's, which has not gone back as far as this device knows.
        case observed
        /// The clock was never set, or stands where it stands when it lost its power.
        case unset
        /// The system clock was set back, and no signed time has come since.
        case rolledBack
    }

    /// Where the time comes from.
    public var trust: Trust

    /// The present, where `isTrusted`; else the latest time that the clock took for good.
    public var time: UnixTime

    /// Seconds that the machine has been running since the clock lost its trust, as far as this device knows; 0 while it
    /// is trusted.
    public var untrustedSeconds: Int64

    /// The latest time that a service vouched for, however long ago: the present is certainly not earlier. Nil where
    /// none ever did.
    public var latestSigned: UnixTime?

    /// For clocks of one's own. `untrustedSeconds` is 0 where the time is trusted.
    public init(trust: Trust, time: UnixTime, untrustedSeconds: Int64 = 0, latestSigned: UnixTime? = nil) {
        self.trust = trust
        self.time = time
        self.latestSigned = latestSigned
        self.untrustedSeconds = untrustedSeconds
    }

    /// Whether dates may be judged by `time`.
    public var isTrusted: Bool { trust == .signed || trust == .observed }
}
