// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import Testing

@Suite struct HLSMasterRewriteTests {
    private let routes = TestRoutes()

    private func playlist(_ url: String) -> String { routes.url(.playlist(url: url)) }

    @Test func variantsThatTheOutputsMayNotShowAreLeftOut() throws {
        let master = """
            #EXTM3U
            #EXT-X-STREAM-INF:BANDWIDTH=1,HDCP-LEVEL=NONE
            low.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=2,HDCP-LEVEL=TYPE-0
            # between
            middle.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=3,HDCP-LEVEL=TYPE-1
            high.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=4,HDCP-LEVEL=TYPE-9
            strange.m3u8
            """
        func names(_ level: OutputRequirement?, _ master: String = master) throws -> [String] {
            var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
            rewriter.outputLevel = level
            let (text, result) = try rewriter.rewrite(master, routes: routes)
            #expect(text.split(separator: "\n").count { $0.hasPrefix("#EXT-X-STREAM-INF") } == result.children.count)
            return result.children.map { String($0.url.split(separator: "/").last ?? "") }
        }
        #expect(try names(nil) == ["low.m3u8", "middle.m3u8", "high.m3u8", "strange.m3u8"])
        #expect(try names(.unprotected) == ["low.m3u8"])
        #expect(try names(.hdcpType0) == ["low.m3u8", "middle.m3u8"])
        #expect(try names(.hdcpType1) == ["low.m3u8", "middle.m3u8", "high.m3u8", "strange.m3u8"])
        // Where there is nothing else, keys and guards decide.
        let protected = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=3,HDCP-LEVEL=TYPE-1\nhigh.m3u8\n"
        #expect(try names(.unprotected, protected) == ["high.m3u8"])
    }

