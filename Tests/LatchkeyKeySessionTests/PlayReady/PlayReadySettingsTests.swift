// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Foundation
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

/// Lines, from any thread.
final class Log: Sendable {
    private let all = Mutex<[String]>([])
    var lines: [String] { all.withLock { $0 } }
    func add(_ line: String) { all.withLock { $0.append(line) } }
}

@Suite("PlayReady settings") struct PlayReadySettingsTests {
    /// The bundle in files, as an integrator has it.
    private func bundle(_ folder: StoreFolder) throws -> [String: String] {
        let files = try PlayReadyService.authority.get().files()
        for (name, bytes) in files { try folder.write(Data(bytes), to: name) }
        return [
            "model-certificate": "model.bcert", "model-private-key": "model-key.pem", "root-key": "root.pub",
            "server-key": "server.pub", "store": "store",
        ]
    }

    private func error(_ body: () throws(KeyError) -> Void) -> String {
        do throws(KeyError) {
            try body()
            return "none"
        } catch {
            return error.description
        }
    }

    @Test func aFileSaysItAll() throws {
        let folder = try StoreFolder()
        var values = try bundle(folder)
        values["license-url"] = "https://user:secret@licenses.example/r?token=secret"
        values["time-url"] = "https://time.example/"
        (values["custom-data"], values["friendly-name"]) = ("<a/>", "living room")
        (values["clock"], values["renew"]) = ("secure", "false")
        let settings = try PlayReadySettings(values, resolve: { "\(folder.path)/\($0)" })
        #expect(settings.requiresSecureClock && !settings.renews)
        let configuration = try settings.makeConfiguration()
        #expect(configuration.store.database == "\(folder.path)/store/licenses.db")
        #expect(configuration.customData == "<a/>" && configuration.friendlyName == "living room")
        #expect(!configuration.clockPolicy.takesSystemClock && configuration.features.contains(.secureClock))
        #expect(!configuration.features.contains(.revocationLists))
        #expect(!"\(settings) \(configuration)".contains("secret"))
    }

    @Test(arguments: [
        ("license-address", "x", "unknown key “license-address”"), ("clock", "sundial", "secure, system"),
        ("renew", "maybe", "false, true"),
    ]) func whatCannotBeIsNamed(key: String, value: String, text: String) {
        #expect(error { () throws(KeyError) in _ = try PlayReadySettings([key: value]) }.contains(text))
    }

    @Test func aBundleThatCannotBeUsedIsNamed() throws {
        let folder = try StoreFolder()
        let values = try bundle(folder)
        func text(_ change: (inout [String: String]) -> Void) -> String {
            var values = values
            change(&values)
            return error { () throws(KeyError) in
                _ = try PlayReadySettings(
                    values, environment: [:], resolve: { "\(folder.path)/\($0)" }
                ).makeLoader()
            }
        }
        #expect(text { _ in } == "none")
        #expect(text { $0["root-key"] = nil }.contains("set model-certificate"))
        #expect(text { $0["root-key"] = "nowhere" }.contains("nowhere"))
        #expect(text { $0["root-key"] = "model-key.pem" }.contains("root key"))
        #expect(text { $0["model-private-key"] = "server-key.pem" }.contains("private key is not that"))
        #expect(text { $0["model-certificate"] = "license-signer.bcert" }.contains("issuing devices"))
        #expect(text { $0["root-key"] = "server.pub" }.contains("model's certificate"))
        #expect(text { $0["store"] = nil }.contains("HOME"))
    }
}

@Suite("PlayReady model", .serialized) struct PlayReadyModelTests {
    init() { PlayReadyModel.reset() }

    private func failure(_ body: () throws(PlayReadyError) -> Void) -> String? {
        do throws(PlayReadyError) {
            try body()
            return nil
        } catch {
            return error.description
        }
    }

