// SPDX-License-Identifier: MPL-2.0

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

    /// Whether licences are only for requests that show the token of a session.
    public var guardsLicences = false
    /// How many seconds the clock that `Date` and `Expires` come from is ahead; negative: behind.
    public var clockSkew = 0

    /// Two sessions an account, heartbeats of a minute, and nobody has to authenticate.
    public init() {}
}
