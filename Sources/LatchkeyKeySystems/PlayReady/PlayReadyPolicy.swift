// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Whether a licence may be used: a function of its terms and the situation, without a clock of its own.
///
/// What has to do with time is decided by `RightsStatus.init(of:at:for:)`, which is the same for all licences; what is
/// PlayReady's own is decided here. The rules are those of Microsoft's "License and policies"
/// (<https://learn.microsoft.com/playready/overview/license-and-policies>). Times of licences are seconds since 1970. A
/// value; thread-safe.
public struct PlayReadyPolicy: Hashable, Sendable {
    /// The limits and rights that the licence carries.
    public let terms: XMRTerms
    /// The licence's own identifier.
    public let rightsID: GUID

    /// For terms whose licence was not opened, as a service has them.
    public init(terms: XMRTerms, rightsID: GUID) {
        self.terms = terms
        self.rightsID = rightsID
    }

    /// The rules of a licence that was opened.
    public init(_ license: PlayReadyLicense) { self.init(terms: license.terms, rightsID: license.xmr.rightsID) }

    /// How the grace period is read. Its meaning is not in a public document.
    public enum GraceRule: Hashable, Sendable {
        /// So long may a licence with dates be used after the clock has lost its trust.
        case whileTimeIsUntrusted
        /// So long may a licence be used after its end.
        case afterEnd
    }

    /// Everything outside the licence that counts.
    public struct Situation: Hashable, Sendable {
        /// The present, and how far it can be trusted.
        public var time: TrustedTime
        /// When the first sample was decrypted for playing; nil where that has not happened.
        public var firstPlay: UInt32?
        /// When the licence was stored; nil for one that is in memory only.
        public var stored: UInt32?
        /// The device's, as its certificate says it.
        public var securityLevel: UInt32
        /// The nonce of the request that brought the licence in this session; nil where it came from a store.
        public var sessionNonce: [UInt8]?
        /// The domains that the device is a member of, with the revisions that it has keys of.
        public var domains: [GUID: Set<UInt32>]
        /// The sources that may be played; nil for all.
        public var allowedSources: Set<UInt32>?
        /// The version of the revocation information that the device has; nil where it keeps none.
        public var revocationInformationVersion: UInt32?
        /// Whether something counts for metering.
        public var canMeter: Bool
        /// Whether something reports the end of sessions.
        public var canStopSecurely: Bool
        /// Whether the licence is in use at this moment.
        public var isPlaying: Bool
        /// How a grace period is read.
        public var graceRule: GraceRule

        /// The defaults are the strict ones: no domains, no metering, no secure stop. Times are seconds since 1970.
        public init(
            time: TrustedTime, securityLevel: UInt32, firstPlay: UInt32? = nil, stored: UInt32? = nil,
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

    /// Whether the licence may be used in a situation, and what follows from using it.
    public struct Verdict: Hashable, Sendable {
        /// How the rights stand, with the dates that decide it and why in words.
        public var rights: RightsStatus
        /// Why the licence may not be used; nil where it may.
        public var error: PlayReadyError?
        /// Seconds that the licence lasts from the first play, where that has not happened yet.
        public var expiresAfterFirstPlay: UInt32?
        /// The licence can be deleted.
        public var isRemovable = false

        /// How the rights stand, without the dates.
        public var status: RightsStatus.Kind { rights.kind }
        /// Whether samples may be decrypted now.
        public var mayPlay: Bool { status == .valid }

        init(_ rights: RightsStatus, _ error: PlayReadyError? = nil) {
            self.rights = rights
            self.error = error
        }
    }
}