    @Test func itIsImportedOnceBeforeTheFirstUse() throws {
        defer { PlayReadyModel.reset() }
        let authority = try PlayReadyService.authority.get()
        let files = try authority.files()
        let certificate = try #require(files["model.bcert"])
        let key = try #require(files["model-key.pem"])
        #expect(try PlayReadyModel.provisioning() == nil)
        #expect(failure { () throws(PlayReadyError) in try PlayReadyModel.importModelCertificate([1, 2]) } != nil)
        #expect(
            failure { () throws(PlayReadyError) in
                try PlayReadyModel.importModelCertificate(certificate, for: .windowsMedia)
            }?.contains("Windows Media DRM") == true)
        #expect(
            failure { () throws(PlayReadyError) in try PlayReadyModel.importModelPrivateKey(key, for: .windowsMedia) }?
                .contains("Windows Media DRM") == true)
        try PlayReadyModel.importModelCertificate(certificate)
        #expect(
            failure { () throws(PlayReadyError) in try PlayReadyModel.importModelCertificate(certificate) }?
                .contains("before") == true)
        #expect(failure { () throws(PlayReadyError) in try PlayReadyModel.importModelPrivateKey([1]) } != nil)
        try PlayReadyModel.importModelPrivateKey(key)
        #expect(
            failure { () throws(PlayReadyError) in
                try PlayReadyModel.importTrust(rootKey: [1], serverKey: authority.serverKey)
            } != nil)
        try PlayReadyModel.importTrust(rootKey: authority.rootKey, serverKey: authority.serverKey)
        var settings = PlayReadySettings()
        settings.storeFolder = "/nowhere"
        #expect(try settings.makeConfiguration().provisioning.rootKey == authority.rootKey)
        #expect(
            failure { () throws(PlayReadyError) in try PlayReadyModel.importModelPrivateKey(key) }?
                .contains("in use") == true)
    }

    @Test func theOrderOfImportsDoesNotMatter() throws {
        defer { PlayReadyModel.reset() }
        let authority = try PlayReadyService.authority.get()
        let files = try authority.files()
        try PlayReadyModel.importTrust(rootKey: authority.rootKey, serverKey: authority.serverKey)
        try PlayReadyModel.importModelPrivateKey(try #require(files["model-key.pem"]))
        try PlayReadyModel.importModelCertificate(try #require(files["model.bcert"]))
        #expect(try PlayReadyModel.provisioning()?.rootKey == authority.rootKey)
    }

    @Test(arguments: [true, false]) func whatCannotBeUsedIsToldToPlayReadyRequests(hasGroup: Bool) async throws {
        var settings = ControlSettings()
        if hasGroup {
            settings.playReady = PlayReadySettings()
        } else {
            (settings.keySystem, settings.licenseURL) = (.playReady, "https://licenses.example/")
        }
        let session = KeySession(loaders: settings.makeLoaders(), clock: ManualClock().clock)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: .playReady))
        _ = await watcher.next { $0.isFailed }
        #expect(session.status(of: keyID(1)).error?.description.contains("model-certificate") == true)
    }

    /// Of other requests, those that a usable bundle would be asked for.
    @Test(arguments: [(KeySystem?.none, true), (.clearKey, true), (.fairPlay, false)])
    func whatCannotBeUsedIsToldToTheServicesRequests(keySystem: KeySystem?, isTold: Bool) async throws {
        for url in ["https://licenses.example/", nil] {
            var playReady = PlayReadySettings()
            playReady.licenseURL = url
            var settings = ControlSettings()
            settings.playReady = playReady
            let session = KeySession(loaders: settings.makeLoaders(), clock: ManualClock().clock)
            let watcher = Watcher(session)
            session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: keySystem))
            _ = await watcher.next { $0.isFailed || $0.isUntaken }
            let reason = session.status(of: keyID(1)).error?.description ?? ""
            #expect(reason.contains("model-certificate") == (isTold && url != nil), "\(reason)")
        }
    }

    @Test func aPartOfItIsNotEnough() throws {
        defer { PlayReadyModel.reset() }
        let files = try PlayReadyService.authority.get().files()
        try PlayReadyModel.importModelCertificate(try #require(files["model.bcert"]))
        #expect(throws: PlayReadyError.self) { try PlayReadyModel.provisioning() }
    }
}
