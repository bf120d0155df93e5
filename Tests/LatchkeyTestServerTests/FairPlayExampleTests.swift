// SPDX-License-Identifier: MPL-2.0

import Foundation
import Testing

/// The loaders of `examples/fairplay`, against the server, as a person starts them.
@Suite(.timeLimit(.minutes(8))) struct FairPlayExampleTests {
    private static let key = "c685730e9039aa683a2b62218280f4c1"
    private static let example = Program.product("latchkey-loader-example")

    /// Its URL, and what an integrator brings.
    private struct Server {
        let folder: TemporaryFolder
        let program: Program
        let url: String
        var ask: String { folder.root.appendingPathComponent("authority/fairplay-ask.hex").path }

        init(keyURIs: Set<String>) async throws {
            folder = try TemporaryFolder()
            let lines = keyURIs.map { "\($0) \(key) 0x000102030405060708090a0b0c0d0e0f\n" }
            try folder.write(lines.joined(), to: "keys.txt")
            program = try Program([
                "--keys-file", folder.root.appendingPathComponent("keys.txt").path, "--fairplay",
                folder.root.appendingPathComponent("authority").path,
            ])
            url = String(try #require(await program.firstLine()).dropFirst("listening on ".count))
        }
    }

    @Test func everyWayWorksAndTheDeviceIsBound() async throws {
        let server = try await Server(keyURIs: ["skd://movie-1"])
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("examples/fairplay/run.sh")
        let run = try Program([server.url, server.ask, Self.example.path], of: script)
        #expect(await run.exitStatus() == 0, "\(run.output) \(run.errors)")
        let lines = run.output.split(separator: "\n")
        #expect(lines.count { $0.hasPrefix("ok: ") } == 7, "\(run.output)")
        for way in ["on-premise", "derived", "token-url", "entitlement"] {
            #expect(lines.contains { $0.contains("a key for skd:") && $0.hasSuffix("by \(way)") }, "\(way)")
        }
        #expect(!run.output.contains(Self.key))
    }

    /// Slashes, equals signs, percent signs and Unicode come through.
    @Test func contentIdentifiersStayWhatTheyAre() async throws {
        let cases = [
            ("skd:movie-1", "on-premise"), ("skd://host/a/b==", "on-premise"), ("skd://a%2Fb%zz", "on-premise"),
            ("skd://Käse/漢字", "on-premise"), ("skd://a/b==", "derived"), ("skd://Käse/漢字", "derived"),
            ("skd://a/b==", "entitlement"), ("skd://a%2Fb%zz", "entitlement"), ("skd://Käse/漢字", "entitlement"),
            ("skd://Käse/漢字=", "token-url"),
        ]
        let server = try await Server(keyURIs: Set(cases.map(\.0)))
        for (keyURI, way) in cases {
            let run = try Program([way, server.url, server.ask, "--key-uri", keyURI], of: Self.example)
            #expect(await run.exitStatus() == 0, "\(way) \(keyURI): \(run.output) \(run.errors)")
            #expect(run.output.contains("by \(way)"))
        }
        let run = try Program(["on-premise", server.url, server.ask, "--key-uri", "skd://other"], of: Self.example)
        #expect(await run.exitStatus() == 1)
        #expect(run.output.contains("FAILED: "))
    }
}
