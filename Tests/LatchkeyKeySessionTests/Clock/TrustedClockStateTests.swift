// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite("Trusted clock, as a value")
struct TrustedClockStateTests {
    private let policy = TrustedClockPolicy()
    private let machine = TestMachine()
    private var state = TrustedClockState()
    private var now = TrustedTime(trust: .unset, time: UnixTime(seconds: 0))

    private mutating func observe(
        event: TrustedClockState.Event?, policy: TrustedClockPolicy = TrustedClockPolicy(),
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let outcome = state.observe(machine.reading(), policy: policy)
        #expect(outcome == event, sourceLocation: sourceLocation)
    }

    private mutating func repair(
        _ time: UnixTime, isTaken: Bool, policy: TrustedClockPolicy = TrustedClockPolicy(),
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let outcome = state.repair(signed: time, at: machine.reading(), policy: policy)
        #expect(outcome == isTaken, sourceLocation: sourceLocation)
    }

    private mutating func look() -> TrustedTime {
        _ = state.observe(machine.reading(), policy: policy)
        return state.time
    }

    @Test mutating func theFirstSetClockIsTaken() {
        now = look()
        #expect(now == TrustedTime(trust: .observed, time: date(0)))
        machine.pass(seconds: 90)
        now = look()
        #expect(now.time == date(0).advanced(bySeconds: 90))
    }

    @Test mutating func aClockThatStartsIn1970IsUnsetAndNoRollback() {
        machine.set(wall: 100)
        now = look()
        #expect(now.trust == .unset)
        machine.pass(seconds: 30)
        now = look()
        #expect(now.untrustedSeconds == 30)
        machine.set(wall: day(0))
        now = look()
        #expect(now == TrustedTime(trust: .observed, time: date(0)))
        machine.restart(wall: 50)
        now = look()
        #expect(now.trust == .unset)
        #expect(state.time.time == date(0))
        machine.set(wall: day(1))
        now = look()
        #expect(now == TrustedTime(trust: .observed, time: date(1)))
    }

    @Test mutating func aClockSetBackIsARollbackAndPuttingItRightIsNoRepair() {
        _ = look()
        machine.pass(seconds: 3600)
        _ = look()
        machine.move(wallBySeconds: -7200)
        observe(event: .rolledBack)
        observe(event: nil)
        #expect(state.time.trust == .rolledBack)
        #expect(state.time.time == date(0).advanced(bySeconds: 3600))
        machine.move(wallBySeconds: 7200)
        machine.pass(seconds: 60)
        now = look()
        #expect(now.trust == .rolledBack)
        machine.restart()
        now = look()
        #expect(now.trust == .rolledBack)
        #expect(state.time.untrustedSeconds == 60)
    }

    @Test mutating func aSmallCorrectionIsNoRollbackAndManyAreOne() {
        _ = look()
        machine.move(wallBySeconds: -200)
        now = look()
        #expect(now.trust == .observed)
        #expect(state.time.time == date(0))
        machine.pass(seconds: 10)
        machine.move(wallBySeconds: -200)
        now = look()
        #expect(now.trust == .rolledBack)
    }

    @Test mutating func aClockSetBackWhileTheMachineWasOff() {
        machine.set(wall: day(10))
        _ = look()
        machine.restart(wall: day(9))
        now = look()
        #expect(now.trust == .rolledBack)
        #expect(state.time.time == date(10))
    }

