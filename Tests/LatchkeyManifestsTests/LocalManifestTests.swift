// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyTestSupport
import Testing

@Suite(.timeLimit(.minutes(8))) struct LocalManifestTests {
    private static let home = "file:///films/a%20b/stream.mpd"

    private func isLocal(_ text: String, from url: String = home) -> Bool {
        LocalManifest.namesFilesOnly(Array(text.utf8), from: url)
    }

    @Test(arguments: [
        ("", true), ("<BaseURL>video/</BaseURL>", true), ("<BaseURL>file:///other/</BaseURL>", true),
        ("<BaseURL> https://a.test/</BaseURL>", false), ("<Location>HTTP://a.test/x.mpd</Location>", false),
        (
            "<Period><AdaptationSet><Representation><BaseURL>http://a.test/v</BaseURL></Representation></AdaptationSet></Period>",
            false
        ),
        ("<Period><SegmentTemplate media=\"v_$Number$.m4s\" initialization=\"i\"/></Period>", true),
        ("<Period><SegmentTemplate media=\"http://a.test/$Number$\"/></Period>", false),
        ("<Period><SegmentTemplate media=\"v\" initialization=\"https://a.test/i\"/></Period>", false),
        ("<Period><SegmentList><SegmentURL media=\"https://a.test/1\"/></SegmentList></Period>", false),
        ("<Period xlink:href=\"https://a.test/period\"/>", false),
        ("<Period xlink:href=\"urn:mpeg:dash:resolve-to-zero:2013\"/>", true),
        // It may name anything.
        ("<Period xlink:href=\"period.xml\"/>", false),
        // What becomes a URL of a server once bases are joined and templates are filled in.
        ("<BaseURL>https:</BaseURL><Period><BaseURL>//a.test/</BaseURL></Period>", false),
        ("<Period><BaseURL>//a.test/</BaseURL></Period>", false), ("<BaseURL>ftp://a.test/</BaseURL>", false),
        ("<BaseURL>file://a.test/</BaseURL>", false), ("<BaseURL>FILE:///other/</BaseURL>", true),
        ("<BaseURL><b>https://a.test/</b></BaseURL>", false), ("<BaseURL>ht<!-- -->tps://a.test/</BaseURL>", false),
        ("<BaseURL>&#104;ttps://a.test/</BaseURL>", false), ("<BaseURL><![CDATA[https://a.test/]]></BaseURL>", false),
        ("<Period><SegmentTemplate xlink:media=\"http://a.test/$Number$\"/></Period>", false),
        ("<Period><SegmentTemplate media=\"$RepresentationID$://a.test/v\"/></Period>", false),
        ("<Period><SegmentTemplate media=\"$RepresentationID$/a:b\"/></Period>", true),
        ("<Period><Representation id=\"https://a.test\"/></Period>", false),
        ("<Period id=\"a:b\"><Representation id=\"v\"/></Period>", true),
        // No media.
        ("<ProgramInformation moreInformationURL=\"https://a.test/\"/>", true),
        ("<Period><AdaptationSet><Role schemeIdUri=\"http://a.test/role\"/></AdaptationSet></Period>", true),
    ])
    func dash(_ body: String, _ result: Bool) {
        let text =
            "<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" xmlns:xlink=\"http://www.w3.org/1999/xlink\">\(body)</MPD>"
        #expect(isLocal(text) == result)
        #expect(!isLocal(text, from: "https://a.test/stream.mpd"))
        // Later versions may name anything.
        for type in ["dynamic", "Live"] {
            #expect(!isLocal(text.replacing("<MPD", with: "<MPD type=\"\(type)\"")))
        }
    }

    @Test(arguments: [
        ("Q({bitrate})/F(video={start time})", true), ("http://a.test/Q({bitrate})/F(video={start time})", false),
    ])
    func smoothStreaming(_ url: String, _ result: Bool) {
        let text = "<SmoothStreamingMedia><StreamIndex Url=\"\(url)\"/></SmoothStreamingMedia>"
        #expect(isLocal(text) == result)
        #expect(!isLocal(text.replacing("Media>", with: "Media IsLive=\"TRUE\">", maxReplacements: 1)))
    }

    @Test func whatCannotBeReadIsNoLocalManifest() {
        for text in ["", "<MPD>", "#EXTM3U"] { #expect(!isLocal(text)) }
    }

    @Test(arguments: [
        ("#EXTINF:1,\nv.ts\n", false), ("#EXTINF:1,\nfile:///a/v.ts\n", false),
        ("#EXTINF:1,\nhttps://a.test/v.ts\n", true),
        ("#EXT-X-MAP:URI=\"i.mp4\"\n#EXTINF:1,\nv.mp4\n", false),
        ("#EXT-X-MAP:URI=\"http://a.test/i.mp4\"\n#EXTINF:1,\nv.mp4\n", true),
        (
            "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://a\",KEYFORMAT=\"com.apple.streamingkeydelivery\"\n#EXTINF:1,\nv.ts\n",
            false
        ),
        ("#EXT-X-KEY:METHOD=AES-128,URI=\"key.bin\"\n#EXTINF:1,\nv.ts\n", false),
        ("#EXT-X-KEY:METHOD=AES-128,URI=\"https://a.test/key\"\n#EXTINF:1,\nv.ts\n", true),
        (
            "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://a\",KEYFORMAT=\"com.apple.streamingkeydelivery\"\n"
                + "#EXT-X-MAP:URI=\"http://a.test/i.mp4\"\n#EXTINF:1,\nv.mp4\n", true
        ),
        ("#EXT-X-BYTERANGE:10@0\n#EXTINF:1,\nhttp://a.test/v.ts\n", true),
        ("#EXTINF:1,\nhttps:///a.test/v.ts\n", true), ("#EXTINF:1,\n//a.test/v.ts\n", true),
    ])
    func mediaPlaylists(_ body: String, _ namesServers: Bool) throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [.identity, .fairPlay])
        rewriter.relaysFiles = true
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n\(body)#EXT-X-ENDLIST\n"
        let result = try rewriter.rewrite(text, from: "file:///films/v.m3u8", routes: TestRoutes()).result
        #expect(result.namesServers == namesServers)
    }

    @Test(arguments: [
        ("v.m3u8", false), ("file:///films/v.m3u8", false), ("https://a.test/v.m3u8", true),
    ])
    func masterPlaylists(_ url: String, _ namesServers: Bool) throws {
        for line in [
            "#EXT-X-STREAM-INF:BANDWIDTH=1\n\(url)\n",
            "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"a\",URI=\"\(url)\"\n",
        ] {
            var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
            let text = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=2\nother.m3u8\n\(line)"
            let result = try rewriter.rewrite(text, from: "file:///films/master.m3u8", routes: TestRoutes()).result
            #expect(result.namesServers == namesServers)
        }
    }

    /// In a presentation that is a file, only playlists in files may name files.
    @Test(arguments: [
        ("#EXTINF:1,\nfile:///a/v.ts\n", true), ("#EXTINF:1,\nv.ts\n", false),
        ("#EXT-X-MAP:URI=\"FILE:///a/i.mp4\"\n#EXTINF:1,\nv.mp4\n", true),
        ("#EXT-X-KEY:METHOD=AES-128,URI=\"file:///a/key\"\n#EXTINF:1,\nv.ts\n", true),
        (
            "#EXT-X-KEY:METHOD=AES-128,URI=\"file:///a/key\",IV=0x1\n#EXT-X-MAP:URI=\"i.mp4\"\n"
                + "#EXT-X-KEY:METHOD=AES-128,URI=\"key\"\n#EXTINF:1,\nv.mp4\n", true
        ),
    ])
    func playlistsOnServers(_ body: String, _ namesFiles: Bool) throws {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n\(body)#EXT-X-ENDLIST\n"
        for (url, isRefused) in [("https://b.test/v.m3u8", namesFiles), ("file:///films/v.m3u8", false)] {
            var rewriter = HLSPlaylistRewriter(keyFormats: [.identity])
            let result = try rewriter.rewrite(text, from: url, routes: TestRoutes()).result
            if isRefused {
                #expect(throws: FormatError.self) { try result.checkFiles(from: url) }
            } else {
                try result.checkFiles(from: url)
            }
        }
    }

    /// Those with keys alone, and of playlists in files alone.
    @Test func segmentsInFilesAreRelayed() throws {
        let key = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://a\",KEYFORMAT=\"com.apple.streamingkeydelivery\"\n"
        for (isKeyed, relaysFiles) in [(true, true), (true, false), (false, true)] {
            var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
            rewriter.relaysFiles = relaysFiles
            let text = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n\(isKeyed ? key : "")#EXTINF:1,\nv.ts\n#EXT-X-ENDLIST\n"
            let result = try rewriter.rewrite(text, from: "file:///films/v.m3u8", routes: TestRoutes()).result
            let isRelayed = result.resources.contains(.relayedSegment(url: "file:///films/v.ts"))
            #expect(isRelayed == (isKeyed && relaysFiles))
        }
    }
}
