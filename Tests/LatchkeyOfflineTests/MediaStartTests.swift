// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import LatchkeyTestSupport
import Testing

@testable import LatchkeyOffline

/// What may be a segment that is not encrypted as a whole, and what is surely none.
@Suite struct MediaStartTests {
    /// No media, and none with a start of media in front but for that start.
    static func noise(_ seed: UInt64, _ count: Int = 6000) -> [UInt8] {
        var generator = SeededGenerator(seed: seed)
        return (0..<count).map { _ in UInt8.random(in: 0x80...0x9F, using: &generator) }
    }

    /// So many bytes each, with a sync byte behind `lead` bytes.
    private static func packets(_ size: Int, count: Int, lead: Int = 0) -> [UInt8] {
        (0..<count).flatMap { number -> [UInt8] in
            var packet = noise(UInt64(number), size)
            packet[lead] = 0x47
            return packet
        }
    }

    /// Two frames of ADTS.
    private static let frames: [UInt8] = (0..<2).flatMap { _ in
        [0xFF, 0xF1, 0x50, 0x80, 200 >> 3, 0x1F, 0xFC] + [UInt8](repeating: 0x85, count: 193)
    }

    /// The largest frame of ADTS and another one, behind the end of one as large.
    private static let longFrames: [UInt8] =
        noise(9, 8190) + [0xFF, 0xF1, 0x50, 0x83, 0xFF, 0xFF, 0xFC] + [UInt8](repeating: 0x85, count: 8184) + frames

    private static func text(_ text: String) -> [UInt8] { Array(text.utf8) }

    static let media: [(String, [UInt8])] = [
        ("styp", TestFile.box("styp", [])), ("moof", TestFile.fragment(0, size: 100)),
        ("ftyp", TestFile.file(seconds: 1)),
        ("a box that has no meaning here", TestFile.box("Xy1 ", [])), ("mdat", TestFile.box("mdat", [])),
        ("EBML", [0x1A, 0x45, 0xDF, 0xA3]), ("cluster", [0x1F, 0x43, 0xB6, 0x75]), ("cues", [0x1C, 0x53, 0xBB, 0x6B]),
        ("index of a Segment", [0x11, 0x4D, 0x9B, 0x74]), ("Info", [0x15, 0x49, 0xA9, 0x66]),
        ("Tags", [0x12, 0x54, 0xC3, 0x67]),
        ("packets", packets(188, count: 8)), ("packets with time stamps", packets(192, count: 8, lead: 4)),
        ("packets with checksums", packets(204, count: 8)),
        ("packets behind others", noise(5, 3001) + packets(188, count: 6)),
        ("Ogg", text("OggS")), ("FLAC", text("fLaC")), ("a tag", text("ID3") + [4, 0]), ("ADTS", frames),
        ("ADTS behind the end of a frame", noise(6, 501) + frames),
        ("long ADTS behind the end of a long frame", longFrames),
        ("MP3", [0xFF, 0xFB, 0x90, 0x64]), ("AC-3", [0x0B, 0x77]),
        ("AC-4", [0xAC, 0x40]), ("AC-4 with a checksum", [0xAC, 0x41]), ("LOAS", [0x56, 0xE2]),
        ("elementary stream", [0, 0, 0, 1, 0x67]), ("program stream", [0, 0, 1, 0xBA]),
        ("WebVTT", text("WEBVTT\n\n00:00.000 --> 00:01.000\nm\u{F6}glich")),
        ("WebVTT behind a mark", text("\u{FEFF}WEBVTT\n")),
        ("TTML", text("<?xml version=\"1.0\"?>\n<tt xmlns=\"http://www.w3.org/ns/ttml\">")),
        ("SubRip", text("1\r\n00:00:00,000 --> 00:00:01,000\r\n")), ("UTF-16", [0xFE, 0xFF, 0, 0x57]),
        ("envelope", text("LKEN") + [1]), ("PlayReady envelope", text("PRE") + [7, 0xFF]),
    ]

