// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

/// A license's policy and what has happened to the device, and what comes of it.
struct PlayReadySituation: CustomTestStringConvertible, Sendable {
    enum Step: Sendable {
        /// The application acquires a license now, on the policy of then.
        case acquire
        /// A session plays key 1 and ends.
        case play
        /// A session gets key 1 and prerolls, and ends.
        case preroll
        case pass(Int64)
        /// The system clock is set back, or forth; true time stands still.
        case set(bySeconds: Int64)
        case restart
        /// The process ends and begins again.
        case startAgain
        case repair
        case noTimeService
        case policy(String)
        case offline
        case fault(UInt32)
        case renewDomain
        case resetDomain
        case join
        case leave
        case resetDatabase
        case otherModel
    }

    enum Outcome: Sendable {
        /// Key 1 is usable after so many license requests.
        case plays(asked: Int)
        case fails(String, asked: Int)
    }

    let name: String
    let policy: String
    let steps: [Step]
    /// Before the session asks; nil: not looked at.
    let rights: RightsStatus.Kind?
    let outcome: Outcome

    init(_ name: String, _ policy: String, _ steps: [Step], _ rights: RightsStatus.Kind?, _ outcome: Outcome) {
        self.name = name
        self.policy = policy
        self.steps = steps
        self.rights = rights
        self.outcome = outcome
    }

    var testDescription: String { name }
}

@Suite("PlayReady situations", .timeLimit(.minutes(5)))
struct PlayReadySituationTests {
    private static let domain = "domain:4C4B444D-0000-0000-0000-0000000000AA"
    private static let noClock = "0x8004C05B"
    private static let expired = "0x8004C009"

    static let policies: [PlayReadySituation] = [
        .init("nothing is there", "", [], RightsStatus.Kind.none, .plays(asked: 1)),
        .init("a stored license starts without the service", "", [.acquire, .offline], .valid, .plays(asked: 0)),
        .init(
            "a stored license outlives the process", "", [.acquire, .startAgain, .offline], .valid, .plays(asked: 0)),
        .init(
            "a stored license outlives the machine's run", "", [.acquire, .restart, .startAgain, .offline], .valid,
            .plays(asked: 0)),
        .init("no license and no service", "", [.offline], RightsStatus.Kind.none, .fails("offline", asked: 2)),
        .init(
            "not for storing: gone with the process", "persist:false", [.acquire, .startAgain], RightsStatus.Kind.none,
            .plays(asked: 1)),
        .init("not for storing: for the session that comes", "persist:false", [.acquire], nil, .plays(asked: 0)),
        .init("not for storing: for one session only", "persist:false", [.acquire, .preroll], nil, .plays(asked: 1)),
        .init(
            "not for storing, and no service any more", "persist:false", [.acquire, .startAgain, .offline],
            RightsStatus.Kind.none, .fails("offline", asked: 2)),
        .init("the security level of the device", "sl:2000", [.acquire], .valid, .plays(asked: 0)),
        .init(
            "a higher security level", "sl:3000", [.acquire], RightsStatus.Kind.none, .fails("security level", asked: 1)
        ),
        .init("no right to play", "play:false", [.acquire], RightsStatus.Kind.none, .fails("0x8004C00B", asked: 1)),
        .init("output levels", "ucvopl:270", [.acquire], .valid, .plays(asked: 0)),
        .init(
            "the second license has what the first lacks", "play:false", [.acquire, .policy(""), .acquire], .valid,
            .plays(asked: 0)),
        .init(
            "the older license is still good", "", [.acquire, .policy("play:false"), .acquire], .valid, .plays(asked: 0)
        ),
    ]

