// SPDX-License-Identifier: MPL-2.0

/// Whether the rights for some content may be used now, and the dates that decide it.
public struct RightsStatus: Hashable, Sendable {
    /// How rights stand; what can be done about it stands with each.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// They may be used.
        case valid
        /// There are none; acquire a license.
        case none
        /// They cannot be used yet.
        case future
        /// They cannot be used any more; acquire a license.
        case expired
        /// They depend on dates, and the clock cannot be trusted; correct the clock.
        case untrustedTime
    }

    /// Says whether samples may be decrypted: only `valid` lets them.
    public var kind: Kind
    /// When they begin; nil for no limit.
    public var begins: UnixTime?
    /// When they end, as far as it is known: the earliest of all limits; nil for no limit.
    public var ends: UnixTime?
    /// When playing that is under way has to stop; nil for never. Later than `ends` where the time after the first play
    /// only limits new starts.
    public var stops: UnixTime?
    /// Whether they will end some time after they are first used for playing. False once they were: then `ends` says
    /// when.
    public var rightsExpireAfterFirstUse: Bool
    /// Why it is so, in words for people; holds no secret.
    public var reason: String

    /// `reason` is for people and holds no secret; nothing is checked.
    public init(
        kind: Kind, begins: UnixTime? = nil, ends: UnixTime? = nil, stops: UnixTime? = nil,
        rightsExpireAfterFirstUse: Bool = false, reason: String
    ) {
        self.kind = kind
        self.begins = begins
        self.ends = ends
        self.stops = stops
        self.rightsExpireAfterFirstUse = rightsExpireAfterFirstUse
        self.reason = reason
    }

    /// There is no license.
    public static let noLicense = RightsStatus(kind: .none, reason: "no license is installed for this content")
}

extension RightsStatus: CustomStringConvertible {
    /// Kind and reason, without the dates.
    public var description: String { "\(kind.rawValue): \(reason)" }
}

extension RightsStatus.Kind: Comparable {
    /// The greater one is the more useful: of several licenses for the same content the greatest stands for all.
    public static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .none: 0
        case .expired: 1
        case .future: 2
        case .untrustedTime: 3
        case .valid: 4
        }
    }
}

extension RightsStatus {
    /// What a caller wants to do with the rights.
    public enum Use: Hashable, Sendable {
        /// Start playing, or look whether one could.
        case start
        /// Go on with what was started.
        case continuing
    }

    /// How rights stand at a moment, for a use. The one place where time decides about a license.
    ///
    /// While the clock is not trusted, date-based rights are `untrustedTime`, with these exceptions. Rights that have a
    /// grace period may be used for so long. Rights that only begin, and began before the latest time that is certain,
    /// are valid. Rights whose limits were past then are expired. Certain is the latest good time; after a rollback the
    /// latest signed one, because the latest good one may have been a wrong clock's.
    ///
    /// Limits are exclusive: at the end itself, rights are expired. The semantics are those of PlayReady’s public
    /// documentation (“License and policies”, “Trusted clocks”).
    public init(of rights: Rights, at now: TrustedTime, for use: Use = .start) {
        let limits = Limits(rights, for: use)
        let status: (kind: Kind, reason: String)
        let isTrusted = now.isTrusted && (now.trust == .signed || !rights.requiresSignedTime)
        if !rights.isDateBased {
            status = (.valid, "the license has no dates")
        } else if isTrusted {
            status = limits.status(at: now.time)
        } else {
            status = limits.statusWithoutTrust(at: now)
        }
        self.init(
            kind: status.kind, begins: rights.begins, ends: limits.ends(at: isTrusted ? now.time : nil),
            stops: limits.stops,
            rightsExpireAfterFirstUse: rights.expiresAfterFirstPlay != nil && rights.firstPlay == nil,
            reason: status.reason)
    }
}

private struct Limits {
    private let rights: Rights
    /// When the time after the first play is over; it only limits a new start unless it counts in real time.
    private let afterFirstPlay: UnixTime?
    private let afterStored: UnixTime?
    private let stopsForFirstPlay: Bool

    init(_ rights: Rights, for use: RightsStatus.Use) {
        self.rights = rights
        afterFirstPlay = Self.sum(rights.firstPlay, rights.expiresAfterFirstPlay)
        afterStored = Self.sum(rights.stored, rights.expiresAfterStored)
        stopsForFirstPlay = use == .start || rights.isRealTimeExpiration
    }

    private static func sum(_ start: UnixTime?, _ seconds: UInt32?) -> UnixTime? {
        guard let start, let seconds else { return nil }
        return start.advanced(bySeconds: Int64(seconds))
    }

