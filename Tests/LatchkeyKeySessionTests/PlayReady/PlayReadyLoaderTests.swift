// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Foundation
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

@Suite("PlayReady loader", .timeLimit(.minutes(8)))
struct PlayReadyLoaderTests {
    private let clock = ManualClock()

    private func session(_ world: PlayReadyWorld) -> KeySession {
        KeySession(loaders: [world.loader], clock: clock.clock)
    }

    /// Time goes by for everybody.
    private func pass(_ seconds: Int64, _ world: PlayReadyWorld) {
        world.pass(seconds)
        clock.advance(by: .seconds(seconds))
    }

    // MARK: Leases

    @Test func aLicenseWithAnEndIsRenewedWhileItPlays() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("enddate:@+100")
        let session = session(world)
        let watcher = Watcher(session)
        #expect(try await world.outcome(in: session) == nil)
        _ = await watcher.next { $0.isUsable }
        for _ in 0..<3 {
            #expect(session.status(of: keyID(1)).key != nil)
            pass(85, world)
            _ = await watcher.next { $0.isUsable }
        }
        #expect(session.status(of: keyID(1)).key != nil)
        #expect(world.service.requests(.acquireLicense).count == 4)
        #expect(!watcher.events.contains { $0.isExpired })
    }

    @Test(arguments: [true, false]) func theEndStopsWhatIsNotRenewed(isOffline: Bool) async throws {
        let world = try PlayReadyWorld()
        if !isOffline { try world.start(renews: false) }
        world.service.setPolicy("enddate:@+100")
        let session = session(world)
        let watcher = Watcher(session)
        #expect(try await world.outcome(in: session) == nil)
        #expect(session.status(of: keyID(1)).key != nil)
        world.service.setOffline(isOffline)
        pass(101, world)
        let event = await watcher.next { $0.isExpired }
        #expect(event?.summary == "expired 1 in use")
        #expect(session.status(of: keyID(1)).error?.isSameKind(as: .leaseExpired("")) == true)
    }

    @Test func aStoredLicensesEndCountsFromNow() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("enddate:@+100")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.pass(60)
        try world.start(renews: false)
        let session = session(world)
        let watcher = Watcher(session)
        #expect(try await world.outcome(in: session) == nil)
        #expect(session.status(of: keyID(1)).key != nil)
        pass(39, world)
        #expect(session.status(of: keyID(1)).key != nil)
        pass(1, world)
        #expect(await watcher.next { $0.isExpired } != nil)
    }

    @Test func realTimeExpirationCountsFromTheFirstPlay() async throws {
        let world = try PlayReadyWorld()
        try world.start(renews: false)
        world.service.setPolicy("firstexp:60,realtime:true")
        let session = session(world)
        let watcher = Watcher(session)
        #expect(try await world.outcome(in: session) == nil)
        _ = await watcher.next { $0.isUsable }
        pass(1000, world)
        #expect(session.status(of: keyID(1)).key != nil)
        session.didStartPlaying(keyID(1))
        // The same key again, with an end now.
        _ = await watcher.next { $0.isUsable }
        #expect(session.status(of: keyID(1)).key != nil)
        pass(59, world)
        #expect(session.status(of: keyID(1)).key != nil)
        pass(1, world)
        #expect(await watcher.next { $0.isExpired }?.summary == "expired 1 in use")
    }

    /// What a session calls a key when it is asked for, and when it is played.
    enum Naming { case byMedia, byURI, byURIThenByMedia }

    /// By way of the service that the media names, which the renewal itself does not.
    @Test(arguments: [Naming.byMedia, .byURI, .byURIThenByMedia])
    func whatEndsAfterTheFirstPlayIsRenewed(naming: Naming) async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60,realtime:true")
        let session = session(world)
        let watcher = Watcher(session)
        var name = keyID(1)
        let uri = "data:text/plain;charset=UTF-16;base64," + Base64.encode(try PlayReadyWorld.data())
        if naming != .byMedia {
            name = session.keyID(forURI: uri)
            session.demand(KeyDemand(keyIDs: [name], keySystem: .playReady))
        } else {
            try world.demand(session)
        }
        _ = await watcher.next { $0.isUsable }
        // The init segment comes after the playlist.
        if naming == .byURIThenByMedia { name = session.keyID(forURI: uri, mediaKeyID: keyID(7)) }
        session.didStartPlaying(name)
        // The same key again, with an end now.
        _ = await watcher.next { $0.isUsable }
        #expect(session.status(of: name).key != nil)
        pass(51, world)
        _ = await watcher.next { event in
            if case .renewalFailed = event { true } else { event.isUsable }
        }
        #expect(world.service.requests(.acquireLicense).map(\.url) == [PlayReadyService.url, PlayReadyService.url])
        pass(20, world)
        #expect(hex(session.status(of: name).key) == keyHex(1))
    }

    @Test func withoutItOnlyANewStartIsRefused() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60")
        let session = try await world.play()
        #expect(try await world.rights().ends == UnixTime(seconds: day(0) + 60))
        pass(600, world)
        #expect(session.status(of: keyID(1)).key != nil)
        world.service.setOffline(true)
        #expect(try await world.outcome()?.description.contains("offline") == true)
    }

    @Test func whatHasNoTimeAfterTheFirstPlayIsNotMarked() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data([1]))
        world.service.setPolicy("firstexp:60")
        try await world.client.acquireLicense(for: PlayReadyWorld.data([2]))
        let session = session(world)
        #expect(try await world.outcome(in: session, [1, 2]) == nil)
        // One key after the other, in this order.
        session.didStartPlaying(nil)
        while try await world.client.firstPlay(ofKey: keyID(2)) == nil { await Task.yield() }
        #expect(try await world.client.firstPlay(ofKey: keyID(1)) == nil)
    }

    /// Who ends playback can wait for that: it is in the store then, for the next process.
    @Test func thePlayIsWrittenWhenTheSessionSaysSo() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60")
        let session = session(world)
        #expect(try await world.outcome(in: session) == nil)
        #expect(session.unwrittenPlays.isEmpty)
        session.didStartPlaying(keyID(1))
        await session.unwrittenPlays.finish()
        #expect(try await world.client.firstPlay(ofKey: keyID(1)) != nil)
    }

    /// Another process holds the database: the key is there, and may not be played.
    @Test func theKeyOfARentalWaitsForTheNote() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60")
        let session = session(world)
        let watcher = Watcher(session)
        #expect(try await world.outcome(in: session) == nil)
        _ = await watcher.next { $0.isUsable }
        try await world.noAcknowledgementIsDue()
        let other = try SQLiteAccess(world.folder.configuration.database)
        try other.execute("BEGIN IMMEDIATE")
        for _ in 0..<2 { #expect(!session.mayPlay(keyID(1))) }
        let revision = session.revision
        session.didStartPlaying(keyID(1))
        #expect(session.revision == revision)
        #expect(!session.unwrittenPlays.isEmpty)
        try other.execute("ROLLBACK")
        #expect(await watcher.next { $0.isUsable || $0.isFailed }?.summary == "usable 1")
        #expect(session.mayPlay(keyID(1)))
        #expect(try await world.client.firstPlay(ofKey: keyID(1)) != nil)
        // The next session has it noted.
        let next = self.session(world)
        #expect(try await world.outcome(in: next) == nil)
        #expect(next.mayPlay(keyID(1)))
    }

    @Test(arguments: ["", "enddate:@+100"]) func whatDoesNotCountPlaysWaitsForNothing(policy: String) async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy(policy)
        let session = session(world)
        #expect(try await world.outcome(in: session) == nil)
        #expect(session.mayPlay(keyID(1)))
        #expect(session.unwrittenPlays.isEmpty)
    }

    @Test func withoutANoteOfItsFirstPlayARentalDoesNotPlayOn() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60")
        let session = session(world)
        let watcher = Watcher(session)
        #expect(try await world.outcome(in: session) == nil)
        try world.folder.alter("DROP TABLE record")
        session.didStartPlaying(keyID(1))
        await session.unwrittenPlays.finish()
        #expect(session.status(of: keyID(1)).key == nil)
        await session.told()
        let ends = watcher.events.compactMap { event -> String? in
            guard case .failed(_, _, let error) = event else { return nil }
            return error.reason
        }
        #expect(ends.count == 1 && ends.first?.contains("first play cannot be noted") == true)
    }

    /// The license can still be read then, and brings the key back each time.
    @Test func aRentalWhosePlayIsNotNotedComesBackOnlyWithTheNote() async throws {
        let world = try PlayReadyWorld { $0.store.busyTimeout = .milliseconds(20) }
        world.service.setPolicy("firstexp:60")
        let session = session(world)
        #expect(try await world.outcome(in: session) == nil)
        try await world.noAcknowledgementIsDue()
        let other = try SQLiteAccess(world.folder.configuration.database)
        try other.execute("BEGIN IMMEDIATE")
        for _ in 0..<2 {
            #expect(!session.mayPlay(keyID(1)))
            await session.unwrittenPlays.finish()
            #expect(session.status(of: keyID(1)).key == nil)
            #expect(try await world.outcome(in: session) == nil)
        }
        try other.execute("ROLLBACK")
        // Acquiring starts no time.
        #expect(try await world.client.firstPlay(ofKey: keyID(1)) == nil)
        #expect(!session.mayPlay(keyID(1)))
        await session.unwrittenPlays.finish()
        #expect(session.mayPlay(keyID(1)))
        #expect(try await world.client.firstPlay(ofKey: keyID(1)) != nil)
    }

    /// Rentals that are used up do not pile up in the store. The mark stays: the same license would not begin anew.
    @Test func whatIsUsedUpGoesWhenANewLicenseComes() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60")
        for _ in 0..<3 {
            let session = session(world)
            #expect(try await world.outcome(in: session) == nil)
            session.didStartPlaying(keyID(1))
            await session.unwrittenPlays.finish()
            world.pass(61)
            #expect(try await world.rights().kind == .expired)
        }
        let store = try await world.client.parts().store
        #expect(try await store.list(kind: .license).count == 1)
        #expect(try await store.list(kind: .firstPlay).count == 3)
    }

    // MARK: Sessions

    @Test func aLicenseForOneSessionIsNoOthers() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("persist:false")
        let session = session(world)
        #expect(try await world.outcome(in: session) == nil)
        #expect(world.service.requests(.acquireLicense).count == 1)
        #expect(try await world.outcome() == nil)
        #expect(world.service.requests(.acquireLicense).count == 2)
        let parts = try await world.client.parts()
        #expect(try await parts.store.list(kind: .license).isEmpty)
    }

    @Test func aStoredCopyOfSuchALicenseIsOfNoUse() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("persist:false")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        let stolen = try #require(await world.client.sessionLicenses.first)
        let parts = try await world.client.parts()
        var record = stolen.record
        record.id = .random()
        try await parts.store.put(record)
        try world.start()
        let status = try await world.rights()
        #expect(status.kind == .none)
        #expect(status.reason.contains("another session"))
    }

    @Test func aLicenseIsClaimedOnce() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("persist:false")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        let license = try #require(await world.client.sessionLicenses.first)
        #expect(await world.client.claim(license, for: 1))
        #expect(await world.client.claim(license, for: 1))
        #expect(await world.client.claim(license, for: 2) == false)
        #expect(await world.client.sessionLicenses.map(\.session) == [1])
    }

    @Test(arguments: [[1, 2], [2, 1]]) func aKeyThatIsNamedByAURIIsTheHeadersFirst(numbers: [Int]) async throws {
        let world = try PlayReadyWorld()
        let session = session(world)
        let watcher = Watcher(session)
        let uri = "data:text/plain;charset=UTF-16;base64," + Base64.encode(try PlayReadyWorld.data(numbers))
        let name = session.keyID(forURI: uri)
        session.demand(KeyDemand(keyIDs: [name], keySystem: .playReady))
        #expect(await watcher.next { $0.isUsable || $0.isFailed || $0.isUntaken }?.isUsable == true)
        #expect(hex(session.status(of: name).key) == keyHex(numbers[0]))
    }

    @Test func aKeyThatNobodyAskedForWaitsInTheStore() async throws {
        let world = try PlayReadyWorld()
        let session = session(world)
        let watcher = Watcher(session)
        session.demand(
            KeyDemand(
                keyIDs: [keyID(2)], keySystem: .playReady,
                initializationData: [
                    InitializationData(system: .playReady, bytes: try PlayReadyWorld.data([1, 2]), origin: "test")
                ]))
        #expect(await watcher.next { $0.isUsable || $0.isFailed || $0.isUntaken }?.isUsable == true)
        #expect(hex(session.status(of: keyID(2)).key) == keyHex(2))
        #expect(session.status(of: keyID(1)).key == nil)
        world.service.setOffline(true)
        #expect(try await world.outcome(in: session) == nil)
    }

    @Test func severalKeysComeWithOneQuestion() async throws {
        let world = try PlayReadyWorld()
        let session = session(world)
        #expect(try await world.outcome(in: session, [1, 2]) == nil)
        #expect(world.service.requests(.acquireLicense).count == 1)
    }

    @Test func keysThatNoHeaderNamesAreAskedForByKID() async throws {
        let world = try PlayReadyWorld { $0.licenseURL = "https://configured.example/" }
        let session = session(world)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        #expect(await watcher.next { $0.isUsable || $0.isFailed || $0.isUntaken }?.isUsable == true)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
        #expect(world.service.requests(.acquireLicense).map(\.url) == ["https://configured.example/"])
    }

    @Test func aLicenseMayTravelWithTheContent() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        let parts = try await world.client.parts()
        let record = try #require(try await parts.store.records(for: keyID(1), kind: .license).first)
        try await parts.store.deleteAll(kind: .license)
        let filler = [UInt8](repeating: 0, count: 40)
        let data = try PlayReadyObject(
            header: PlayReadyWorld.header(), embeddedLicenseStore: filler + record.payload.dropFirst(5) + filler
        ).serialized()
        world.service.setOffline(true)
        let session = session(world)
        let watcher = Watcher(session)
        session.demand(
            KeyDemand(
                keyIDs: [keyID(1)], keySystem: .playReady,
                initializationData: [InitializationData(system: .playReady, bytes: data, origin: "test")]))
        #expect(await watcher.next { $0.isUsable || $0.isFailed || $0.isUntaken }?.isUsable == true)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
    }

    /// A `pssh` box of version 0, as fragments have it, around a PlayReady object.
    private func fragmentBox(_ object: PlayReadyObject) throws -> InitializationData {
        func bigEndian(_ number: Int) -> [UInt8] { (0..<4).reversed().map { UInt8(number >> ($0 * 8) & 0xFF) } }
        let data = try object.serialized()
        let box = Array("pssh".utf8) + [0, 0, 0, 0] + ProtectionSystem.playReady.bytes + bigEndian(data.count) + data
        return InitializationData(system: .playReady, bytes: bigEndian(box.count + 4) + box, origin: "isobmff/moof")
    }

    private func onDemandHeader(_ keys: [Int], url: String?) throws -> WRMHeader {
        try WRMHeader(
            version: .v4_3, keys: keys.map { .init(keyID($0)) },
            details: .init(licenseAcquisitionURL: url, isOnDemand: true))
    }

    @Test func aFragmentBringsTheLicenseOfItsKey() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data([2]))
        let parts = try await world.client.parts()
        let record = try #require(try await parts.store.records(for: keyID(2), kind: .license).first)
        try await parts.store.deleteAll(kind: .license)
        world.service.setOffline(true)
        let movie = InitializationData(
            system: .playReady, bytes: try PlayReadyObject(header: onDemandHeader([1], url: nil)).serialized(),
            origin: "isobmff/moov")
        // Nothing is asked for ahead: the segments say which keys there are.
        #expect(movie.keyIDs.isEmpty)
        let fragment = try fragmentBox(
            PlayReadyObject(
                header: onDemandHeader([2], url: nil), embeddedLicenseStore: Array(record.payload.dropFirst(5))))
        let session = session(world)
        let watcher = Watcher(session)
        session.demand(
            KeyDemand(keyIDs: [keyID(2)], keySystem: .playReady, initializationData: [movie, fragment]))
        #expect(await watcher.next { $0.isUsable || $0.isFailed || $0.isUntaken }?.isUsable == true)
        #expect(hex(session.status(of: keyID(2)).key) == keyHex(2))
        #expect(world.service.requests(.acquireLicense).count == 1)
    }

    @Test(arguments: [nil, PlayReadyService.url]) func aChainedLeafOfTheMediaIsNamedOrReplaced(url: String?)
        async throws
    {
        let world = try PlayReadyWorld()
        var terms = XMRTerms()
        terms.allowsPlayback = true
        terms.key = .init(keyID: keyID(1), cipher: .chained, data: [UInt8](repeating: 1, count: 32))
        terms.uplink = .init(keyID: keyID(9))
        let leaf = try XMRLicense.make(rightsID: GUID(keyID(1)), objects: terms.objects) { _ in
            [UInt8](repeating: 0, count: 16)
        }
        let fragment = try fragmentBox(
            PlayReadyObject(header: onDemandHeader([1], url: url), embeddedLicenseStore: leaf.bytes))
        let session = session(world)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: .playReady, initializationData: [fragment]))
        let event = await watcher.next { $0.isUsable || $0.isFailed || $0.isUntaken }
        // Where there is a service, it gives a license with a key of its own.
        #expect(event?.isUsable == (url != nil))
        guard case .failed(_, _, let error) = event else { return }
        #expect(error.description.contains("is a leaf on root KID \(keyID(9))"), "\(error)")
    }

    @Test func aPlaylistsDataURIIsAHeader() async throws {
        let world = try PlayReadyWorld()
        let session = session(world)
        let watcher = Watcher(session)
        let uri = "data:text/plain;charset=UTF-16;base64," + Base64.encode(try PlayReadyWorld.data())
        let name = session.keyID(forURI: uri)
        session.demand(KeyDemand(keyIDs: [name], keySystem: .playReady))
        #expect(await watcher.next { $0.isUsable || $0.isFailed || $0.isUntaken }?.isUsable == true)
        #expect(hex(session.status(of: name).key) == keyHex(1))
    }

    /// What the media says of the KID later is no news for the service, which has the header.
    @Test func aRefusalForAPlaylistsHeaderStandsWhenTheMediaSaysItsKID() async throws {
        let world = try PlayReadyWorld()
        let session = session(world)
        let watcher = Watcher(session)
        let uri = "data:text/plain;charset=UTF-16;base64," + Base64.encode(try PlayReadyWorld.data())
        world.service.answer(PlayReadyFault(code: PlayReadyFault.serviceSpecific, customData: "no subscription"))
        session.demand(KeyDemand(keyIDs: [session.keyID(forURI: uri)], keySystem: .playReady))
        #expect(await watcher.next { $0.isFailed } != nil)
        #expect(session.keyID(forURI: uri, mediaKeyID: keyID(1)) == keyID(1))
        #expect(session.status(of: keyID(1)).error?.isRefusal == true)
        #expect(world.service.requests(.acquireLicense).count == 1)
    }

    /// One license of two is refused: it is asked for once, and the other key comes all the same.
    @Test func aRefusedLicenseLeavesTheOthersTheirs() async throws {
        let world = try PlayReadyWorld()
        let session = session(world)
        let watcher = Watcher(session)
        world.service.answer(PlayReadyFault(code: PlayReadyFault.serviceSpecific, customData: "no subscription"))
        session.demand(
            KeyDemand(
                keyIDs: [keyID(1), keyID(2)], keySystem: .playReady,
                initializationData: try [1, 2].map {
                    InitializationData(system: .playReady, bytes: try PlayReadyWorld.data([$0]), origin: "test")
                }))
        #expect(await watcher.next { $0.isFailed } != nil)
        #expect(session.status(of: keyID(1)).error?.isRefusal == true)
        #expect(hex(session.status(of: keyID(2)).key) == keyHex(2))
        #expect(world.service.requests(.acquireLicense).count == 2)
    }

    /// The content's header goes out as a whole, for one of its keys too.
    @Test func aRefusalOfAHeaderStandsForEachOfItsKeys() async throws {
        let world = try PlayReadyWorld()
        let session = session(world)
        let watcher = Watcher(session)
        world.service.answer(PlayReadyFault(code: PlayReadyFault.serviceSpecific, customData: "no subscription"))
        try world.demand(session, [1, 2])
        #expect(await watcher.next { $0.isFailed } != nil)
        for number in [1, 2] {
            #expect(session.status(of: keyID(number)).error?.isRefusal == true)
            #expect(!session.failedWithUnused(keyID(number)))
        }
        #expect(world.service.requests(.acquireLicense).count == 1)
    }

    @Test func otherRequestsAreLeftToOthers() async throws {
        let world = try PlayReadyWorld()
        let session = session(world)
        let watcher = Watcher(session)
        for (system, number) in [(KeySystem.clearKey, 1), (.fairPlay, 2)] {
            session.demand(KeyDemand(keyIDs: [keyID(number)], keySystem: system))
            #expect(await watcher.next { $0.isUntaken || $0.isFailed }?.isUntaken == true)
        }
        #expect(world.service.operations.isEmpty)
    }

    @Test func whatIsMissingIsNamed() async throws {
        let world = try PlayReadyWorld()
        let session = session(world)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: .playReady))
        let error = await watcher.next { $0.isFailed }
        guard case .failed(_, _, let reason) = error else { return }
        #expect(reason.description.contains("license-url"))
        await #expect(throws: PlayReadyAcquisitionError.self) { try await world.client.acquireLicense(for: [1, 2]) }
    }

    @Test func withoutAcquisitionOnlyWhatIsStoredCounts() async throws {
        let world = try PlayReadyWorld()
        try world.start(acquires: false)
        #expect(try await world.outcome()?.description.contains("0x8004C013") == true)
        #expect(world.service.operations.isEmpty)
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        #expect(try await world.outcome() == nil)
    }

    @Test func anOutputRuleReachesTheSession() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("ucvopl:300")
        let session = session(world)
        #expect(try await world.outcome(in: session) == nil)
        #expect(session.outputRequirement(of: keyID(1)) == .hdcpType0)
        #expect(session.externalProtectionStatus(of: keyID(1)) == .pending)
    }

    @Test func eachOutputRuleIsForItsKindOfTrack() async throws {
        let rows: [(policy: String, refused: Set<OutputPolicy.Media>)] = [
            ("ucvopl:301", [.video]), ("ucaopl:301", [.audio]), ("ucvopl:300,ucaopl:300", []),
            ("ucvopl:301,ucaopl:301", [.video, .audio]), ("caopl:301,cvopl:500", []), ("", []),
        ]
        for row in rows {
            let world = try PlayReadyWorld()
            world.service.setPolicy(row.policy)
            let session = session(world)
            #expect(try await world.outcome(in: session) == nil)
            for media in [OutputPolicy.Media.video, .audio] {
                let error = session.refusal(of: keyID(1), for: media)
                #expect((error != nil) == row.refused.contains(media), "\(row.policy), \(media)")
                guard let error else { continue }
                #expect(error.description.contains("0x8004CD22"))
                #expect(error.description.contains(keyID(1).description))
            }
            let policy = session.outputPolicy(of: keyID(1))
            #expect((policy == nil) == row.policy.isEmpty)
            #expect(policy.map { $0.compressedRule(for: .video) == .block } ?? true)
            if row.policy.hasPrefix("caopl") { #expect(policy?.compressedRule(for: .audio) == .block) }
        }
    }

    @Test func oneKeysOutputRulesAreNotTheOthers() async throws {
        let world = try PlayReadyWorld()
        let (first, second) = (Hex.encode(keyID(1).bytes), Hex.encode(keyID(2).bytes))
        world.service.setPolicy("(kid:\(first),ucvopl:301),(kid:\(second),ucaopl:100)")
        let session = session(world)
        #expect(try await world.outcome(in: session, [1, 2]) == nil)
        #expect(session.refusal(of: keyID(1), for: .video) != nil)
        #expect(session.refusal(of: keyID(2), for: .video) == nil)
        #expect(session.outputRequirement(of: keyID(2)) == .unprotected)
    }

    @Test func errorsNameTheKIDOrTheService() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("enddate:@-1")
        #expect(try await world.outcome()?.description.contains("KID \(keyID(1))") == true)
        world.service.answer(PlayReadyFault(code: PlayReadyFault.certificateRevoked))
        #expect(try await world.outcome()?.description.contains("from \(PlayReadyService.url)") == true)
    }

    @Test func aSessionThatClosesCancelsTheExchange() async throws {
        let world = try PlayReadyWorld()
        let (arrived, isCancelled) = (Signal<Void>(), Signal<Bool>())
        world.service.gate.withLock {
            $0 = {
                arrived.send(())
                await withTaskCancellationHandler {
                    while !Task.isCancelled { await Task.yield() }
                } onCancel: {
                    isCancelled.send(true)
                }
            }
        }
        let session = session(world)
        try world.demand(session)
        await arrived.wait()
        session.close(.cancelled("the test ends"))
        #expect(await isCancelled.wait() == true)
    }

    // MARK: Faults, which nobody signs

    @Test func aFaultTakesNoMembershipAway() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("domain:\(PlayReadyService.accountID)")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.service.answer(
            PlayReadyFault(code: PlayReadyFault.notAMember), PlayReadyFault(code: PlayReadyFault.deviceLimitReached))
        await #expect(throws: PlayReadyAcquisitionError.self) {
            try await world.client.acquireLicense(for: PlayReadyWorld.data())
        }
        #expect(world.service.requests(.joinDomain).count == 2)
        #expect(try await world.client.domains().count == 1)
        world.service.setOffline(true)
        #expect(try await world.outcome() == nil)
    }

    @Test func aFaultOfAServiceThatTheMediaNamesTakesNoDeviceAway() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.service.answer(PlayReadyFault(code: PlayReadyFault.individualizationRequired))
        await #expect(throws: PlayReadyAcquisitionError.self) {
            try await world.client.acquireLicense(for: PlayReadyWorld.data())
        }
        world.service.setOffline(true)
        #expect(try await world.outcome() == nil)
    }

    @Test func theServicesOwnWordReachesTheApplication() async throws {
        let world = try PlayReadyWorld()
        world.service.answer(PlayReadyFault(code: PlayReadyFault.serviceSpecific, customData: "pay first"))
        let data = try PlayReadyWorld.data()
        do throws(PlayReadyAcquisitionError) {
            try await world.client.acquireLicense(for: data)
            Issue.record("it was acquired")
        } catch {
            #expect(error.customData == "pay first")
            #expect(error.action == .askService)
            #expect(!error.description.contains("pay first"))
        }
    }

    @Test func theServiceHearsThatLicensesAreStored() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("tid:AAECAw==")
        #expect(try await world.outcome() == nil)
        try await world.noAcknowledgementIsDue()
        #expect(world.service.operations == [.acquireLicense, .acknowledgeLicense])
        #expect(world.service.openTransactions == 0)
    }

    @Test func theAcknowledgementHoldsNothingUp() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("tid:AAECAw==")
        let (held, release) = AsyncStream<Never>.makeStream()
        let count = Mutex(0)
        world.service.gate.withLock { gate in
            gate = {
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                if number > 1 { for await _ in held {} }
            }
        }
        #expect(try await world.outcome() == nil)
        #expect(world.service.openTransactions == 1)
        release.finish()
        try await world.noAcknowledgementIsDue()
        #expect(world.service.openTransactions == 0)
    }

    @Test(arguments: ["", "persist:false,"])
    func anAcknowledgementThatIsLostIsSentByTheNextProcess(_ persistence: String) async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy(persistence + "tid:AAECAw==")
        world.service.setAcknowledgements(false)
        #expect(try await world.outcome() == nil)
        while world.pauses.withLock({ $0 }) != [.seconds(1), .seconds(10), .seconds(60)] { await Task.yield() }
        while await !world.client.acknowledging.isEmpty { await Task.yield() }
        #expect(world.service.openTransactions == 1)
        world.service.setAcknowledgements(true)
        try world.start()
        _ = try await world.client.trustedTime()
        try await world.noAcknowledgementIsDue()
        #expect(world.service.openTransactions == 0)
        #expect(world.log.withLock { $0.contains { $0.contains("acknowledgement failed") } })
    }

    @Test func anAcknowledgementThatTheServiceKnowsNothingOfIsForgotten() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("tid:AAECAw==")
        world.service.setAcknowledgements(false)
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        while await !world.client.acknowledging.isEmpty { await Task.yield() }
        world.service.forgetTransactions()
        world.service.setAcknowledgements(true)
        try world.start()
        _ = try await world.client.trustedTime()
        try await world.noAcknowledgementIsDue()
    }

    @Test func aStoreThatIsMovedAwayAndPutBackIsOpenedAgain() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.service.setOffline(true)
        let (place, elsewhere) = (world.folder.path + "/data/licenses.db", world.folder.path + "/elsewhere.db")
        try FileManager.default.moveItem(atPath: place, toPath: elsewhere)
        for _ in 0..<2 {
            #expect(try await world.outcome()?.description.contains("put it back") == true)
        }
        try FileManager.default.moveItem(atPath: elsewhere, toPath: place)
        #expect(try await world.outcome() == nil)
    }

    @Test func aSignerThatAServiceRevokedIsRefusedFromThenOn() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("revoke:license-signer,crl:3")
        #expect(try await world.outcome()?.description.contains("certificate revoked") == true)
        // Whoever has the revoked key leaves the list out from now on.
        world.service.setPolicy("")
        #expect(try await world.outcome()?.description.contains("certificate revoked") == true)
        try world.start()
        #expect(try await world.outcome()?.description.contains("certificate revoked") == true)
        let request = String(decoding: world.service.requests(.acquireLicense).last?.body ?? [], as: UTF8.self)
        #expect(request.contains("<Version>3</Version>"))
        // A newer list takes it back.
        world.service.setPolicy("crl:4")
        #expect(try await world.outcome() == nil)
    }

    @Test func keysDoNotOutliveTheirSession() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("persist:false,firstexp:60")
        var sessions = [session(world), session(world)]
        for session in sessions {
            #expect(try await world.outcome(in: session) == nil)
            session.didStartPlaying(keyID(1))
        }
        let ids = await world.client.sessionLicenses.map(\.id)
        #expect(ids.count == 2)
        let firstPlays = try await world.client.parts().firstPlays
        for id in ids { while try await firstPlays.firstPlay(of: id) == nil { await Task.yield() } }
        // One is closed, and the last reference to the other goes.
        sessions[0].close(.sessionClosed("the end"))
        while await world.client.sessionLicenses.count > 1 { await Task.yield() }
        #expect(world.loader.inUse.withLock { !$0.isEmpty })
        sessions = []
        while await !world.client.sessionLicenses.isEmpty { await Task.yield() }
        while world.loader.inUse.withLock({ !$0.isEmpty }) { await Task.yield() }
        for id in ids { while try await firstPlays.firstPlay(of: id) != nil { await Task.yield() } }
    }

    @Test func pausesGrowAndALostConnectionIsTriedOnceMore() async throws {
        let world = try PlayReadyWorld()
        let fault = PlayReadyFault(code: PlayReadyFault.internalError)
        world.service.answer(fault, fault)
        world.service.fail(.truncated("https://licenses.example/"))
        #expect(try await world.outcome() == nil)
        #expect(world.pauses.withLock { $0 } == [.seconds(1), .seconds(2)])
        #expect(world.service.requests(.acquireLicense).count == 4)
    }

    // MARK: Rights

    @Test func rightsSayWhenAndWhy() async throws {
        let world = try PlayReadyWorld()
        #expect(try await world.rights() == .noLicense)
        world.service.setPolicy("begindate:@-5,enddate:@+60,firstexp:600")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        let before = try await world.rights()
        #expect(before.kind == .valid && before.rightsExpireAfterFirstUse)
        #expect(before.begins == UnixTime(seconds: day(0) - 5) && before.ends == UnixTime(seconds: day(0) + 60))
        #expect(before.reason.contains("2026-03-01 00:01:00 UTC"))
        try await world.play()
        let after = try await world.rights()
        #expect(after.kind == .valid && !after.rightsExpireAfterFirstUse)
        world.pass(70)
        #expect(try await world.rights().reason.contains("the license ended on "))
    }

    @Test func contentHasTheRightsOfItsLeastKey() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data([1]))
        #expect(try await world.client.rightsStatus(for: PlayReadyWorld.data([1, 2])).kind == .none)
        try await world.client.acquireLicense(for: PlayReadyWorld.data([2]))
        #expect(try await world.client.rightsStatus(for: PlayReadyWorld.data([1, 2])).kind == .valid)
    }

    @Test func aStoreThatWasClosedIsOpenedAgain() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        try await world.client.parts().store.close()
        world.service.setOffline(true)
        #expect(try await world.outcome() == nil)
    }

    @Test func aStoreThatCannotBeOpenedIsNamed() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        try await world.client.parts().store.close()
        let other = try PlayReadyWorld()
        try await other.client.acquireLicense(for: PlayReadyWorld.data())
        try await other.client.parts().store.close()
        try other.folder.remove("state/device.secret")
        try other.start()
        #expect(try await other.outcome()?.description.contains("secret missing") == true)
    }
}