    static let times: [PlayReadySituation] = [
        .init("an end to come", "enddate:@+60", [.acquire, .offline], .valid, .plays(asked: 0)),
        .init("one second before the end", "enddate:@+60", [.acquire, .pass(59), .offline], .valid, .plays(asked: 0)),
        .init(
            "the end itself", "enddate:@+60", [.acquire, .pass(60), .offline], .expired, .fails("offline", asked: 2)),
        .init("the end is past: a new one", "enddate:@+60", [.acquire, .pass(61)], .expired, .plays(asked: 1)),
        .init(
            "the service gives a license that has ended", "enddate:@-1", [], RightsStatus.Kind.none,
            .fails(expired, asked: 1)),
        .init(
            "a stored end that is past, and one that ends now", "enddate:@+0", [.acquire, .pass(1)], .expired,
            .fails(expired, asked: 1)),
        .init("a begin in the past", "begindate:@-1", [.acquire, .offline], .valid, .plays(asked: 0)),
        .init("a begin now", "begindate:@+0", [.acquire, .offline], .valid, .plays(asked: 0)),
        .init("a begin to come", "begindate:@+60", [.acquire], .future, .fails("the license begins on", asked: 1)),
        .init("a begin that has come", "begindate:@+60", [.acquire, .pass(60), .offline], .valid, .plays(asked: 0)),
        .init(
            "a begin to come, and another license", "begindate:@+60", [.acquire, .policy("")], .future, .plays(asked: 1)
        ),
        .init("between begin and end", "begindate:@-9,enddate:@+9", [.acquire, .offline], .valid, .plays(asked: 0)),
        .init("a removal date to come", "removaldate:@+60", [.acquire, .offline], .valid, .plays(asked: 0)),
        .init(
            "a removal date past", "removaldate:@+60", [.acquire, .pass(60)], RightsStatus.Kind.none, .plays(asked: 1)),
        .init(
            "an end in an hour after a day's suspend", "enddate:@+3600", [.acquire, .pass(86_400)], .expired,
            .plays(asked: 1)),
        .init(
            "an expired one does not hide a valid one", "enddate:@+60",
            [.acquire, .policy(""), .acquire, .pass(90), .offline], .valid, .plays(asked: 0)),
    ]

    static let firstPlays: [PlayReadySituation] = [
        .init(
            "first play to come, after a year", "firstexp:60", [.acquire, .pass(31_536_000), .offline], .valid,
            .plays(asked: 0)),
        .init("first play 59 s ago", "firstexp:60", [.acquire, .play, .pass(59), .offline], .valid, .plays(asked: 0)),
        .init(
            "first play 60 s ago", "firstexp:60", [.acquire, .play, .pass(60), .offline], .expired,
            .fails("offline", asked: 2)),
        .init(
            "first play 60 s ago: a new one", "firstexp:60", [.acquire, .play, .pass(60)], .expired, .plays(asked: 1)),
        .init(
            "preroll is no first play", "firstexp:60", [.acquire, .preroll, .pass(600), .offline], .valid,
            .plays(asked: 0)),
        .init(
            "the first play counts, not the last", "firstexp:60",
            [.acquire, .play, .pass(40), .play, .pass(30), .offline], .expired, .fails("offline", asked: 2)),
        .init(
            "the first play outlives the process", "firstexp:60", [.acquire, .play, .startAgain, .pass(61), .offline],
            .expired, .fails("offline", asked: 2)),
        .init(
            "the first play outlives the machine's run", "firstexp:600",
            [.acquire, .play, .restart, .startAgain, .pass(500), .offline], .valid, .plays(asked: 0)),
        .init(
            "the end comes before the time after the first play", "firstexp:600,enddate:@+60",
            [.acquire, .play, .pass(61), .offline], .expired, .fails("offline", asked: 2)),
        .init(
            "a real-time license that has not begun", "firstexp:60,realtime:true", [.acquire, .pass(99), .offline],
            .valid, .plays(asked: 0)),
        .init(
            "a real-time license that is over", "firstexp:60,realtime:true", [.acquire, .play, .pass(60), .offline],
            .expired, .fails("offline", asked: 2)),
    ]

