// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyTestSupport
import Testing

@Suite struct HLSPlaylistTests {
    @Test func everyPlaylistOfTheCorpusIsReadWithoutLoss() throws {
        let files = try HLSCorpus.playlists()
        #expect(files.count > 80)
        for file in files {
            let bytes = try CorpusBoxes.corpusFile(file)
            let playlist = try HLSPlaylist(bytes)
            #expect(playlist.serialized() == Array(bytes), "\(file)")
            #expect(playlist.lines.map(\.number) == Array(1...playlist.lines.count))
            #expect((playlist.kind == .master) == file.hasSuffix("master.m3u8"), "\(file)")
        }
    }

    @Test func linesAndTheirEnds() throws {
        let text = "\u{FEFF}#EXTM3U\r\n#EXTINF:1,a:b\n\n# x\n #not a tag \n a.ts\t\r\n#EXT-X-ENDLIST\rlost\nend"
        let playlist = try HLSPlaylist(text.utf8)
        #expect(playlist.hasByteOrderMark)
        #expect(playlist.serialized() == Array(text.utf8))
        #expect(
            playlist.lines.map(\.content) == [
                .tag(name: "EXTM3U", value: nil), .tag(name: "EXTINF", value: "1,a:b"), .blank, .comment,
                .uri("#not a tag"), .uri("a.ts"), .tag(name: "EXT-X-ENDLIST", value: nil), .uri("end"),
            ])
    }

    @Test(arguments: [
        "", "\n#EXTM3U\n", "#EXT", "<html>", " #EXTM3U", "#EXTM3U\n\u{0}",
        "#EXTM3U\n#EXTINF:1,\na\n#EXT-X-STREAM-INF:A=1\nb",
    ])
    func whatIsNoPlaylist(text: String) {
        #expect {
            try HLSPlaylist(text.utf8)
        } throws: { ($0 as? FormatError)?.isSameKind(as: .malformed("")) == true }
    }

    @Test(arguments: [
        ("#EXTM3U\n#EXT-X-VERSION:6\n# a\n\n#EXT-X-SESSION-KEY:METHOD", true), ("#EXTM3U\r\n#EXT-X-KEY:", true),
        ("#EXTM3U x\n#EXT-X-KEY:METHOD=NONE\n", true), ("#EXTM3U\n#EXT-X-KEY", false),
        ("#EXTM3U\n#EXT-X-SESSION-DATA:A=1\n#EXT-X-STREAM-INF:A=1\nv\n", false), ("", false),
        ("#EXTM3U\n#EXTINF:1,#EXT-X-KEY:\n/music/a.mp3\n", false), ("#EXT-X-KEY:METHOD=NONE\n", false),
        ("#EXTM3U\n#\(String(repeating: "a", count: 5000))\n#EXT-X-KEY:", false),
    ])
    func theStartOfAPlaylistWithKeysIsRecognized(text: String, isKeyed: Bool) {
        #expect(HLSPlaylist.isKeyed(start: Array(text.utf8)) == isKeyed)
    }

    @Test(arguments: [
        (
            "#EXTM3U\n#EXT-X-VERSION:9\r\n#EXT-X-SERVER-CONTROL:PART-HOLD-BACK=1,CAN-BLOCK-RELOAD=YES\r\n#EXTINF:1,\na",
            true
        ),
        ("#EXTM3U\n#EXT-X-SERVER-CONTROL:CAN-SKIP-UNTIL=24\n", false), ("#EXTM3U\n# CAN-BLOCK-RELOAD=YES\n", false),
        ("", false),
        ("#EXTM3U\n#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YE", false),
    ])
    func serversThatWaitSaySo(text: String, blocks: Bool) {
        #expect(HLSPlaylist.blocksReload(start: Array(text.utf8)) == blocks)
    }

    @Test func bytesThatAreNotUTF8() {
        #expect(throws: FormatError.malformed("a playlist that is not UTF-8")) {
            try HLSPlaylist(Array("#EXTM3U\n".utf8) + [0xC3, 0x28])
        }
    }

    @Test func errorsNameTheLine() {
        let text = "#EXTM3U\n#EXTINF:1,\na\n#EXT-X-STREAM-INF:A=1\n"
        #expect {
            try HLSPlaylist(text.utf8)
        } throws: { ($0 as? FormatError)?.reason.hasPrefix("line 4: ") == true }
    }

    @Test(arguments: [
        ("#EXT-X-STREAM-INF:A=1\nv\n#EXT-X-TARGETDURATION:4", HLSPlaylist.Kind.master), ("#EXT-X-MEDIA:A=1", .master),
        ("#EXT-X-MEDIA:A=1\n#EXTINF:1,\na", .media), ("#EXT-X-I-FRAME-STREAM-INF:A=1", .master), ("", .media),
        ("#EXT-X-TARGETDURATION:4", .media), ("#EXT-X-PART:A=1", .media), ("#EXT-X-SESSION-KEY:A=1", .master),
    ])
    func kinds(lines: String, expected: HLSPlaylist.Kind) throws {
        #expect(try HLSPlaylist("#EXTM3U\n\(lines)".utf8).kind == expected)
    }

    @Test func limits() throws {
        let head = Array("#EXTM3U\n".utf8)
        let isTooLarge: (any Error) -> Bool = { ($0 as? FormatError)?.isSameKind(as: .tooLarge("")) == true }
        let newline = UInt8(ascii: "\n")
        let lines = head + [UInt8](repeating: newline, count: HLSPlaylist.maximumLines - 1)
        #expect(try HLSPlaylist(lines).lines.count == HLSPlaylist.maximumLines)
        #expect { try HLSPlaylist(lines + [newline]) } throws: { isTooLarge($0) }
        let line = head + [UInt8](repeating: UInt8(ascii: "a"), count: HLSPlaylist.maximumLineSize)
        #expect(try HLSPlaylist(line).lines.count == 2)
        #expect { try HLSPlaylist(line + [UInt8(ascii: "a")]) } throws: { isTooLarge($0) }
        let size = [UInt8](repeating: newline, count: HLSPlaylist.maximumSize + 1)
        #expect { try HLSPlaylist(size) } throws: { isTooLarge($0) }
    }

    @Test(arguments: [
        ("a/b.ts?x=.mp4", HLSSegmentKind.transportStream), ("http://h/x.M4S", .fragmentedMP4), ("x.aac", .packedAudio),
        ("x.ec3#f", .packedAudio), ("a.b/x.webvtt", .webVTT),
    ])
    func kindsByFileName(url: String, expected: HLSSegmentKind) {
        #expect(HLSSegmentKind(url: url) == expected)
    }

    @Test(arguments: ["http://h.ts/x", "x", "", "a.ts/", "x.php"])
    func fileNamesThatSayNothing(url: String) {
        #expect(HLSSegmentKind(url: url) == (url == "a.ts/" ? .transportStream : nil))
    }

    @Test(arguments: [
        ("_HLS_msn=5&_HLS_part=1", "https://h/a?t=1", "https://h/a?t=1&_HLS_msn=5&_HLS_part=1"),
        ("x=1&_HLS_skip=YES", "https://h/a", "https://h/a?_HLS_skip=YES"),
        ("_HLS_msn=5", "https://h/a?_HLS_msn=4&b", "https://h/a?b&_HLS_msn=5"),
        ("", "https://h/a?b#c", "https://h/a?b#c"),
        ("HLS=1", "https://h/a", "https://h/a"), ("_HLS_msn=5#x\r\ny", "https://h/a", "https://h/a"),
    ])
    func deliveryDirectives(query: String, url: String, expected: String) {
        #expect(HLSDeliveryDirectives.forwarding(query, to: url) == expected)
    }

    @Test func kindsByFirstBytes() throws {
        let kinds: [(String, HLSSegmentKind)] = [
            ("hls-ts-sampleaes-skd-aac/v_1.ts", .transportStream), ("hls-packed-aac-sampleaes/a_1.aac", .packedAudio),
            ("hls-packed-ac3-sampleaes-skd/a_1.ac3", .packedAudio), ("hls-fmp4-cbcs-identity/v_1.m4s", .fragmentedMP4),
            ("hls-fmp4-cbcs-identity/v_init.mp4", .fragmentedMP4),
        ]
        for (file, kind) in kinds {
            let bytes = try CorpusBoxes.corpusFile(file)
            #expect(HLSSegmentKind(firstBytes: bytes) == kind, "\(file)")
            #expect(HLSSegmentKind(firstBytes: bytes.prefix(377)) == kind, "\(file)")
            #expect(HLSSegmentKind.isCertain(start: Array(bytes.prefix(4096))), "\(file)")
        }
        #expect(HLSSegmentKind(firstBytes: Array("\u{FEFF}WEBVTT\n".utf8)) == .webVTT)
        #expect(HLSSegmentKind(firstBytes: [0xFF, 0xF1]) == .packedAudio)
        #expect(HLSSegmentKind(firstBytes: [0x0B, 0x77]) == .packedAudio)
        #expect(HLSSegmentKind(firstBytes: []) == nil)
        #expect(HLSSegmentKind(firstBytes: try CorpusBoxes.corpusFile("hls-ts-aes128-shaka/v_1.ts")) == nil)
    }
}

/// The playlists of the corpus.
enum HLSCorpus {
    /// All of them that are playlists by their name, as paths within the corpus.
    static func playlists() throws -> [String] {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let folder = tests.appendingPathComponent("Corpus")
        let enumerator = FileManager.default.enumerator(atPath: folder.path)
        return (enumerator?.allObjects ?? []).compactMap { $0 as? String }.filter { $0.hasSuffix(".m3u8") }.sorted()
    }
}
