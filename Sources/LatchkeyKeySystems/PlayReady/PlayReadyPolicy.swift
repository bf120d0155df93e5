// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Whether a license may be used: a function of its terms and the situation, without a clock of its own.
///
/// What has to do with time is decided by `RightsStatus.init(of:at:for:)`, which is the same for all licenses; what is
/// PlayReady's own is decided here. The rules are those of Microsoft's "License and policies"
/// (<https://learn.microsoft.com/playready/overview/license-and-policies>). Times of licenses are seconds since 1970. A
/// value; thread-safe.
public struct PlayReadyPolicy: Hashable, Sendable {
    /// The limits and rights that the license carries.
    public let terms: XMRTerms
    /// The license's own identifier.
    public let rightsID: GUID

    /// For terms whose license was not opened, as a service has them.
    public init(terms: XMRTerms, rightsID: GUID) {
        self.terms = terms
        self.rightsID = rightsID
    }

    /// The rules of a license that was opened.
    public init(_ license: PlayReadyLicense) { self.init(terms: license.terms, rightsID: license.xmr.rightsID) }

    /// How the grace period is read. Its meaning is not in a public document.
    public enum GraceRule: Hashable, Sendable {
        /// So long may a license with dates be used after the clock has lost its trust.
        case whileTimeIsUntrusted
        /// So long may a license be used after its end.
        case afterEnd
    }

    /// Everything outside the license that counts.
    public struct Situation: Hashable, Sendable {
        /// The present, and how far it can be trusted.
        public var time: TrustedTime
        /// When the first sample was decrypted for playing; nil where that has not happened.
        public var firstPlay: UInt32?
        /// When the license was stored; nil for one that is in memory only.
        public var stored: UInt32?
        /// The device's, as its certificate says it.
        public var securityLevel: UInt32
        /// The nonce of the request that brought the license in this session; nil where it came from a store.
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
        /// Whether the license is in use at this moment.
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

    /// Whether the license may be used in a situation, and what follows from using it.
    public struct Verdict: Hashable, Sendable {
        /// How the rights stand, with the dates that decide it and why in words.
        public var rights: RightsStatus
        /// Why the license may not be used; nil where it may.
        public var error: PlayReadyError?
        /// Seconds that the license lasts from the first play, where that has not happened yet.
        public var expiresAfterFirstPlay: UInt32?
        /// The license can be deleted.
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

extension PlayReadyPolicy {
    /// Judges the license in a situation.
    public func evaluate(_ situation: Situation) -> Verdict {
        let rights = rights(in: situation)
        let use: RightsStatus.Use = situation.isPlaying ? .continuing : .start
        var verdict = Verdict(RightsStatus(of: rights, at: situation.time, for: use))
        verdict.error = Self.error(of: verdict.rights, for: use)
        if let error = refusal(situation) {
            (verdict.rights.kind, verdict.rights.reason) = (.none, error.description)
            verdict.error = error
        }
        verdict.expiresAfterFirstPlay = situation.firstPlay == nil ? terms.playDuration : nil
        if situation.time.isTrusted {
            verdict.isRemovable = rights.removal.map { situation.time.time >= $0 } ?? false
        }
        return verdict
    }

    /// What the terms say of time, with what the device keeps of the license.
    private func rights(in situation: Situation) -> Rights {
        func date(_ seconds: UInt32?) -> UnixTime? { seconds.map { UnixTime(seconds: Int64($0)) } }
        var rights = Rights(
            begins: date(terms.begin == 0 ? nil : terms.begin), ends: date(terms.end), removal: date(terms.removalDate),
            expiresAfterFirstPlay: terms.playDuration, firstPlay: date(situation.firstPlay),
            expiresAfterStored: terms.expirationAfterFirstStore, stored: date(situation.stored),
            isRealTimeExpiration: terms.hasRealTimeExpiration, grace: terms.gracePeriod)
        if situation.graceRule == .afterEnd, let grace = terms.gracePeriod {
            rights.ends = rights.ends?.advanced(bySeconds: Int64(grace))
            rights.expiresAfterStored = rights.expiresAfterStored.map { Self.sum($0, grace) }
            rights.grace = nil
        }
        return rights
    }