    static let clocks: [PlayReadySituation] = [
        .init("set back, no dates", "", [.acquire, .set(bySeconds: -86_400), .offline], .valid, .plays(asked: 0)),
        .init(
            "set back, an end", "enddate:@+3600", [.acquire, .noTimeService, .set(bySeconds: -86_400), .offline],
            .untrustedTime, .fails("offline", asked: 2)),
        .init(
            "set back, an end, and nothing but such licenses", "enddate:@+3600",
            [.acquire, .noTimeService, .set(bySeconds: -86_400)], .untrustedTime, .fails(noClock, asked: 1)),
        .init(
            "set back, an end: the time service repairs", "enddate:@+3600", [.acquire, .set(bySeconds: -86_400)],
            .untrustedTime, .plays(asked: 0)),
        .init(
            "set back, an end past: repaired, and a new one", "enddate:@+60",
            [.acquire, .pass(90), .set(bySeconds: -86_400)], .untrustedTime, .plays(asked: 1)),
        .init(
            "set back a minute is put up with", "enddate:@+3600", [.acquire, .set(bySeconds: -60), .offline], .valid,
            .plays(asked: 0)),
        .init(
            "set back and repaired by hand", "enddate:@+3600", [.acquire, .set(bySeconds: -86_400), .repair, .offline],
            .valid, .plays(asked: 0)),
        .init(
            "set back: past at the latest signed time is expired", "enddate:@+60",
            [.acquire, .pass(90), .repair, .noTimeService, .set(bySeconds: -86_400), .offline], .expired,
            .fails("offline", asked: 2)),
        .init(
            "set back: the process begins again", "enddate:@+3600",
            [.acquire, .noTimeService, .set(bySeconds: -86_400), .startAgain, .noTimeService, .offline], .untrustedTime,
            .fails("offline", asked: 2)),
        .init(
            "set back: a license without dates can still be had", "enddate:@+3600",
            [.acquire, .noTimeService, .set(bySeconds: -86_400), .policy("")], .untrustedTime, .plays(asked: 1)),
        .init(
            "set back, a begin", "begindate:@-5", [.acquire, .noTimeService, .set(bySeconds: -86_400), .offline],
            .untrustedTime, .fails("offline", asked: 2)),
        .init(
            "set back, after the first play", "firstexp:600",
            [.acquire, .play, .noTimeService, .set(bySeconds: -86_400), .offline], .untrustedTime,
            .fails("offline", asked: 2)),
        .init(
            "set back, with grace", "enddate:@+3600,grace:600",
            [.acquire, .noTimeService, .set(bySeconds: -86_400), .offline], .valid, .plays(asked: 0)),
        .init(
            "set back, grace over", "enddate:@+36000,grace:600",
            [.acquire, .noTimeService, .set(bySeconds: -86_400), .preroll, .pass(601), .offline], .untrustedTime,
            .fails("offline", asked: 2)),
        .init(
            "set back after the end, with grace", "enddate:@+60,grace:600",
            [.acquire, .pass(90), .noTimeService, .set(bySeconds: -86_400), .offline], .untrustedTime,
            .fails("offline", asked: 2)),
        .init(
            "first played with the clock set forth, then repaired", "firstexp:600",
            [.acquire, .set(bySeconds: 172_800), .play, .repair, .offline], .expired, .fails("offline", asked: 2)),
        .init(
            "set forth, an end", "enddate:@+3600", [.acquire, .set(bySeconds: 7200), .offline], .expired,
            .fails("offline", asked: 2)),
        .init(
            "set forth and repaired", "enddate:@+3600", [.acquire, .set(bySeconds: 7200), .repair, .offline], .valid,
            .plays(asked: 0)),
    ]

    static let domains: [PlayReadySituation] = [
        .init("a domain is required: joined", domain, [], RightsStatus.Kind.none, .plays(asked: 2)),
        .init("a member already", domain, [.join], RightsStatus.Kind.none, .plays(asked: 1)),
        .init("a stored license of the domain", domain, [.acquire, .startAgain, .offline], .valid, .plays(asked: 0)),
        .init(
            "the domain was renewed: joined again", domain,
            [.acquire, .renewDomain, .policy(domain + ",sl:150"), .acquire, .offline], .valid, .plays(asked: 0)),
        .init(
            "the old revision's license after a renewal", domain, [.acquire, .renewDomain, .offline], .valid,
            .plays(asked: 0)),
        .init(
            "left: the license is of no use", domain, [.acquire, .leave, .offline], RightsStatus.Kind.none,
            .fails("offline", asked: 2)),
        .init(
            "left, and the service knew of no membership", domain, [.acquire, .resetDomain, .leave, .offline],
            RightsStatus.Kind.none, .fails("offline", asked: 2)),
        .init("left: joined again", domain, [.acquire, .leave], RightsStatus.Kind.none, .plays(asked: 2)),
        .init(
            "the service has lost its members", domain, [.acquire, .resetDomain, .policy(domain), .acquire], nil,
            .plays(asked: 0)),
        .init(
            "not a member, says the service: joined again", domain, [.join, .fault(PlayReadyFault.notAMember)],
            RightsStatus.Kind.none, .plays(asked: 2)),
        .init(
            "the domain is full", domain, [.fault(PlayReadyFault.deviceLimitReached)], RightsStatus.Kind.none,
            .fails("as many devices", asked: 1)),
    ]

