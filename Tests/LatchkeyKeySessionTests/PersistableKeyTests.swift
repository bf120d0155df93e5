// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Foundation
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

@Suite("Stored keys", .timeLimit(.minutes(8)))
struct PersistableKeyTests {
    private let authority: FairPlayTestAuthority
    private let folder: StoreFolder
    private let clock = ManualClock()

    init() throws {
        authority = try FairPlayServer.authority.get()
        folder = try StoreFolder()
    }

    private func keys() -> PersistableKeys { PersistableKeys(folder.configuration, clocks: clock) }

    private func configuration(_ secret: UInt8 = 5) -> KeySessionConfiguration {
        var configuration = KeySessionConfiguration()
        configuration.keyPayloadProvider = authority.provider
        configuration.deviceSecret = SealingKey([UInt8](repeating: secret, count: 32))
        configuration.persistableKeys = keys()
        return configuration
    }

    private func loader(
        _ server: FairPlayServer, keys: PersistableKeys? = nil, keyServer: FairPlayLoader.KeyServer? = nil
    ) -> FairPlayLoader {
        FairPlayLoader(
            service: LicenseService(url: "https://keys.example/"),
            certificate: ApplicationCertificate(.data(authority.certificate)),
            persistableKeys: keys ?? self.keys(), transport: server, keyServer: keyServer)
    }

    /// A session of its own for each playback: the error, or nil where the key is usable.
    private func play(
        _ loader: FairPlayLoader, _ uri: String = "skd://movie", secret: UInt8 = 5
    ) async -> (error: KeyError?, session: KeySession) {
        let session = KeySession(loaders: [loader], configuration: configuration(secret), clock: clock.clock)
        let watcher = Watcher(session)
        let keyID = session.keyID(forURI: uri)
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
        _ = await watcher.next { $0.isFailed || $0.isUsable || $0.isUntaken }
        let status = session.status(of: keyID)
        if let key = status.key {
            #expect(hex(key) == keyHex(1))
            #expect(key.initializationVector == FairPlayServer.vector)
        }
        return (status.key == nil ? status.error ?? .noLoader("") : nil, session)
    }

