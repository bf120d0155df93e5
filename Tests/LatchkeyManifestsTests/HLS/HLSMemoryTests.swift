// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import Testing

/// What it costs to serve what playlists name.
@Suite struct HLSMemoryTests {
    private func text(_ method: String, _ count: Int, nameLength: Int = 0) -> String {
        let name = String(repeating: "n", count: nameLength)
        var text = "#EXTM3U\n#EXT-X-KEY:METHOD=\(method),URI=\"key\"\n"
        for number in 0..<count { text += "#EXTINF:2,\n\(name)\(number).ts\n" }
        return text + "#EXT-X-ENDLIST\n"
    }

    /// A day of pictures and of sound in segments of two seconds, each with an IV of its own.
    @Test(arguments: ["AES-128", "SAMPLE-AES"])
    func aDayPlaysWithTheDefaults(method: String) throws {
        let count = 1000
        var rewriter = HLSPlaylistRewriter(keyFormats: [.identity])
        rewriter.relaysSegments = true
        let result = try rewriter.rewrite(text(method, count, nameLength: 120), routes: TestRoutes()).result
        #expect(result.resources.count == (method == "AES-128" ? count : 2 * count))
        #expect(result.memorySize > result.resourceSize)
        #expect(result.memorySize * 86_400 / count < HLSPlaylist.defaultMemoryLimit)
    }

    @Test func moreThanTheLimitIsRefused() throws {
        let playlist = text("AES-128", 10)
        var rewriter = HLSPlaylistRewriter(keyFormats: [.identity])
        let size = try rewriter.rewrite(playlist, routes: TestRoutes()).result.memorySize
        rewriter.memoryLimit = size
        _ = try rewriter.rewrite(playlist, routes: TestRoutes())
        rewriter.memoryLimit = size - 1
        #expect {
            _ = try rewriter.rewrite(playlist, routes: TestRoutes())
        } throws: { error in
            guard let error = error as? FormatError else { return false }
            return error.isSameKind(as: .tooLarge("")) && error.reason.contains("playlist-memory in [latchkey]")
        }
    }

    /// One URI for many segments is there once.
    @Test func theURIsOfKeysCount() throws {
        let uri = String(repeating: "k", count: 1000)
        let tag = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"\(uri)\"\n"
        let segments = (0..<10).map { "#EXTINF:2,\n\($0).ts\n" }
        var rewriter = HLSPlaylistRewriter(keyFormats: [.identity])
        func size(_ text: String) throws -> Int {
            try rewriter.rewrite("#EXTM3U\n\(text)#EXT-X-ENDLIST\n", routes: TestRoutes()).result.resourceSize
        }
        let once = try size(tag + segments.joined())
        #expect(once > 1000 && once < 10_000)
        let other = tag.replacing("kkk\"", with: "kko\"")
        let changing = segments.enumerated().map { ($0.offset % 2 == 0 ? tag : other) + $0.element }
        #expect(try size(changing.joined()) == once + 9 * (once - 10 * 160))
    }

    /// The long URL of a playlist stands in front of the URI of each of its keys.
    @Test func theURLsOfKeysAreBounded() throws {
        let url = "https://h/\(String(repeating: "d", count: 989))/l.m3u8"
        let text = "#EXTM3U\n" + (0..<10).map { "#EXT-X-KEY:METHOD=AES-128,URI=\"\($0)\"\n" }.joined()
        var rewriter = HLSPlaylistRewriter(keyFormats: [.identity])
        // Each of the ten has 1,001 bytes.
        rewriter.urlLimit = 10_010
        _ = try rewriter.rewrite(text, from: url, routes: TestRoutes())
        rewriter.urlLimit = 10_009
        #expect {
            _ = try rewriter.rewrite(text, from: url, routes: TestRoutes())
        } throws: { ($0 as? FormatError)?.reason.contains("more than 10009 bytes of absolute URLs") == true }
    }

    /// Definitions leave nothing, and the lines behind them keep their places.
    @Test func variablesAreFilledInWhereTheyStand() throws {
        let text = """
            #EXTM3U
            #EXT-X-TARGETDURATION:2
            #EXTINF:2,
            {$a}0.ts
            #EXT-X-DEFINE:NAME="a",VALUE="b"
            #EXTINF:2,
            {$a}1.ts
            #EXT-X-DEFINE:NAME="c",VALUE="d"
            #EXT-X-ENDLIST
            """
        var rewriter = HLSPlaylistRewriter(keyFormats: [.identity])
        let rewritten = try rewriter.rewrite(text, routes: TestRoutes()).text
        let lines = rewritten.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 7)
        #expect(lines[3].hasSuffix("/%7B$a%7D0.ts") && lines[5].hasSuffix("/b1.ts") && lines[6] == "#EXT-X-ENDLIST")
        #expect(!rewritten.contains("DEFINE"))
    }
}
