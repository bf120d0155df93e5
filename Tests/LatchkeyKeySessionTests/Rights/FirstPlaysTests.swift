// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

/// A device's store, clock and first plays, and what rights come of them.
private struct Device {
    let store: LicenseStore
    let clock: TrustedClock
    let firstPlays: FirstPlays

    func status(
        of rights: Rights, license: RecordID, for use: RightsStatus.Use = .start
    ) async throws -> RightsStatus {
        var rights = rights
        rights.firstPlay = try await firstPlays.firstPlay(of: license)
        return RightsStatus(of: rights, at: clock.now(), for: use)
    }

    @discardableResult
    func markFirstPlay(for license: RecordID, isPersistent: Bool = true) async throws -> UnixTime {
        try await firstPlays.markFirstPlay(for: license, isPersistent: isPersistent)
    }
}

@Suite("First plays")
struct FirstPlaysTests {
    private let folder: StoreFolder
    private let machine = TestMachine()
    private let id = recordID(7)
    private let rental = Rights(expiresAfterFirstPlay: 48 * 3600)

    init() throws { folder = try StoreFolder() }

    private func open(_ service: TestTimeService? = nil) async throws -> Device {
        let store = try await LicenseStore.open(folder.configuration)
        let clock = try await TrustedClock.open(storage: store, clocks: machine, service: service?.service)
        return Device(store: store, clock: clock, firstPlays: FirstPlays(clock: clock, store: store))
    }

    @Test func lookingStartsNoTimeAndPlayingDoes() async throws {
        let device = try await open()
        for _ in 0..<3 {
            let status = try await device.status(of: rental, license: id)
            #expect(status.kind == .valid)
            #expect(status.rightsExpireAfterFirstUse)
            #expect(status.ends == nil)
            machine.pass(seconds: 100 * 86_400)
        }
        let mark = try await device.markFirstPlay(for: id)
        #expect(mark == date(300))
        let status = try await device.status(of: rental, license: id)
        #expect(status.kind == .valid)
        #expect(!status.rightsExpireAfterFirstUse)
        #expect(status.ends == date(302))
    }

    @Test func theFirstPlayIsMarkedOnceAndOutlivesTheProcess() async throws {
        var device = try await open()
        #expect(try await device.markFirstPlay(for: id) == date(0))
        machine.pass(seconds: 86_400)
        #expect(try await device.markFirstPlay(for: id) == date(0))
        await device.store.close()
        device = try await open()
        #expect(try await device.markFirstPlay(for: id) == date(0))
        #expect(try await device.status(of: rental, license: id).ends == date(2))
        machine.pass(seconds: 86_400)
        #expect(try await device.status(of: rental, license: id).kind == .expired)
        #expect(try await device.status(of: rental, license: id, for: .continuing).kind == .valid)
        #expect(try await device.status(of: rental, license: recordID(8)).rightsExpireAfterFirstUse)
    }

    @Test func aLicenseInstalledAgainGoesOnWhereItWas() async throws {
        let device = try await open()
        try await device.store.put(license(7))
        try await device.markFirstPlay(for: id)
        try await device.store.delete(id)
        machine.pass(seconds: 3 * 86_400)
        try await device.store.put(license(7))
        #expect(try await device.status(of: rental, license: id).kind == .expired)
    }

    @Test func theMarkOfALicenseThatIsNotPersistentStaysInMemory() async throws {
        let device = try await open()
        #expect(try await device.markFirstPlay(for: id, isPersistent: false) == date(0))
        machine.pass(seconds: 60)
        #expect(try await device.markFirstPlay(for: id, isPersistent: false) == date(0))
        #expect(try await device.status(of: rental, license: id).ends == date(2))
        #expect(try await device.store.list(kind: .firstPlay).isEmpty)
        device.firstPlays.forget([id])
        #expect(try await device.status(of: rental, license: id).rightsExpireAfterFirstUse)
    }

    @Test func takingTheMarkOutOfTheDatabaseIsNoticed() async throws {
        let device = try await open()
        try await device.markFirstPlay(for: id)
        await device.store.close()
        try folder.alter("DELETE FROM record WHERE kind = 4")
        #expect(await failure { try await LicenseStore.open(folder.configuration) } == "altered")
    }

    @Test func aRollbackDisablesWhatHasDatesAlsoWhatIsInstalledMeanwhile() async throws {
        let service = TestTimeService(date(0))
        let device = try await open(service)
        machine.pass(seconds: 3600)
        _ = device.clock.now()
        machine.move(wallBySeconds: -86_400)
        let dated = Rights(begins: date(-1), ends: date(9))
        #expect(try await device.status(of: dated, license: id).kind == .untrustedTime)
        try await device.store.put(license(9))
        #expect(try await device.store.record(recordID(9)) != nil)
        #expect(try await device.status(of: Rights(ends: date(20)), license: recordID(9)).kind == .untrustedTime)
        #expect(try await device.status(of: Rights(), license: recordID(10)).kind == .valid)
        machine.move(wallBySeconds: 86_400)
        #expect(try await device.status(of: dated, license: id).kind == .untrustedTime)
        service.answer.withLock { $0 = .success(date(0).advanced(bySeconds: 3600)) }
        try await device.clock.repair()
        #expect(try await device.status(of: dated, license: id).kind == .valid)
        #expect(try await device.status(of: Rights(ends: date(20)), license: recordID(9)).kind == .valid)
        machine.pass(seconds: 10 * 86_400)
        #expect(try await device.status(of: dated, license: id).kind == .expired)
    }

    @Test func theMostUsefulLicenseStandsForAll() {
        #expect(RightsStatus.Kind.allCases.sorted() == [.none, .expired, .future, .untrustedTime, .valid])
    }

    @Test func thePlayMarkedByAClockThatRanAheadGainsNothing() async throws {
        let service = TestTimeService(date(0))
        let device = try await open(service)
        machine.set(wall: day(1000))
        try await device.markFirstPlay(for: id)
        machine.set(wall: day(0))
        try await device.clock.repair()
        #expect(try await device.status(of: rental, license: id).kind == .expired)
    }
}
