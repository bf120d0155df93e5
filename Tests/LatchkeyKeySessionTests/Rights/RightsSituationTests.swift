// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection
import Testing

/// One license in one situation, and what comes out.
struct RightsSituation: Sendable, CustomTestStringConvertible {
    let name: String
    let rights: Rights
    let time: TrustedTime
    let use: RightsStatus.Use
    let kind: RightsStatus.Kind
    let ends: UnixTime?
    let expiresAfterFirstUse: Bool

    var testDescription: String { name }

    init(
        _ name: String, _ rights: Rights, _ time: TrustedTime, for use: RightsStatus.Use = .start,
        is kind: RightsStatus.Kind, until ends: UnixTime? = nil, afterFirstUse: Bool = false
    ) {
        self.name = name
        self.rights = rights
        self.time = time
        self.use = use
        self.kind = kind
        self.ends = ends
        expiresAfterFirstUse = afterFirstUse
    }
}

@Suite("Rights, situations")
struct RightsSituationTests {
    @Test(arguments: RightsSituation.all) func situation(_ row: RightsSituation) {
        let status = RightsStatus(of: row.rights, at: row.time, for: row.use)
        #expect(status.kind == row.kind, "\(status)")
        #expect(status.ends == row.ends)
        #expect(status.begins == row.rights.begins)
        #expect(status.rightsExpireAfterFirstUse == row.expiresAfterFirstUse)
        #expect(status.reason.count > 10)
    }

    @Test func theTableHasItsRowsAndEachItsName() {
        #expect(RightsSituation.all.count >= 60)
        #expect(Set(RightsSituation.all.map(\.name)).count == RightsSituation.all.count)
        #expect(Set(RightsSituation.all.map(\.kind)) == Set(RightsStatus.Kind.allCases))
    }
}

private func good(_ number: Double) -> TrustedTime { TrustedTime(trust: .observed, time: date(number)) }
private func signed(_ number: Double) -> TrustedTime {
    TrustedTime(trust: .signed, time: date(number), latestSigned: date(number))
}
private func back(_ number: Double, running: Int64 = 0, signed: Double? = nil) -> TrustedTime {
    TrustedTime(
        trust: .rolledBack, time: date(number), untrustedSeconds: running, latestSigned: signed.map { date($0) })
}
private func unset(_ number: Double, running: Int64 = 0) -> TrustedTime {
    TrustedTime(trust: .unset, time: date(number), untrustedSeconds: running)
}

private let hour: UInt32 = 3600
private let week = Rights(begins: date(1), ends: date(8))
/// From the first play: two days.
private let rental = Rights(expiresAfterFirstPlay: 48 * hour)
private let rentalPlayed = Rights(expiresAfterFirstPlay: 48 * hour, firstPlay: date(10))
private let rentalRealTime = Rights(
    expiresAfterFirstPlay: 48 * hour, firstPlay: date(10), isRealTimeExpiration: true)
/// At most thirty days, and two from the first play.
private let movie = Rights(begins: date(0), ends: date(30), expiresAfterFirstPlay: 48 * hour)
private let movieLate = Rights(
    begins: date(0), ends: date(30), expiresAfterFirstPlay: 48 * hour, firstPlay: date(29))
/// The times in the published sample of a license: issued 1446224170, ends 1446224230.
private let sample = Rights(begins: UnixTime(seconds: 0), ends: UnixTime(seconds: 1_446_224_230))
private func sampleTime(_ seconds: Int64) -> TrustedTime {
    TrustedTime(trust: .signed, time: UnixTime(seconds: seconds))
}

extension RightsSituation {
    static let all: [RightsSituation] =
        open + absolute + afterFirstPlay + afterStored + removal + untrusted + grace + secure + published

    static let open = [
        RightsSituation("no dates, clock good", Rights(), good(0), is: .valid),
        RightsSituation("no dates, clock signed", Rights(), signed(0), is: .valid),
        RightsSituation("no dates, clock unset", Rights(), unset(0), is: .valid),
        RightsSituation("no dates, clock rolled back", Rights(), back(0), is: .valid),
        RightsSituation("no dates, clock rolled back, playing", Rights(), back(0), for: .continuing, is: .valid),
        RightsSituation("no dates, wants signed time", Rights(requiresSignedTime: true), good(0), is: .valid),
        RightsSituation("no dates, real time", Rights(isRealTimeExpiration: true), back(0), is: .valid),
    ]