    @Test func variantsAreToldWithTheirBitRates() throws {
        let master = """
            #EXTM3U
            #EXT-X-STREAM-INF:BANDWIDTH=900,AVERAGE-BANDWIDTH=700,RESOLUTION=1280x720
            high.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=100,CODECS="mp4a.40.2"
            sound.m3u8
            #EXT-X-STREAM-INF:CODECS="avc1.640028"
            odd.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=5,HDCP-LEVEL=TYPE-1
            hidden.m3u8
            """
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        rewriter.outputLevel = .unprotected
        let variants = try rewriter.rewrite(master, routes: routes).1.variants
        #expect(
            variants.map { String($0.url.split(separator: "/").last ?? "") } == ["high.m3u8", "sound.m3u8", "odd.m3u8"])
        #expect(variants.map(\.bitRate) == [700, 100, 0])
        #expect(variants.map(\.hasPictures) == [true, false, true])
    }

    /// The sound that goes with each variant, where nobody has to choose.
    @Test func defaultAudio() throws {
        let master = """
            #EXTM3U
            #EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO="one"
            v1.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=2,AUDIO="two"
            v2.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=3,AUDIO="default"
            v3.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=4,AUDIO="inside"
            v4.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=5
            v5.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=6,AUDIO="unknown"
            v6.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=7,AUDIO="two"
            v1.m3u8
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="one",NAME="a",URI="a/1.m3u8"
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="one",NAME="a2",URI="a/1.m3u8"
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="two",NAME="b",URI="b.m3u8"
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="two",NAME="c",URI="c.m3u8"
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="default",NAME="d",URI="d.m3u8"
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="default",NAME="e",URI="e.m3u8",DEFAULT=YES
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="default",NAME="f",URI="f.m3u8",DEFAULT=YES
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="inside",NAME="g"
            #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="unknown",NAME="s",URI="s.m3u8"
            """
        let base = "https://a.test/m/"
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let result = try rewriter.rewrite(Array(master.utf8), from: "\(base)master.m3u8") { routes.url($0) }
        #expect(
            result.defaultAudio
                == ["\(base)v1.m3u8": "\(base)a/1.m3u8", "\(base)v3.m3u8": "\(base)e.m3u8"])
        // Each playlist once in its group. A rendition without one is in the segments of the variants.
        #expect(result.soundGroups.map { $0.map(\.name) } == [["a"], ["b", "c"], ["d", "e", "f"]])
        #expect(result.soundGroups.first?.first?.url == "\(base)a/1.m3u8")
        // Each is named for the demuxer, too.
        for url in result.defaultAudio.values { #expect(result.resources.contains(.playlist(url: url))) }
    }

    /// One playlist is no choice, however many groups have it.
    @Test(arguments: [("1", "1", 0), ("1", "2", 2)]) func soundOfSeveralGroups(
        first: String, second: String, count: Int
    ) throws {
        let master = """
            #EXTM3U
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="z",NAME="a",URI="\(first).m3u8"
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="y",NAME="a",URI="\(second).m3u8"
            #EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO="z"
            v.m3u8
            """
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let result = try rewriter.rewrite(master, routes: routes).result
        #expect(result.soundGroups.count == count)
        #expect(result.soundGroups.joined().allSatisfy { $0.name == "a" })
        #expect(result.soundGroups.last?.first?.url.hasSuffix("2.m3u8") != false)
    }

    @Test(arguments: [
        (#"CODECS="mp4a.40.2""#, true), (#"CODECS="ec-3, Opus""#, true), (#"CODECS="mp4a.40.2,avc1.4d400d""#, false),
        (#"CODECS="stpp.ttml.im1t""#, false), (#"CODECS="mp4a.40.2",RESOLUTION=640x360"#, false),
        (#"CODECS="""#, false),
    ])
    func soundAloneIsNoOtherVariant(attributes: String, isSound: Bool) throws {
        let master = """
            #EXTM3U
            #EXT-X-STREAM-INF:BANDWIDTH=3,HDCP-LEVEL=TYPE-1
            high.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=1,\(attributes)
            low.m3u8
            """
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        rewriter.outputLevel = .unprotected
        let names = try rewriter.rewrite(master, routes: routes).result.children.map { $0.url.suffix(8) }
        // With the picture gone, there is nothing to choose: keys and guards decide about it.
        #expect(names.contains { $0.hasSuffix("low.m3u8") })
        #expect(names.contains { $0.hasSuffix("igh.m3u8") } == isSound)
    }

    @Test func variantsWithASizeAreQualities() throws {
        let master = """
            #EXTM3U
            #EXT-X-STREAM-INF:BANDWIDTH=900,AVERAGE-BANDWIDTH=800,RESOLUTION=1280x720
            a.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=400,RESOLUTION=640x360
            b.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=300
            c.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=99999999999,RESOLUTION=1x1
            d.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=1,RESOLUTION=1x-1
            e.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=2000,RESOLUTION=1920x1080,HDCP-LEVEL=TYPE-1
            f.m3u8
            """
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        rewriter.outputLevel = .unprotected
        let found = try rewriter.rewrite(master, routes: routes).result.qualities
        #expect(
            found == [
                PictureQuality(bitRate: 800, width: 1280, height: 720),
                PictureQuality(bitRate: 400, width: 640, height: 360),
            ])
    }

    @Test func everyTag() throws {
        let master = """
            #EXTM3U
            #EXT-X-VERSION:9
            #EXT-X-INDEPENDENT-SEGMENTS
            #EXT-X-START:TIME-OFFSET=1.5
            # a comment
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="not-here.key"
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="A, B",URI="a/a.m3u8?x=1",DEFAULT=YES
            #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="s",NAME="s",URI="../s.m3u8"
            #EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="c",NAME="c",INSTREAM-ID="CC1"
            #EXT-X-MEDIA:TYPE=VIDEO,GROUP-ID="v",NAME="v",URI="//other.example/v.m3u8"
            #EXT-X-SESSION-DATA:DATA-ID="x",URI="data.json"
            #EXT-X-SESSION-DATA:DATA-ID="y",VALUE="a;b"
            #EXT-X-CONTENT-STEERING:SERVER-URI="/steer",PATHWAY-ID="x"
            #EXT-X-STREAM-INF:BANDWIDTH=1,CODECS="avc1.4d400d,mp4a.40.2",AUDIO="a"
            v1.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=2
            http://third.example:8080/v2.m3u8
            #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="i.m3u8"
            #EXT-X-COM-VENDOR:URI="left.alone"
            """
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        let (text, result) = try rewriter.rewrite(master, routes: routes)
        let root = "https://cdn.example"
        #expect(
            text == """
                #EXTM3U
                #EXT-X-VERSION:9
                #EXT-X-INDEPENDENT-SEGMENTS
                #EXT-X-START:TIME-OFFSET=1.5
                # a comment
                #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="A, B",URI="\(playlist("\(root)/p/a/a.m3u8?x=1"))",DEFAULT=YES
                #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="s",NAME="s",URI="\(playlist("\(root)/s.m3u8"))"
                #EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="c",NAME="c",INSTREAM-ID="CC1"
                #EXT-X-MEDIA:TYPE=VIDEO,GROUP-ID="v",NAME="v",URI="\(playlist("https://other.example/v.m3u8"))"
                #EXT-X-SESSION-DATA:DATA-ID="x",URI="\(root)/p/data.json"
                #EXT-X-SESSION-DATA:DATA-ID="y",VALUE="a;b"
                #EXT-X-CONTENT-STEERING:SERVER-URI="\(root)/steer",PATHWAY-ID="x"
                #EXT-X-STREAM-INF:BANDWIDTH=1,CODECS="avc1.4d400d,mp4a.40.2",AUDIO="a"
                \(playlist("\(root)/p/v1.m3u8"))
                #EXT-X-STREAM-INF:BANDWIDTH=2
                \(playlist("http://third.example:8080/v2.m3u8"))
                #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="\(playlist("\(root)/p/i.m3u8"))"
                #EXT-X-COM-VENDOR:URI="left.alone"
                """)
        #expect(result.kind == .master)
        #expect(
            result.children == [
                .init(url: "\(root)/p/a/a.m3u8?x=1", role: .audio), .init(url: "\(root)/s.m3u8", role: .subtitles),
                .init(url: "https://other.example/v.m3u8", role: .video),
                .init(url: "\(root)/p/v1.m3u8", role: .variant),
                .init(url: "http://third.example:8080/v2.m3u8", role: .variant),
                .init(url: "\(root)/p/i.m3u8", role: .iFrames),
            ])
        #expect(result.resources == result.children.map { .playlist(url: $0.url) })
        #expect(
            result.origins == [
                "https://cdn.example:443", "https://other.example:443", "http://third.example:8080",
            ])
        #expect(!result.isProtected && result.sessionKeys.isEmpty)
    }

    @Test func oneURLForOnePlaylist() throws {
        let master = """
            #EXTM3U
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="1",URI="a.m3u8"
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="b",NAME="1",URI="./a.m3u8"
            #EXT-X-STREAM-INF:BANDWIDTH=1
            a.m3u8
            """
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let (text, result) = try rewriter.rewrite(master, routes: routes)
        #expect(result.resources == [.playlist(url: "https://cdn.example/p/a.m3u8")])
        #expect(text.split(separator: routes.url(result.resources[0])).count == 4 - 1)
        #expect(result.children.count == 2)
    }

    @Test func sessionKeysOfThePreferredFormat() throws {
        let fairPlay = "KEYFORMAT=\"com.apple.streamingkeydelivery\",KEYFORMATVERSIONS=\"1\""
        let master = """
            #EXTM3U
            #EXT-X-SESSION-KEY:METHOD=SAMPLE-AES,URI="data:,pr",KEYFORMAT="com.microsoft.playready",KEYFORMATVERSIONS="1"
            #EXT-X-SESSION-KEY:METHOD=SAMPLE-AES,URI="skd://a",\(fairPlay)
            #EXT-X-SESSION-KEY:METHOD=SAMPLE-AES,URI="skd://b",\(fairPlay)
            #EXT-X-SESSION-KEY:METHOD=SAMPLE-AES,URI="skd://a",\(fairPlay)
            #EXT-X-SESSION-KEY:METHOD=SAMPLE-AES
            #EXT-X-SESSION-KEY:METHOD=NONE
            #EXT-X-SESSION-KEY:METHOD=AES-128,URI="key.bin"
            #EXT-X-STREAM-INF:BANDWIDTH=1
            v.m3u8
            """
        var rewriter = HLSPlaylistRewriter(keyFormats: [.widevine, .fairPlay, .playReady])
        var (text, result) = try rewriter.rewrite(master, routes: routes)
        #expect(result.sessionKeys.map(\.uri) == ["skd://a", "skd://b"])
        #expect(result.isProtected)
        #expect(!text.contains("SESSION-KEY"))
        rewriter.keyFormats = [.identity]
        (text, result) = try rewriter.rewrite(master, routes: routes)
        #expect(result.sessionKeys == [HLSKey(method: .aes128, uri: "https://cdn.example/p/key.bin")])
        rewriter.keyFormats = [.widevine]
        #expect(try rewriter.rewrite(master, routes: routes).result.sessionKeys.isEmpty)
        rewriter.keyFormats = [HLSKeyFormat(HLSKeyFormat.fairPlay.name, versions: [2])]
        #expect(try rewriter.rewrite(master, routes: routes).result.sessionKeys.isEmpty)
    }

    @Test func tagsThatCannotBeReadNameTheirLine() {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let master = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,URI=\"a\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8"
        #expect {
            try rewriter.rewrite(master, from: "https://u:p@h/x.m3u8?token=1", routes: routes)
        } throws: {
            ($0 as? FormatError)?.reason
                == "playlist https://h/x.m3u8: line 2: the quoted string of URI does not end"
        }
    }

    /// Nothing of protection depends on them: they have no URI, or one that can be told.
    @Test func someTagsThatCannotBeReadStay() throws {
        let lines = [
            #"#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="cc",NAME="English "CC1"",INSTREAM-ID="CC1""#,
            #"#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="cc",NAME="English",DEFAULT,INSTREAM-ID="CC1""#,
            "#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=3,CODECS=avc1.4d400d,mp4a.40.2",
        ]
        let frames = #"#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=3,CODECS=avc1.4d400d,mp4a.40.2,URI="i.m3u8",A=1"#
        let master = (["#EXTM3U"] + lines + [frames, "#EXT-X-STREAM-INF:BANDWIDTH=1", "v.m3u8"]).joined(separator: "\n")
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let (text, result) = try rewriter.rewrite(master, from: "https://a.test/m.m3u8", routes: routes)
        for line in lines { #expect(text.contains("\(line)\n")) }
        let routed = playlist("https://a.test/i.m3u8")
        #expect(text.contains(#"CODECS=avc1.4d400d,mp4a.40.2,URI="\#(routed)",A=1"#))
        #expect(!text.contains(#""i.m3u8""#))
        #expect(result.children.map(\.url) == ["https://a.test/i.m3u8", "https://a.test/v.m3u8"])
        #expect(result.children.first?.role == .iFrames)
    }

    @Test(arguments: [
        #"#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="English "1"",URI="a.m3u8""#,
        "#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=3,CODECS=avc1.4d400d,mp4a.40.2,URI=i.m3u8",
        #"#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=3,CODECS=avc1.4d400d,mp4a.40.2,URI="i.m3u8",URI="j.m3u8""#,
        #"#EXT-X-I-FRAME-STREAM-INF:CODECS=avc1.4d400d,mp4a.40.2,URI="i.m3u8",URI ="j.m3u8""#,
        #"#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="a",NAME="English "1"",URI = "a.m3u8""#,
    ]) func othersAreAnError(line: String) {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let error = #expect(throws: FormatError.self) {
            try rewriter.rewrite("#EXTM3U\n\(line)\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8", routes: routes)
        }
        #expect(error?.reason.contains(": line 2: ") == true)
    }

    @Test func aMasterPlaylistInANewPlace() throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let master = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8"
        let (_, result) = try rewriter.rewrite(master, from: "http://edge.example/x/y?z", routes: routes)
        #expect(result.children.map(\.url) == ["http://edge.example/x/v.m3u8"])
    }
}