    @Test mutating func suspendCountsAndIsNoJump() {
        _ = look()
        _ = state.repair(signed: date(0), at: machine.reading(), policy: policy)
        machine.pass(seconds: 8 * 3600)
        now = look()
        #expect(
            now
                == TrustedTime(
                    trust: .signed, time: date(0).advanced(bySeconds: 28_800),
                    latestSigned: date(0).advanced(bySeconds: 28_800)))
    }

    @Test mutating func signedTimeIsNotMovedByTheSystemClock() {
        _ = look()
        repair(date(1), isTaken: true)
        now = look()
        #expect(now == TrustedTime(trust: .signed, time: date(1), latestSigned: date(1)))
        machine.move(wallBySeconds: 40 * 86_400)
        now = look()
        #expect(now.time == date(1))
        // Put right again, which is no rollback.
        machine.set(wall: day(1))
        now = look()
        #expect(now == TrustedTime(trust: .signed, time: date(1), latestSigned: date(1)))
        machine.move(wallBySeconds: -3600)
        now = look()
        #expect(now.trust == .rolledBack)
    }

    @Test mutating func aFalseDateInTheFutureCanBeRepaired() {
        machine.set(wall: day(1000))
        _ = look()
        machine.set(wall: day(0))
        now = look()
        #expect(now.trust == .rolledBack)
        repair(date(0), isTaken: true)
        now = look()
        #expect(now == TrustedTime(trust: .signed, time: date(0), latestSigned: date(0)))
    }

    @Test mutating func signedTimeNeverGoesBack() {
        _ = look()
        repair(date(5), isTaken: true)
        repair(date(4), isTaken: false)
        repair(date(5).advanced(bySeconds: -100), isTaken: true)
        #expect(state.time.time == date(5))
        repair(UnixTime(seconds: 5), isTaken: false)
        repair(UnixTime(seconds: .max), isTaken: false)
    }

    @Test mutating func aStartEndsSignedTime() {
        _ = look()
        _ = state.repair(signed: date(0), at: machine.reading(), policy: policy)
        machine.restart(after: 600)
        now = look()
        #expect(now.trust == .observed)
        #expect(state.time.latestSigned == date(0))
    }

    @Test mutating func aSecureClockNeedsSignedTimeAfterEachStart() {
        var policy = policy
        policy.takesSystemClock = false
        observe(event: nil, policy: policy)
        #expect(state.time.trust == .unset)
        repair(date(0), isTaken: true, policy: policy)
        machine.pass(seconds: 5)
        _ = state.observe(machine.reading(), policy: policy)
        #expect(state.time.trust == .signed)
        machine.restart()
        _ = state.observe(machine.reading(), policy: policy)
        #expect(state.time.trust == .unset)
        machine.restart(wall: day(-1))
        observe(event: .rolledBack, policy: policy)
    }

    @Test mutating func distrustSpreadsAndSoDoesARepair() {
        _ = look()
        let trusting = state
        machine.move(wallBySeconds: -7200)
        _ = look()
        let distrusting = state
        #expect(trusting.merged(with: distrusting).time.trust == .rolledBack)
        #expect(distrusting.merged(with: trusting).time.trust == .rolledBack)
        var repaired = distrusting
        let isRepaired = repaired.repair(signed: date(1), at: machine.reading(), policy: policy)
        #expect(isRepaired)
        #expect(distrusting.merged(with: repaired) == repaired)
        #expect(repaired.merged(with: distrusting) == repaired)
    }

    @Test mutating func extremeReadingsDoNotTrap() {
        var random = SeededGenerator(seed: 8)
        let values: [Int64] = [.min, .min + 1, -1, 0, 1, 1_800_000_000_000, .max - 1, .max]
        for _ in 0..<20_000 {
            let reading = ClockReading(
                wall: values.randomElement(using: &random) ?? 0, sinceBoot: values.randomElement(using: &random) ?? 0,
                bootID: Bool.random(using: &random) ? "a" : "b")
            if Int.random(in: 0..<5, using: &random) == 0 {
                let seconds = values.randomElement(using: &random) ?? 0
                _ = state.repair(signed: UnixTime(seconds: seconds), at: reading, policy: policy)
            } else {
                _ = state.observe(reading, policy: policy)
            }
            #expect(try! TrustedClockState(serialized: state.serialized()) == state)
        }
    }

    /// Random walks: the system clock is set, the machine is suspended, started anew and repaired, with true time kept
    /// beside it.
    @Test(arguments: 1...40) mutating func randomWalks(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        var policy = policy
        policy.takesSystemClock = seed % 4 != 0
        let tolerance = policy.tolerance / 1000
        var truth = day(0)
        var hasRolledBack = false
        var rollbacks = 0
        var last = look(policy)
        var lastCertain: UnixTime?
        for _ in 0..<400 {
            let lastGood = last.time.seconds
            let wallBefore = machine.reading().wall / 1000
            var isStarted = false
            var wasRepaired = false
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4:
                let seconds = Int64.random(in: 0...20_000, using: &random)
                machine.pass(seconds: seconds)
                truth += seconds
            case 4: machine.move(wallBySeconds: .random(in: -200_000...200_000, using: &random))
            case 5: machine.move(wallBySeconds: .random(in: -100...100, using: &random))
            case 6: machine.set(wall: Bool.random(using: &random) ? truth : .random(in: 0...day(3000), using: &random))
            case 7:
                let seconds = Int64.random(in: 0...200_000, using: &random)
                truth += seconds
                isStarted = true
                machine.restart(after: seconds, wall: Bool.random(using: &random) ? nil : truth - seconds)
            case 8:
                wasRepaired = state.repair(
                    signed: UnixTime(seconds: truth), at: machine.reading(), policy: policy)
                #expect(wasRepaired, "the true time is always taken")
                hasRolledBack = false
            default:
                if let lastCertain {
                    let isTaken = state.repair(
                        signed: lastCertain.advanced(bySeconds: -tolerance - 1), at: machine.reading(), policy: policy)
                    #expect(!isTaken)
                }
            }
            let now = look(policy)
            // By a definition of its own: within a run of the machine, the system clock was moved below what it showed
            // as good; over a start, below the latest good time.
            let wall = machine.reading().wall / 1000
            let wasMovedBack = last.isTrusted && wall < min(wallBefore, lastGood) - tolerance
            let startedBehind = wall < lastGood - tolerance && wall >= policy.earliestTime / 1000
            if !wasRepaired, isStarted ? startedBehind : wasMovedBack {
                hasRolledBack = true
                rollbacks += 1
            }
            if hasRolledBack { #expect(!now.isTrusted, "trusted after a rollback that nothing repaired") }
            if !wasRepaired { #expect(now.time >= last.time, "the latest good time went back") }
            if let lastCertain { #expect(try #require(now.latestSigned) >= lastCertain) }
            if now.trust == .signed { #expect(now.time.seconds <= truth + tolerance) }
            if now.isTrusted { #expect(now.untrustedSeconds == 0) }
            state = try TrustedClockState(serialized: state.serialized())
            last = now
            lastCertain = now.latestSigned
        }
        #expect(rollbacks > 3, "the walk tests nothing")
    }

    private mutating func look(_ policy: TrustedClockPolicy) -> TrustedTime {
        _ = state.observe(machine.reading(), policy: policy)
        return state.time
    }
}