    static let absolute = [
        RightsSituation("before the beginning", week, good(0.5), is: .future, until: date(8)),
        RightsSituation(
            "a second before the beginning", week,
            TrustedTime(trust: .observed, time: date(1).advanced(bySeconds: -1)), is: .future, until: date(8)),
        RightsSituation("at the beginning", week, good(1), is: .valid, until: date(8)),
        RightsSituation("between the dates", week, good(4), is: .valid, until: date(8)),
        RightsSituation(
            "a second before the end", week, TrustedTime(trust: .observed, time: date(8).advanced(bySeconds: -1)),
            is: .valid, until: date(8)),
        RightsSituation("at the end", week, good(8), is: .expired, until: date(8)),
        RightsSituation("after the end", week, good(9), is: .expired, until: date(8)),
        RightsSituation("after the end, playing", week, good(9), for: .continuing, is: .expired, until: date(8)),
        RightsSituation("only a beginning, before", Rights(begins: date(1)), good(0), is: .future),
        RightsSituation("only a beginning, after", Rights(begins: date(1)), good(2), is: .valid),
        RightsSituation("only an end, before", Rights(ends: date(1)), good(0), is: .valid, until: date(1)),
        RightsSituation("only an end, after", Rights(ends: date(1)), good(2), is: .expired, until: date(1)),
        RightsSituation(
            "an end before its beginning is expired", Rights(begins: date(5), ends: date(2)), good(3), is: .expired,
            until: date(2)),
        RightsSituation(
            "the end of all time", Rights(ends: UnixTime(seconds: .max)), good(0), is: .valid,
            until: UnixTime(seconds: .max)),
        RightsSituation(
            "an end before 1970", Rights(ends: UnixTime(seconds: .min)), good(0), is: .expired,
            until: UnixTime(seconds: .min)),
    ]

    static let afterFirstPlay = [
        RightsSituation("rental, not played", rental, good(100), is: .valid, afterFirstUse: true),
        RightsSituation("rental, just played", rentalPlayed, good(10), is: .valid, until: date(12)),
        RightsSituation("rental, a day later", rentalPlayed, good(11), is: .valid, until: date(12)),
        RightsSituation("rental, over, new start", rentalPlayed, good(12), is: .expired, until: date(12)),
        RightsSituation(
            "rental, over, goes on playing", rentalPlayed, good(12.1), for: .continuing, is: .valid, until: date(12)),
        RightsSituation(
            "rental in real time, over, playing", rentalRealTime, good(12), for: .continuing, is: .expired,
            until: date(12)),
        RightsSituation(
            "rental in real time, not over, playing", rentalRealTime, good(11.9), for: .continuing, is: .valid,
            until: date(12)),
        RightsSituation("movie, not played", movie, good(3), is: .valid, until: date(30), afterFirstUse: true),
        RightsSituation(
            "movie, not played, before its beginning", movie, good(-1), is: .future, until: date(30),
            afterFirstUse: true),
        RightsSituation(
            "movie, not played, after its end", movie, good(31), is: .expired, until: date(30), afterFirstUse: true),
        RightsSituation("movie, played late: the end comes first", movieLate, good(29.5), is: .valid, until: date(30)),
        RightsSituation(
            "movie, played late, after its end, playing", movieLate, good(30), for: .continuing, is: .expired,
            until: date(30)),
        RightsSituation(
            "no time at all after the first play", Rights(expiresAfterFirstPlay: 0, firstPlay: date(1)), good(1),
            is: .expired, until: date(1)),
        RightsSituation(
            "136 years after the first play", Rights(expiresAfterFirstPlay: .max, firstPlay: date(1)), good(1000),
            is: .valid, until: date(1).advanced(bySeconds: Int64(UInt32.max))),
        RightsSituation("first play a little ahead", rentalPlayed, good(9.99), is: .valid, until: date(12)),
        RightsSituation("first play far ahead", rentalPlayed, good(5), is: .expired, until: date(5)),
    ]

    private static let kept = Rights(expiresAfterStored: hour, stored: date(2))
    static let afterStored = [
        RightsSituation("not stored", Rights(expiresAfterStored: hour), good(9), is: .valid),
        RightsSituation("stored just now", kept, good(2), is: .valid, until: date(2).advanced(bySeconds: 3600)),
        RightsSituation("stored an hour ago", kept, good(2.05), is: .expired, until: date(2).advanced(bySeconds: 3600)),
        RightsSituation(
            "stored an hour ago, playing", kept, good(2.05), for: .continuing, is: .expired,
            until: date(2).advanced(bySeconds: 3600)),
        RightsSituation("stored far ahead", kept, good(1), is: .expired, until: date(1)),
        RightsSituation(
            "stored, rolled back", kept, back(2.01), is: .untrustedTime, until: date(2).advanced(bySeconds: 3600)),
        RightsSituation(
            "stored, rolled back, over by signed time", kept, back(3, signed: 2.5), is: .expired,
            until: date(2).advanced(bySeconds: 3600)),
        RightsSituation(
            "stored after the latest signed time, rolled back", kept, back(3, signed: 1), is: .untrustedTime,
            until: date(2).advanced(bySeconds: 3600)),
    ]

    static let removal = [
        RightsSituation("before the removal", Rights(removal: date(5)), good(4), is: .valid, until: date(5)),
        RightsSituation("at the removal", Rights(removal: date(5)), good(5), is: .none, until: date(5)),
        RightsSituation(
            "ended, not removed yet", Rights(ends: date(3), removal: date(5)), good(4), is: .expired, until: date(3)),
        RightsSituation(
            "ended and to be removed", Rights(ends: date(3), removal: date(5)), good(6), is: .none, until: date(3)),
    ]

