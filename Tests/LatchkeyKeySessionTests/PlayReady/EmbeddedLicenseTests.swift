// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

/// Licenses that travel with the content, whose users may change everything around them.
@Suite struct EmbeddedLicenseTests {
    private static let rightsID = "rightsid:00112233-4455-6677-8899-aabbccddeeff"

    /// The licenses that the service gives for key 1, as they came. They are not in the store any more.
    private func takenLicenses(_ world: PlayReadyWorld) async throws -> [XMRLicense] {
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        let parts = try await world.client.parts()
        let records = try await parts.store.records(for: keyID(1), kind: .license)
        try await parts.store.deleteAll(kind: .license)
        return try records.map { try XMRLicense(reading: Array($0.payload.dropFirst(5))) }
    }

    private func takenLicense(_ world: PlayReadyWorld) async throws -> XMRLicense {
        try #require(try await takenLicenses(world).first)
    }

    /// The same license with other flags of its signature, which are not signed.
    private func changed(_ license: XMRLicense) throws -> XMRLicense {
        var bytes = license.bytes
        bytes[license.signedBytes.count + 1] ^= 2
        let other = try XMRLicense(reading: bytes)
        try #require(other.signedBytes == license.signedBytes && other != license)
        return other
    }

    private func status(_ world: PlayReadyWorld, _ licenses: [XMRLicense]) async throws -> RightsStatus.Kind? {
        try await world.client.judge(embedded: licenses).judged.first?.verdict.status
    }

