// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import Testing

/// `EXT-X-DEFINE` and `{$name}`.
@Suite struct HLSVariablesTests {
    private let routes = TestRoutes()

    @Test func valuesOfAllKinds() throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay], importedVariables: ["path": "q/r", "other": "x"])
        let media = """
            #EXTM3U
            #EXT-X-DEFINE:NAME="host",VALUE="media.example"
            #EXT-X-DEFINE:IMPORT="path"
            #EXT-X-DEFINE:QUERYPARAM="tok_en"
            #EXT-X-DEFINE:NAME="iv",VALUE="0102"
            #EXT-X-TARGETDURATION:2
            #EXT-X-MAP:URI="https://{$host}/{$path}/i.mp4"
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://{$path}",IV=0x{$iv},KEYFORMAT="com.apple.streamingkeydelivery"
            #EXTINF:1,
            https://{$host}/{$path}/1.m4s?t={$tok_en}&u={$tok_en}
            #EXT-X-ENDLIST
            """
        let url = "https://cdn.example/l.m3u8?a=b&tok%5Fen=A%2FB&tok_en=C"
        let (text, result) = try rewriter.rewrite(media, from: url, routes: routes)
        #expect(SeenSegment.segments(of: text).map(\.url) == ["https://media.example/q/r/1.m4s?t=A/B&u=A/B"])
        #expect(result.keys.first?.key.uri == "skd://q/r")
        #expect(result.keys.first?.key.initializationVector?.low == 0x0102)
        #expect(!text.contains("{") && !text.contains("EXT-X-DEFINE"))
        #expect(result.variables == ["host": "media.example", "path": "q/r", "tok_en": "A/B", "iv": "0102"])
    }

    @Test func masterPlaylistsHandTheirsOn() throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let master = """
            #EXTM3U
            #EXT-X-DEFINE:NAME="a",VALUE="1"
            #EXT-X-DEFINE:NAME="b",VALUE="{$a}2"
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="g",NAME="{$b}",URI="{$b}.m3u8"
            #EXT-X-STREAM-INF:BANDWIDTH=1
            {$a}/v.m3u8
            """
        let (text, result) = try rewriter.rewrite(master, routes: routes)
        #expect(result.variables == ["a": "1", "b": "12"])
        #expect(result.children.map(\.url).last == "https://cdn.example/p/1/v.m3u8")
        #expect(text.contains("NAME=\"12\""))
    }

    @Test func valuesAreNotLookedIntoAgain() throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let text = "#EXTM3U\n#EXT-X-DEFINE:NAME=\"a\",VALUE=\"{$\"\n#EXTINF:1,{$a}a}\nx.ts"
        #expect(try rewriter.rewrite(text, routes: routes).text.contains("#EXTINF:1,{$a}\n"))
    }

    @Test func bracesMeanNothingWithoutADefinition() throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let (text, _) = try rewriter.rewrite("#EXTM3U\n#EXTINF:1,{$x}\n{$y}.ts", routes: routes)
        #expect(text == "#EXTM3U\n#EXTINF:1,{$x}\nhttps://cdn.example/p/%7B$y%7D.ts")
    }

    @Test func whatIsNoReferenceStays() throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let text = "#EXTM3U\n#EXT-X-DEFINE:NAME=\"a\",VALUE=\"1\"\n#EXTINF:1,{a} {$} {$a b} {{$a}} {$a\nx.ts"
        #expect(try rewriter.rewrite(text, routes: routes).text.contains("#EXTINF:1,{a} {$} {$a b} {1} {$a\n"))
    }

    @Test(arguments: [
        "#EXT-X-DEFINE:NAME=\"a\"", "#EXT-X-DEFINE:VALUE=\"a\"", "#EXT-X-DEFINE:", "#EXT-X-DEFINE",
        "#EXT-X-DEFINE:NAME=\"\",VALUE=\"1\"", "#EXT-X-DEFINE:NAME=\"a b\",VALUE=\"1\"",
        "#EXT-X-DEFINE:IMPORT=\"none\"", "#EXT-X-DEFINE:QUERYPARAM=\"none\"", "#EXT-X-DEFINE:QUERYPARAM=\"empty\"",
        "#EXT-X-DEFINE:QUERYPARAM=\"quote\"", "#EXT-X-DEFINE:QUERYPARAM=\"line\"", "#EXT-X-DEFINE:QUERYPARAM=\"bad\"",
        "#EXT-X-DEFINE:NAME=\"a\",VALUE=\"1\"\n#EXT-X-DEFINE:NAME=\"a\",VALUE=\"2\"",
        "#EXT-X-DEFINE:NAME=\"a\",VALUE=\"1\"\n#EXTINF:1,\n{$b}.ts\n#EXT-X-DEFINE:NAME=\"b\",VALUE=\"1\"",
    ])
    func brokenDefinitions(lines: String) {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let url = "https://h/l.m3u8?empty=&quote=%22&line=a%0Ab&bad=%FF&half=%4"
        for head in ["#EXTINF:1,\nx.ts", "#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8"] {
            #expect {
                try rewriter.rewrite("#EXTM3U\n\(head)\n\(lines)", from: url, routes: routes)
            } throws: { ($0 as? FormatError)?.isSameKind(as: .malformed("")) == true }
        }
    }

    @Test func valuesDoNotGrowWithoutBound() {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let value = String(repeating: "x", count: 100_000)
        let uses = String(repeating: "#EXT-X-VENDOR:{$a}{$a}{$a}{$a}\n", count: 100)
        #expect {
            try rewriter.rewrite("#EXTM3U\n#EXT-X-DEFINE:NAME=\"a\",VALUE=\"\(value)\"\n\(uses)", routes: routes)
        } throws: { ($0 as? FormatError)?.isSameKind(as: .tooLarge("")) == true }
        let definitions = (0..<3).map { "#EXT-X-DEFINE:NAME=\"v\($0)\",VALUE=\"\(value)\"\n" }.joined()
        #expect {
            try rewriter.rewrite("#EXTM3U\n\(definitions)", routes: routes)
        } throws: { ($0 as? FormatError)?.isSameKind(as: .tooLarge("")) == true }
    }
}