    /// What a refusal for time is called.
    private static func error(of rights: RightsStatus, for use: RightsStatus.Use) -> PlayReadyError? {
        switch rights.kind {
        case .valid: nil
        case .none: .licenseNotFound(rights.reason)
        case .future: .licenseNotYetValid(rights.reason)
        case .expired:
            use == .continuing
                ? .licenseRealTimeExpired("\(rights.reason); get a new one")
                : .licenseExpired("\(rights.reason); get a new one")
        case .untrustedTime: .clockNotSet(rights.reason)
        }
    }

    /// Judges a leaf license with its root: both have to allow the use, and the earlier end counts.
    ///
    /// `root` nil stands for a root that is not there.
    public static func evaluate(leaf: PlayReadyPolicy, root: PlayReadyPolicy?, _ situation: Situation) -> Verdict {
        func missing(_ text: String) -> Verdict {
            let error = PlayReadyError.rootLicenseMissing(text)
            return Verdict(RightsStatus(kind: .none, reason: error.description), error)
        }
        guard let root else {
            return missing("get the license with KID \(leaf.terms.uplinkText)")
        }
        guard leaf.terms.uplink?.keyID == root.terms.key?.keyID else {
            return missing("the root is another one than KID \(leaf.terms.uplinkText)")
        }
        let (lower, upper) = (leaf.evaluate(situation), root.evaluate(situation))
        var verdict = upper.mayPlay ? lower : upper
        verdict.rights.begins = [lower.rights.begins, upper.rights.begins].compactMap(\.self).max()
        verdict.rights.ends = [lower.rights.ends, upper.rights.ends].compactMap(\.self).min()
        verdict.rights.stops = [lower.rights.stops, upper.rights.stops].compactMap(\.self).min()
        verdict.isRemovable = lower.isRemovable || upper.isRemovable
        return verdict
    }

    /// What has nothing to do with time.
    private func refusal(_ situation: Situation) -> PlayReadyError? {
        let level = terms.minimumSecurityLevel ?? 0
        guard UInt32(level) <= situation.securityLevel else {
            return .securityLevel("the license asks for \(level), the device has \(situation.securityLevel)")
        }
        guard terms.allowsPlayback else { return .rightNotAvailable("the license does not allow playback") }
        if terms.cannotPersist {
            guard situation.stored == nil, situation.sessionNonce == rightsID.uuidOrderBytes else {
                return .sessionOnly("get a new license")
            }
        }
        if let domain = terms.domain {
            guard let revisions = situation.domains[domain.accountID] else {
                return .domainRequired("join domain \(domain.accountID)")
            }
            guard revisions.contains(domain.revision) else {
                return .domainKeyMissing("join domain \(domain.accountID) again, for revision \(domain.revision)")
            }
        }
        if let source = terms.sourceID, let allowed = situation.allowedSources, !allowed.contains(source) {
            return .rightNotAvailable("content of source \(source) may not be played")
        }
        if let wanted = terms.revocationInformationVersion, let version = situation.revocationInformationVersion,
            version < wanted
        {
            return .unsupportedLicense("it needs revocation information \(wanted); get a new license to have it")
        }
        if terms.meteringID != nil, !situation.canMeter { return .unsupportedLicense("it asks for metering") }
        if terms.secureStopID != nil, !situation.canStopSecurely {
            return .unsupportedLicense("it asks for secure stop")
        }
        return nil
    }

    /// The largest number that there is, where the sum is beyond.
    private static func sum(_ start: UInt32, _ duration: UInt32) -> UInt32 {
        let (time, overflow) = start.addingReportingOverflow(duration)
        return overflow ? .max : time
    }
}

extension XMRTerms {
    /// Seconds from the first play; the earlier of the two objects that say so.
    var playDuration: UInt32? { [expirationAfterFirstPlay, expirationAfterFirstUse].compactMap(\.self).min() }

    fileprivate var uplinkText: String { uplink?.keyID.description ?? "?" }
}
