// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// Damaged and hostile playlists throw or are read; they never trap, and time and memory go with their size.
@Suite struct HLSFuzzTests {
    /// One of each tag, in a playlist that uses them all.
    private static let seeds = [
        """
        #EXTM3U
        #EXT-X-DEFINE:NAME="a",VALUE="b"
        #EXT-X-TARGETDURATION:4
        #EXT-X-MEDIA-SEQUENCE:18446744073709551600
        #EXT-X-SKIP:SKIPPED-SEGMENTS=3
        #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://{$a}",IV=0x01,KEYFORMAT="com.apple.streamingkeydelivery",KEYID=0x02
        #EXT-X-MAP:URI="i.mp4",BYTERANGE="10@20"
        #EXT-X-BYTERANGE:100@5
        #EXTINF:4.004,title
        {$a}.m4s
        #EXT-X-KEY:METHOD=AES-128,URI="data:,x"
        #EXT-X-PART:DURATION=1,URI="p.m4s",BYTERANGE="5@6"
        #EXTINF:1,
        #EXT-X-BYTERANGE:7
        b.m4s
        #EXT-X-RENDITION-REPORT:URI="../r.m3u8"
        #EXT-X-PRELOAD-HINT:TYPE=PART,URI="q"
        #EXT-X-DATERANGE:ID="x",X-ASSET-URI="y"
        #EXT-X-ENDLIST
        """,
        """
        #EXTM3U
        #EXT-X-DEFINE:QUERYPARAM="t"
        #EXT-X-SESSION-KEY:METHOD=SAMPLE-AES,URI="skd://a",KEYFORMAT="com.apple.streamingkeydelivery"
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="b",URI="a.m3u8"
        #EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO="a"
        v{$t}.m3u8
        #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="i.m3u8"
        """,
    ]

    /// Either an error with a text, or a playlist without a key that the demuxer cannot use.
    private func rewrite(_ bytes: [UInt8], with rewriter: inout HLSPlaylistRewriter) -> Bool {
        do throws(FormatError) {
            let result = try rewriter.rewrite(bytes, from: "https://h/p/l.m3u8?t=1", route: TestRoutes().url)
            let text = String(decoding: result.bytes, as: UTF8.self)
            if result.kind == .media {
                #expect(!text.split(separator: "\n").contains { $0.hasPrefix("#EXT-X-KEY:METHOD=SAMPLE") })
            }
            return true
        } catch {
            #expect(error.reason.hasPrefix("playlist https://h/p/l.m3u8"))
            return false
        }
    }

