// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@Suite("Trusted clock")
struct TrustedClockTests {
    private let machine = TestMachine()
    private let kept = KeptClock()
    private let log = EventLog()

    private func open(_ service: TestTimeService? = nil) async throws -> TrustedClock {
        try await TrustedClock.open(
            storage: kept, clocks: machine, service: service?.service, onEvent: { [log] in log.add($0) })
    }

    @Test func whatItKnowsOutlivesTheProcess() async throws {
        var clock = try await open()
        machine.pass(seconds: 1000)
        _ = clock.now()
        try await clock.save()
        machine.restart(wall: day(-1))
        clock = try await open()
        #expect(clock.now().trust == .rolledBack)
        #expect(clock.now().time == date(0).advanced(bySeconds: 1000))
        #expect(log.events == [.trusted, .rolledBack])
    }

    @Test func aRollbackIsSaidOnceUntilItIsRepaired() async throws {
        let service = TestTimeService(date(0))
        let clock = try await open(service)
        machine.move(wallBySeconds: -7200)
        for _ in 0..<3 { #expect(clock.now().trust == .rolledBack) }
        try await clock.save()
        #expect(log.events == [.trusted, .rolledBack])
        #expect(try await clock.repair().trust == .signed)
        #expect(clock.now() == TrustedTime(trust: .signed, time: date(0), latestSigned: date(0)))
        machine.move(wallBySeconds: -7200)
        _ = clock.now()
        try await clock.save()
        #expect(log.events == [.trusted, .rolledBack, .trusted, .rolledBack])
    }

    @Test func anotherProcessLearnsOfIt() async throws {
        let service = TestTimeService(date(0))
        let first = try await open(service)
        let second = try await open(service)
        machine.move(wallBySeconds: -7200)
        _ = first.now()
        try await first.save()
        machine.move(wallBySeconds: 7200)
        try await second.save()
        #expect(second.now().trust == .rolledBack)
        try await first.repair()
        try await second.save()
        #expect(second.now().trust == .signed)
    }

    @Test func badAnswersRepairNothing() async throws {
        let service = TestTimeService(date(0))
        let clock = try await open(service)
        try await clock.repair()
        machine.move(wallBySeconds: -7200)
        _ = clock.now()
        func failure(_ answer: Result<UnixTime, TrustedClockError>) async -> String? {
            service.answer.withLock { $0 = answer }
            do {
                try await clock.repair()
                return nil
            } catch {
                return error.shortDescription
            }
        }
        #expect(await failure(.failure(.notGenuine("signer"))) == "not genuine")
        #expect(await failure(.failure(.serviceFailed("500"))) == "time service failed")
        #expect(await failure(.success(date(-1))) == "goes back")
        #expect(clock.now().trust == .rolledBack)
        #expect(await failure(.success(date(0))) == nil)
    }

    @Test func anAnswerThatComesLateIsRefused() async throws {
        let service = TestTimeService(date(0)) { [machine] in machine.pass(seconds: 61) }
        let clock = try await open(service)
        do {
            try await clock.repair()
            Issue.record("repaired")
        } catch {
            #expect(error.isSameKind(as: .tooSlow("")))
        }
        let restarting = TestTimeService(date(0)) { [machine] in machine.restart() }
        let other = try await open(restarting)
        do {
            try await other.repair()
            Issue.record("repaired")
        } catch {
            #expect(error.isSameKind(as: .tooSlow("")))
        }
    }

    @Test func withoutAServiceThereIsNoRepair() async throws {
        let clock = try await open()
        do {
            try await clock.repair()
            Issue.record("repaired")
        } catch {
            #expect(error.isSameKind(as: .noService("")))
        }
    }

    @Test func theStoreKeepsItSealedAndThroughAReset() async throws {
        let folder = try StoreFolder()
        let store = try await LicenseStore.open(folder.configuration)
        var clock = try await TrustedClock.open(storage: store, clocks: machine)
        try await store.put(license(1))
        #expect(try await store.deleteAll() == 1)
        #expect(try await store.list().map(\.kind) == [.clock])
        machine.move(wallBySeconds: -7200)
        _ = clock.now()
        try await clock.save()
        machine.move(wallBySeconds: 7200)
        clock = try await TrustedClock.open(storage: store, clocks: machine)
        #expect(clock.now().trust == .rolledBack)
    }

    /// A store whose record of the clock is of no format that is known.
    private func storeWithLostClock() async throws -> (StoreFolder, LicenseStore) {
        let folder = try StoreFolder()
        let store = try await LicenseStore.open(folder.configuration)
        let id = try #require(RecordID(Array("latchkey clock 1".utf8)))
        try await store.put(LicenseRecord(id: id, kind: .clock, payload: [9, 9]))
        return (folder, store)
    }

    private func open(_ store: LicenseStore, _ service: TestTimeService) async throws -> TrustedClock {
        try await TrustedClock.open(
            storage: store, clocks: machine, service: service.service, onEvent: { [log] in log.add($0) })
    }

    /// It is not trusted, through starts and whatever the system clock shows, and nothing is written, until signed time
    /// comes.
    @Test func whatCannotBeReadIsReplacedBySignedTimeAlone() async throws {
        let (folder, store) = try await storeWithLostClock()
        defer { withExtendedLifetime(folder) {} }
        let service = TestTimeService(date(0))
        for _ in 0..<2 {
            let clock = try await open(store, service)
            machine.pass(seconds: 100)
            #expect(clock.now().trust == .rolledBack)
            try await clock.save()
            machine.restart()
        }
        guard case .lost(let error)? = log.events.first, log.events.count == 2 else {
            Issue.record("told was \(log.events)")
            return
        }
        #expect("\(error)".contains("the trusted clock's record") && "\(error)".contains("signed time"))
        #expect(try await store.clockFailure() != nil)
        let clock = try await open(store, service)
        let other = try await open(store, service)
        #expect(try await clock.repair().trust == .signed)
        #expect(try await store.clockFailure() == nil)
        try await other.save()
        #expect(other.now().trust == .signed)
        let later = try await open(store, service)
        #expect(later.now() == TrustedTime(trust: .signed, time: date(0), latestSigned: date(0)))
    }

    /// No license with dates counts, not even one with a grace; one without does.
    @Test func licensesWithDatesAreDisabledWhileItIsLost() async throws {
        let (folder, store) = try await storeWithLostClock()
        defer { withExtendedLifetime(folder) {} }
        let now = try await open(store, TestTimeService(date(0))).now()
        var rights = Rights()
        #expect(RightsStatus(of: rights, at: now).kind == .valid)
        rights.ends = date(1)
        rights.grace = 86_400
        let status = RightsStatus(of: rights, at: now)
        #expect(status.kind == .untrustedTime)
        #expect(status.reason.contains("cannot be read any more; connect to the time service"))
    }

    @Test func aStoreThatFailsIsSaidAndTheClockGoesOn() async throws {
        let clock = try await open()
        kept.failure.withLock { $0 = .diskFull("no room") }
        machine.move(wallBySeconds: -7200)
        #expect(clock.now().trust == .rolledBack)
        do {
            try await clock.save()
            Issue.record("saved")
        } catch {
            #expect(error.isSameKind(as: .diskFull("")))
        }
        #expect(clock.now().trust == .rolledBack)
    }

    @Test func theSystemsClocksAreRead() {
        let clocks = SystemClocks()
        let first = clocks.reading()
        let second = clocks.reading()
        #expect(first.wall > 1_700_000_000_000)
        #expect(second.sinceBoot >= first.sinceBoot)
        #expect(first.sinceBoot > 0)
        #expect(first.bootID.count == 36)
        #expect(first.bootID == SystemClocks().reading().bootID)
    }
}
