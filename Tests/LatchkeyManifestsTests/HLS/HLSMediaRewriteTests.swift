// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// What becomes of media playlists of each kind.
@Suite struct HLSMediaRewriteTests {
    private let routes = TestRoutes()
    private let root = "https://cdn.example/p"
    private let skd = HLSKey(method: .sampleAES, uri: "skd://1", keyFormat: HLSKeyFormat.fairPlay.name)
    private let skd2 = HLSKey(method: .sampleAES, uri: "skd://2", keyFormat: HLSKeyFormat.fairPlay.name)

    private func map(_ resource: HLSResource) -> String { "URI=\"\(routes.url(resource))\"" }

    private func section(_ protection: HLSInitSegment.Protection, name: String = "i.mp4") -> String {
        map(.initSegment(HLSInitSegment(url: "\(root)/\(name)", protection: protection)))
    }

    private func note(
        _ key: HLSKey?, _ vector: InitializationVector? = nil, kind: HLSSegmentKind = .transportStream
    ) -> String { map(.keyNote(HLSKeyNote(kind: kind, key: key, initializationVector: vector))) }

    private func rewritten(
        _ lines: String, formats: [HLSKeyFormat] = [.fairPlay, .identity]
    ) throws -> (seen: [SeenSegment], text: String, result: HLSRewriting) {
        var rewriter = HLSPlaylistRewriter(keyFormats: formats)
        let head = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n"
        let (text, result) = try rewriter.rewrite("\(head)\(lines)\n#EXT-X-ENDLIST\n", routes: routes)
        return (SeenSegment.segments(of: text), text, result)
    }