    /// The earliest of all; that moment, for time that counts from a mark which is still to come.
    func ends(at time: UnixTime?) -> UnixTime? {
        var all = [rights.ends, afterStored, afterFirstPlay, rights.removal]
        if let time {
            if afterStored != nil, isAhead(rights.stored, of: time) { all.append(time) }
            if afterFirstPlay != nil, isAhead(rights.firstPlay, of: time) { all.append(time) }
        }
        return all.compactMap(\.self).min()
    }

    /// When playing that is under way has to stop.
    var stops: UnixTime? {
        [rights.ends, afterStored, rights.isRealTimeExpiration ? afterFirstPlay : nil, rights.removal]
            .compactMap(\.self).min()
    }

    /// A mark that was made by a clock which ran ahead: how much of the time is used up is not known.
    private func isAhead(_ mark: UnixTime?, of time: UnixTime) -> Bool {
        mark.map { $0 > time.advanced(bySeconds: Rights.markTolerance) } ?? false
    }

    /// `isPresent` is false for a time that is certainly past: then marks may be later.
    func status(at time: UnixTime, isPresent: Bool = true) -> (RightsStatus.Kind, String) {
        if let removal = rights.removal, removal <= time {
            return (.none, "the license was to be removed on \(removal)")
        }
        if let ends = rights.ends, ends <= time { return (.expired, "the license ended on \(ends)") }
        if let stored = rights.stored, let limit = afterStored,
            let reason = ending(limit, "stored", on: stored, at: time, isPresent)
        {
            return (.expired, reason)
        }
        if stopsForFirstPlay, let firstPlay = rights.firstPlay, let limit = afterFirstPlay,
            let reason = ending(limit, "first used", on: firstPlay, at: time, isPresent)
        {
            return (.expired, reason)
        }
        if let begins = rights.begins, time < begins { return (.future, "the license begins on \(begins)") }
        return (.valid, Self.validity(until: ends(at: time), afterFirstPlay: secondsFromFirstPlay))
    }

    /// How long they last from a first play that is still to come.
    private var secondsFromFirstPlay: UInt32? { rights.firstPlay == nil ? rights.expiresAfterFirstPlay : nil }

    private static func validity(until end: UnixTime?, afterFirstPlay seconds: UInt32?) -> String {
        guard let seconds else {
            return end.map { "the license may be used until \($0)" } ?? "the license has no end"
        }
        let words = "the license may be used until \(words(seconds)) after the first play"
        return end.map { "\(words), and not after \($0)" } ?? words
    }

    /// In the largest unit that has no rest; days from the third on.
    private static func words(_ seconds: UInt32) -> String {
        let (number, unit) =
            switch seconds {
            case 259_200... where seconds % 86_400 == 0: (seconds / 86_400, "day")
            case 3_600... where seconds % 3_600 == 0: (seconds / 3_600, "hour")
            case 60... where seconds % 60 == 0: (seconds / 60, "minute")
            default: (seconds, "second")
            }
        return "\(number) \(unit)\(number == 1 ? "" : "s")"
    }

    /// Why a time that counts from a mark is over; nil where it is not.
    private func ending(
        _ limit: UnixTime, _ event: String, on mark: UnixTime, at time: UnixTime, _ isPresent: Bool
    ) -> String? {
        // Before the mark, nothing of the time had been used up.
        if limit <= time, isPresent || mark <= time {
            return "the license was \(event) on \(mark) and ended on \(limit)"
        }
        guard isPresent, isAhead(mark, of: time) else { return nil }
        return "the license was \(event) on \(mark), which is still to come: the clock was wrong then"
    }

    func statusWithoutTrust(at now: TrustedTime) -> (RightsStatus.Kind, String) {
        // Time only goes on, so what was past then is past now.
        if let past = now.trust == .rolledBack ? now.latestSigned : now.time {
            let then = status(at: past, isPresent: false)
            if then.0 == .expired || then.0 == .none { return then }
            if then.0 == .valid, !rights.hasEnd, !rights.requiresSignedTime {
                return (.valid, "the license has begun, and has no end")
            }
        }
        let present = status(at: now.time.advanced(bySeconds: now.isTrusted ? 0 : now.untrustedSeconds))
        if let grace = rights.grace, !now.isTrusted, present.0 == .valid, now.untrustedSeconds < Int64(grace) {
            let left = Int64(grace) - now.untrustedSeconds
            return (.valid, "\(problem(now)), but the license allows \(left) more seconds with such a clock")
        }
        return (.untrustedTime, "the license has dates, and \(problem(now))")
    }

    private func problem(_ now: TrustedTime) -> String {
        switch now.trust {
        // No clock was good at that time: the device does not know any more when its clock was last good.
        case .rolledBack where now.time.seconds < 978_307_200:
            "what the trusted clock knew cannot be read any more; connect to the time service"
        case .rolledBack:
            "the system clock was set back before \(now.time); set it right and connect to the time service"
        case .unset: "the system clock is not set; set it"
        case .observed, .signed: "no signed time has come since the machine started; connect to the time service"
        }
    }
}

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
