// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyViewingSession
import LatchkeyTestSupport
import Testing

@Suite("Session state")
struct SessionStateTests {
    private static func active(_ policy: SessionPolicy = SessionPolicy(), seed: UInt64 = 1) throws -> SessionWorld {
        var world = SessionWorld(policy: policy, seed: seed)
        try world.handle(.start)
        try world.answer()
        return world
    }

    private static func failed(_ kind: SessionFailure.Kind, retryAfter: Int64? = nil) -> SessionState.Reply {
        .failed(SessionFailure(kind, status: 500, message: "of a test", retryAfter: retryAfter))
    }

    /// When the next request goes out, as time since now.
    private static func nextRequest(_ world: inout SessionWorld) throws -> Int64 {
        let start = world.now
        let number = world.sent.last?.number
        while world.sent.last?.number == number, let deadline = world.state.deadline { try world.advance(to: deadline) }
        return world.now - start
    }

    @Test func whatLastsForEverDoesNotOverflow() throws {
        var policy = SessionPolicy()
        policy.interval = .max
        policy.missedBeats = .max
        policy.retryReserve = .max
        for time: WritableKeyPath<SessionPolicy, Int64> in [
            \.safety, \.requestTimeout, \.retryBase, \.retryCap, \.setupWindow, \.credentialWindow, \.teardownWindow,
            \.pauseLimit,
        ] { policy[keyPath: time] = .max }
        var world = SessionWorld(policy: policy)
        try world.handle(.start)
        try world.answer(Self.failed(.unknown))
        _ = try Self.nextRequest(&world)
        try world.answer()
        try world.handle(.pause)
        #expect(world.state.deadline != nil)
        try world.handle(.stop)
        #expect(world.underWay?.kind == .teardown)
    }

    // MARK: Setting up

    @Test func aSessionIsWrittenDownThenSetUpThenOpen() throws {
        var world = SessionWorld()
        let action = try world.handle(.start)
        #expect(action.records == [.write(generation: 1, token: nil, reference: nil)])
        #expect(action.send?.kind == .setup)
        #expect(!world.isGateOpen)
        try world.answer()
        #expect(world.isGateOpen && world.state.phase == .active)
        #expect(world.notices == [.established])
        #expect(world.state.token == SessionToken("token 1"))
    }

    @Test func licensesKeepASessionWithoutHeartbeats() throws {
        var policy = SessionPolicy()
        policy.isKeptByLicenses = true
        var world = try Self.active(policy)
        #expect(world.state.deadline == nil)
        try world.advance(to: world.now + 86_400_000)
        try world.handle(.tick)
        #expect(world.isGateOpen && world.underWay == nil && world.state.phase == .active)
        // A long pause ends it all the same.
        try world.handle(.pause)
        let paused = world.now
        while world.state.phase == .active, let deadline = world.state.deadline { try world.advance(to: deadline) }
        #expect(world.now == paused + policy.pauseLimit && world.underWay?.kind == .teardown)
        try world.answer()
        try world.handle(.play)
        try world.answer()
        #expect(world.isGateOpen && world.state.generation == 2)
        try world.handle(.stop)
        #expect(world.underWay?.kind == .teardown && !world.isGateOpen)
    }

