// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

@Suite("FairPlay settings", .timeLimit(.minutes(8)))
struct FairPlaySettingsTests {
    private let folder = TemporaryFolder()

    @Test func everyKeyIsRead() throws {
        let settings = try FairPlaySettings(
            [
                "certificate-file": "a.cer", "preset": "pallycon", "key-server-url": "https://k/",
                "key-uri-scheme": "http",
                "content-id": "movie", "test-ask-file": "ask", "device-id": String(repeating: "0a", count: 20),
                "stored-keys": "keys", "device-secret": "secret",
            ], headers: [HTTPHeader(name: "X", value: "1")], parameters: ["siteId": "S"], resolve: { "/etc/\($0)" })
        #expect(settings.certificateFile == "/etc/a.cer")
        #expect(settings.service.preset == .pallyCon)
        #expect(settings.service.url == "https://k/")
        #expect(settings.service.keyURIScheme == "http")
        #expect(try settings.service.contentIdentifier(of: KeyURI("skd://x")) == Array("movie".utf8))
        #expect(settings.service.headers.map(\.name) == ["X"])
        #expect(settings.service.parameters == ["siteId": "S"])
        #expect(settings.testASkFile == "/etc/ask")
        #expect(settings.deviceIdentifier == [UInt8](repeating: 10, count: 20))
        #expect(settings.storedKeysFolder == "/etc/keys")
        #expect(settings.deviceSecretFile == "/etc/secret")
    }

    @Test(arguments: [
        (["presets": "x"], "known are certificate-file"), (["preset": "x"], "expressplay"),
        (["key-uri-scheme": "ftp"], "ftp"), (["form-encoding": "yes"], "neither bare nor percent"),
        (["device-id": "0a"], "40 hexadecimal digits"),
        (["certificate-file": "a", "certificate-url": "b"], "exclude"),
    ]) func mistakesAreNamed(values: [String: String], says: String) {
        let error = #expect(throws: KeyError.self) { try FairPlaySettings(values) }
        #expect(error?.isSameKind(as: .invalidConfiguration("")) == true)
        #expect(error?.description.contains(says) == true)
    }

    @Test func aPlaybackFromSettingsAlone() async throws {
        let authority = try FairPlayServer.authority.get()
        let server = FairPlayServer(authority)
        let digits = authority.ask.withBytes { Hex.encode($0) }
        let fairPlay = try FairPlaySettings([
            "certificate-url": "https://k/cert", "key-uri-scheme": "http",
            "test-ask-file": folder.write("\(digits)\n", to: "ask.hex"),
        ])
        let settings = ControlSettings(fairPlay: fairPlay)
        let session = KeySession(
            loaders: settings.makeLoaders(transport: server), configuration: try settings.makeConfiguration())
        let watcher = Watcher(session)
        let keyID = session.keyID(forURI: "skd://127.0.0.1:80/rights?cid=movie%2F1")
        var demand = KeyDemand(keyIDs: [keyID], keySystem: .fairPlay, mediaURL: "http://127.0.0.1/a.m3u8")
        let cookies = CookieStore()
        demand.cookies = cookies
        session.demand(demand)
        _ = await watcher.next { $0.isUsable || $0.isFailed }
        #expect(hex(session.status(of: keyID).key) == keyHex(1))
        #expect(server.posts.map(\.url) == ["http://127.0.0.1:80/rights?cid=movie%2F1"])
        #expect(server.posts.allSatisfy { $0.cookies === cookies })
        #expect(server.opened.map(\.assetIdentifier) == [Array("movie/1".utf8)])
    }

