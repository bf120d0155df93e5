// SPDX-License-Identifier: MPL-2.0

/// How strict the trusted clock is.
public struct TrustedClockPolicy: Hashable, Sendable {
    /// Whether the system clock is taken for good as long as it does not go back (an anti-rollback clock). If not, only
    /// signed time counts (a secure clock), which has to come again after each start of the machine.
    public var takesSystemClock = true
    /// Milliseconds by which the system clock may be set back without losing trust, in all, between two signed times or
    /// starts: time services correct clocks that ran ahead.
    public var tolerance: Int64 = 300_000
    /// A system clock that shows an earlier time than this, in milliseconds since 1970, is not set: clocks without a
    /// battery start in 1970 or at the date of some build. 2026-01-01.
    public var earliestTime: Int64 = 1_767_225_600_000
    /// Milliseconds that a signed time may take from request to response. The true time may be so much later.
    public var maximumRoundTrip: Int64 = 60_000
    /// Milliseconds after which the latest good time is written again.
    public var saveInterval: Int64 = 60_000

    /// The defaults above: an anti-rollback clock.
    public init() {}
}
