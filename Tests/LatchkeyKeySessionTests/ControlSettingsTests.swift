// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@Suite("Control settings", .timeLimit(.minutes(8)))
struct ControlSettingsTests {
    private let folder = TemporaryFolder()

    private func transport() -> FakeTransport {
        FakeTransport { request, _ throws(HTTPError) in
            let keyIDs = (try? ClearKey.keyIDs(inLicenseRequest: request.body)) ?? []
            let keys = keyIDs.reduce(into: [KeyID: ContentKey]()) { $0[$1] = contentKey(9) }
            return HTTPResponse(status: 200, body: ClearKey.license(for: keys), url: request.url)
        }
    }

    @Test func theKeysFileComesBeforeTheService() async throws {
        let path = folder.write("\(keyID(1)) \(keyHex(1))\n", to: "keys")
        let transport = transport()
        let settings = ControlSettings(
            keysFile: path, licenseURL: "https://host/ck", httpTimeout: .seconds(2),
            httpHeaders: [HTTPHeader(name: "X-Token", value: "secret")])
        let session = KeySession(loaders: settings.makeLoaders(transport: transport))
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2)]))
        _ = await watcher.next(where: \.isUsable)
        _ = await watcher.next(where: \.isUsable)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
        #expect(hex(session.status(of: keyID(2)).key) == keyHex(9))
        let request = try #require(transport.requests.first)
        #expect(try ClearKey.keyIDs(inLicenseRequest: request.body) == [keyID(2)])
        #expect(request.headers.contains(HTTPHeader(name: "X-Token", value: "secret")))
        #expect(request.timeout == .seconds(2))
    }

    @Test func anotherKeySystemHasNoClearKeyService() {
        let settings = ControlSettings(licenseURL: "https://host/fps", keySystem: .fairPlay)
        #expect(settings.makeLoaders(transport: transport()).isEmpty)
        #expect(ControlSettings().makeLoaders(transport: transport()).map(\.name) == ["Clear Key"])
    }

    @Test(arguments: ["adapter", "credential-file"]) func aFileThatOthersMayWriteIsRefused(setting: String) throws {
        let path = folder.write("{}", to: "settings.json")
        #expect(chmod(path, 0o602) == 0)
        let error = #expect(throws: KeyError.self) {
            try ViewingSettings(["server-url": "https://s.example", setting: path], environment: [:])
        }
        #expect(error?.description.contains("\(path): others may write to it") == true)
    }
}