    static let faults: [PlayReadySituation] = [
        .init("revoked", "", [.fault(PlayReadyFault.certificateRevoked)], nil, .fails("revoked", asked: 1)),
        .init("internal error, then an answer", "", [.fault(PlayReadyFault.internalError)], nil, .plays(asked: 2)),
        .init(
            "internal errors", "",
            [
                .fault(PlayReadyFault.internalError), .fault(PlayReadyFault.internalError),
                .fault(PlayReadyFault.internalError),
            ], nil, .fails("internal error", asked: 3)),
        .init("invalid message", "", [.fault(PlayReadyFault.invalidMessage)], nil, .fails("invalid message", asked: 1)),
        .init(
            "service-specific", "", [.fault(PlayReadyFault.serviceSpecific)], nil, .fails("service-specific", asked: 1)),
        .init(
            "individualization, says a service that the media names", "",
            [.fault(PlayReadyFault.individualizationRequired)], nil, .fails("individualization", asked: 1)),
        .init(
            "a redirect without an address", "", [.fault(PlayReadyFault.redirect)], nil, .fails("redirected", asked: 1)),
        .init(
            "a redirect", "redirect:https%3A//other.example/", [.policy("redirect:https%3A//other.example/")], nil,
            .fails("redirected", asked: 4)),
        .init("an unknown number", "", [.fault(0x8004_C6FF)], nil, .fails("0x8004C6FF", asked: 1)),
        .init(
            "a fault does not touch what is stored", "", [.acquire, .fault(PlayReadyFault.certificateRevoked)], .valid,
            .plays(asked: 0)),
        .init("wrong signer", "defect:signer", [], nil, .fails("not trusted", asked: 1)),
        .init("wrong root", "defect:root", [], nil, .fails("not trusted", asked: 1)),
        .init("changed after it was signed", "defect:signature", [], nil, .fails("signature not valid", asked: 1)),
        .init("wrong nonce", "defect:nonce", [], nil, .fails("answer to another request", asked: 1)),
        .init(
            "wrong nonce, not for storing", "persist:false,defect:nonce", [], nil,
            .fails("answer to another request", asked: 1)),
        .init("altered license", "defect:license", [], nil, .fails("license altered", asked: 1)),
        .init(
            "the database is reset", "", [.acquire, .resetDatabase, .offline], RightsStatus.Kind.none,
            .fails("offline", asked: 2)),
        .init(
            "the database is reset: a new one", "", [.acquire, .resetDatabase], RightsStatus.Kind.none, .plays(asked: 1)
        ),
        .init(
            "another model was provisioned", "", [.acquire, .otherModel], RightsStatus.Kind.none,
            .fails("invalid message", asked: 1)),
    ]

    /// With a `licenseURL`.
    static let configured: [PlayReadySituation] = [
        .init("individualization", "", [.fault(PlayReadyFault.individualizationRequired)], nil, .plays(asked: 2)),
        .init(
            "individualization twice", "",
            [.fault(PlayReadyFault.individualizationRequired), .fault(PlayReadyFault.individualizationRequired)], nil,
            .fails("individualization", asked: 2)),
        .init(
            "the device was made anew: its licenses are of no use", "",
            [.acquire, .policy("sl:1"), .fault(PlayReadyFault.individualizationRequired), .acquire, .offline], .valid,
            .plays(asked: 0)),
    ]

    /// The times of Microsoft's published sample of a license: asked for at 1446224160, issued 10 s later, to end 60 s
    /// after that. The device's clock starts with the request.
    static let published: [PlayReadySituation] = [
        .init(
            "published sample, at the time of its request", "enddate:1446224230", [.acquire, .offline], .valid,
            .plays(asked: 0)),
        .init(
            "published sample, when it was issued", "enddate:1446224230", [.acquire, .pass(10), .offline], .valid,
            .plays(asked: 0)),
        .init(
            "published sample, a second before its end", "enddate:1446224230", [.acquire, .pass(69), .offline], .valid,
            .plays(asked: 0)),
        .init(
            "published sample, a minute after it was issued", "enddate:1446224230", [.acquire, .pass(70), .offline],
            .expired, .fails("offline", asked: 2)),
        .init(
            "published sample, renewed", "enddate:1446224230", [.acquire, .pass(70), .policy("")], .expired,
            .plays(asked: 1)),
    ]