    @Test(arguments: media.indices)
    func mediaIsTaken(_ index: Int) {
        let (name, start) = Self.media[index]
        #expect(MediaStart.mayBeOne(start + Self.noise(1)), "\(name)")
    }

    /// Each file that is not encrypted as a whole, also those that no one should play.
    @Test func allOfTheCorpusIsTaken() throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let corpus = tests.appendingPathComponent("Corpus").path
        let kinds = ["mp4", "m4s", "ts", "aac", "ac3", "webm", "vtt", "ismv", "isma", "m3u8", "mpd"]
        var count = 0
        for name in try FileManager.default.subpathsOfDirectory(atPath: corpus)
        where kinds.contains(URL(fileURLWithPath: name).pathExtension) && !name.hasPrefix("broken-") {
            let file = try #require(FileHandle(forReadingAtPath: "\(corpus)/\(name)"))
            let start = Array(try file.read(upToCount: 64 << 10) ?? Data())
            try file.close()
            // A map in front of the key is clear.
            guard !name.contains("aes128") || name.hasSuffix(".m3u8") || name.hasSuffix("_init.mp4") else { continue }
            #expect(MediaStart.mayBeOne(start), "\(name)")
            count += 1
        }
        #expect(count > 250)
    }

    static let garbage: [(String, [UInt8])] = [
        ("noise", noise(1)), ("zeros", [UInt8](repeating: 0, count: 4000)),
        ("ones", [UInt8](repeating: 1, count: 4000)),
        ("numbers", (0..<4000).map { UInt8(truncatingIfNeeded: $0) }), ("16 bytes", noise(2, 16)),
        ("sync bytes at no stride", packets(187, count: 9)),
        ("four packets", noise(3) + packets(188, count: 4) + noise(4)),
        ("a frame alone", noise(7, 300) + frames.prefix(200) + noise(8)),
    ]

    @Test(arguments: garbage.indices)
    func garbageIsNot(_ index: Int) {
        let (name, bytes) = Self.garbage[index]
        #expect(!MediaStart.mayBeOne(bytes), "\(name)")
        #expect(MediaStart.mayBeOne(Array(bytes.prefix(15))), "\(name): too few bytes to tell")
    }

    @Test func noBytesTrap() {
        var generator = SeededGenerator(seed: 9)
        for length in 0..<600 {
            let common: [UInt8] = [0xFF, 0xF1, 0x0B, 0x77, 0x47, 0]
            _ = MediaStart.mayBeOne((0..<length).map { _ in common.randomElement(using: &generator) ?? 0 })
        }
    }

    // MARK: In an answer

    private func answer(
        _ body: [UInt8], status: Int = 206, from offset: Int = 0, isMedia: Bool = true, isWhole: Bool = true
    ) throws(CacheError) -> RangeAnswer {
        let (url, blockSize) = ("https://media.example/1.m4s?token=secret", 1024)
        let range = "bytes \(offset)-\(offset + body.count - 1)/\(offset + body.count)"
        let response = HTTPResponse(
            status: status, headers: [HTTPHeader(name: "Content-Range", value: range)], body: body, url: url)
        return try RangeAnswer(
            response, to: UInt64(offset)..<UInt64(offset + body.count), of: CachedResource(number: 1, url: url),
            blockSize: blockSize, isWhole: isWhole, isMedia: isMedia)
    }

    @Test func onlyTheStartOfMediaIsLookedAt() throws {
        let bytes = Self.noise(1)
        for (status, isWhole) in [(206, true), (200, true), (206, false)] {
            let error = #expect(throws: CacheError.self) { try answer(bytes, status: status, isWhole: isWhole) }
            #expect(error?.code == .invalidContent && error?.isTemporary == false)
            #expect(error?.url == "https://media.example/1.m4s")
            #expect(error?.reason.hasPrefix("https://media.example/1.m4s: it is no media") == true)
            #expect(error?.description.contains("secret") == false)
        }
        _ = try answer(bytes, isMedia: false)
        _ = try answer(bytes, from: 4096)
        _ = try answer(TestFile.segment(1))
    }
}