    @Test func aLimitIsFinalAndNeverTriedAgain() throws {
        var world = SessionWorld()
        try world.handle(.start)
        let conflict = SessionFailure.Conflict(reference: "a", label: "TV")
        let failure = SessionFailure(.limit, status: 403, code: "1007", message: "two screens", conflicts: [conflict])
        try world.handle(.reply(to: try #require(world.underWay), .failed(failure)))
        #expect(world.state.phase == .denied && world.state.failure == failure)
        #expect(world.notices == [.setupError(failure)])
        #expect(world.state.deadline == nil && world.records.isEmpty)
    }

    @Test func aServerInTroubleIsAskedAgainUntilTheWindowEnds() throws {
        var world = SessionWorld()
        try world.handle(.start)
        let start = world.now
        while world.state.phase == .settingUp {
            if world.underWay != nil { try world.answer(Self.failed(.unknown)) }
            if let deadline = world.state.deadline, world.underWay == nil { try world.advance(to: deadline) }
        }
        let setups = world.sent.filter { $0.kind == .setup }
        #expect(setups.count >= 2)
        #expect(setups.allSatisfy { $0.sentAt - start < SessionPolicy().setupWindow })
        // The server may hold it after all.
        #expect(world.underWay?.kind == .teardown)
        try world.answer()
        #expect(world.state.phase == .denied && world.records.isEmpty)
    }

    @Test func aCredentialIsRefreshedOnce() throws {
        var world = SessionWorld()
        try world.handle(.start)
        try world.answer(Self.failed(.credential))
        #expect(world.lastAction.wantsCredential && world.underWay == nil)
        try world.handle(.credential(isNew: true))
        #expect(world.underWay?.kind == .setup)
        try world.answer(Self.failed(.credential))
        #expect(!world.lastAction.wantsCredential && world.state.phase == .denied)
    }

    @Test func anApplicationThatBringsNoCredentialIsNotWaitedForForEver() throws {
        var world = try Self.active()
        _ = try Self.nextRequest(&world)
        try world.answer(Self.failed(.credential))
        #expect(world.isGateOpen)
        try world.advance(to: world.now + SessionPolicy().credentialWindow)
        #expect(!world.isGateOpen && world.underWay?.kind == .teardown)
    }

    @Test(arguments: [0, -1, 4_999, 86_400_001, Int64.max, Int64.min])
    func anIntervalThatMakesNoSenseIsRefusedAtSetup(interval: Int64) throws {
        var world = SessionWorld()
        try world.handle(.start)
        let grant = SessionGrant(token: SessionToken("t"), interval: interval)
        try world.handle(.reply(to: try #require(world.underWay), .granted(grant)))
        #expect(!world.isGateOpen && world.underWay?.kind == .teardown)
        #expect(world.state.failure?.kind == .refused)
    }

    @Test(arguments: [5_000, 86_400_000] as [Int64])
    func theLeastAndTheLongestIntervalAreTaken(interval: Int64) throws {
        var world = SessionWorld()
        try world.handle(.start)
        let grant = SessionGrant(token: SessionToken("t"), interval: interval)
        try world.handle(.reply(to: try #require(world.underWay), .granted(grant)))
        #expect(world.isGateOpen && world.state.interval == interval && world.state.failure == nil)
    }

    // MARK: Heartbeats

    @Test func beatsAreSpread() throws {
        var first: [Int64] = []
        var later: [Int64] = []
        for seed in 0..<200 {
            var world = try Self.active(seed: UInt64(seed))
            first.append(try Self.nextRequest(&world))
            let sent = try #require(world.underWay).sentAt
            try world.answer()
            later.append(try Self.nextRequest(&world))
            #expect(world.now - sent == later.last)
        }
        #expect(
            first.allSatisfy { (3_000...48_000).contains($0) } && later.allSatisfy { (30_000...48_000).contains($0) })
        // All parts of the range are used.
        #expect(first.contains { $0 < 9_000 } && first.contains { $0 > 42_000 })
        #expect(later.contains { $0 < 32_000 } && later.contains { $0 > 46_000 })
    }

    @Test func theServerChangesTheIntervalAndTheNumberOfBeats() throws {
        var world = try Self.active()
        _ = try Self.nextRequest(&world)
        let request = try #require(world.underWay)
        try world.handle(.reply(to: request, .granted(SessionGrant(interval: 10_000, missedBeats: 5))))
        #expect(world.state.interval == 10_000 && world.state.missedBeats == 5)
        #expect(world.state.token == SessionToken("token 1"), "no new token: the old one stays")
        #expect((5_000...8_000).contains(try Self.nextRequest(&world)))
        #expect(world.underWay?.timeout == 2_500)
    }

    @Test func tokensRotate() throws {
        var world = try Self.active()
        for number in 2..<6 {
            _ = try Self.nextRequest(&world)
            #expect(world.underWay?.token == SessionToken("token \(number - 1)"))
            try world.answer()
            #expect(
                world.lastAction.records
                    == [.write(generation: 1, token: SessionToken("token \(number)"), reference: "session 1")])
        }
    }

    @Test func aFailedBeatIsTriedAgainWhileThePictureStays() throws {
        var world = try Self.active()
        _ = try Self.nextRequest(&world)
        try world.answer(Self.failed(.unknown))
        #expect(world.state.phase == .grace && world.isGateOpen)
        #expect((4_000...8_000).contains(try Self.nextRequest(&world)))
        try world.answer(Self.failed(.unknown))
        #expect((8_000...16_000).contains(try Self.nextRequest(&world)))
        try world.answer(Self.failed(.unknown))
        #expect((15_000...30_000).contains(try Self.nextRequest(&world)))
        try world.answer()
        #expect(world.state.phase == .active)
        let errors = world.notices.filter { if case .heartbeatError = $0 { true } else { false } }
        #expect(errors.count == 1, "told once for each time of trouble")
    }

    @Test func theEndOfTheLeaseClosesTheGateToTheMillisecond() throws {
        for seed in 0..<50 {
            var world = try Self.active(seed: UInt64(seed))
            let end = world.acceptedAt + 3 * 60_000 - 2_000
            while let deadline = world.state.deadline, deadline < end {
                try world.advance(to: deadline)
                if world.underWay != nil, seed % 2 == 0 { try world.answer(Self.failed(.unknown)) }
            }
            #expect(world.isGateOpen)
            try world.advance(to: end)
            #expect(!world.isGateOpen && world.state.failure?.kind == .expired)
            #expect(world.underWay?.kind == .teardown)
        }
    }

    @Test func retryAfterIsHonouredWithinTheLease() throws {
        var world = try Self.active()
        _ = try Self.nextRequest(&world)
        try world.answer(Self.failed(.unknown, retryAfter: 40_000))
        #expect((40_000...50_000).contains(try Self.nextRequest(&world)))
        try world.answer(Self.failed(.unknown, retryAfter: .max))
        let end = world.acceptedAt + 3 * 60_000 - 2_000
        _ = try Self.nextRequest(&world)
        #expect(world.now == end - 10_000, "the last attempt comes in time for an answer")
    }

    @Test func retriesAreRationed() throws {
        var policy = SessionPolicy()
        policy.retryReserve = 2
        var world = try Self.active(policy)
        var retries = 0
        // Every other heartbeat fails, for ever.
        for _ in 0..<200 {
            _ = try Self.nextRequest(&world)
            try world.answer(Self.failed(.unknown))
            if try Self.nextRequest(&world) < 30_000 { retries += 1 }
            try world.answer()
        }
        #expect((20...24).contains(retries), "\(retries) of 200: one in ten, and the reserve")
    }

    @Test func whatTheServerEndsIsOver() throws {
        for kind in [SessionFailure.Kind.ended, .limit] {
            var world = try Self.active()
            _ = try Self.nextRequest(&world)
            try world.answer(Self.failed(kind))
            #expect(!world.isGateOpen && world.state.phase == .lost && world.underWay == nil)
            #expect(world.records.isEmpty, "nothing to end at the next start")
            guard case .heartbeatError(let failure, isFinal: true)? = world.notices.last else {
                Issue.record("\(world.notices)")
                return
            }
            #expect(failure.message == "of a test")
        }
    }

    /// A key server has refused a key, and may know more than this client.
    @Test func aCheckIsAHeartbeatAheadOfItsTime() throws {
        var world = try Self.active()
        // The server has just said that the session is there.
        try world.advance(to: world.now + SessionPolicy.confirmedFor - 1)
        try world.handle(.check)
        #expect(world.underWay == nil)
        try world.advance(to: world.now + 1)
        try world.handle(.check)
        let beat = try #require(world.underWay)
        #expect(beat.kind == .beat)
        try world.handle(.check)
        #expect(world.underWay == beat && world.isGateOpen)
        try world.answer()
        // The next one is due as after any other.
        let next = try Self.nextRequest(&world)
        #expect((30_000...48_000).contains(next))
        try world.answer()
        try world.advance(to: world.now + SessionPolicy.confirmedFor)
        try world.handle(.check)
        try world.answer(Self.failed(.ended))
        #expect(!world.isGateOpen && world.state.phase == .lost)
    }

    @Test func aCheckThatIsNotAnsweredIsAHeartbeatThatFails() throws {
        var world = try Self.active()
        try world.advance(to: world.now + SessionPolicy.confirmedFor)
        try world.handle(.check)
        try world.answer(Self.failed(.unknown))
        #expect(world.isGateOpen && world.state.phase == .grace)
        // A server in trouble is not asked more often for that.
        try world.handle(.check)
        #expect(world.underWay == nil)
    }

    @Test func aSessionThatLicensesKeepIsNotChecked() throws {
        var policy = SessionPolicy()
        policy.isKeptByLicenses = true
        var world = try Self.active(policy)
        try world.advance(to: world.now + SessionPolicy.confirmedFor)
        try world.handle(.check)
        #expect(world.underWay == nil)
    }

    @Test func anEndedSessionIsReplacedOnceWhereThatIsWanted() throws {
        var policy = SessionPolicy()
        policy.replacesEndedSession = true
        var world = try Self.active(policy)
        _ = try Self.nextRequest(&world)
        try world.answer(Self.failed(.ended))
        #expect(world.isGateOpen && world.underWay?.kind == .setup && world.state.generation == 2)
        try world.answer()
        #expect(world.isGateOpen && world.records == [2])
        _ = try Self.nextRequest(&world)
        try world.answer(Self.failed(.ended))
        #expect(!world.isGateOpen && world.state.phase == .lost)
    }

    // MARK: Ending

    @Test func stoppingEndsTheSession() throws {
        var world = try Self.active()
        try world.handle(.stop)
        #expect(
            !world.isGateOpen && world.underWay?.kind == .teardown && world.underWay?.token == world.sent.last?.token)
        try world.handle(.stop)
        try world.answer()
        #expect(world.state.isOver && world.records.isEmpty && world.held.isEmpty)
        #expect(world.notices.last == .closed)
    }

    @Test func aTeardownThatFailsLeavesARecordAndSaysSo() throws {
        var world = try Self.active()
        try world.handle(.stop)
        try world.advance(to: world.now + SessionPolicy().teardownWindow)
        #expect(world.state.isOver && world.records == [1])
        #expect(world.notices.contains { if case .teardownError = $0 { true } else { false } })
    }

    @Test func stoppingWhileSettingUpEndsWhatTheServerGrants() throws {
        var world = SessionWorld()
        try world.handle(.start)
        try world.handle(.stop)
        #expect(world.underWay?.kind == .setup)
        try world.answer()
        #expect(world.underWay?.kind == .teardown && !world.isGateOpen)
        try world.answer()
        #expect(world.state.isOver && world.held.isEmpty && world.records.isEmpty)
    }

    @Test func aSetupThatIsGrantedTooLateIsEnded() throws {
        var policy = SessionPolicy()
        policy.endsUnconfirmed = false
        var world = SessionWorld(policy: policy)
        try world.handle(.start)
        let late = try #require(world.underWay)
        try world.advance(to: world.now + policy.requestTimeout)
        let grant = SessionGrant(token: SessionToken("late"), reference: "stray")
        let action = try world.handle(.reply(to: late, .granted(grant)))
        #expect(action.dispose == .init(generation: 1, token: SessionToken("late"), reference: "stray"))
        #expect(!world.isGateOpen)
    }

    // MARK: Away

    @Test func aPauseIsSatOutThenTheSessionEndsAndComesBack() throws {
        var world = try Self.active()
        let start = world.now
        try world.handle(.pause)
        while world.state.phase == .active, let deadline = world.state.deadline {
            try world.advance(to: deadline)
            if world.underWay?.kind == .beat { try world.answer() }
        }
        #expect(world.now - start == SessionPolicy().pauseLimit)
        try world.answer()
        #expect(world.state.phase == .dormant && world.notices.last == .released && world.held.isEmpty)
        try world.handle(.play)
        try world.answer()
        #expect(world.isGateOpen && world.state.generation == 2)
    }

    @Test(arguments: [false, true]) func whatIsAboutToPlayIsNotPausedUnlessTheMachineSleeps(isAsleep: Bool) throws {
        var world = try Self.active()
        try world.handle(.pause)
        let paused = world.now
        _ = try Self.nextRequest(&world)
        try world.answer()
        #expect(world.now > paused)
        if isAsleep { try world.handle(.suspend) }
        try world.handle(.awaitPlay)
        #expect(world.state.awaySince == (isAsleep ? paused : world.now))
        #expect(world.isGateOpen && world.lastAction == SessionState.Action())
        // What plays is not away.
        try world.handle(.resume)
        try world.handle(.play)
        try world.handle(.awaitPlay)
        #expect(world.state.awaySince == nil)
    }

    @Test func aPauseThatBeginsAnewIsNotOverAtOnce() throws {
        var policy = SessionPolicy()
        policy.pauseLimit = 0
        var world = try Self.active(policy)
        try world.handle(.pause)
        try world.handle(.awaitPlay)
        try world.handle(.tick)
        #expect(world.state.phase == .active)
    }

    @Test func whatPlaysInTheBackgroundKeepsTheSession() throws {
        var world = try Self.active()
        try world.handle(.background)
        let end = world.now + 2 * SessionPolicy().pauseLimit
        while world.now < end, let deadline = world.state.deadline {
            try world.advance(to: deadline)
            if world.underWay != nil { try world.answer() }
        }
        #expect(world.isGateOpen && world.state.generation == 1)
    }

    @Test func inFrontAgainPlaybackGoesOnWithoutErrorElseTheSessionIsSetUpAgain() throws {
        var world = try Self.active()
        try world.handle(.background)
        _ = try Self.nextRequest(&world)
        try world.answer()
        try world.handle(.foreground)
        #expect(world.isGateOpen && world.underWay == nil)

        try world.handle(.background)
        _ = try Self.nextRequest(&world)
        try world.answer(Self.failed(.ended))
        #expect(!world.isGateOpen && world.state.phase == .lost)
        try world.handle(.foreground)
        #expect(world.underWay?.kind == .setup)
        try world.answer()
        #expect(world.isGateOpen)
    }

    @Test func aPauseInTheBackgroundIsAPause() throws {
        for order in [[SessionState.Event.background, .pause], [.pause, .suspend]] {
            var world = try Self.active()
            for event in order { try world.handle(event) }
            try world.handle(.resume)
            while world.state.phase == .active, let deadline = world.state.deadline {
                try world.advance(to: deadline)
                if world.underWay?.kind == .beat { try world.answer() }
            }
            try world.answer()
            #expect(world.state.phase == .dormant && !world.isGateOpen)
            // Playing on in the background is playing.
            try world.handle(.play)
            try world.answer()
            #expect(world.isGateOpen && world.state.generation == 2)
        }
    }

    // MARK: Sleep

    /// Where the server waits for longer than a pause is sat out.
    @Test func suspendingCountsAsAPause() throws {
        var policy = SessionPolicy()
        (policy.interval, policy.pauseLimit) = (3_600_000, 60_000)
        var world = SessionWorld(policy: policy)
        try world.handle(.start)
        try world.answer()
        try world.handle(.suspend)
        try world.advance(to: world.now + 60_000)
        #expect(world.underWay?.kind == .teardown && !world.isGateOpen)
        try world.handle(.start)
        try world.answer()
        try world.handle(.start)
        #expect(world.state.phase == .dormant, "nothing is set up while it stands still")
        try world.handle(.resume)
        if world.underWay == nil { #expect(try Self.nextRequest(&world) <= 5_000) }
        #expect(world.underWay?.kind == .setup)
        try world.answer()
        #expect(world.isGateOpen)
    }

    @Test func aShortSleepChangesNothing() throws {
        var world = try Self.active()
        try world.handle(.suspend)
        #expect(world.state.deadline == world.acceptedAt + 178_000, "nothing is sent")
        world.now += 100_000
        try world.handle(.resume)
        #expect(world.isGateOpen)
        #expect(try Self.nextRequest(&world) <= 5_000)
    }

    @Test(arguments: [true, false]) func afterALongSleepOneBeatTells(wasTold: Bool) throws {
        var world = try Self.active()
        if wasTold { try world.handle(.suspend) }
        world.now += 400_000
        try world.handle(wasTold ? .resume : .tick)
        #expect(!world.isGateOpen && world.state.phase == .verifying && world.underWay?.kind == .beat)
        try world.answer()
        #expect(world.isGateOpen && world.state.generation == 1)
    }

    @Test func whatTheServerForgotDuringSleepIsSetUpAgainAfterAWhile() throws {
        for kind in [SessionFailure.Kind.ended, .credential] {
            var world = try Self.active()
            try world.handle(.suspend)
            world.now += 400_000
            try world.handle(.resume)
            try world.answer(Self.failed(kind))
            #expect(!world.isGateOpen)
            if world.underWay == nil { #expect(try Self.nextRequest(&world) <= 5_000) }
            #expect(world.underWay?.kind == .setup)
            try world.answer()
            #expect(world.isGateOpen && world.state.generation == 2)
        }
    }

    @Test func aClockThatGoesBackIsNotFollowed() throws {
        var world = try Self.active()
        let deadline = try #require(world.state.deadline)
        world.now -= 900_000
        try world.handle(.tick)
        #expect(world.state.deadline == deadline && world.isGateOpen)
    }

    // MARK: With a license

    @Test func aLicenseBringsASession() throws {
        var world = SessionWorld()
        let grant = SessionGrant(token: SessionToken("from the license"), interval: 30_000)
        try world.handle(.adopt(grant, sentAt: world.now - 1_000))
        #expect(world.isGateOpen && world.records == [1] && world.notices == [.established])
        #expect(try Self.nextRequest(&world) <= 24_000)
        #expect(world.underWay?.token == SessionToken("from the license"))
    }

    @Test func aRenewalIsAHeartbeat() throws {
        var world = try Self.active()
        _ = try Self.nextRequest(&world)
        let action = try world.handle(.adopt(SessionGrant(token: SessionToken("renewed")), sentAt: world.now))
        #expect(action.cancels?.kind == .beat && world.underWay == nil)
        #expect((30_000...48_000).contains(try Self.nextRequest(&world)))
    }

    @Test func secretsDoNotPrint() throws {
        let world = try Self.active()
        let printed = "\(world.state) \(String(reflecting: world.state)) \(world.sent)"
        #expect(!printed.contains("token 1"))
        let conflict = SessionFailure.Conflict(reference: "a", terminationCode: "geheim")
        #expect(!"\(conflict) \(String(reflecting: conflict))".contains("geheim"))
    }
}