    /// Copies in the content are not as many rentals.
    @Test func copiesOfALicenseThatTravelsAreOne() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60")
        let license = try await takenLicense(world)
        let first = try #require(try await world.client.judge(embedded: [license]).judged.first)
        #expect(first.verdict.mayPlay)
        _ = try await world.client.markFirstPlay(first.installed)
        world.pass(61)
        for count in [1, 2, 3] {
            let found = try await world.client.judge(embedded: Array(repeating: license, count: count))
            #expect(found.judged.first?.verdict.status == .expired)
        }
    }

    /// Neither the bytes that are not signed, nor what else the content brings, makes another license of it.
    @Test func aLicenseThatTravelsIsOneWhateverIsAroundIt() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("\(Self.rightsID),firstexp:60")
        let license = try await takenLicense(world)
        world.service.setPolicy("\(Self.rightsID),enddate:@+30")
        let other = try await takenLicense(world)
        let first = try #require(try await world.client.judge(embedded: [license]).judged.first)
        _ = try await world.client.markFirstPlay(first.installed)
        world.pass(61)
        let copy = try changed(license)
        for licenses in [[license], [copy], [other, license], [other, copy, license]] {
            #expect(try await status(world, licenses) == .expired)
        }
        try world.start()
        #expect(try await status(world, [other, license]) == .expired)
    }

    /// A license that the service gave, and a copy of it that travels, count each other's first plays.
    @Test(arguments: [false, true], [60, 90] as [UInt32])
    func copiesOfAStoredLicenseAreOne(_ isStoredFirst: Bool, _ seconds: UInt32) async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("(\(Self.rightsID),firstexp:60),(\(Self.rightsID),firstexp:90)")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        let parts = try await world.client.parts()
        let keyring = try await world.client.keyring(in: parts.store)
        let records = try await parts.store.records(for: keyID(1), kind: .license)
        let all = try records.map { try InstalledLicense($0, keyring: keyring) }
        #expect(all.count == 2)
        let stored = try #require(all.first { $0.license.terms.expirationAfterFirstPlay == seconds })
        let copy = stored.license.xmr
        let embedded = try #require(try await world.client.judge(embedded: [copy]).judged.first)
        #expect(embedded.installed.id != stored.id)
        _ = try await world.client.markFirstPlay(isStoredFirst ? stored : embedded.installed)
        world.pass(91)
        #expect(try await status(world, [copy]) == .expired)
        #expect(try await world.client.judge(acquired: [stored]).first?.verdict.status == .expired)
        // Lists say so too.
        let listed = try await parts.store.playReadyLicenses(clocks: world.machine).first { $0.id == stored.id }
        #expect(listed?.rights.kind == .expired)
    }

    /// First plays that were noted under the license's own name count.
    @Test func aFirstPlayUnderTheOldNameCounts() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60")
        let license = try await takenLicense(world)
        let parts = try await world.client.parts()
        let old = try #require(RecordID.forLicenses([(license.rightsID, keyID(1))]).first)
        try await parts.firstPlays.markFirstPlay(for: old)
        world.pass(61)
        #expect(try await status(world, [license]) == .expired)
    }

    /// The same license with a signature that does not fit.
    private func broken(_ license: XMRLicense) throws -> XMRLicense {
        var bytes = license.bytes
        bytes[bytes.count - 1] ^= 1
        return try XMRLicense(reading: bytes)
    }

    /// What is broken is told only if nothing else is there for the key.
    @Test func aBrokenCopyHidesNoLicense() async throws {
        let world = try PlayReadyWorld()
        let license = try await takenLicense(world)
        let broken = try broken(license)
        for licenses in [[broken, license], [license, broken], [broken, broken, license]] {
            let found = try await world.client.judge(embedded: licenses)
            #expect(found.judged.map(\.verdict.mayPlay) == [true])
            #expect(found.failures.isEmpty)
        }
        let found = try await world.client.judge(embedded: [broken])
        #expect(found.judged.isEmpty)
        #expect("\(found.failures.map(\.error))".contains("signature"))
    }

    /// What is broken is told of its own key, and of no other that has no license.
    @Test(arguments: [1, 2], [true, false]) func aBrokenLicenseSaysNothingOfOtherKeys(key: Int, acquires: Bool)
        async throws
    {
        let world = try PlayReadyWorld()
        let broken = try broken(try await takenLicense(world))
        try world.start(acquires: acquires)
        // Of key 1, in media that names both keys and no service.
        let object = try PlayReadyObject(
            header: PlayReadyWorld.header([1, 2], url: nil), embeddedLicenseStore: broken.bytes)
        let data = InitializationData(system: .playReady, bytes: try object.serialized(), origin: "test")
        let session = KeySession(loaders: [world.loader], clock: ManualClock().clock)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(key)], keySystem: .playReady, initializationData: [data]))
        _ = await watcher.next { $0.isUsable || $0.isFailed || $0.isUntaken }
        let error = try #require(session.status(of: keyID(key)).error)
        #expect("\(error)".contains("signature") == (key == 1), "\(error)")
    }

    /// Neither does a box that cannot be read, nor one without a license, in front of the one that has it.
    @Test(arguments: [false, true]) func aBrokenBoxHidesNoLicense(_ isReadable: Bool) async throws {
        let world = try PlayReadyWorld()
        let license = try await takenLicense(world)
        let object = try PlayReadyObject(header: PlayReadyWorld.header(), embeddedLicenseStore: license.bytes)
        let front = try isReadable ? PlayReadyWorld.data() : Array(object.serialized().dropLast(9))
        let boxes = [front, try object.serialized()].map { PSSHBox(system: .playReady, data: $0) }
        let bytes = try boxes.flatMap { try #require($0.serialized()) }
        world.service.setOffline(true)
        let session = KeySession(loaders: [world.loader], clock: ManualClock().clock)
        let watcher = Watcher(session)
        session.demand(
            KeyDemand(
                keyIDs: [keyID(1)], keySystem: .playReady,
                initializationData: [InitializationData(system: .playReady, bytes: bytes, origin: "test")]))
        #expect(await watcher.next { $0.isUsable || $0.isFailed || $0.isUntaken }?.isUsable == true)
    }

    /// Nothing tells when its time began.
    @Test func aLicenseThatEndsAfterItsStoringDoesNotTravel() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("storeexp:60")
        let found = try await world.client.judge(embedded: [try await takenLicense(world)])
        #expect(found.judged.isEmpty)
        #expect("\(found.failures.map(\.error))".contains("after it was stored"))
    }
}