    @Test func aStoredKeyNeedsNoServer() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(persistence: .unlimited))
        #expect(await play(loader(server)).error == nil)
        #expect(server.posts.count == 1)
        #expect(await play(loader(server)).error == nil)
        #expect(server.posts.count == 1)
        #expect(await play(loader(server), "skd://other").error == nil)
        #expect(server.posts.count == 2)
        // What is on disk is neither the key nor readable by others.
        #expect(try await keys().count == 2)
        let path = folder.configuration.database
        #expect(!Hex.encode(try Data(contentsOf: URL(fileURLWithPath: path))).contains(keyHex(1)))
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
    }

    // MARK: For downloads

    private func store(_ loaders: [any ResourceLoader], _ uris: [String] = ["skd://movie"]) async -> [String] {
        var configuration = configuration()
        configuration.isForStorage = true
        let (used, clock) = (configuration, clock.clock)
        let storing = KeyStoring(timeout: .seconds(60), limit: .seconds(60)) { () throws(KeyError) in
            KeySession(loaders: loaders, configuration: used, clock: clock)
        }
        let keys = uris.map { HLSKey(method: .sampleAES, uri: $0, keyFormat: HLSKeyFormat.fairPlay.name) }
        return await storing.store(keys).map { outcome in
            switch outcome {
            case .stored: "stored"
            case .refused(let error): "\(error)"
            case .untaken: "untaken"
            }
        }
    }

    @Test func aDownloadStoresKeysAndPlaybackFindsThemWithoutTheServer() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(persistence: .unlimited))
        #expect(await store([loader(server)], ["skd://movie", "skd://other"]) == ["stored", "stored"])
        #expect(server.posts.count == 2)
        // What is stored is not asked for again.
        #expect(await store([loader(server)]) == ["stored"])
        #expect(await play(loader(server)).error == nil)
        #expect(server.posts.count == 2)
    }

    /// Packagers give the tracks of a presentation keys of their own under one URI.
    @Test func keysOfOneContentIdentifierAreStoredByTheirKIDs() async throws {
        let keys = keys()
        let (movie, other) = (Array("movie".utf8), Array("movie-2".utf8))
        try await keys.store([1], for: movie, keyID: keyID(1))
        #expect(try await keys.key(for: movie) == [1])
        #expect(try await keys.key(for: movie, keyID: keyID(2)) == nil)
        try await keys.store([2], for: movie, keyID: keyID(2))
        try await keys.store([9], for: other)
        #expect(try await keys.key(for: movie, keyID: keyID(1)) == [1])
        #expect(try await keys.key(for: movie, keyID: keyID(2)) == [2])
        // Which of both is meant, nothing says.
        #expect(try await keys.key(for: movie) == nil)
        #expect(try await keys.key(for: other, keyID: keyID(1)) == [9])
        #expect(try await keys.records(for: movie).map(\.payload).sorted { $0[0] < $1[0] } == [[1], [2]])
        try await keys.invalidate(movie)
        #expect(try await keys.records(for: movie).isEmpty)
        #expect(try await keys.key(for: other) == [9])
    }

    @Test func aDownloadBeginsNoPlayback() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(
            FairPlayTerms(
                persistence: .unlimited,
                offlineKey: OfflineKeyTerms(streamID: [UInt8](repeating: 1, count: 16), storage: 3600, playback: 100)))
        #expect(await store([loader(server)]) == ["stored"])
        clock.advance(by: .seconds(1000))
        let loader = loader(server)
        let before = await rights(loader)
        #expect(before?.kind == .valid && before?.rightsExpireAfterFirstUse == true)
        #expect(await play(loader).error == nil)
        let playing = await rights(loader)
        #expect(playing?.kind == .valid && playing?.rightsExpireAfterFirstUse == false)
        #expect(playing?.ends != before?.ends)
        clock.advance(by: .seconds(101))
        #expect(await rights(loader)?.kind == .expired)
        #expect(server.posts.count == 1)
        // The next download gets another.
        #expect(await store([loader]) == ["stored"])
        #expect(server.posts.count == 2)
    }

    /// Both have found no stored key, and both ask the server.
    @Test func aDownloadKeepsWhatAPlaybackHasStoredMeanwhile() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(
            FairPlayTerms(
                persistence: .unlimited,
                offlineKey: OfflineKeyTerms(streamID: [UInt8](repeating: 1, count: 16), storage: 3600, playback: 100)))
        let player = loader(server)
        let downloading = loader(server) { _, _ in
            #expect(await play(player).error == nil)
            return "https://keys.example/"
        }
        #expect(await store([downloading]) == ["stored"])
        #expect(server.posts.count == 2)
        #expect(await rights(player)?.rightsExpireAfterFirstUse == false)
        clock.advance(by: .seconds(101))
        #expect(await rights(player)?.kind == .expired)
        // One that is over, or of another device, is replaced.
        let again = loader(server) { _, identifier in
            do {
                try await keys().store([1], for: identifier)
            } catch { Issue.record(error) }
            return "https://keys.example/"
        }
        #expect(await store([again]) == ["stored"])
        #expect(await rights(player)?.kind == .valid)
    }

    /// Of the stored key, in a session that plays nothing.
    private func rights(_ loader: FairPlayLoader) async -> RightsStatus? {
        let session = KeySession(loaders: [], configuration: configuration(), clock: clock.clock)
        return await loader.rightsStatus(ofStoredKeyFor: "skd://movie", in: session)
    }

    @Test func aDownloadSaysWhyAKeyIsNotStored() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(lease: 100))
        #expect(
            await store([loader(server)]) == ["denied: the key server does not allow the key to be stored"])
        let storeless = FairPlayLoader(
            service: LicenseService(url: "https://keys.example/"),
            certificate: ApplicationCertificate(.data(authority.certificate)), transport: server)
        let asked = server.posts.count
        #expect(await store([storeless])[0].hasSuffix("set stored-keys in [fairplay]"))
        // A key that nobody could keep is not asked for.
        #expect(server.posts.count == asked)
        #expect(await store([]) == ["untaken"])
        let given = CallbackLoader(name: "given") { request in
            request.finishLoading(with: .key(contentKey(1)))
            return true
        }
        #expect(await store([given]) == ["denied: given gave one that is not stored"])
        #expect(await rights(loader(server)) == nil)
        let keys = StaticKeyLoader(try StaticKeys.parse(property: "skd://movie:\(keyHex(1))"))
        #expect(await store([keys]) == ["stored"])
    }

    @Test func whatMayNotBeStoredIsNot() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(lease: 100))
        #expect(await play(loader(server)).error == nil)
        #expect(await play(loader(server)).error == nil)
        #expect(server.posts.count == 2)
        #expect(try await keys().count == 0)
    }

    @Test func theRentalEndsTheStoredKeyAndTheServerIsAskedAgain() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(rental: 1000, persistence: .forRentalDuration))
        let (error, session) = await play(loader(server))
        #expect(error == nil)
        clock.advance(by: .seconds(999))
        #expect(session.status(of: session.keyID(forURI: "skd://movie")).key != nil)
        clock.advance(by: .seconds(1))
        let ended = session.status(of: session.keyID(forURI: "skd://movie")).error
        #expect(ended?.isSameKind(as: .leaseExpired("")) == true)
        #expect(await play(loader(server)).error == nil)
        #expect(server.posts.count == 2)
    }

    @Test func theFirstPlaybackStartsTheSecondClockOnce() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(
            FairPlayTerms(
                persistence: .unlimited,
                offlineKey: OfflineKeyTerms(
                    streamID: [UInt8](repeating: 1, count: 16), storage: 10_000, playback: 500)))
        #expect(await play(loader(server)).error == nil)
        clock.advance(by: .seconds(400))
        // The second playback does not start it anew.
        let (error, session) = await play(loader(server))
        #expect(error == nil)
        clock.advance(by: .seconds(101))
        #expect(session.status(of: session.keyID(forURI: "skd://movie")).key == nil)
        #expect(server.posts.count == 1)
        #expect(await play(loader(server)).error == nil)
        #expect(server.posts.count == 2)
    }

    @Test func keysAreInvalidatedOneByOneOrAllTogether() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(persistence: .unlimited))
        let loader = loader(server)
        for uri in ["skd://aa", "skd://bb", "skd://cc"] { #expect(await play(loader, uri).error == nil) }
        #expect(server.posts.count == 3)
        let keys = keys()
        try await keys.invalidate(Array("aa".utf8))
        try await keys.invalidate(Array("unknown".utf8))
        #expect(await play(loader, "skd://bb").error == nil)
        #expect(server.posts.count == 3)
        #expect(await play(loader, "skd://aa").error == nil)
        #expect(server.posts.count == 4)
        try await keys.invalidateAll()
        #expect(try await keys.count == 0)
    }

    /// Another process keeps the store locked when the stored key is to be replaced by the one that knows of the first playback.
    /// If the key played all the same, its time would begin anew with each playback.
    @Test func aStoredKeyWhoseFirstPlaybackCannotBeRecordedDoesNotPlay() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(
            FairPlayTerms(
                persistence: .unlimited,
                offlineKey: OfflineKeyTerms(
                    streamID: [UInt8](repeating: 1, count: 16), storage: 10_000, playback: 500)))
        var configuration = configuration()
        let keys = impatientKeys()
        configuration.persistableKeys = keys
        let loader = loader(server, keys: keys)
        #expect(await store([loader]) == ["stored"])
        await keys.prepare()
        let other = try SQLiteAccess(folder.configuration.database)
        try other.execute("BEGIN IMMEDIATE")
        let session = KeySession(loaders: [loader], configuration: configuration, clock: clock.clock)
        let watcher = Watcher(session)
        let keyID = session.keyID(forURI: "skd://movie")
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
        _ = await watcher.next { $0.isFailed || $0.isUsable }
        #expect(watcher.summaries == ["requested 1", "failed 1: invalid configuration"])
        let status = session.status(of: keyID)
        #expect(status.key == nil)
        for part in ["cannot be recorded", "busy", "has room"] {
            #expect(status.error?.description.contains(part) == true, "\(String(describing: status.error))")
        }
        try other.execute("ROLLBACK")
        #expect(await rights(loader)?.rightsExpireAfterFirstUse == true)
        let (error, playing) = await play(loader)
        #expect(error == nil)
        clock.advance(by: .seconds(501))
        #expect(playing.status(of: playing.keyID(forURI: "skd://movie")).key == nil)
        #expect(await rights(loader)?.kind == .expired)
        #expect(server.posts.count == 1)
    }

    @Test func aStoredKeyThatIsOverAndCannotBeRemovedIsNamed() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(rental: 1000, persistence: .forRentalDuration))
        let keys = impatientKeys()
        let loader = loader(server, keys: keys)
        #expect(await play(loader).error == nil)
        clock.advance(by: .seconds(1001))
        var configuration = configuration()
        configuration.persistableKeys = keys
        let other = try SQLiteAccess(folder.configuration.database)
        try other.execute("BEGIN IMMEDIATE")
        let session = KeySession(loaders: [loader], configuration: configuration, clock: clock.clock)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [session.keyID(forURI: "skd://movie")], keySystem: .fairPlay))
        _ = await watcher.next(where: \.isFailed)
        #expect(
            watcher.summaries == ["requested 1", "not stored 1: invalid configuration", "failed 1: lease expired"])
        #expect(server.posts.count == 1)
    }

    /// Waits for other processes only for a moment.
    private func impatientKeys() -> PersistableKeys {
        var configuration = folder.configuration
        configuration.busyTimeout = .milliseconds(50)
        return PersistableKeys(configuration, clocks: clock)
    }

    // MARK: What was put back

    private static let rental = FairPlayTerms(
        persistence: .unlimited,
        offlineKey: OfflineKeyTerms(streamID: [UInt8](repeating: 1, count: 16), storage: 10_000, playback: 500))

    /// The whole folder of the store was copied while the rental had not begun.
    @Test func aStoreThatWasPutBackPlaysNoRentalAgain() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(Self.rental)
        #expect(await store([loader(server)]) == ["stored"])
        try folder.copy("data", to: "copy")
        #expect(await play(loader(server)).error == nil)
        clock.advance(by: .seconds(501))
        #expect(await rights(loader(server))?.kind == .expired)
        try folder.copy("copy", to: "data")
        let error = await play(loader(server)).error
        #expect(error?.description.contains("rolled back") == true, "\(String(describing: error))")
        #expect(await rights(loader(server))?.kind == RightsStatus.Kind.none)
        #expect(server.posts.count == 1)
    }

    /// The file of one key is put back: a record is as it was, in a database that has gone on.
    @Test func aKeyOfAnOlderStoreIsNoKeyOfThisOne() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(Self.rental)
        #expect(await store([loader(server)]) == ["stored"])
        try folder.copy("data/licenses.db", to: "older.db")
        #expect(await play(loader(server)).error == nil)
        try folder.alter(
            """
            ATTACH '\(folder.path)/older.db' AS older;
            UPDATE record SET sealed = (SELECT sealed FROM older.record WHERE older.record.id = record.id)
            WHERE kind = 3;
            """)
        let error = await play(loader(server)).error
        #expect(error?.description.contains("altered") == true, "\(String(describing: error))")
    }

    @Test(arguments: [-10, -200, -299, -300])
    func aSystemClockThatIsSetBackALittleGivesNoTime(seconds: Int64) async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(rental: 1000, persistence: .forRentalDuration))
        let (error, session) = await play(loader(server))
        #expect(error == nil)
        clock.advance(by: .seconds(900))
        clock.set(by: seconds)
        let (again, second) = await play(loader(server))
        #expect(again == nil)
        clock.advance(by: .seconds(99))
        for playing in [session, second] {
            #expect(playing.status(of: playing.keyID(forURI: "skd://movie")).key != nil)
        }
        clock.advance(by: .seconds(1))
        for playing in [session, second] {
            let error = playing.status(of: playing.keyID(forURI: "skd://movie")).error
            #expect(error?.isSameKind(as: .leaseExpired("")) == true)
        }
        #expect(await rights(loader(server))?.kind == .expired)
        #expect(server.posts.count == 1)
    }

    /// It is refused until the clock is right again, and no time is gained by that.
    @Test(arguments: [3600, 86400])
    func aSystemClockThatIsSetBackIsToBeSetRight(seconds: Int64) async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(rental: UInt32(2 * seconds), persistence: .forRentalDuration))
        #expect(await play(loader(server)).error == nil)
        clock.advance(by: .seconds(seconds + 1000))
        clock.set(by: -seconds)
        let error = await play(loader(server)).error
        #expect(error?.description.contains("the system clock was set back; set it right") == true)
        #expect(server.posts.count == 1)
        clock.set(by: seconds)
        let (again, session) = await play(loader(server))
        #expect(again == nil)
        clock.advance(by: .seconds(seconds - 1000))
        let ended = session.status(of: session.keyID(forURI: "skd://movie")).error
        #expect(ended?.isSameKind(as: .leaseExpired("")) == true)
    }

    private final class Kept: Sendable {
        let key = Mutex<[UInt8]?>(nil)
    }

    /// A loader that keeps its keys by itself has the trusted clock too: of the store that is configured, or else the user's.
    @Test(arguments: [true, false])
    func keysThatAnApplicationKeepsEndByTheTrustedClock(isConfigured: Bool) async throws {
        var configuration = configuration()
        if !isConfigured {
            configuration.usersKeys = { [keys = configuration.persistableKeys] in keys }
            configuration.persistableKeys = nil
        }
        let used = configuration
        let kept = Kept()
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(rental: 1000, persistence: .forRentalDuration))
        let service = LicenseService(url: "https://keys.example/")
        let certificate = authority.certificate
        let own = CallbackLoader(name: "own") { request in
            Task {
                do {
                    if let key = kept.key.withLock(\.self) { return request.finishLoading(with: .persistableKey(key)) }
                    var options = request.defaultExchangeOptions
                    options.requestsPersistableKey = true
                    let spc = try request.streamingContentKeyRequestData(
                        forApp: certificate, contentIdentifier: Array("movie".utf8), options: options)
                    let sent = try service.request(
                        for: KeyURI("skd://movie"), contentIdentifier: Array("movie".utf8), spc: spc,
                        isPersistent: true,
                        mediaURL: nil)
                    let ckc = try service.ckc(in: try await server.send(sent).body, for: KeyURI("skd://movie"))
                    let key = try request.persistableContentKey(fromKeyVendorResponse: ckc)
                    kept.key.withLock { $0 = key }
                    return request.finishLoading(with: .persistableKey(key))
                } catch {
                    Issue.record(error)
                    return request.finishLoading(with: .denied("\(error)"))
                }
            }
            return true
        }
        func play() async -> KeyError? {
            let session = KeySession(loaders: [own], configuration: used, clock: clock.clock)
            let watcher = Watcher(session)
            let keyID = session.keyID(forURI: "skd://movie")
            session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
            _ = await watcher.next { $0.isFailed || $0.isUsable }
            return session.status(of: keyID).error
        }
        #expect(await play() == nil)
        clock.advance(by: .seconds(999))
        #expect(await play() == nil)
        clock.set(by: -200)
        clock.advance(by: .seconds(1))
        #expect(await play()?.isSameKind(as: .leaseExpired("")) == true)
        #expect(server.posts.count == 1)
    }

    /// There is a device secret, and no place for a store whose clock counts.
    @Test func withoutATrustedClockNothingIsStored() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(persistence: .unlimited))
        var configuration = configuration()
        configuration.persistableKeys = nil
        configuration.usersKeys = { nil }
        let session = KeySession(loaders: [loader(server)], configuration: configuration, clock: clock.clock)
        let watcher = Watcher(session)
        let keyID = session.keyID(forURI: "skd://movie")
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
        _ = await watcher.next(where: \.isFailed)
        #expect(session.status(of: keyID).error?.description.contains("need a trusted clock") == true)
        #expect(try await keys().count == 0)
    }

    /// An earlier version had a file for each key. It is not read, is counted, and goes with the others.
    @Test func filesOfEarlierVersionsAreNotRead() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(persistence: .unlimited))
        let earlier = try FilePersistableKeyStore(folder: folder.path + "/data")
        try earlier.store([1], named: "key-\(Hex.encode(try Digest.sha256(Array("movie".utf8))))")
        try earlier.store([1], named: "session-1")
        #expect(try await keys().count == 1)
        let lines = Mutex<[String]>([])
        var configuration = configuration()
        configuration.log = { line in lines.withLock { $0.append(line) } }
        let session = KeySession(loaders: [loader(server)], configuration: configuration, clock: clock.clock)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [session.keyID(forURI: "skd://movie")], keySystem: .fairPlay))
        _ = await watcher.next { $0.isFailed || $0.isUsable }
        #expect(watcher.summaries.last == "usable 1")
        #expect(lines.withLock(\.self).contains { $0.contains("an earlier version of Latchkey stored is not used") })
        #expect(server.posts.count == 1)
        #expect(try await keys().count == 2)
        try await keys().invalidateAll()
        #expect(try await keys().count == 0)
        #expect(try earlier.names() == ["session-1"])
    }

    @Test func aCopyIsOfNoUseOnAnotherDevice() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(persistence: .unlimited))
        #expect(await play(loader(server)).error == nil)
        let error = await play(loader(server), secret: 6).error
        #expect(error?.description.contains("-42803") == true)
        #expect(server.posts.count == 1)
    }

    @Test func withoutADeviceSecretNothingIsStored() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(persistence: .unlimited))
        var configuration = configuration()
        configuration.deviceSecret = nil
        let session = KeySession(loaders: [loader(server)], configuration: configuration)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [session.keyID(forURI: "skd://movie")], keySystem: .fairPlay))
        _ = await watcher.next(where: \.isFailed)
        #expect(watcher.summaries.last == "failed 1: invalid configuration")
    }

    @Test func aDeviceSecretIsMadeOnceAndNotShown() throws {
        let path = "\(folder.path)/secret"
        func key(_ path: String) throws -> [UInt8] {
            try FileDeviceSecret(path: path, machine: [1]).keyForPersistableKeys().withBytes { Array($0) }
        }
        let first = try key(path)
        #expect(Set(first).count > 8)
        #expect(try key(path) == first)
        try Data([1, 2, 3]).write(to: URL(fileURLWithPath: path))
        #expect(throws: KeyError.self) { try key(path) }
        #expect(throws: KeyError.self) { try key("/proc/nowhere/secret") }
    }

    @Test(arguments: ["", "../x", "a/b", "a.b", String(repeating: "a", count: 200)])
    func noNameLeadsOutOfTheFolder(name: String) throws {
        let store = try FilePersistableKeyStore(folder: folder.path)
        #expect(throws: KeyError.self) { try store.store([1], named: name) }
        #expect(throws: KeyError.self) { try store.data(named: name) }
        #expect(throws: KeyError.self) { try store.remove(named: name) }
    }

    @Test func theStoreReplacesAndForgets() throws {
        let store = try FilePersistableKeyStore(folder: folder.path)
        #expect(try store.data(named: "a") == nil)
        try store.store([1, 2], named: "a")
        try store.store([3], named: "a")
        try store.store([], named: "b")
        #expect(try store.data(named: "a") == [3])
        #expect(Set(try store.names()) == ["a", "b"])
        try store.remove(named: "a")
        #expect(try store.names() == ["b"])
        #expect(throws: KeyError.self) { try FilePersistableKeyStore(folder: "/nowhere/keys") }
    }
}
