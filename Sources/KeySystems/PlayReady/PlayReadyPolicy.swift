// SPDX-License-Identifier: MPL-2.0

public import MediaFormats

/// Whether a licence may be used: a function of its terms and the situation, without a clock of its own.
///
/// The rules are those of Microsoft's "License and policies"
/// (<https://learn.microsoft.com/playready/overview/license-and-policies>). All times are seconds since 1970. Times that
/// end are exclusive: at the end itself a licence is expired. A value; thread-safe.
public struct PlayReadyPolicy: Hashable, Sendable {
    /// Seconds that a first play, or the storing, may lie after the present: the clock may have been corrected since. What
    /// lies further ahead was noted with a clock that was wrong, and must not lengthen the licence.
    public static let markTolerance: UInt32 = 3600

    public let terms: XMRTerms
    public let rightsID: GUID

    public init(terms: XMRTerms, rightsID: GUID) {
        self.terms = terms
        self.rightsID = rightsID
    }

    public init(_ license: PlayReadyLicense) { self.init(terms: license.terms, rightsID: license.xmr.rightsID) }

    /// What is known of the time.
    public enum Time: Hashable, Sendable {
        case trusted(UInt32)
        /// There is a clock, and nobody vouches for it. `since` is for how many seconds that has been so, counted by a
        /// clock that only goes forward; nil where that is not known either. `latest` is the last time that was taken for
        /// good, when `since` began; nil where there was none.
        case untrusted(since: UInt32?, latest: UInt32? = nil)
    }

    /// How the grace period is read. Its meaning is not in a public document.
    public enum GraceRule: Hashable, Sendable {
        /// So long may a licence with dates be used after the clock has lost its trust.
        case whileTimeIsUntrusted
        /// So long may a licence be used after its end.
        case afterEnd
    }

    /// Everything outside the licence that counts.
    public struct Situation: Hashable, Sendable {
        public var time: Time
        /// When the first sample was decrypted for playing; nil where that has not happened.
        public var firstPlay: UInt32?
        /// When the licence was stored; nil for one that is in memory only.
        public var stored: UInt32?
        public var securityLevel: UInt32
        /// The nonce of the request that brought the licence in this session; nil where it came from a store.
        public var sessionNonce: [UInt8]?
        /// The domains that the device is a member of, with the revisions that it has keys of.
        public var domains: [GUID: Set<UInt32>]
        /// The sources that may be played; nil for all.
        public var allowedSources: Set<UInt32>?
        /// The version of the revocation information that the device has; nil where it keeps none.
        public var revocationInformationVersion: UInt32?
        /// Whether something counts for metering, and whether something reports the end of sessions.
        public var canMeter: Bool
        public var canStopSecurely: Bool
        /// Whether the licence is in use at this moment.
        public var isPlaying: Bool
        public var graceRule: GraceRule

        public init(
            time: Time, securityLevel: UInt32, firstPlay: UInt32? = nil, stored: UInt32? = nil,
            sessionNonce: [UInt8]? = nil, domains: [GUID: Set<UInt32>] = [:], allowedSources: Set<UInt32>? = nil,
            revocationInformationVersion: UInt32? = nil, canMeter: Bool = false, canStopSecurely: Bool = false,
            isPlaying: Bool = false, graceRule: GraceRule = .whileTimeIsUntrusted
        ) {
            self.time = time
            self.securityLevel = securityLevel
            self.firstPlay = firstPlay
            self.stored = stored
            self.sessionNonce = sessionNonce
            self.domains = domains
            self.allowedSources = allowedSources
            self.revocationInformationVersion = revocationInformationVersion
            self.canMeter = canMeter
            self.canStopSecurely = canStopSecurely
            self.isPlaying = isPlaying
            self.graceRule = graceRule
        }
    }

    /// The state of the rights.
    public enum Status: String, Hashable, Sendable {
        case valid
        /// There is no right to play, or it is not for this device, domain or session.
        case none
        case future
        case expired
        /// It depends on the date, and there is no trusted time.
        case untrustedTime
    }

    public struct Verdict: Hashable, Sendable {
        public var status: Status
        /// Why the licence may not be used; nil where it may.
        public var error: PlayReadyError?
        /// From when and until when it can be used, as far as dates say; the end already counts from the first play.
        public var begin: UInt32?
        public var end: UInt32?
        /// When playing that is under way has to stop. The time after the first play only counts where the licence says
        /// so (real-time expiration).
        public var stop: UInt32?
        /// Seconds that the licence lasts from the first play, where that has not happened yet.
        public var expiresAfterFirstPlay: UInt32?
        /// The licence can be deleted.
        public var isRemovable = false

        public var mayPlay: Bool { status == .valid }

        init(_ status: Status, _ error: PlayReadyError? = nil) {
            self.status = status
            self.error = error
        }
    }
}