    static let untrusted = [
        RightsSituation("rolled back within the dates", week, back(4), is: .untrustedTime, until: date(8)),
        RightsSituation(
            "rolled back within the dates, playing", week, back(4), for: .continuing, is: .untrustedTime,
            until: date(8)),
        RightsSituation("rolled back before the beginning", week, back(0), is: .untrustedTime, until: date(8)),
        RightsSituation(
            "rolled back after the end by a clock nobody vouched for", week, back(9), is: .untrustedTime,
            until: date(8)),
        RightsSituation(
            "rolled back after the end by signed time", week, back(9, signed: 8.5), is: .expired, until: date(8)),
        RightsSituation(
            "rolled back, signed time within the dates", week, back(9, signed: 4), is: .untrustedTime, until: date(8)),
        RightsSituation(
            "rolled back, to be removed by signed time", Rights(removal: date(2)), back(9, signed: 4), is: .none,
            until: date(2)),
        RightsSituation(
            "rolled back, only a beginning, passed by a clock nobody vouched for", Rights(begins: date(1)), back(2),
            is: .untrustedTime),
        RightsSituation(
            "rolled back, only a beginning, passed by signed time", Rights(begins: date(1)), back(2, signed: 1.5),
            is: .valid),
        RightsSituation("rolled back, only a beginning, ahead", Rights(begins: date(1)), back(0), is: .untrustedTime),
        RightsSituation(
            "rolled back, rental not played", rental, back(2), is: .untrustedTime, afterFirstUse: true),
        RightsSituation("rolled back, rental played", rentalPlayed, back(11), is: .untrustedTime, until: date(12)),
        RightsSituation("unset, within the dates", week, unset(4), is: .untrustedTime, until: date(8)),
        RightsSituation("unset, ended at the latest good time", week, unset(9), is: .expired, until: date(8)),
        RightsSituation("unset, never set", week, unset(-20_000), is: .untrustedTime, until: date(8)),
        RightsSituation("unset, only a beginning, passed", Rights(begins: date(1)), unset(2), is: .valid),
        RightsSituation("repaired by signed time", week, signed(4), is: .valid, until: date(8)),
        RightsSituation("repaired, and ended meanwhile", week, signed(8), is: .expired, until: date(8)),
    ]

    private static let graced = Rights(begins: date(1), ends: date(8), grace: 7200)
    static let grace = [
        RightsSituation("grace, rolled back just now", graced, back(4), is: .valid, until: date(8)),
        RightsSituation("grace, a second left", graced, back(4, running: 7199), is: .valid, until: date(8)),
        RightsSituation("grace, used up", graced, back(4, running: 7200), is: .untrustedTime, until: date(8)),
        RightsSituation("grace, clock unset", graced, unset(4, running: 60), is: .valid, until: date(8)),
        RightsSituation("grace never lengthens the license", graced, good(8), is: .expired, until: date(8)),
        RightsSituation("grace, ended at the latest good time", graced, unset(9), is: .expired, until: date(8)),
        RightsSituation("grace, rolled back, ended", graced, back(9), is: .untrustedTime, until: date(8)),
        RightsSituation("grace, not begun", graced, back(0), is: .untrustedTime, until: date(8)),
        RightsSituation(
            "no seconds of grace", Rights(ends: date(8), grace: 0), back(4), is: .untrustedTime, until: date(8)),
    ]

    private static let strict = Rights(begins: date(1), ends: date(8), requiresSignedTime: true)
    static let secure = [
        RightsSituation("wants signed time, has it", strict, signed(4), is: .valid, until: date(8)),
        RightsSituation("wants signed time, not there yet", strict, good(4), is: .untrustedTime, until: date(8)),
        RightsSituation("wants signed time, ended anyway", strict, good(9), is: .expired, until: date(8)),
        RightsSituation("wants signed time, not begun", strict, signed(0), is: .future, until: date(8)),
        RightsSituation("wants signed time, rolled back", strict, back(4), is: .untrustedTime, until: date(8)),
        RightsSituation(
            "wants signed time, only a beginning", Rights(begins: date(1), requiresSignedTime: true), good(2),
            is: .untrustedTime),
    ]

    static let published = [
        RightsSituation(
            "published sample, at the client's time of its request", sample, sampleTime(1_446_224_160), is: .valid,
            until: UnixTime(seconds: 1_446_224_230)),
        RightsSituation(
            "published sample, when it was issued", sample, sampleTime(1_446_224_170), is: .valid,
            until: UnixTime(seconds: 1_446_224_230)),
        RightsSituation(
            "published sample, a second before its end", sample, sampleTime(1_446_224_229), is: .valid,
            until: UnixTime(seconds: 1_446_224_230)),
        RightsSituation(
            "published sample, a minute after it was issued", sample, sampleTime(1_446_224_230), is: .expired,
            until: UnixTime(seconds: 1_446_224_230)),
    ]
}
