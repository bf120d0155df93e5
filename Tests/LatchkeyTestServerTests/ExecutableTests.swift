// SPDX-License-Identifier: MPL-2.0

import Foundation
import FoundationNetworking
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyViewingSession
import Testing

/// The program itself, as a test or a person starts it.
@Suite(.serialized, .timeLimit(.minutes(8))) struct ExecutableTests {
    private static let keyID = "2a54856d33e557f486aa203a9eb94ca5"
    private static let key = "c685730e9039aa683a2b62218280f4c1"

    @Test(arguments: [SIGTERM, SIGINT])
    func servesOnAFreePortAndStopsCleanlyOnASignal(signal: Int32) async throws {
        let folder = try TemporaryFolder()
        try folder.write("# test\n\(Self.keyID) \(Self.key)\nskd://x \(Self.key)\n", to: "keys.txt")
        try folder.write("media file", to: "media/a.txt")
        let server = try Program([
            "--port", "0", "--keys-file", folder.root.appendingPathComponent("keys.txt").path, "--media",
            folder.media.path, "--fault", "/health=status:418*1",
        ])
        let line = try #require(await server.firstLine())
        #expect(line.hasPrefix("listening on http://127.0.0.1:"))
        let base = try #require(URL(string: String(line.dropFirst("listening on ".count))))
        #expect((base.port ?? 0) > 0)

        let (media, _) = try await URLSession.shared.data(from: base.appendingPathComponent("media/a.txt"))
        #expect(String(decoding: media, as: UTF8.self) == "media file")
        let (_, broken) = try await URLSession.shared.data(from: base.appendingPathComponent("health"))
        #expect((broken as? HTTPURLResponse)?.statusCode == 418)

        let keyID = try #require(KeyID(hex: Self.keyID))
        var request = URLRequest(url: base.appendingPathComponent("clearkey"))
        request.httpMethod = "POST"
        request.httpBody = Data(ClearKey.licenseRequest(for: [keyID]))
        let (license, _) = try await URLSession.shared.data(for: request)
        let keys = try ClearKey.keys(inLicense: Array(license))
        #expect(try #require(keys[keyID]) == (try #require(ContentKey(hex: Self.key))))

        server.send(signal)
        #expect(await server.exitStatus() == 0)
    }

    /// By itself the server is for this machine, and says so; for any other address it warns.
    @Test(arguments: [(nil, "127.0.0.1"), ("0.0.0.0", "0.0.0.0")] as [(String?, String)])
    func saysWhomItIsFor(host: String?, address: String) async throws {
        let folder = try TemporaryFolder()
        try folder.write("\(Self.keyID) \(Self.key)\n", to: "keys.txt")
        let keys = folder.root.appendingPathComponent("keys.txt").path
        #expect(chmod(keys, 0o644) == 0)
        let server = try Program(["--keys-file", keys] + (host.map { ["--host", $0] } ?? []))
        let line = try #require(await server.firstLine())
        #expect(line.hasPrefix("listening on http://\(address):"))
        server.send(SIGTERM)
        #expect(await server.exitStatus() == 0)
        #expect(server.errors.contains("warning: 0.0.0.0 is no loopback address") == (host != nil))
        #expect(server.errors.contains("listening on the loopback only") == (host == nil))
        #expect(server.errors.contains("warning: keys file \(keys) has secrets in it, and others may read it"))
        #expect(!server.errors.contains(Self.key))
    }

    @Test func aKeysFileThatOthersMayWriteIsRefused() async throws {
        let folder = try TemporaryFolder()
        try folder.write("\(Self.keyID) \(Self.key)\n", to: "keys.txt")
        let keys = folder.root.appendingPathComponent("keys.txt").path
        #expect(chmod(keys, 0o602) == 0)
        let server = try Program(["--keys-file", keys])
        #expect(await server.firstLine() == nil)
        #expect(await server.exitStatus() != 0)
        #expect(server.errors.contains("\(keys): others may write to it"), "\(server.errors)")
    }

    @Test func theKeyServerGivesTheKeysOfItsFileToClientsOfItsFolder() async throws {
        let folder = try TemporaryFolder()
        try folder.write("skd://asset \(Self.key) 0x000102030405060708090a0b0c0d0e0f\n", to: "keys.txt")
        let path = folder.root.appendingPathComponent("authority")
        let server = try Program([
            "--keys-file", folder.root.appendingPathComponent("keys.txt").path, "--fairplay", path.path,
        ])
        let line = try #require(await server.firstLine())
        let base = try #require(URL(string: String(line.dropFirst("listening on ".count))))
        let (certificate, _) = try await URLSession.shared.data(
            from: base.appendingPathComponent("fairplay/certificate"))
        #expect(certificate == (try Data(contentsOf: path.appendingPathComponent("fairplay-v1.cer"))))

        let digits = try String(contentsOf: path.appendingPathComponent("fairplay-ask.hex"), encoding: .utf8)
        let ask = try #require(ContentKey(hex: digits.trimmingCharacters(in: .newlines)))
        let exchange = try FairPlayExchange(
            certificate: Array(certificate), contentIdentifier: Array("asset".utf8),
            provider: DerivedKeyPayloadProvider(derivation: TestDerivationFunction(), ask: ask))
        var request = URLRequest(url: base.appendingPathComponent("fairplay/license"))
        request.httpMethod = "POST"
        request.setValue("application/octet-stream", forHTTPHeaderField: "Content-Type")
        request.httpBody = Data(exchange.request)
        let (ckc, _) = try await URLSession.shared.data(for: request)
        let key = try #require(try exchange.open(response: Array(ckc)).contentKey)
        #expect(key.withBytes { Hex.encode($0) } == Self.key)
        #expect(key.initializationVector?.bytes == Array(0...15))
        server.send(SIGTERM)
        #expect(await server.exitStatus() == 0)
    }

    @Test(arguments: ["--stop-on-stdin-eof", "--stop-with-parent"])
    func stopsWhenStandardInputEnds(flag: String) async throws {
        let server = try Program([flag])
        #expect(try #require(await server.firstLine()).hasPrefix("listening on "))
        server.closeInput()
        #expect(await server.exitStatus() == 0)
    }

    @Test(arguments: [
        ["--media", "/nothing/here"], ["--keys-file", "/nothing/here"], ["--fault", "never"], ["--port", "70000"],
        ["--host", "192.0.2.1"], ["--fairplay", "/proc/nothing"],
    ])
    func saysWhatIsWrongAndFails(arguments: [String]) async throws {
        let server = try Program(arguments)
        #expect(await server.firstLine() == nil)
        #expect(await server.exitStatus() != 0)
        #expect(server.errors.contains("Error: "))
        #expect(server.errors.contains(arguments[1]))
    }

    /// The least and the longest interval that clients take are the server's, and those of the documentation.
    @Test(arguments: [
        ("interval", ["4", "86401"], "from 5 to 86400"), ("missed", ["1", "1001"], "from 2 to 1000"),
    ]) func refusesSessionsThatClientsDoNotTake(name: String, numbers: [String], range: String) async throws {
        #expect(SessionPolicy.intervals == 5000...86_400_000 && SessionPolicy.missedBeatCounts == 2...1000)
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(contentsOf: root.appendingPathComponent("gst-plugin/docs/sessions.md"), encoding: .utf8)
        #expect(page.contains("Heartbeat intervals are from 5 s to 24 h, and 2 to 1000 may be missing."))
        for number in numbers {
            let server = try Program(["--session-\(name)", number])
            #expect(await server.firstLine() == nil)
            #expect(await server.exitStatus() == 64)
            #expect(server.errors.contains("--session-\(name) \(number): it must be \(range)"), "\(server.errors)")
        }
    }

    /// The documented exit statuses: 0 for a new authority and for one that was there, 64 for what is none.
    @Test func makesAnAuthorityOnceAndSaysSo() async throws {
        let folder = try TemporaryFolder()
        let path = folder.root.appendingPathComponent("authority").path
        for ending in [": a new test authority", "nothing was made or changed"] {
            let server = try Program(["--make-authority", path])
            #expect(await server.exitStatus() == 0)
            #expect(server.output.contains(ending))
        }
        try folder.write("no key", to: "authority/playready-model-key.pem")
        let server = try Program(["--make-authority", path])
        #expect(await server.exitStatus() == 64)
        #expect(server.errors.contains("model-key.pem"))
    }

    @Test func aKeysFileThatCannotBeReadIsNamedWithItsLineAndNotItsContent() async throws {
        let folder = try TemporaryFolder()
        try folder.write("\(Self.keyID) \(Self.key)0\n", to: "keys.txt")
        let server = try Program(["--keys-file", folder.root.appendingPathComponent("keys.txt").path])
        #expect(await server.exitStatus() != 0)
        #expect(server.errors.contains("keys.txt, line 1"))
        #expect(!server.errors.contains(Self.key))
    }

    @Test func helpNamesTheEndpointsAndTheFaults() async throws {
        let server = try Program(["--help"])
        #expect(await server.exitStatus() == 0)
        for word in [
            "POST /clearkey", "POST /fairplay/", "/fairplay/certificate", "/media/", "/log", "/faults",
            "truncate:BYTES", "--stop-with-parent",
        ] {
            #expect(server.output.contains(word), "\(word)")
        }
        // The usage line is one line, however long, and not ours.
        let lines = server.output.split(separator: "\n").filter { !$0.hasPrefix("USAGE:") }
        #expect(lines.allSatisfy { $0.count <= 80 })
    }
}
