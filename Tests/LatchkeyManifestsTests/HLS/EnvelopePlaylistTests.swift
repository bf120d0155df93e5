// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import Testing

/// Playlists whose segments are in envelopes, with a tag or without.
@Suite struct EnvelopePlaylistTests {
    private static let clear = """
        #EXTM3U
        #EXT-X-TARGETDURATION:4
        #EXTINF:4,
        1.ts
        #EXTINF:3.5,
        2.ts
        #EXT-X-ENDLIST

        """
    private static let playReady =
        "#EXT-X-KEY:METHOD=AES-128,URI=\"data:text/plain;base64,AAAA\",KEYFORMAT=\"com.microsoft.playready\"\n"

    private let routes = TestRoutes()

    private func rewriter(_ isEnveloped: Bool? = nil) -> HLSPlaylistRewriter {
        var rewriter = HLSPlaylistRewriter(keyFormats: [.identity, .playReady])
        rewriter.isEnveloped = isEnveloped
        return rewriter
    }

    private func segments(_ text: String) -> [HLSEnvelopedSegment] {
        text.split(separator: "\n").filter { !$0.hasPrefix("#") }.compactMap { line in
            if case .envelope(let segment) = routes.resource(String(line)) { segment } else { nil }
        }
    }

    @Test func aClearPlaylistStaysAndNamesASegmentToLookAt() throws {
        var rewriter = rewriter()
        let (text, result) = try rewriter.rewrite(Self.clear, routes: routes)
        #expect(result.segmentToProbe?.url == "https://cdn.example/p/1.ts")
        #expect(text.contains("https://cdn.example/p/1.ts\n"))
        #expect(!result.isProtected)
        rewriter.isEnveloped = false
        let (again, known) = try rewriter.rewrite(Self.clear, routes: routes)
        #expect(again == text)
        #expect(known.segmentToProbe == nil)
    }

    @Test func envelopedSegmentsComeFromUs() throws {
        var rewriter = rewriter(true)
        let (text, result) = try rewriter.rewrite(Self.clear, routes: routes)
        #expect(result.isProtected)
        #expect(result.keys.isEmpty)
        #expect(segments(text).map(\.url) == ["https://cdn.example/p/1.ts", "https://cdn.example/p/2.ts"])
        #expect(segments(text).map(\.start) == [0, 360_000])
        #expect(segments(text).allSatisfy { $0.kind == .transportStream })
    }

    @Test func aTagOfPlayReadyIsLookedBehindAndTakenOut() throws {
        let tagged = Self.clear.replacing("#EXTINF:4,", with: Self.playReady + "#EXTINF:4,")
        var rewriter = rewriter()
        #expect(try rewriter.rewrite(tagged, routes: routes).result.segmentToProbe != nil)
        rewriter.isEnveloped = true
        let (text, result) = try rewriter.rewrite(tagged, routes: routes)
        #expect(!text.contains("playready"))
        #expect(segments(text).count == 2)
        #expect(result.keys.isEmpty)
    }

    @Test(arguments: [
        "#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n",
        "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"k\"\n",
    ])
    func otherKeysAreTakenAtTheirWord(tag: String) throws {
        var rewriter = rewriter()
        let text = Self.clear.replacing("#EXTINF:4,", with: tag + "#EXTINF:4,")
        #expect(try rewriter.rewrite(text, routes: routes).result.segmentToProbe == nil)
    }

    @Test func subtitlesAreNotLookedAt() throws {
        var rewriter = rewriter()
        let text = Self.clear.replacing(".ts", with: ".vtt")
        #expect(try rewriter.rewrite(text, routes: routes).result.segmentToProbe == nil)
        rewriter.isEnveloped = true
        #expect(try rewriter.rewrite(text, routes: routes).text.contains("https://cdn.example/p/1.vtt\n"))
    }

    @Test func fragmentedMP4KeepsItsMap() throws {
        var rewriter = rewriter(true)
        let text = Self.clear.replacing("#EXTINF:4,", with: "#EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:4,")
        let rewritten = try rewriter.rewrite(text, routes: routes).text
        #expect(rewritten.contains("#EXT-X-MAP:URI=\"https://cdn.example/p/init.mp4\""))
        #expect(segments(rewritten).map(\.kind) == [.fragmentedMP4, .fragmentedMP4])
    }

    @Test func byteRangesAreOurs() throws {
        var rewriter = rewriter(true)
        let text = Self.clear.replacing("#EXTINF:4,", with: "#EXTINF:4,\n#EXT-X-BYTERANGE:100@50")
        let rewritten = try rewriter.rewrite(text, routes: routes).text
        #expect(!rewritten.contains("BYTERANGE"))
        #expect(segments(rewritten).first?.byteRange == HLSByteRange(offset: 50, length: 100))
    }

    /// A segment keeps its time while the window of a live playlist moves, and two playlists agree.
    @Test func liveSegmentsKeepTheirTimes() throws {
        func live(_ first: Int, _ durations: [Double]) -> String {
            let segments = durations.enumerated().map { "#EXTINF:\($1),\n\(first + $0).ts\n" }.joined()
            return "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:\(first)\n\(segments)"
        }
        var rewriter = rewriter(true)
        let first = segments(try rewriter.rewrite(live(10, [4, 3, 4]), routes: routes).text)
        let second = segments(try rewriter.rewrite(live(12, [4, 2, 4]), routes: routes).text)
        #expect(first.map(\.start) == [40, 44, 47].map { $0 * 90_000 })
        #expect(second.map(\.start) == [47, 51, 53].map { $0 * 90_000 })
        #expect(first.last == second.first)
    }
}
