// SPDX-License-Identifier: MPL-2.0

/// When a license may be used: the dates and terms that it carries, and when it was first used.
///
/// Dates come from the license service's clock. Everything is optional: a license without any of it may be used at any
/// time. `RightsStatus.init(of:at:for:)` enforces it.
public struct Rights: Hashable, Sendable {
    /// No use before this moment; nil for no limit.
    public var begins: UnixTime?
    /// No use from this moment on; nil for no end.
    public var ends: UnixTime?
    /// From then on, the license counts as taken out of the store, whether it was or not.
    public var removal: UnixTime?
    /// Seconds for which the license may be used after it was first used for playing.
    public var expiresAfterFirstPlay: UInt32?
    /// When the license was first used for playing, where it was. Not in the license: the device keeps it.
    public var firstPlay: UnixTime?
    /// Seconds for which the license may be used after it was stored.
    public var expiresAfterStored: UInt32?
    /// When the license was stored; nil for one that is in memory only. The device keeps it.
    public var stored: UnixTime?
    /// Whether the time after the first play ends playing that is under way, too. Without it, only a new start is
    /// refused. Other dates always end playing.
    public var isRealTimeExpiration: Bool
    /// Seconds of running time for which the license may be used while the clock is not trusted, in all, until the
    /// clock is repaired.
    public var grace: UInt32?
    /// Whether the license asks for a clock that was set by signed time, where it has dates.
    public var requiresSignedTime: Bool

    /// Without arguments: rights that no date limits. Durations are seconds.
    public init(
        begins: UnixTime? = nil, ends: UnixTime? = nil, removal: UnixTime? = nil, expiresAfterFirstPlay: UInt32? = nil,
        firstPlay: UnixTime? = nil, expiresAfterStored: UInt32? = nil, stored: UnixTime? = nil,
        isRealTimeExpiration: Bool = false, grace: UInt32? = nil, requiresSignedTime: Bool = false
    ) {
        self.begins = begins
        self.ends = ends
        self.removal = removal
        self.expiresAfterFirstPlay = expiresAfterFirstPlay
        self.firstPlay = firstPlay
        self.expiresAfterStored = expiresAfterStored
        self.stored = stored
        self.isRealTimeExpiration = isRealTimeExpiration
        self.grace = grace
        self.requiresSignedTime = requiresSignedTime
    }

    /// Seconds that the first play, or the storing, may lie after the present: the clock may have been corrected since, by
    /// what license services put up with (“Policies, best practices” of PlayReady’s public documentation). A mark that
    /// lies further ahead was made with a clock that was wrong, and must not lengthen the license.
    public static let markTolerance: Int64 = 3600

    /// Whether time decides about the license. What is not date-based is never disabled by a clock that was set back.
    public var isDateBased: Bool { begins != nil || hasEnd }

    /// Whether the license ends some day.
    public var hasEnd: Bool {
        ends != nil || removal != nil || expiresAfterFirstPlay != nil || expiresAfterStored != nil
    }
}
