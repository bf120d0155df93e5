// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Testing

/// The list of what a store holds says the same as the client, without provisioning and without a network.
@Suite("Stored PlayReady licenses", .timeLimit(.minutes(2)))
struct StoredPlayReadyLicenseTests {
    private func licenses(
        of world: PlayReadyWorld, policy: TrustedClockPolicy = TrustedClockPolicy()
    ) async throws -> [StoredPlayReadyLicense] {
        let store = try await LicenseStore.open(world.folder.configuration)
        return try await store.playReadyLicenses(clocks: world.machine, policy: policy)
    }

    @Test(arguments: [
        ("", 0, RightsStatus.Kind.valid), ("enddate:@+60", 0, .valid), ("enddate:@+60", 61, .expired),
        ("begindate:@+60", 0, .future), ("removaldate:@+60", 61, .none), ("sl:3000", 0, .none),
    ])
    func saysHowRightsStand(_ policy: String, _ seconds: Int64, _ kind: RightsStatus.Kind) async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy(policy)
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.pass(seconds)
        let rights = try await world.rights()
        let list = try await licenses(of: world)
        #expect(list.map(\.keyIDs) == [[keyID(1)]])
        #expect(list.first?.rights == rights)
        #expect(rights.kind == kind)
        #expect(list.first?.domain == nil)
    }

    @Test func saysThatTheClockWasSetBack() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("enddate:@+3600")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.machine.move(wallBySeconds: -86_400)
        #expect(try await licenses(of: world).map(\.rights.kind) == [.untrustedTime])
    }

    /// A device on which only signed time counts. A look with another policy does not make it trust the system clock.
    @Test func saysThatOnlySignedTimeCounts() async throws {
        let world = try PlayReadyWorld { $0.clockPolicy.takesSystemClock = false }
        world.service.setPolicy("enddate:@+3600")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        #expect(try await licenses(of: world).map(\.rights.kind) == [.valid])
        let policy = world.client.configuration.clockPolicy
        #expect(try await licenses(of: world, policy: policy).map(\.rights.kind) == [.untrustedTime])
        try world.start()
        #expect(try await world.rights().kind == .untrustedTime)
        try await world.client.repairClock()
        #expect(try await licenses(of: world, policy: policy).map(\.rights.kind) == [.valid])
    }

    @Test func tellsBeforeAndAfterTheFirstUse() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        let before = try #require(try await licenses(of: world).first).rights
        #expect(before.kind == .valid && before.rightsExpireAfterFirstUse && before.ends == nil)
        try await world.play()
        let after = try #require(try await licenses(of: world).first).rights
        #expect(!after.rightsExpireAfterFirstUse && after.ends == date(0).advanced(bySeconds: 60))
    }

    @Test func namesTheDomain() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("domain:\(PlayReadyService.accountID)")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        let list = try await licenses(of: world)
        #expect(list.map(\.domain) == [PlayReadyService.accountID])
        #expect(list.map(\.rights.kind) == [.valid])
        try await world.client.leaveDomain(PlayReadyService.accountID, at: "https://domains.example/")
        let left = try #require(try await licenses(of: world).first)
        #expect(left.rights.kind == .none && left.rights.reason.contains("domain"))
    }

    @Test func hasEachLicenseOnceInTheOrderOfTheKIDs() async throws {
        let world = try PlayReadyWorld()
        for number in [2, 1] { try await world.client.acquireLicense(for: PlayReadyWorld.data([number])) }
        #expect(try await licenses(of: world).map(\.keyIDs) == [[keyID(1)], [keyID(2)]])
        #expect(Set(try await licenses(of: world).map(\.id)).count == 2)
    }

    /// For two keys, and for one key: each is kept, and acquired again they take the places of the old ones.
    @Test(arguments: [
        "rightsid:00112233-4455-6677-8899-aabbccddeeff",
        "(rightsid:00112233-4455-6677-8899-aabbccddeeff,enddate:@+60),(rightsid:00112233-4455-6677-8899-aabbccddeeff)",
    ])
    func licensesWithOneRightsIDAreAllKept(policy: String) async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy(policy)
        let numbers = policy.contains("(") ? [1] : [1, 2]
        try await world.client.acquireLicense(for: PlayReadyWorld.data(numbers))
        let list = try await licenses(of: world)
        #expect(list.count == 2)
        #expect(Set(list.flatMap(\.keyIDs)) == Set(numbers.map { keyID($0) }))
        #expect(list.allSatisfy { $0.rights.kind == .valid })
        try await world.client.acquireLicense(for: PlayReadyWorld.data(numbers))
        #expect(try await Set(licenses(of: world).map(\.id)) == Set(list.map(\.id)))
        world.pass(61)
        #expect(try await world.rights().kind == .valid)
    }

    /// One license alone goes, and no record of another kind. Acquired again, its first play still counts.
    @Test func oneIsTakenOutAndItsFirstPlayStays() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60")
        for number in [1, 2] { try await world.client.acquireLicense(for: PlayReadyWorld.data([number])) }
        try await world.play()
        let store = try await LicenseStore.open(world.folder.configuration)
        let device = try #require(try await store.list(kind: .device).first)
        #expect(try await !store.removePlayReadyLicense(device.id))
        let first = try #require(try await licenses(of: world).first)
        #expect(try await store.removePlayReadyLicense(first.id))
        #expect(try await !store.removePlayReadyLicense(first.id))
        #expect(try await licenses(of: world).map(\.keyIDs) == [[keyID(2)]])
        #expect(try await store.list(kind: .device).map(\.id) == [device.id])
        #expect(try await store.list(kind: .firstPlay).count == 1)
    }

    /// Neither in the description nor in what a mirror shows.
    @Test func showsNoKey() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        var text = ""
        for license in try await licenses(of: world) { dump(license, to: &text) }
        #expect(!text.lowercased().contains(keyHex(1)) && text.contains("valid"))
    }
}