    /// Where a relay is wanted, clear playlists stay as they are.
    @Test func segmentsOfPlaylistsWithKeysAreRelayed() throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        rewriter.relaysSegments = true
        let segments = "#EXTINF:4,\na.ts\n#EXTINF:4,\nhttps://other.example/b.ts\n#EXT-X-ENDLIST\n"
        let encrypted = "#EXTM3U\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://1\",KEYFORMAT=\"\(skd.keyFormat)\"\n"
        let seen = SeenSegment.segments(of: try rewriter.rewrite(encrypted + segments, routes: routes).text)
        let urls = ["\(root)/a.ts", "https://other.example/b.ts"]
        #expect(seen.map(\.url) == urls.map { routes.url(.relayedSegment(url: $0)) })
        rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        rewriter.relaysSegments = true
        let clear = SeenSegment.segments(of: try rewriter.rewrite("#EXTM3U\n" + segments, routes: routes).text)
        #expect(clear.map(\.url) == urls)
        for (limit, isRelayed) in [(1, false), (2, true)] {
            rewriter.relayLimit = limit
            let seen = SeenSegment.segments(of: try rewriter.rewrite(encrypted + segments, routes: routes).text)
            #expect((seen.map(\.url) != urls) == isRelayed)
        }
    }

    /// Where nothing is to come from its origin, clear segments and their maps do not either.
    @Test func clearPlaylistsAreRelayedWhereTheyAreTo() throws {
        let segments =
            "#EXTINF:4,\na.m4s\n#EXT-X-BYTERANGE:7@9\n#EXTINF:4,\nhttps://other.example/b.m4s\n#EXT-X-ENDLIST\n"
        let text = "#EXTM3U\n#EXT-X-MAP:URI=\"i.mp4\"\n" + segments
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        rewriter.relaysClearPlaylists = true
        let (rewritten, result) = try rewriter.rewrite(text, routes: routes)
        let seen = SeenSegment.segments(of: rewritten)
        let urls = ["\(root)/a.m4s", "https://other.example/b.m4s"]
        #expect(seen.map(\.url) == urls.map { routes.url(.relayedSegment(url: $0)) })
        let map = routes.url(.initSegment(HLSInitSegment(url: "\(root)/i.mp4", protection: .unchanged)))
        #expect(rewritten.contains("#EXT-X-MAP:URI=\"\(map)\"\n"))
        #expect(rewritten.contains("#EXT-X-BYTERANGE:7@9\n"))
        #expect(result.keys.isEmpty)
    }

    /// Those of live playlists with keys, but for segments that were there before a key was, which keep their URLs.
    @Test func segmentsOfLivePlaylistsAreRelayed() throws {
        func urls(_ playlists: String...) throws -> [[String]] {
            var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
            rewriter.relaysSegments = true
            return try playlists.map { playlist in
                let text = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n" + playlist
                return SeenSegment.segments(of: try rewriter.rewrite(text, routes: routes).text).map(\.url)
            }
        }
        let key = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://1\",KEYFORMAT=\"\(skd.keyFormat)\"\n"
        let (clear, encrypted) = ("#EXTINF:1,\na.ts\n", "\(key)#EXTINF:1,\nb.ts\n")
        let end = "#EXTINF:1,\nc.ts\n#EXT-X-ENDLIST\n"
        let relayed = ["b", "c"].map { routes.url(.relayedSegment(url: "\(root)/\($0).ts")) }
        #expect(
            try urls(clear, clear + encrypted, clear + encrypted + end) == [
                ["\(root)/a.ts"], ["\(root)/a.ts", relayed[0]], ["\(root)/a.ts"] + relayed,
            ])
        #expect(try urls(encrypted + end) == [relayed])
    }

    @Test func unprotectedPlaylistsOnlyGetAbsoluteURIs() throws {
        let lines = """
            #EXT-X-VERSION:9
            #EXT-X-MEDIA-SEQUENCE:7
            #EXT-X-DISCONTINUITY-SEQUENCE:3
            #EXT-X-PLAYLIST-TYPE:EVENT
            #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.0,CAN-SKIP-UNTIL=12.0
            #EXT-X-PART-INF:PART-TARGET=0.33334
            #EXT-X-BITRATE:1234
            #EXT-X-PROGRAM-DATE-TIME:2026-01-01T00:00:00.000Z
            #EXT-X-DATERANGE:ID="a",START-DATE="2026-01-01T00:00:00Z",X-ASSET-URI="ad.m3u8",X-COM="b c"

            #EXT-X-KEY:METHOD=NONE
            #EXT-X-MAP:URI="i.mp4",BYTERANGE="100@0"
            #EXT-X-BYTERANGE:200@100
            #EXTINF:4.00000,a title, with "quotes"
            a.mp4
            ## another comment
            #EXT-X-DISCONTINUITY
            #EXT-X-GAP
            #EXTINF:4,
            #EXT-X-BYTERANGE:300
            a.mp4
            #EXT-X-VENDOR:URI="kept"
            #EXT-X-PART:DURATION=0.3,URI="p1.mp4",INDEPENDENT=YES
            #EXT-X-PRELOAD-HINT:TYPE=PART,URI="p2.mp4",BYTERANGE-START=5
            #EXT-X-RENDITION-REPORT:URI="../o.m3u8",LAST-MSN=9
            """
        let (seen, text, result) = try rewritten(lines)
        let expected = lines.replacing("URI=\"i.mp4\"", with: "URI=\"\(root)/i.mp4\"")
            .replacing("\na.mp4", with: "\n\(root)/a.mp4").replacing("URI=\"p", with: "URI=\"\(root)/p")
            .replacing("URI=\"ad", with: "URI=\"\(root)/ad")
            .replacing("../o.m3u8", with: routes.url(.playlist(url: "https://cdn.example/o.m3u8")))
        #expect(text == "#EXTM3U\n#EXT-X-TARGETDURATION:4\n\(expected)\n#EXT-X-ENDLIST\n")
        #expect(seen.map(\.range) == ["200@100", "300"])
        #expect(!result.isProtected && result.keys.isEmpty)
        #expect(result.resources == [.playlist(url: "https://cdn.example/o.m3u8")])
        #expect(result.mediaSequence == 7)
        #expect(result.targetDuration == 4)
        #expect(result.segmentToInspect == nil)
    }

    @Test func lineEndsAndTheByteOrderMark() throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let (text, _) = try rewriter.rewrite("\u{FEFF}#EXTM3U\r\n#EXTINF:1,\r\na.ts\r\n# x", routes: routes)
        #expect(text == "#EXTM3U\r\n#EXTINF:1,\r\n\(root)/a.ts\r\n# x")
    }

    @Test func carriageReturnsHideNothing() throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let (text, _) = try rewriter.rewrite("#EXTM3U\r#x\n#EXTINF:1,\ra\r\nb.ts\rc.ts\n#EXT-X-Y\r", routes: routes)
        #expect(text == "#EXTM3U\n#EXTINF:1,\n\(root)/b.ts\n#EXT-X-Y\n")
    }

    @Test func fragmentedMP4WithRotation() throws {
        let fairPlay = "KEYFORMAT=\"com.apple.streamingkeydelivery\""
        let (seen, text, result) = try rewritten(
            """
            #EXT-X-MEDIA-SEQUENCE:10
            #EXT-X-MAP:URI="i.mp4"
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",\(fairPlay)
            #EXTINF:4,
            #EXT-X-BYTERANGE:10@5
            a.m4s
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",\(fairPlay)
            #EXTINF:4,
            #EXT-X-BYTERANGE:10
            a.m4s
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://2",\(fairPlay)
            #EXTINF:3,
            c.m4s
            #EXT-X-MAP:URI="j.mp4"
            #EXTINF:4,
            d.m4s
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",\(fairPlay)
            """)
        #expect(
            seen == [
                SeenSegment(url: "\(root)/a.m4s", map: section(.key(skd)), range: "10@5"),
                SeenSegment(url: "\(root)/a.m4s", map: section(.key(skd)), range: "10@15"),
                SeenSegment(url: "\(root)/c.m4s", map: section(.key(skd2))),
                SeenSegment(url: "\(root)/d.m4s", map: section(.key(skd2), name: "j.mp4")),
            ])
        #expect(!text.contains("EXT-X-KEY"))
        // The demuxer takes a range in front of a map for the map's.
        #expect(text.contains("#EXT-X-MAP:\(section(.key(skd)))\n#EXTINF:4,\n#EXT-X-BYTERANGE:10@5\n"))
        #expect(
            result.keys == [
                .init(key: skd, decryptor: .element, segments: 10...11, start: 0, end: 8),
                .init(key: skd2, decryptor: .element, segments: 12...13, start: 8, end: 15),
            ])
        #expect(result.upcomingKey == skd)
        #expect(result.resources.count == 3)
    }

    @Test func clearAndEncryptedFragmentedMP4() throws {
        let key = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://1\",KEYFORMAT=\"com.apple.streamingkeydelivery\""
        let (seen, _, result) = try rewritten(
            """
            #EXT-X-MAP:URI="ad.mp4"
            #EXTINF:4,
            ad.m4s
            #EXT-X-MAP:URI="i.mp4",BYTERANGE="20@4"
            \(key)
            #EXTINF:4,
            a.m4s
            #EXT-X-KEY:METHOD=NONE
            #EXTINF:4,
            b.m4s
            \(key)
            #EXTINF:4,
            c.m4s
            """)
        let range = HLSByteRange(offset: 4, length: 20)
        let keyed = map(.initSegment(HLSInitSegment(url: "\(root)/i.mp4", byteRange: range, protection: .key(skd))))
        let clear = map(
            .initSegment(HLSInitSegment(url: "\(root)/i.mp4", byteRange: range, protection: .clear(like: skd))))
        #expect(seen.map(\.map) == [section(.clear(like: skd), name: "ad.mp4"), keyed, clear, keyed])
        #expect(result.keys.map(\.segments) == [1...1, 3...3])
        #expect(result.keys.map(\.start) == [4, 12])
    }

    @Test func transportStreamsGetNotes() throws {
        let (seen, _, result) = try rewritten(
            """
            #EXT-X-MEDIA-SEQUENCE:5
            #EXTINF:4,
            0.ts
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",KEYFORMAT="com.apple.streamingkeydelivery"
            #EXTINF:4,
            a.ts
            #EXTINF:4,
            b.ts
            #EXT-X-KEY:METHOD=NONE
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="k.bin"
            #EXTINF:4,
            c.ts
            #EXTINF:4,
            d.ts
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="k.bin",IV=0x2
            #EXTINF:4,
            e.ts
            """)
        let identity = HLSKey(method: .sampleAES, uri: "\(root)/k.bin")
        var explicit = identity
        explicit.initializationVector = InitializationVector(high: 0, low: 2)
        #expect(
            seen.map(\.map) == [
                note(nil), note(skd), note(skd), note(identity, InitializationVector(high: 0, low: 8)),
                note(identity, InitializationVector(high: 0, low: 9)), note(explicit, explicit.initializationVector),
            ])
        #expect(seen.map(\.url) == ["0", "a", "b", "c", "d", "e"].map { "\(root)/\($0).ts" })
        #expect(seen.allSatisfy { $0.key == nil })
        #expect(result.keys.map(\.segments) == [6...7, 8...9, 10...10])
        #expect(result.keys.allSatisfy { $0.decryptor == .element })
    }

    @Test func packedAudioAndUnknownKinds() throws {
        let key = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://1\",KEYFORMAT=\"com.apple.streamingkeydelivery\""
        #expect(try rewritten("\(key)\n#EXTINF:4,\na.aac").seen.map(\.map) == [note(skd, kind: .packedAudio)])
        var (seen, text, result) = try rewritten("\(key)\n#EXTINF:4,\na\n#EXTINF:4,\nb.php")
        #expect(seen.map(\.map) == [note(skd), note(skd)])
        #expect(result.segmentToInspect == "\(root)/a")
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay], segmentKind: .packedAudio)
        (text, result) = try rewriter.rewrite("#EXTM3U\n\(key)\n#EXTINF:4,\na\n", routes: routes)
        seen = SeenSegment.segments(of: text)
        #expect(seen.map(\.map) == [note(skd, kind: .packedAudio)])
        #expect(result.segmentToInspect == nil)
        // WebVTT has no samples that the method could mean.
        (seen, text, result) = try rewritten("\(key)\n#EXTINF:4,\na.vtt")
        #expect(seen == [SeenSegment(url: "\(root)/a.vtt")])
        #expect(result.isProtected)
    }

    /// Without a map, `.mp4` may be the name of a transport stream.
    @Test(arguments: ["a.mp4", "a.m4s"]) func namesOfFragmentsWithoutAMapSayNothing(name: String) throws {
        let samples = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://1\",KEYFORMAT=\"com.apple.streamingkeydelivery\""
        let (seen, _, result) = try rewritten("\(samples)\n#EXTINF:4,\n\(name)")
        #expect(seen.map(\.map) == [note(skd)])
        #expect(result.segmentToInspect == "\(root)/\(name)")
        #expect(try rewritten("#EXTINF:4,\n\(name)").result.segmentToInspect == nil)
    }

    /// The first bytes of a segment that is encrypted as a whole tell nothing.
    @Test func whatCannotBeInspected() throws {
        let key = "#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n#EXTINF:4,\na\n"
        #expect(try rewritten(key).result.segmentToInspect == nil)
        #expect(try rewritten("\(key)#EXT-X-KEY:METHOD=NONE\n#EXTINF:4,\nb").result.segmentToInspect == nil)
        let samples = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"k\"\n#EXTINF:4,\nb"
        #expect(try rewritten("\(key)\(samples)").result.segmentToInspect == "\(root)/b")
    }

    @Test func wholeSegmentsOfTransportStreamsAreDecryptedHere() throws {
        let (seen, text, result) = try rewritten(
            """
            #EXT-X-MEDIA-SEQUENCE:4294967296
            #EXT-X-KEY:METHOD=AES-128,URI="k.bin",KEYID=0x01
            #EXTINF:4,
            a.ts
            #EXTINF:4,
            b.ts
            #EXT-X-KEY:METHOD=AES-128,URI="k.bin",IV=0xff
            #EXTINF:4,
            c.ts
            #EXT-X-KEY:METHOD=NONE
            #EXTINF:4,
            d.ts
            """)
        let segments = result.resources.compactMap { resource in
            if case .segment(let segment) = resource { segment } else { nil }
        }
        #expect(
            segments.map { $0.decryption.initializationVector.map { Hex.encode($0.bytes) } } == [
                "00000000000000000000000100000000", "00000000000000000000000100000001",
                "000000000000000000000000000000ff",
            ])
        #expect(segments.allSatisfy { $0.decryption.key.uri == "\(root)/k.bin" })
        #expect(seen.map(\.url) == result.resources.map { routes.url($0) } + ["\(root)/d.ts"])
        #expect(seen.allSatisfy { $0.map == nil })
        // The stock demuxer would write the key into its log.
        #expect(!text.contains("METHOD"))
        #expect(result.keys.map(\.decryptor) == [.server, .server])
        #expect(result.isProtected)
        #expect(result.origins == ["https://cdn.example:443"])
    }

    @Test(arguments: [
        "URI=\"data:text/plain;base64,xoVzDpA5qmg6K2IhgoD0wQ==\"",
        "URI=\"skd://1\",KEYFORMAT=\"com.apple.streamingkeydelivery\"",
        "URI=\"https://k/1\",KEYFORMAT=\"com.apple.streamingkeydelivery\"",
        "URI=\"https://k/1\"",
    ])
    func byteRangesOfWholeSegments(attributes: String) throws {
        let (seen, _, result) = try rewritten(
            """
            #EXT-X-KEY:METHOD=AES-128,\(attributes)
            #EXTINF:4,
            #EXT-X-BYTERANGE:32@16
            a.ts
            #EXTINF:4,
            #EXT-X-BYTERANGE:48
            a.ts
            #EXT-X-PART:DURATION=1,URI="p.ts"
            """)
        let key = try HLSKey(attributeList: "METHOD=AES-128,\(attributes)")
        let expected = [(UInt64(0), UInt64(16), UInt64(32)), (1, 48, 48)].map { sequence, offset, length in
            HLSResource.segment(
                HLSEncryptedSegment(
                    url: "\(root)/a.ts", byteRange: HLSByteRange(offset: offset, length: length),
                    decryption: HLSSegmentDecryption(
                        key: key, initializationVector: key.initializationVector(forSegment: sequence))))
        }
        #expect(result.resources == expected)
        #expect(seen == expected.map { SeenSegment(url: routes.url($0)) })
        #expect(result.keys.map(\.decryptor) == [.server])
    }

    /// Ranges of the sizes in the clear, of parts of one file: a section of 100 bytes, parts of 33 and 31, and one of 32, which has
    /// a block of padding. Whether there is one behind whole blocks, the playlist does not tell, so it is asked for.
    @Test func byteRangesOfTheClearSizeAreWidened() throws {
        let key = HLSKey(
            method: .aes128, uri: "\(root)/k.bin", initializationVector: InitializationVector(high: 0, low: 7))
        func ranges(_ section: String, _ parts: [String]) throws -> (named: [String?], asked: [String?]) {
            let text = parts.map { "#EXTINF:1,\n#EXT-X-BYTERANGE:\($0)\na.mp4\n" }.joined()
            let result = try rewritten(
                "#EXT-X-KEY:\(key.attributeList)\n#EXT-X-MAP:URI=\"a.mp4\",BYTERANGE=\"\(section)\"\n\(text)"
            ).result
            let found = result.resources.map { resource -> (HLSByteRange?, HLSSegmentDecryption?) in
                switch resource {
                case .initSegment(let section): (section.byteRange, section.decryption)
                case .segment(let segment): (segment.byteRange, segment.decryption)
                default: (nil, nil)
                }
            }
            return (
                found.map { range, _ in range?.text },
                found.map { range, decryption in decryption?.encryptedRange(range)?.text }
            )
        }
        let clear = try ranges("100@0", ["33@112", "31", "32@192", "16@240"])
        #expect(clear.named == ["112@0", "48@112", "32@160", "32@192", "16@240"])
        #expect(clear.asked == ["128@0", "64@112", "48@160", "48@192", "32@240"])
        // As they are, and the first one starts with the file.
        let whole = ["112@0", "48@112", "32@160", "16@192"]
        #expect(try ranges("112@0", ["48@112", "32", "16@192"]).named == whole)
        #expect(try ranges("16", ["32"]).named == ["16@0", "32@0"])
        // Nothing is further away than numbers go.
        let far = try ranges("112@0", ["3@9223372036854775803"])
        #expect(far.named == ["112@0", "3@9223372036854775803"])
        #expect(far.asked == ["128@0", "3@9223372036854775803"])
    }

    /// A file whose URL has another token for each segment. RFC 8216, 4.3.2.2 does not have such ranges; players do.
    @Test func rangesWithoutOffsetsGoOnBehindOtherURLs() throws {
        let (seen, _, _) = try rewritten(
            """
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",KEYFORMAT="com.apple.streamingkeydelivery"
            #EXT-X-MAP:URI="i.mp4"
            #EXTINF:4,
            #EXT-X-BYTERANGE:10@5
            a.m4s?1
            #EXTINF:4,
            #EXT-X-BYTERANGE:20
            a.m4s?2
            #EXTINF:4,
            b.m4s
            #EXTINF:4,
            #EXT-X-BYTERANGE:30
            c.m4s
            """)
        #expect(seen.map(\.range) == ["10@5", "20@15", nil, "30@0"])
        let whole = try rewritten(
            """
            #EXT-X-KEY:METHOD=AES-128,URI="k.bin"
            #EXTINF:4,
            #EXT-X-BYTERANGE:33@0
            a.ts?1
            #EXTINF:4,
            #EXT-X-BYTERANGE:32
            a.ts?2
            """
        ).result
        let ranges = whole.resources.map { resource -> String? in
            guard case .segment(let segment) = resource else { return nil }
            return segment.byteRange?.text
        }
        #expect(ranges == ["48@0", "32@48"])
    }

    /// Ranges of key frames count bytes in the clear of segments that are encrypted from their start (RFC 8216, 6.3.6).
    @Test func keyFramesOfWholeSegments() throws {
        let key = HLSKey(
            method: .aes128, uri: "\(root)/k.bin", initializationVector: InitializationVector(high: 0, low: 7))
        let decryption = HLSSegmentDecryption(
            key: key, initializationVector: key.initializationVector, isPart: true)
        let (_, text, result) = try rewritten(
            """
            #EXT-X-I-FRAMES-ONLY
            #EXT-X-KEY:\(key.attributeList)
            #EXT-X-MAP:URI="a.ts",BYTERANGE="376@0"
            #EXTINF:4,
            #EXT-X-BYTERANGE:3000@376
            a.ts
            #EXTINF:4,
            #EXT-X-BYTERANGE:32@0
            b.ts
            """)
        let section = HLSInitSegment(
            url: "\(root)/a.ts", byteRange: HLSByteRange(offset: 0, length: 376), decryption: decryption,
            protection: .unchanged)
        let frames = [("a.ts", 376, 3000), ("b.ts", 0, 32)].map { name, offset, length in
            HLSResource.segment(
                HLSEncryptedSegment(
                    url: "\(root)/\(name)", byteRange: HLSByteRange(offset: offset, length: length),
                    decryption: decryption))
        }
        #expect(result.resources == [.initSegment(section)] + frames)
        #expect(!text.contains("BYTERANGE"))
    }

    @Test(arguments: [
        ("3000@376", "3024@352"), ("376@0", "384@0"), ("1@15", "16@0"), ("1@16", "32@0"), ("16@32", "32@16"),
        ("3@9223372036854775803", "3@9223372036854775803"),
    ])
    func cipherBlocksOfAPart(range: String, blocks: String) throws {
        #expect(try HLSByteRange(parsing: range, previousEnd: nil).cipherBlocks.text == blocks)
    }

    @Test func wholeSegmentsOfFragmentedMP4AreDecryptedHere() throws {
        let key = HLSKey(
            method: .aes128, uri: "\(root)/k.bin", initializationVector: InitializationVector(high: 0, low: 7))
        let decryption = HLSSegmentDecryption(key: key, initializationVector: key.initializationVector)
        let before = """
            #EXT-X-MAP:URI="i.mp4"
            #EXT-X-KEY:METHOD=AES-128,URI="k.bin",IV=0x7
            """
        let behind = """
            #EXT-X-KEY:METHOD=AES-128,URI="k.bin",IV=0x7
            #EXT-X-MAP:URI="i.mp4"
            """
        for (lines, decrypted) in [(before, false), (behind, true)] {
            let (seen, text, result) = try rewritten(
                "\(lines)\n#EXTINF:4,\na.m4s\n#EXT-X-KEY:METHOD=NONE\n#EXTINF:4,\nb.m4s")
            let segment = HLSResource.segment(HLSEncryptedSegment(url: "\(root)/a.m4s", decryption: decryption))
            let section = HLSResource.initSegment(
                HLSInitSegment(
                    url: "\(root)/i.mp4", decryption: decrypted ? decryption : nil, protection: .unchanged))
            #expect(result.resources == [section, segment])
            #expect(seen.map(\.url) == [routes.url(segment), "\(root)/b.m4s"])
            #expect(seen.map(\.map) == [map(section), map(section)])
            #expect(!text.contains("METHOD"))
            #expect(result.keys.map(\.decryptor) == [.server])
        }
    }

    @Test func anEncryptedSectionOfClearSegments() throws {
        let (seen, _, result) = try rewritten(
            """
            #EXT-X-KEY:METHOD=AES-128,URI="k.bin",IV=0x7
            #EXT-X-MAP:URI="i.mp4"
            #EXT-X-KEY:METHOD=NONE
            #EXTINF:4,
            a.m4s
            """)
        #expect(result.resources.count == 1)
        #expect(seen.map(\.url) == ["\(root)/a.m4s"])
        guard case .initSegment(let section) = result.resources.first else { throw FormatError.malformed("") }
        #expect(section.decryption?.initializationVector == InitializationVector(high: 0, low: 7))
    }

    /// Which RFC 8216 demands.
    @Test func aMapUnderAKeyWithoutAnIVHasZeros() throws {
        let lines = "#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n#EXT-X-MAP:URI=\"i.mp4\"\n#EXTINF:4,\na.m4s"
        let key = HLSKey(method: .aes128, uri: "\(root)/k")
        func decryption(_ number: UInt64) -> HLSSegmentDecryption {
            HLSSegmentDecryption(key: key, initializationVector: InitializationVector(high: 0, low: number))
        }
        let section = HLSInitSegment(url: "\(root)/i.mp4", decryption: decryption(0), protection: .unchanged)
        #expect(
            try rewritten("#EXT-X-MEDIA-SEQUENCE:7\n\(lines)").result.resources == [
                .initSegment(section), .segment(HLSEncryptedSegment(url: "\(root)/a.m4s", decryption: decryption(7))),
            ])
    }

    @Test func aMapThatIsClearAllTheSameIsKnownByItsBytes() {
        let clear: [UInt8] = [0, 0, 0, 8] + Array("ftyp".utf8) + [0, 0, 0, 8] + Array("moov".utf8)
        var section = HLSInitSegment(url: "u", protection: .unchanged)
        #expect(section.isClear(clear))
        for other in [[], Array("WEBVTT".utf8), [UInt8](repeating: 7, count: 32), Array(clear.dropFirst())] {
            #expect(!section.isClear(other))
        }
        section.byteRange = HLSByteRange(offset: 0, length: 16)
        #expect(!section.isClear(clear))
    }

    @Test func wholeSegmentsBesideSamplesAreDecryptedHere() throws {
        let (seen, _, result) = try rewritten(
            """
            #EXT-X-KEY:METHOD=AES-128,URI="k.bin"
            #EXTINF:4,
            a.ts
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="k.bin",IV=0x1
            #EXTINF:4,
            b.ts
            """)
        #expect(seen.allSatisfy { $0.key == nil })
        #expect(seen.first?.map == note(nil))
        #expect(result.keys.map(\.decryptor) == [.server, .element])
    }

    @Test func iFramePlaylists() throws {
        let (seen, text, _) = try rewritten(
            """
            #EXT-X-I-FRAMES-ONLY
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",KEYFORMAT="com.apple.streamingkeydelivery"
            #EXTINF:1,
            #EXT-X-BYTERANGE:3572@376
            a.ts
            """)
        #expect(seen == [SeenSegment(url: "\(root)/a.ts", map: note(skd), range: "3572@376")])
        #expect(text.contains("#EXT-X-I-FRAMES-ONLY\n"))
    }

    @Test func partsOfASegmentThatIsNotThereYet() throws {
        let (_, text, result) = try rewritten(
            """
            #EXT-X-MAP:URI="i.mp4"
            #EXTINF:4,
            a.m4s
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",KEYFORMAT="com.apple.streamingkeydelivery"
            #EXT-X-PART:DURATION=1,URI="b.1.m4s"
            #EXT-X-PRELOAD-HINT:TYPE=PART,URI="b.2.m4s"
            #EXT-X-PRELOAD-HINT:TYPE=MAP,URI="j.mp4"
            """)
        #expect(
            text.hasSuffix(
                """
                #EXT-X-MAP:\(section(.key(skd)))
                #EXT-X-PART:DURATION=1,URI="\(root)/b.1.m4s"
                #EXT-X-PRELOAD-HINT:TYPE=PART,URI="\(root)/b.2.m4s"
                #EXT-X-ENDLIST

                """))
        #expect(result.keys.map(\.segments) == [1...1])
    }

    @Test func theLastSegmentAndItsLastPartAreTold() throws {
        let lines = """
            #EXT-X-MAP:URI="i.mp4"
            #EXT-X-PART:DURATION=1,URI="a.1.m4s"
            #EXTINF:4,
            a.m4s
            #EXT-X-PART:DURATION=1,URI="b.1.m4s"
            #EXT-X-PART:DURATION=1,URI="b.2.m4s"
            #EXTINF:4,
            b.m4s
            """
        let result = try rewritten(lines).result
        #expect(result.lastURLs == ["\(root)/b.m4s", "\(root)/b.2.m4s"])
        let names = ["i.mp4", "a.1.m4s", "a.m4s", "b.1.m4s", "b.2.m4s", "b.m4s"]
        #expect(result.urls == Set(names.map { "\(root)/\($0)" }))
        #expect(result.initURLs == ["\(root)/i.mp4"])
        #expect(!result.isDelta)
        #expect(try rewritten(lines + "\n#EXTINF:4,\nc.m4s").result.lastURLs == ["\(root)/c.m4s"])
        let part = "\n#EXT-X-PART:DURATION=1,URI=\"c.1.m4s\""
        #expect(try rewritten(lines + part).result.lastURLs == ["\(root)/c.1.m4s"])
    }

    /// References of playlists come out as by the standard, whichever way they are resolved.
    @Test(arguments: [UInt64(3), 4])
    func playlistsResolveLikeTheStandard(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let pieces = ["a", "/", "..", ".", "?", "b.ts", ":", "//", "@", "%2F", "ü", "=", "&", "-_", " x", "~", "+"]
        let bases = [
            "http://h/a/b?c/d", "https://h", "http://h/a/../b/./c", "http://h/ä/x", "http://h/a b/c", "file:///a/b",
            "a/b",
        ]
        for _ in 0..<3000 {
            let reference = (0..<Int.random(in: 1...6, using: &generator)).compactMap { _ in
                pieces.randomElement(using: &generator)
            }.joined()
            let base = try #require(bases.randomElement(using: &generator))
            var rewriter = HLSPlaylistRewriter(keyFormats: [])
            let (text, _) = try rewriter.rewrite("#EXTM3U\n#EXTINF:1,\nx\(reference)", from: base, routes: TestRoutes())
            let expected = URIReference.resolve("x\(reference)", against: URIReference(base))
            #expect(text == "#EXTM3U\n#EXTINF:1,\n\(expected)")
        }
    }
}
