// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

@Suite("Secrets stay out of texts", .timeLimit(.minutes(8)))
struct RedactionTests {
    /// Every way in which a value turns into text.
    private func texts(_ value: some Any) -> String {
        var dumped = ""
        dump(value, to: &dumped)
        return [String(describing: value), String(reflecting: value), "\(value)", dumped].joined(separator: "\n")
    }

    /// The key in the forms in which it could show: hexadecimal, Base64, the bytes of either as numbers.
    private func expectNoSecret(_ text: String, _ comment: Comment) {
        let bytes = contentKey(1).withBytes { Array($0) }
        let base64 = Base64.encodeURLSafe(bytes)
        func numbers(_ bytes: some Sequence<UInt8>) -> String { bytes.map(String.init).joined(separator: ", ") }
        let forms = [
            keyHex(1), Hex.encode(bytes.prefix(8)), base64, numbers(bytes.prefix(4)), numbers(base64.utf8.prefix(6)),
            // As `dump` lists them: the key's first byte, and the brace at the start of a license.
            "- 197", "- 123", "password",
        ]
        for form in forms { #expect(!text.contains(form), comment) }
    }

    @Test func answersAndStatesPrintNoKeys() async throws {
        let keys = [keyID(1): contentKey(1)]
        let license = ClearKey.license(for: keys)
        expectNoSecret(texts(KeyAnswer.keys(keys)), "keys")
        expectNoSecret(texts(KeyAnswer.key(contentKey(1))), "key")
        expectNoSecret(texts(KeyAnswer.license(license)), "license")
        expectNoSecret(texts(KeyStatus.usable(contentKey(1))), "status")
        expectNoSecret(texts(Result<KeyAnswer, KeyError>.success(.license(license))), "result")
        #expect(KeyAnswer.keys(keys).description.contains(keyID(1).description))

        let session = KeySession()
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], suggestedURL: "https://host/?token=password"))
        let event = try #require(await watcher.next { $0.request != nil })
        let request = try #require(event.request)
        expectNoSecret(texts(request), "request")
        expectNoSecret(texts(event), "event")
        request.finishLoading(with: .license(license))
        for event in watcher.events { expectNoSecret(texts(event), "event") }
        #expect(session.status(of: keyID(1)).key != nil)
        expectNoSecret(texts(session), "session")
    }

    @Test func staticKeysAndLoadersPrintNoKeys() throws {
        let keys = try StaticKeys.parse(property: "\(keyID(1)):\(keyHex(1)),*:\(keyHex(1))")
        expectNoSecret(texts(keys), "static keys")
        expectNoSecret(texts(keys.entries), "entries")
        expectNoSecret(texts(StaticKeyLoader(keys)), "static loader")
        expectNoSecret(texts(KeysFileLoader(path: "latchkey.keys")), "file loader")
    }

    @Test func settingsPrintNoCredentials() {
        let header = HTTPHeader(name: "Authorization", value: "password")
        let settings = ControlSettings(
            keysFile: "/etc/keys", licenseURL: "https://me:password@host/ck?token=password", keySystem: .clearKey,
            httpHeaders: [header])
        expectNoSecret(texts(settings), "settings")
        #expect(settings.description.contains("https://host/ck"))
        #expect(settings.description.contains("Authorization"))
        let transport = FakeTransport { request, _ throws(HTTPError) in throw .refused(request.url) }
        for loader in settings.makeLoaders(transport: transport) { expectNoSecret(texts(loader), "loader") }
        expectNoSecret(
            texts(KeyDemand(keyIDs: [], suggestedURL: "https://host/?token=password")), "demand")
    }
}