    /// A row that goes missing is a failure: policy, time, first play, clock, domain, fault, service and sample each
    /// keep at least what they have.
    @Test func theTableHasItsRowsAndEachItsName() {
        let parts = [
            (Self.policies, 15), (Self.times, 16), (Self.firstPlays, 11), (Self.clocks, 18), (Self.domains, 11),
            (Self.faults, 19), (Self.configured, 3), (Self.published, 5),
        ]
        for (rows, least) in parts { #expect(rows.count >= least, "\(rows.first?.name ?? "")") }
        let all = parts.flatMap(\.0)
        #expect(all.count >= 60)
        #expect(Set(all.map(\.name)).count == all.count)
        // Policy, time, store, domain and fault are in it, and every way in which rights can stand.
        #expect(Set(all.compactMap(\.rights)) == Set(RightsStatus.Kind.allCases))
        #expect(Set(all.map(\.policy)).count >= 25)
    }

    @Test(arguments: published) func publishedSample(_ situation: PlayReadySituation) async throws {
        try await check(situation, startingAt: 1_446_224_160)
    }

    @Test(arguments: policies + times + firstPlays) func licenseAndTime(_ situation: PlayReadySituation) async throws {
        try await check(situation)
    }

    @Test(arguments: clocks) func clock(_ situation: PlayReadySituation) async throws { try await check(situation) }

    @Test(arguments: domains + faults) func domainAndFault(_ situation: PlayReadySituation) async throws {
        try await check(situation)
    }

    @Test(arguments: configured) func configuredService(_ situation: PlayReadySituation) async throws {
        try await check(situation, licenseURL: PlayReadyService.url)
    }

    private func check(
        _ situation: PlayReadySituation, licenseURL: String? = nil, startingAt time: Int64 = day(0)
    ) async throws {
        let world = try PlayReadyWorld(time: time) {
            $0.licenseURL = licenseURL
            $0.clockPolicy.earliestTime = min($0.clockPolicy.earliestTime, time * 1000)
        }
        world.service.setPolicy(situation.policy)
        for step in situation.steps { try await perform(step, in: world) }
        if let rights = situation.rights {
            let status = try await world.rights()
            #expect(status.kind == rights, "\(status)")
            #expect(!status.reason.isEmpty)
        }
        let before = world.service.requests(.acquireLicense).count
        let error = try await world.outcome()
        let asked = world.service.requests(.acquireLicense).count - before
        switch situation.outcome {
        case .plays(let count):
            #expect(error == nil)
            #expect(asked == count)
        case .fails(let text, let count):
            #expect(error?.description.contains(text) == true, "\(error?.description ?? "it plays")")
            #expect(asked == count)
        }
    }

    private func perform(_ step: PlayReadySituation.Step, in world: PlayReadyWorld) async throws {
        switch step {
        case .acquire: try await world.client.acquireLicense(for: PlayReadyWorld.data())
        case .play: try await world.play()
        case .preroll: _ = try await world.outcome()
        case .pass(let seconds): world.pass(seconds)
        case .set(let seconds):
            _ = try await world.client.trustedTime()
            world.machine.move(wallBySeconds: seconds)
        case .restart: world.machine.restart()
        case .startAgain: try world.start()
        case .repair: try await world.client.repairClock()
        case .noTimeService: world.service.setTimeService(false)
        case .policy(let text): world.service.setPolicy(text)
        case .offline: world.service.setOffline(true)
        case .fault(let code): world.service.answer(PlayReadyFault(code: code))
        case .renewDomain: try world.service.renewDomain()
        case .resetDomain: try world.service.resetDomain()
        case .join:
            try await world.client.joinDomain(
                .init(accountID: PlayReadyService.accountID), at: "https://domains.example/")
        case .leave:
            try await world.client.leaveDomain(PlayReadyService.accountID, at: "https://domains.example/")
        case .resetDatabase: try await world.client.resetDatabase()
        case .otherModel: try world.start(authority: PlayReadyService.otherAuthority.get())
        }
    }
}
