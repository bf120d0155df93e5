// SPDX-License-Identifier: MPL-2.0

import Foundation
import HTTP
import KeySystems
import MediaFormats
import ProtectionModel
import Synchronization
import Testing

@testable import LicenseControl

@Suite("Stored keys", .timeLimit(.minutes(8)))
struct PersistableKeyTests {
    private let authority: FairPlayTestAuthority
    private let folder = TemporaryFolder()
    private let clock = ManualClock()

    init() throws { authority = try FairPlayServer.authority.get() }

    private func configuration(_ secret: UInt8 = 5) -> KeySessionConfiguration {
        var configuration = KeySessionConfiguration()
        configuration.keyPayloadProvider = authority.provider
        configuration.deviceSecret = SealingKey([UInt8](repeating: secret, count: 32))
        return configuration
    }

    private func loader(
        _ server: FairPlayServer, keyServer: FairPlayLoader.KeyServer? = nil
    ) throws -> FairPlayLoader {
        FairPlayLoader(
            service: LicenseService(url: "https://keys.example/"),
            certificate: ApplicationCertificate(.data(authority.certificate)),
            persistableKeys: PersistableKeys(try FilePersistableKeyStore(folder: folder.path)), transport: server,
            keyServer: keyServer)
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
        #expect(await play(try loader(server)).error == nil)
        #expect(server.posts.count == 1)
        #expect(await play(try loader(server)).error == nil)
        #expect(server.posts.count == 1)
        #expect(await play(try loader(server), "skd://other").error == nil)
        #expect(server.posts.count == 2)
        // What is on disk is neither the key nor readable by others.
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(names.count == 2)
        for name in names {
            let data = try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/\(name)"))
            #expect(!Hex.encode(data).contains(keyHex(1)))
            let mode = try FileManager.default.attributesOfItem(atPath: "\(folder.path)/\(name)")[.posixPermissions]
            #expect(mode as? Int == 0o600)
        }
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
        #expect(await store([try loader(server)], ["skd://movie", "skd://other"]) == ["stored", "stored"])
        #expect(server.posts.count == 2)
        // What is stored is not asked for again.
        #expect(await store([try loader(server)]) == ["stored"])
        #expect(await play(try loader(server)).error == nil)
        #expect(server.posts.count == 2)
    }

