// SPDX-License-Identifier: MPL-2.0

extension RightsStatus {
    /// What somebody wants to do with the rights.
    public enum Use: Hashable, Sendable {
        /// Start playing, or look whether one could.
        case start
        /// Go on with what was started.
        case continuing
    }

    /// How rights stand at a moment, for a use.
    ///
    /// While the clock is not trusted, date-based rights are `untrustedTime`, with these exceptions. Rights that have a
    /// grace period may be used for so long. Rights that only begin, and began before the latest good time, are valid.
    /// Rights whose limits were past at the latest good time are expired; after a rollback, at the latest signed time,
    /// because the latest good one may have been a wrong clock's.
    ///
    /// The semantics are those of PlayReady’s public documentation (“License and policies”, “Trusted clocks”).
    public init(of rights: Rights, at now: TrustedTime, for use: Use = .start) {
        let limits = Limits(rights, at: now, for: use)
        let status: (kind: Kind, reason: String)
        if !rights.isDateBased {
            status = (.valid, "the licence has no dates")
        } else if now.isTrusted, now.trust == .signed || !rights.requiresSignedTime {
            status = limits.status(at: now.time)
        } else {
            status = limits.statusWithoutTrust(at: now)
        }
        self.init(
            kind: status.kind, begins: rights.begins, ends: limits.ends,
            rightsExpireAfterFirstUse: rights.expiresAfterFirstPlay != nil && rights.firstPlay == nil,
            reason: status.reason)
    }

    /// How several licences for the same content stand together: the first that is valid, else the one that says most
    /// about why none is. Without any, `noLicense`.
    public init(ofAny all: some Sequence<Rights>, at now: TrustedTime, for use: Use = .start) {
        let order: [Kind] = [.valid, .untrustedTime, .future, .expired, .none]
        let statuses = all.map { RightsStatus(of: $0, at: now, for: use) }
        self =
            order.lazy.compactMap { kind in statuses.first { $0.kind == kind } }.first ?? .noLicense
    }
}

private struct Limits {
    /// Seconds that a clock which is taken for good may be wrong: what licence services put up with (“Policies, best
    /// practices” of PlayReady’s public documentation).
    private static let clockError: Int64 = 3600

    private let rights: Rights
    /// When the time after the first play is over; it only limits a new start unless it counts in real time.
    private let afterFirstPlay: UnixTime?
    private let stopsForFirstPlay: Bool
    /// The earliest of all.
    let ends: UnixTime?

    init(_ rights: Rights, at now: TrustedTime, for use: RightsStatus.Use) {
        self.rights = rights
        afterFirstPlay = rights.expiresAfterFirstPlay.flatMap { seconds in
            rights.firstPlay.map { $0.advanced(bySeconds: Int64(seconds)) }
        }
        stopsForFirstPlay = use == .start || rights.isRealTimeExpiration
        ends = [rights.ends, afterFirstPlay, rights.removal].compactMap(\.self).min()
    }

    func status(at time: UnixTime) -> (RightsStatus.Kind, String) {
        if let removal = rights.removal, removal <= time {
            return (.none, "the licence was to be removed on \(removal)")
        }
        if let ends = rights.ends, ends <= time { return (.expired, "the licence ended on \(ends)") }
        if stopsForFirstPlay, let firstPlay = rights.firstPlay, let limit = afterFirstPlay {
            if limit <= time {
                return (.expired, "the licence was first used on \(firstPlay) and ended on \(limit)")
            }
            if firstPlay > time.advanced(bySeconds: Self.clockError) {
                // The mark was made by a clock that ran ahead, so how much of the time is used up is not known.
                return (
                    .expired,
                    "the licence was first used on \(firstPlay), which is still to come: the clock was wrong then"
                )
            }
        }
        if let begins = rights.begins, time < begins { return (.future, "the licence begins on \(begins)") }
        return (.valid, ends.map { "the licence may be used until \($0)" } ?? "the licence has no end")
    }

    func statusWithoutTrust(at now: TrustedTime) -> (RightsStatus.Kind, String) {
        let latest = status(at: now.time)
        let hasEnd = rights.ends != nil || rights.removal != nil || rights.expiresAfterFirstPlay != nil
        if !hasEnd, latest.0 == .valid, !rights.requiresSignedTime {
            return (.valid, "the licence has begun, and has no end")
        }
        // Time only goes on, so what was past then is past now.
        if let past = now.trust == .rolledBack ? now.latestSigned : now.time {
            let then = status(at: past)
            if then.0 == .expired || then.0 == .none { return then }
        }
        if let grace = rights.grace, !now.isTrusted, latest.0 == .valid, now.untrustedSeconds < Int64(grace) {
            let left = Int64(grace) - now.untrustedSeconds
            return (.valid, "\(problem(now)), but the licence allows \(left) more seconds with such a clock")
        }
        return (.untrustedTime, "the licence has dates, and \(problem(now))")
    }

    private func problem(_ now: TrustedTime) -> String {
        switch now.trust {
        case .rolledBack:
            "the system clock was set back before \(now.time); set it right and connect to the time service"
        case .unset: "the system clock is not set; set it"
        case .observed, .signed: "no signed time has come since the machine started; connect to the time service"
        }
    }
}
