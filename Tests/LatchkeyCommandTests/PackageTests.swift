// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import Foundation
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection
import Testing

@testable import latchkey

/// `latchkey package`.
@Suite struct PackageTests {
    private let scratch = ScratchFolder()
    private static let keyID = "00112233445566778899aabbccddeeff"
    private static let key = "0f0e0d0c0b0a09080706050403020100"

    private static let segment = Array(
        repeating: [0x47, 0x1F, 0xFF, 0x10] + [UInt8](repeating: 7, count: 184), count: 9
    )
    .flatMap { $0 }

    init() throws {
        try scratch.write("\(Self.keyID) \(Self.key)\n".utf8, to: "keys")
        try scratch.write(
            """
            #EXTM3U
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="a",URI="audio/list.m3u8"
            #EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO="a"
            v.m3u8
            #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="i.m3u8"

            """.utf8, to: "in/master.m3u8")
        try scratch.write(
            "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nv%201.ts\n#EXT-X-ENDLIST\n".utf8, to: "in/v.m3u8")
        try scratch.write(
            "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n1.ts\n#EXTINF:1,\n../v%201.ts\n".utf8,
            to: "in/audio/list.m3u8")
        try scratch.write(Self.segment, to: "in/v 1.ts")
        try scratch.write(Self.segment.reversed(), to: "in/audio/1.ts")
    }

    private func run(_ arguments: String..., playlist: String = "in/master.m3u8") throws {
        let all =
            ["package", "--keys-file", scratch.path("keys")] + arguments + [
                scratch.path(playlist), scratch.path("out"),
            ]
        var command = try LatchkeyCommand.parseAsRoot(all)
        try command.run()
    }

    private func opened(_ name: String) throws -> [UInt8] {
        let bytes = try scratch.read(name)
        let header = try #require(try LatchkeyEnvelope().header(of: bytes))
        let keyID = try #require(try header.playReadyObject.header()?.keys.first?.keyID)
        #expect(keyID == KeyID(hex: Self.keyID))
        return try LatchkeyEnvelope.open(bytes, header: header, key: try #require(ContentKey(hex: Self.key)))
    }

    @Test func playlistsStayAndSegmentsGetIntoEnvelopes() throws {
        try run("--license-url", "https://licenses.example/")
        #expect(try scratch.read("out/v.m3u8") == scratch.read("in/v.m3u8"))
        #expect(try scratch.read("out/audio/list.m3u8") == scratch.read("in/audio/list.m3u8"))
        #expect(try opened("out/v 1.ts") == Self.segment)
        #expect(try opened("out/audio/1.ts") == Self.segment.reversed())
        let master = String(decoding: try scratch.read("out/master.m3u8"), as: UTF8.self)
        #expect(!master.contains("I-FRAME"))
        #expect(master.contains("audio/list.m3u8"))
    }

    @Test func theHeaderNamesTheServiceAndChecksTheKey() throws {
        try run("--license-url", "https://licenses.example/?a=1&b=2")
        let header = try #require(try LatchkeyEnvelope().header(of: try scratch.read("out/v 1.ts")))
        let read = try #require(try header.playReadyObject.header())
        #expect(read.details.licenseAcquisitionURL == "https://licenses.example/?a=1&b=2")
        let key = try #require(ContentKey(hex: Self.key))
        let id = try #require(KeyID(hex: Self.keyID))
        let checksum = try PlayReadyChecksum.checksum(of: key, keyID: id, algorithm: .aesCTR)
        #expect(read.keys.first?.checksum == checksum)
    }

    @Test func noTwoSegmentsShareACounter() throws {
        try run()
        let parser = LatchkeyEnvelope()
        let first = try #require(try parser.header(of: try scratch.read("out/v 1.ts")))
        let second = try #require(try parser.header(of: try scratch.read("out/audio/1.ts")))
        #expect(first.initialCounter != second.initialCounter)
    }

    @Test func aTagIsWrittenOnDemand() throws {
        try run("--key-tag")
        let text = String(decoding: try scratch.read("out/v.m3u8"), as: UTF8.self)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("#EXT-X-KEY:") })
        let key = try HLSKey(attributeList: line.dropFirst("#EXT-X-KEY:".count))
        #expect(key.keyFormat == "com.microsoft.playready")
        let data = try #require(key.uri?.split(separator: ",").last)
        let object = try PlayReadyObject(initializationData: data.utf8)
        #expect(try object.header()?.keys.first?.keyID == KeyID(hex: Self.keyID))
        #expect(text.range(of: "EXT-X-KEY")!.lowerBound < text.range(of: "EXTINF")!.lowerBound)
    }

    @Test func subtitlesAndInitializationSectionsStayClear() throws {
        try scratch.write("WEBVTT\n\n".utf8, to: "in/s.vtt")
        try scratch.write([0, 0, 0, 8] + Array("ftyp".utf8), to: "in/init.mp4")
        try scratch.write(
            "#EXTM3U\n#EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:1,\ns.vtt\n".utf8, to: "in/s.m3u8")
        try run(playlist: "in/s.m3u8")
        #expect(try scratch.read("out/s.vtt") == Array("WEBVTT\n\n".utf8))
        #expect(try scratch.read("out/init.mp4") == scratch.read("in/init.mp4"))
    }

    @Test(arguments: [
        ("#EXT-X-KEY:METHOD=AES-128,URI=\"k\"", "encrypted already"), ("#EXT-X-BYTERANGE:7@0", "byte ranges"),
        ("#EXT-X-PART:DURATION=1,URI=\"p\"", "partial"), ("../../x.ts", "outside"),
        ("https://o.example/x.ts", "no file"),
        ("/etc/passwd", "no file"), ("%2e%2e/%2e%2e/x.ts", "outside"), ("missing.ts", "cannot be read"),
    ])
    func refuses(line: String, reason: String) throws {
        try scratch.write("#EXTM3U\n#EXTINF:1,\n\(line)\n".utf8, to: "in/bad.m3u8")
        let error = #expect(throws: ToolError.self) { try run(playlist: "in/bad.m3u8") }
        #expect(error.map { "\($0)".contains(reason) } == true, "\(String(describing: error))")
    }

    @Test func refusesItsOwnFolderAndEnvelopes() throws {
        #expect(throws: ToolError.self) {
            var command = try LatchkeyCommand.parseAsRoot([
                "package", "--keys-file", scratch.path("keys"), scratch.path("in/v.m3u8"), scratch.path("in"),
            ])
            try command.run()
        }
        try run()
        let error = #expect(throws: ToolError.self) {
            var command = try LatchkeyCommand.parseAsRoot([
                "package", "--keys-file", scratch.path("keys"), scratch.path("out/v.m3u8"), scratch.path("again"),
            ])
            try command.run()
        }
        #expect(error.map { "\($0)".contains("envelope already") } == true)
    }

    @Test func theKeyHasToBeClear() throws {
        try scratch.write("\(Self.keyID) \(Self.key)\n\(Self.key) \(Self.keyID)\n".utf8, to: "keys")
        let error = #expect(throws: ToolError.self) { try run() }
        #expect(error.map { "\($0)".contains("--key-id") && !"\($0)".contains(Self.key) } == true)
        try run("--key-id", Self.keyID)
        #expect(try opened("out/v 1.ts") == Self.segment)
    }
}