    @Test func theLicenseURLServesWhereTheKeySystemIsFairPlay() async throws {
        let authority = try FairPlayServer.authority.get()
        let server = FairPlayServer(authority)
        let settings = ControlSettings(
            licenseURL: "https://licenses/", keySystem: .fairPlay, httpTimeout: .seconds(3),
            httpHeaders: [HTTPHeader(name: "X-Token", value: "1")],
            fairPlay: try FairPlaySettings(["certificate-url": "https://k/cert"]))
        var configuration = try settings.makeConfiguration()
        configuration.keyPayloadProvider = authority.provider
        let session = KeySession(loaders: settings.makeLoaders(transport: server), configuration: configuration)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [session.keyID(forURI: "skd://movie")], keySystem: .fairPlay))
        _ = await watcher.next { $0.isUsable || $0.isFailed }
        #expect(server.posts.map(\.url) == ["https://licenses/"])
        #expect(server.posts.first?.headers.map(\.name) == ["Content-Type", "X-Token"])
        #expect(server.posts.first?.timeout == .seconds(3))
    }

    @Test func settingsThatCannotWorkSaySoToTheRequest() async throws {
        let settings = ControlSettings(fairPlay: FairPlaySettings())
        let session = KeySession(
            loaders: settings.makeLoaders(
                transport: FakeTransport { request, _ throws(HTTPError) in throw .refused("") }))
        let watcher = Watcher(session)
        let keyID = session.keyID(forURI: "skd://movie")
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
        _ = await watcher.next(where: \.isFailed)
        #expect(session.status(of: keyID).error?.description.contains("certificate-file") == true)
        let lost = ControlSettings(fairPlay: try FairPlaySettings(["test-ask-file": "/nowhere/ask"]))
        #expect(throws: KeyError.self) { try lost.makeConfiguration() }
        let wrong = try FairPlaySettings(["test-ask-file": folder.write("secret", to: "wrong")])
        var configuration = KeySessionConfiguration()
        let error = #expect(throws: KeyError.self) { try wrong.apply(to: &configuration) }
        #expect(error?.description.contains("secret:") == false)
    }

    @Test func aFileThatOthersMayWriteIsRefused() throws {
        let digits = try FairPlayServer.authority.get().ask.withBytes { Hex.encode($0) }
        let path = folder.write("\(digits)\n", to: "writable.hex")
        let settings = try FairPlaySettings(["test-ask-file": path])
        var configuration = KeySessionConfiguration()
        try settings.apply(to: &configuration)
        #expect(chmod(path, 0o602) == 0)
        let error = #expect(throws: KeyError.self) { try settings.apply(to: &configuration) }
        #expect(error?.description.contains("\(path): others may write to it") == true)
    }

    @Test func storedKeysAreInAStoreOfTheirOwnOrTheOneInTheSameFolder() throws {
        var settings = try FairPlaySettings(["stored-keys": "/a/keys", "device-secret": "/b/secret"])
        settings.environment = ["XDG_STATE_HOME": "/state"]
        var playReady = try PlayReadySettings(["store": "/a/licenses"])
        for other in [nil, playReady] {
            let store = try #require(settings.storedKeys(beside: other)?.configuration)
            #expect(store.database == "/a/keys/licenses.db")
            #expect(
                store.counter
                    == "/state/latchkey/counters/\(Hex.encode(try Digest.sha256(Array("/a/keys".utf8)).prefix(16)))")
            #expect((store.secret as? FileDeviceSecret)?.path == "/b/secret")
        }
        settings.environment = [:]
        #expect(settings.storedKeys()?.configuration.counter == "/a/keys/licenses.counter")
        playReady.environment = ["XDG_STATE_HOME": "/state"]
        playReady.storeFolder = "/a/keys/"
        let shared = try #require(ControlSettings(fairPlay: settings, playReady: playReady).storedKeys?.configuration)
        let licenses = try playReady.makeStoreConfiguration()
        #expect((shared.database, shared.counter) == (licenses.database, licenses.counter))
        #expect(shared.counter.hasPrefix("/state/latchkey/counters/"))
        #expect((shared.secret as? FileDeviceSecret)?.path == (licenses.secret as? FileDeviceSecret)?.path)
        settings.storedKeysFolder = nil
        #expect(settings.storedKeys() == nil)
    }

    /// Stored keys, and those that an application seals with the device secret.
    @Test func storedKeysHaveATrustedClock() throws {
        func configuration(_ values: [String: String]) throws -> KeySessionConfiguration {
            var configuration = KeySessionConfiguration()
            try FairPlaySettings(values).apply(to: &configuration, beside: PlayReadySettings(["store": "/a/licenses"]))
            return configuration
        }
        #expect(try configuration([:]).persistableKeys == nil)
        let keys = folder.path + "/keys"
        #expect(
            try configuration(["stored-keys": keys]).persistableKeys?.configuration.database == "\(keys)/licenses.db")
        let own = try configuration(["device-secret": folder.path + "/secret"]).persistableKeys
        #expect(own?.configuration.database == "/a/licenses/licenses.db")
    }

    @Test func whatIsRegisteredOnceServesEverySession() async {
        let factory = ResourceLoaderFactory()
        let shared = CallbackLoader(name: "shared") { _ in false }
        factory.register(shared)
        factory.register { CallbackLoader(name: "own") { _ in false } }
        let (first, second) = (factory.makeLoaders(), factory.makeLoaders())
        #expect(first.map(\.name) == ["shared", "own"])
        #expect(first[0] === second[0])
        #expect(first[1] !== second[1])
        factory.configuration.deviceIdentifier = [1]
        #expect(factory.configuration.deviceIdentifier == [1])
        factory.reset()
        #expect(factory.makeLoaders().isEmpty)
        #expect(factory.configuration.deviceIdentifier == nil)
        #expect(ResourceLoaderFactory.default.makeLoaders().isEmpty)
    }
}
