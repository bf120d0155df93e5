// SPDX-License-Identifier: MPL-2.0

import MediaFormats
import ProtectionModel

extension PlayReadyPolicy {
    /// Judges the licence in a situation.
    public func evaluate(_ situation: Situation) -> Verdict {
        var verdict = judgeTime(situation)
        if let error = refusal(situation) {
            verdict.status = .none
            verdict.error = error
        }
        verdict.begin = (terms.begin ?? 0) == 0 ? nil : terms.begin
        let end = end(situation, at: situation.time.trusted)
        verdict.end = end?.time
        let stop = terms.hasRealTimeExpiration ? end?.time : end?.absolute
        verdict.stop = [stop, terms.removalDate].compactMap(\.self).min()
        verdict.expiresAfterFirstPlay = situation.firstPlay == nil ? terms.playDuration : nil
        if let now = situation.time.trusted {
            verdict.isRemovable = terms.removalDate.map { now >= $0 } ?? false
        }
        return verdict
    }

    /// Judges a leaf licence with its root: both have to allow the use, and the earlier end counts.
    ///
    /// `root` nil stands for a root that is not there.
    public static func evaluate(leaf: PlayReadyPolicy, root: PlayReadyPolicy?, _ situation: Situation) -> Verdict {
        guard let root else {
            return Verdict(.none, .rootLicenseMissing("get the licence with KID \(leaf.terms.uplinkText)"))
        }
        guard leaf.terms.uplink?.keyID == root.terms.key?.keyID else {
            return Verdict(.none, .rootLicenseMissing("the root is another one than KID \(leaf.terms.uplinkText)"))
        }
        let (lower, upper) = (leaf.evaluate(situation), root.evaluate(situation))
        var verdict = upper.mayPlay ? lower : upper
        verdict.begin = [lower.begin, upper.begin].compactMap(\.self).max()
        verdict.end = [lower.end, upper.end].compactMap(\.self).min()
        verdict.stop = [lower.stop, upper.stop].compactMap(\.self).min()
        verdict.isRemovable = lower.isRemovable || upper.isRemovable
        return verdict
    }

    /// What has nothing to do with time.
    private func refusal(_ situation: Situation) -> PlayReadyError? {
        let level = terms.minimumSecurityLevel ?? 0
        guard UInt32(level) <= situation.securityLevel else {
            return .securityLevel("the licence asks for \(level), the device has \(situation.securityLevel)")
        }
        guard terms.allowsPlayback else { return .rightNotAvailable("the licence does not allow playback") }
        if terms.cannotPersist {
            guard situation.stored == nil, situation.sessionNonce == rightsID.uuidOrderBytes else {
                return .sessionOnly("get a new licence")
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
            return .unsupportedLicense("it needs revocation information \(wanted); get a new licence to have it")
        }
        if terms.meteringID != nil, !situation.canMeter { return .unsupportedLicense("it asks for metering") }
        if terms.secureStopID != nil, !situation.canStopSecurely {
            return .unsupportedLicense("it asks for secure stop")
        }
        return nil
    }

    private func judgeTime(_ situation: Situation) -> Verdict {
        guard terms.hasDates else { return Verdict(.valid) }
        switch situation.time {
        case .trusted(let now): return judgeTime(situation, at: now)
        case .untrusted(let since, let latest):
            if situation.graceRule == .whileTimeIsUntrusted, let grace = terms.gracePeriod, let since, since < grace,
                latest.map({ judgeTime(situation, at: Self.sum($0, since)).mayPlay }) ?? true
            {
                return Verdict(.valid)
            }
            return Verdict(.untrustedTime, .clockNotSet("the licence has dates: get the time from the time service"))
        }
    }

    private func judgeTime(_ situation: Situation, at now: UInt32) -> Verdict {
        if let begin = terms.begin, now < begin {
            return Verdict(.future, .licenseNotYetValid("it begins in \(begin - now) seconds"))
        }
        if let removal = terms.removalDate, now >= removal {
            return Verdict(.expired, .licenseExpired("its removal date is past; get a new one"))
        }
        guard let end = end(situation, at: now), now >= end.time else { return Verdict(.valid) }
        // What counts from the first play blocks a new start; it stops what runs only with real-time expiration.
        if situation.isPlaying, end.absolute.map({ now < $0 }) ?? true, !terms.hasRealTimeExpiration {
            return Verdict(.valid)
        }
        let past = "it ended \(now - end.time) seconds ago; get a new one"
        return Verdict(.expired, situation.isPlaying ? .licenseRealTimeExpired(past) : .licenseExpired(past))
    }

    /// The earliest end that is known, and the one that does not depend on the first play. `now` nil: nobody knows the
    /// time.
    private func end(_ situation: Situation, at now: UInt32?) -> (time: UInt32, absolute: UInt32?)? {
        func sum(_ start: UInt32?, _ duration: UInt32?) -> UInt32? {
            guard let start, let duration else { return nil }
            return Self.sum(start, duration)
        }
        /// The present, for a mark that lies too far ahead of it.
        func correction(_ mark: UInt32?, _ duration: UInt32?) -> UInt32? {
            guard let now, let mark, duration != nil else { return nil }
            return mark > Self.sum(now, Self.markTolerance) ? now : nil
        }
        var absolute = [terms.end, sum(situation.stored, terms.expirationAfterFirstStore)].compactMap(\.self).min()
        if situation.graceRule == .afterEnd { absolute = sum(absolute, terms.gracePeriod) ?? absolute }
        absolute = [absolute, correction(situation.stored, terms.expirationAfterFirstStore)].compactMap(\.self).min()
        let times = [
            absolute, sum(situation.firstPlay, terms.playDuration),
            correction(situation.firstPlay, terms.playDuration),
        ].compactMap(\.self)
        return times.min().map { ($0, absolute) }
    }

    /// The last second that there is, where the sum is beyond.
    private static func sum(_ start: UInt32, _ duration: UInt32) -> UInt32 {
        let (time, overflow) = start.addingReportingOverflow(duration)
        return overflow ? .max : time
    }
}

extension PlayReadyPolicy.Time {
    fileprivate var trusted: UInt32? { if case .trusted(let now) = self { now } else { nil } }
}

extension XMRTerms {
    /// Seconds from the first play; the earlier of the two objects that say so.
    var playDuration: UInt32? { [expirationAfterFirstPlay, expirationAfterFirstUse].compactMap(\.self).min() }

    fileprivate var uplinkText: String { uplink?.keyID.description ?? "?" }
}
