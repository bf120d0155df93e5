// SPDX-License-Identifier: MPL-2.0

import LicenseControl
import ProtectionModel
import Synchronization
import Testing

/// Rights with everything around them: store, clock and first plays.
@Suite("Rights of licences")
struct LicenseRightsTests {
    private let folder: StoreFolder
    private let machine = TestMachine()
    private let id = recordID(7)
    private let rental = Rights(expiresAfterFirstPlay: 48 * 3600)

    init() throws { folder = try StoreFolder() }

    private func open(
        _ service: TestTimeService? = nil
    ) async throws -> (rights: LicenseRights, store: LicenseStore, clock: TrustedClock) {
        let store = try await LicenseStore.open(folder.configuration)
        let clock = try await TrustedClock.open(storage: store, clocks: machine, service: service?.service)
        return (LicenseRights(clock: clock, store: store), store, clock)
    }

    @Test func lookingStartsNoTimeAndPlayingDoes() async throws {
        let (rights, _, _) = try await open()
        for _ in 0..<3 {
            let status = try await rights.status(of: rental, license: id)
            #expect(status.kind == .valid)
            #expect(status.rightsExpireAfterFirstUse)
            #expect(status.ends == nil)
            machine.pass(seconds: 100 * 86_400)
        }
        let mark = try await rights.markFirstPlay(for: id)
        #expect(mark == date(300))
        let status = try await rights.status(of: rental, license: id)
        #expect(status.kind == .valid)
        #expect(!status.rightsExpireAfterFirstUse)
        #expect(status.ends == date(302))
    }

    @Test func theFirstPlayIsMarkedOnceAndOutlivesTheProcess() async throws {
        var (rights, store, _) = try await open()
        #expect(try await rights.markFirstPlay(for: id) == date(0))
        machine.pass(seconds: 86_400)
        #expect(try await rights.markFirstPlay(for: id) == date(0))
        await store.close()
        (rights, store, _) = try await open()
        #expect(try await rights.markFirstPlay(for: id) == date(0))
        #expect(try await rights.status(of: rental, license: id).ends == date(2))
        machine.pass(seconds: 86_400)
        #expect(try await rights.status(of: rental, license: id).kind == .expired)
        #expect(try await rights.status(of: rental, license: id, for: .continuing).kind == .valid)
        #expect(try await rights.status(of: rental, license: recordID(8)).rightsExpireAfterFirstUse)
    }

    @Test func aLicenceInstalledAgainGoesOnWhereItWas() async throws {
        let (rights, store, _) = try await open()
        try await store.put(license(7))
        try await rights.markFirstPlay(for: id)
        try await store.delete(id)
        machine.pass(seconds: 3 * 86_400)
        try await store.put(license(7))
        #expect(try await rights.status(of: rental, license: id).kind == .expired)
    }

    @Test func theMarkOfALicenceThatIsNotPersistentStaysInMemory() async throws {
        let (rights, store, _) = try await open()
        #expect(try await rights.markFirstPlay(for: id, isPersistent: false) == date(0))
        machine.pass(seconds: 60)
        #expect(try await rights.markFirstPlay(for: id, isPersistent: false) == date(0))
        #expect(try await rights.status(of: rental, license: id).ends == date(2))
        #expect(try await store.list(kind: .firstPlay).isEmpty)
        rights.endSession()
        #expect(try await rights.status(of: rental, license: id).rightsExpireAfterFirstUse)
    }

    @Test func takingTheMarkOutOfTheDatabaseIsNoticed() async throws {
        let (rights, store, _) = try await open()
        try await rights.markFirstPlay(for: id)
        await store.close()
        try folder.alter("DELETE FROM record WHERE kind = 4")
        #expect(await failure { try await LicenseStore.open(folder.configuration) } == "altered")
    }

    @Test func aRollbackDisablesWhatHasDatesAlsoWhatIsInstalledMeanwhile() async throws {
        let service = TestTimeService(date(0))
        let (rights, store, clock) = try await open(service)
        machine.pass(seconds: 3600)
        _ = clock.now()
        machine.move(wallBySeconds: -86_400)
        let dated = Rights(begins: date(-1), ends: date(9))
        #expect(try await rights.status(of: dated, license: id).kind == .untrustedTime)
        try await store.put(license(9))
        #expect(try await store.record(recordID(9)) != nil)
        #expect(try await rights.status(of: Rights(ends: date(20)), license: recordID(9)).kind == .untrustedTime)
        #expect(try await rights.status(of: Rights(), license: recordID(10)).kind == .valid)
        machine.move(wallBySeconds: 86_400)
        #expect(try await rights.status(of: dated, license: id).kind == .untrustedTime)
        service.answer.withLock { $0 = .success(date(0).advanced(bySeconds: 3600)) }
        try await clock.repair()
        #expect(try await rights.status(of: dated, license: id).kind == .valid)
        #expect(try await rights.status(of: Rights(ends: date(20)), license: recordID(9)).kind == .valid)
        machine.pass(seconds: 10 * 86_400)
        #expect(try await rights.status(of: dated, license: id).kind == .expired)
    }

    @Test func severalLicencesStandTogether() async throws {
        let (rights, _, _) = try await open()
        #expect(try await rights.status(ofAny: []) == .noLicense)
        let ended = (id: recordID(1), rights: Rights(ends: date(-1)))
        let later = (id: recordID(2), rights: Rights(begins: date(1)))
        let now = (id: recordID(3), rights: Rights(ends: date(1)))
        #expect(try await rights.status(ofAny: [ended]).kind == .expired)
        #expect(try await rights.status(ofAny: [ended, later]).kind == .future)
        #expect(try await rights.status(ofAny: [ended, later, now]).kind == .valid)
    }

    @Test func thePlayMarkedByAClockThatRanAheadGainsNothing() async throws {
        let service = TestTimeService(date(0))
        let (rights, _, clock) = try await open(service)
        machine.set(wall: day(1000))
        try await rights.markFirstPlay(for: id)
        machine.set(wall: day(0))
        try await clock.repair()
        #expect(try await rights.status(of: rental, license: id).kind == .expired)
    }
}