    @Test func aDownloadBeginsNoPlayback() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(
            FairPlayTerms(
                persistence: .unlimited,
                offlineKey: OfflineKeyTerms(streamID: [UInt8](repeating: 1, count: 16), storage: 3600, playback: 100)))
        #expect(await store([try loader(server)]) == ["stored"])
        clock.advance(by: .seconds(1000))
        let loader = try loader(server)
        let before = loader.rightsStatus(ofStoredKeyFor: "skd://movie", in: idleSession())
        #expect(before?.kind == .valid && before?.rightsExpireAfterFirstUse == true)
        #expect(await play(loader).error == nil)
        // The loader hears of the first playback behind the event.
        var playing = before
        while playing?.rightsExpireAfterFirstUse == true {
            await Task.yield()
            playing = loader.rightsStatus(ofStoredKeyFor: "skd://movie", in: idleSession())
        }
        #expect(playing?.kind == .valid)
        #expect(playing?.ends != before?.ends)
        clock.advance(by: .seconds(101))
        #expect(loader.rightsStatus(ofStoredKeyFor: "skd://movie", in: idleSession())?.kind == .expired)
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
        let player = try loader(server)
        let downloading = try loader(server) { _, _ in
            #expect(await play(player).error == nil)
            while player.rightsStatus(ofStoredKeyFor: "skd://movie", in: idleSession())?.rightsExpireAfterFirstUse
                != false
            {
                await Task.yield()
            }
            return "https://keys.example/"
        }
        #expect(await store([downloading]) == ["stored"])
        #expect(server.posts.count == 2)
        #expect(
            player.rightsStatus(ofStoredKeyFor: "skd://movie", in: idleSession())?.rightsExpireAfterFirstUse == false)
        clock.advance(by: .seconds(101))
        #expect(player.rightsStatus(ofStoredKeyFor: "skd://movie", in: idleSession())?.kind == .expired)
        // One that is over, or of another device, is replaced.
        let again = try loader(server) { [folder] _, identifier in
            do {
                try PersistableKeys(try FilePersistableKeyStore(folder: folder.path)).store([1], for: identifier)
            } catch { Issue.record(error) }
            return "https://keys.example/"
        }
        #expect(await store([again]) == ["stored"])
        #expect(player.rightsStatus(ofStoredKeyFor: "skd://movie", in: idleSession())?.kind == .valid)
    }

    private func idleSession() -> KeySession {
        KeySession(loaders: [], configuration: configuration(), clock: clock.clock)
    }

    @Test func aDownloadSaysWhyAKeyIsNotStored() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(lease: 100))
        #expect(
            await store([try loader(server)]) == ["denied: the key server does not allow the key to be stored"])
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
        #expect(try loader(server).rightsStatus(ofStoredKeyFor: "skd://movie", in: idleSession()) == nil)
        let keys = StaticKeyLoader(try StaticKeys.parse(property: "skd://movie:\(keyHex(1))"))
        #expect(await store([keys]) == ["stored"])
    }

    @Test func whatMayNotBeStoredIsNot() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(lease: 100))
        #expect(await play(try loader(server)).error == nil)
        #expect(await play(try loader(server)).error == nil)
        #expect(server.posts.count == 2)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
    }

    @Test func theRentalEndsTheStoredKeyAndTheServerIsAskedAgain() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(rental: 1000, persistence: .forRentalDuration))
        let (error, session) = await play(try loader(server))
        #expect(error == nil)
        clock.advance(by: .seconds(999))
        #expect(session.status(of: session.keyID(forURI: "skd://movie")).key != nil)
        clock.advance(by: .seconds(1))
        let ended = session.status(of: session.keyID(forURI: "skd://movie")).error
        #expect(ended?.isSameKind(as: .leaseExpired("")) == true)
        #expect(await play(try loader(server)).error == nil)
        #expect(server.posts.count == 2)
    }

    @Test func theFirstPlaybackStartsTheSecondClockOnce() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(
            FairPlayTerms(
                persistence: .unlimited,
                offlineKey: OfflineKeyTerms(
                    streamID: [UInt8](repeating: 1, count: 16), storage: 10_000, playback: 500)))
        #expect(await play(try loader(server)).error == nil)
        clock.advance(by: .seconds(400))
        // The second playback does not start it anew.
        let (error, session) = await play(try loader(server))
        #expect(error == nil)
        clock.advance(by: .seconds(101))
        #expect(session.status(of: session.keyID(forURI: "skd://movie")).key == nil)
        #expect(server.posts.count == 1)
        #expect(await play(try loader(server)).error == nil)
        #expect(server.posts.count == 2)
    }

    @Test func keysAreInvalidatedOneByOneOrAllTogether() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(persistence: .unlimited))
        let loader = try loader(server)
        for uri in ["skd://aa", "skd://bb", "skd://cc"] { #expect(await play(loader, uri).error == nil) }
        #expect(server.posts.count == 3)
        let keys = PersistableKeys(try FilePersistableKeyStore(folder: folder.path))
        try keys.invalidate(Array("aa".utf8))
        try keys.invalidate(Array("unknown".utf8))
        #expect(await play(loader, "skd://bb").error == nil)
        #expect(server.posts.count == 3)
        #expect(await play(loader, "skd://aa").error == nil)
        #expect(server.posts.count == 4)
        try keys.invalidateAll()
        #expect(try keys.store.names().isEmpty)
    }

    /// The disk fails when the stored key is to be replaced by the one that knows of the first playback.
    @Test func aStoredKeyThatCannotBeReplacedIsNamed() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(
            FairPlayTerms(
                persistence: .unlimited,
                offlineKey: OfflineKeyTerms(
                    streamID: [UInt8](repeating: 1, count: 16), storage: 10_000, playback: 500)))
        let lines = Mutex<[String]>([])
        var configuration = configuration()
        configuration.log = { line in lines.withLock { $0.append(line) } }
        let loader = FairPlayLoader(
            service: LicenseService(url: "https://keys.example/"),
            certificate: ApplicationCertificate(.data(authority.certificate)),
            persistableKeys: PersistableKeys(
                LosingStore(store: try FilePersistableKeyStore(folder: folder.path), writes: 1)),
            transport: server)
        let session = KeySession(loaders: [loader], configuration: configuration, clock: clock.clock)
        let watcher = Watcher(session)
        let keyID = session.keyID(forURI: "skd://movie")
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay, origin: 77))
        let event = await watcher.next { if case .notStored = $0 { true } else { false } }
        guard case .notStored(let request, let error, let origin)? = event else { return }
        #expect(request.keyIDs == [keyID])
        #expect(origin == 77)
        for part in ["cannot be replaced", folder.path, "Not a directory", "has room"] {
            #expect(error.description.contains(part), "\(error)")
        }
        #expect(lines.withLock(\.self).contains { $0.contains(error.description) })
        // It plays all the same, on the terms that the licence has.
        #expect(watcher.summaries == ["requested 1", "usable 1", "not stored 1: invalid configuration"])
        clock.advance(by: .seconds(499))
        #expect(hex(session.status(of: keyID).key) == keyHex(1))
        clock.advance(by: .seconds(2))
        #expect(session.status(of: keyID).error?.isSameKind(as: .leaseExpired("")) == true)
    }

    @Test func aStoredKeyThatIsOverAndCannotBeRemovedIsNamed() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(rental: 1000, persistence: .forRentalDuration))
        let store = LosingStore(store: try FilePersistableKeyStore(folder: folder.path), writes: 1, reads: 4)
        let loader = FairPlayLoader(
            service: LicenseService(url: "https://keys.example/"),
            certificate: ApplicationCertificate(.data(authority.certificate)),
            persistableKeys: PersistableKeys(store), transport: server)
        #expect(await play(loader).error == nil)
        clock.advance(by: .seconds(1001))
        let session = KeySession(loaders: [loader], configuration: configuration(), clock: clock.clock)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [session.keyID(forURI: "skd://movie")], keySystem: .fairPlay))
        _ = await watcher.next(where: \.isFailed)
        #expect(
            watcher.summaries == ["requested 1", "not stored 1: invalid configuration", "failed 1: lease expired"])
        #expect(server.posts.count == 1)
    }

    @Test func aCopyIsOfNoUseOnAnotherDevice() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(persistence: .unlimited))
        #expect(await play(try loader(server)).error == nil)
        let error = await play(try loader(server), secret: 6).error
        #expect(error?.description.contains("-42803") == true)
        #expect(server.posts.count == 1)
    }

    @Test func withoutADeviceSecretNothingIsStored() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(persistence: .unlimited))
        var configuration = configuration()
        configuration.deviceSecret = nil
        let session = KeySession(loaders: [try loader(server)], configuration: configuration)
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

/// A folder on a disk that is lost: behind so many writes, or reads, there is a file in its place.
private final class LosingStore: PersistableKeyStore {
    private struct Left {
        var writes: Int
        var reads: Int
    }

    private let store: FilePersistableKeyStore
    private let left: Mutex<Left>

    init(store: FilePersistableKeyStore, writes: Int, reads: Int = .max) {
        self.store = store
        left = Mutex(Left(writes: writes, reads: reads))
    }

    private func lose() {
        let manager = FileManager.default
        try? manager.removeItem(atPath: store.folder)
        manager.createFile(atPath: store.folder, contents: nil)
    }

    func data(named name: String) throws(KeyError) -> [UInt8]? {
        let data = try store.data(named: name)
        let isLast = left.withLock { left in
            left.reads -= 1
            return left.reads == 0
        }
        if isLast { lose() }
        return data
    }

    func store(_ data: [UInt8], named name: String) throws(KeyError) {
        let isLost = left.withLock { left in
            left.writes -= 1
            return left.writes < 0
        }
        if isLost { lose() }
        try store.store(data, named: name)
    }

    func remove(named name: String) throws(KeyError) { try store.remove(named: name) }
    func names() throws(KeyError) -> [String] { try store.names() }
}