    @Test(arguments: [UInt64(1), 2, 3, 4])
    func mutatedPlaylists(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var sources = Self.seeds.map { Array($0.utf8) }
        for file in ["broken-m3u8-keys/method-none-after", "hls-fmp4-cbcs-byterange/v", "hls-ts-aes128-shaka/v"] {
            sources.append(Array(try CorpusBoxes.corpusFile("\(file).m3u8")))
        }
        // Kept over the rounds, as for a live playlist whose server sends nonsense now and then.
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay, .identity])
        var (read, refused) = (0, 0)
        for _ in 0..<1500 {
            let source = try #require(sources.randomElement(using: &generator))
            let isRead = rewrite(generator.mutate(source), with: &rewriter)
            (read, refused) = isRead ? (read + 1, refused) : (read, refused + 1)
        }
        #expect(read > 100)
        #expect(refused > 100)
    }

    @Test(arguments: [UInt64(11), 12])
    func linesInAnyOrder(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let lines = Self.seeds.flatMap { $0.split(separator: "\n").dropFirst() }
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay, .identity])
        var read = 0
        for _ in 0..<1500 {
            let some = (0..<Int.random(in: 0...12, using: &generator)).compactMap { _ in
                lines.randomElement(using: &generator)
            }
            let text = "#EXTM3U\n\(some.joined(separator: "\n"))"
            read += rewrite(Array(text.utf8), with: &rewriter) ? 1 : 0
        }
        #expect(read > 20)
    }

    @Test func everyTruncation() {
        for seed in Self.seeds {
            let bytes = Array(seed.utf8)
            for length in 0..<bytes.count {
                var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay, .identity])
                _ = rewrite(Array(bytes.prefix(length)), with: &rewriter)
            }
        }
    }

    /// Twice the input takes about twice the time: nothing is done for each pair of lines.
    @Test(arguments: [
        "#EXTINF:1,\n\\.ts\n",
        "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://\\\",KEYFORMAT=\"\\\"\n#EXT-X-KEY:METHOD=NONE\n",
        "#EXT-X-KEY:METHOD=AES-128,URI=\"k\\\"\n#EXTINF:1,\n\\.ts\n", "#EXT-X-MAP:URI=\"\\.mp4\"\n",
        "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://\\\",KEYFORMAT=\"com.apple.streamingkeydelivery\"\n#EXTINF:1,\n\\.ts\n",
        "#EXT-X-DEFINE:NAME=\"\\\",VALUE=\"x\"\n", "#EXT-X-X:{{{{{$a{$a{$a{$a\n", "\n",
        "#EXT-X-RENDITION-REPORT:URI=\"\\\"\n", "#EXT-X-PART:URI=\"\\\"\n",
    ])
    func timeGoesWithSize(pattern: String) throws {
        /// Of this thread alone, in nanoseconds: the machine has other work.
        func now() -> Int {
            var time = timespec()
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
            return time.tv_sec * 1_000_000_000 + time.tv_nsec
        }
        func time(_ count: Int) -> Int {
            var text = "#EXTM3U\n#EXT-X-DEFINE:NAME=\"-\",VALUE=\"x\"\n#EXTINF:1,\nx.ts\n"
            for number in 0..<count { text += pattern.replacing("\\", with: String(number)) }
            let bytes = Array(text.utf8)
            var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay, .identity])
            rewriter.keyLimit = HLSPlaylist.maximumKeysAndMaps
            let start = now()
            _ = rewrite(bytes, with: &rewriter)
            return now() - start
        }
        _ = time(100)
        let short = (0..<3).map { _ in time(500) }.min() ?? 0
        let long = (0..<3).map { _ in time(4000) }.min() ?? 0
        #expect(short > 0)
        #expect(long < short * 8 * 3 + 20_000_000, "\(short) ns for 500, \(long) ns for 4000")
    }

    @Test func resultsAreBounded() throws {
        let url = "https://h/" + String(repeating: "d", count: 60_000) + "/l.m3u8"
        let text = "#EXTM3U\n" + String(repeating: "#EXTINF:1,\na\n", count: 2000)
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        #expect {
            try rewriter.rewrite(Array(text.utf8), from: url, route: TestRoutes().url)
        } throws: { ($0 as? FormatError)?.isSameKind(as: .tooLarge("")) == true }
    }

    @Test(arguments: ["#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n", "#EXT-X-MAP:URI=\"m\"\n"])
    func keysAndMapsAreBounded(_ tag: String) throws {
        func text(_ count: Int) -> String {
            "#EXTM3U\n" + String(repeating: "\(tag)#EXTINF:1,\na\n", count: count)
        }
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        for limit in [HLSPlaylist.defaultKeyLimit, HLSPlaylist.maximumKeysAndMaps] {
            rewriter.keyLimit = limit
            let most = try rewriter.rewrite(text(limit), routes: TestRoutes())
            #expect(most.result.durations.count == limit)
            #expect {
                try rewriter.rewrite(text(limit + 1), routes: TestRoutes())
            } throws: { error in
                guard let error = error as? FormatError else { return false }
                return error.isSameKind(as: .tooLarge("")) && error.reason.contains("playlist-keys in [latchkey]")
            }
        }
    }

    /// As many keys as maps, by default; of both together no more than can be set.
    @Test func keysAndMapsAreCountedByThemselves() throws {
        let segment = "#EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV=0x1\n#EXT-X-MAP:URI=\"m\"\n#EXTINF:1,\na\n"
        func text(_ count: Int) -> String { "#EXTM3U\n" + String(repeating: segment, count: count) }
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        _ = try rewriter.rewrite(text(HLSPlaylist.defaultKeyLimit), routes: TestRoutes())
        rewriter.keyLimit = HLSPlaylist.maximumKeysAndMaps
        #expect {
            try rewriter.rewrite(text(HLSPlaylist.maximumKeysAndMaps / 2 + 1), routes: TestRoutes())
        } throws: { ($0 as? FormatError)?.isSameKind(as: .tooLarge("")) == true }
    }

    @Test func longURLsAreRefused() throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let name = String(repeating: "a", count: 70_000)
        for text in ["#EXTINF:1,\n\(name)", "#EXT-X-STREAM-INF:BANDWIDTH=1\n\(name)", "#EXT-X-MAP:URI=\"\(name)\""] {
            #expect {
                try rewriter.rewrite("#EXTM3U\n\(text)", routes: TestRoutes())
            } throws: { ($0 as? FormatError)?.isSameKind(as: .tooLarge("")) == true }
        }
    }
}
