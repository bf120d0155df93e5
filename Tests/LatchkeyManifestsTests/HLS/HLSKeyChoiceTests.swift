// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import Testing

/// Which `EXT-X-KEY` holds for a segment, and which of several is taken.
@Suite struct HLSKeyChoiceTests {
    private func keys(_ lines: String, formats: [HLSKeyFormat]) throws -> [String?] {
        var rewriter = HLSPlaylistRewriter(keyFormats: formats)
        let text = "#EXTM3U\n\(lines)\n#EXT-X-ENDLIST\n"
        let result = try rewriter.rewrite(text, routes: TestRoutes()).result
        let count = text.split(separator: "\n").filter { !$0.hasPrefix("#") }.count
        return (0..<UInt64(count)).map { number in
            result.keys.first { $0.segments.contains(number) }.flatMap(\.key.uri)
        }
    }

    private let apple = "KEYFORMAT=\"com.apple.streamingkeydelivery\""
    private let microsoft = "KEYFORMAT=\"com.microsoft.playready\""

    @Test func aKeyHoldsUntilTheNextOfItsFormat() throws {
        let lines = """
            #EXTINF:1,
            0.ts
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",\(apple)
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="data:,1",\(microsoft)
            #EXTINF:1,
            1.ts
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://2",\(apple)
            #EXTINF:1,
            2.ts
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="data:,3",\(microsoft)
            #EXTINF:1,
            3.ts
            #EXT-X-KEY:METHOD=NONE
            #EXTINF:1,
            4.ts
            #EXTINF:1,
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://5",\(apple)
            5.ts
            """
        #expect(
            try keys(lines, formats: [.fairPlay, .playReady]) == [nil, "skd://1", "skd://2", "skd://2", nil, "skd://5"])
        #expect(
            try keys(lines, formats: [.playReady, .fairPlay]) == [nil, "data:,1", "data:,1", "data:,3", nil, "skd://5"])
        #expect {
            try keys(lines, formats: [.playReady])
        } throws: { ($0 as? FormatError)?.isSameKind(as: .unsupported("")) == true }
    }

    @Test func laterLinesOfOneFormatReplaceEarlierOnes() throws {
        let lines = """
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="https://k/1"
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="https://k/2"
            #EXTINF:1,
            1.ts
            """
        #expect(try keys(lines, formats: [.identity]) == ["https://k/2"])
    }

    /// As where an inserted clip is encrypted in another way: no two methods hold for one segment.
    @Test func anotherMethodEndsTheKeysOfEarlierSegments() throws {
        let whole = "#EXT-X-KEY:METHOD=AES-128,URI=\"https://k/1\"\n"
        let samples = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://2\",\(apple)\n"
        let (one, two, three) = ("#EXTINF:1,\n1.ts\n", "#EXTINF:1,\n2.ts\n", "#EXTINF:1,\n3.ts\n")
        for formats in [[HLSKeyFormat.identity, .fairPlay], [.fairPlay, .identity], [.fairPlay]] {
            #expect(
                try keys(whole + one + samples + two + whole + three, formats: formats)
                    == ["https://k/1", "skd://2", "https://k/1"])
        }
        // The key of an earlier segment is no way out.
        #expect {
            try keys(whole + one + samples + two, formats: [])
        } throws: { ($0 as? FormatError)?.isSameKind(as: .unsupported("")) == true }
        // Those of the same segment are a choice.
        #expect(try keys(whole + samples + one, formats: []) == ["https://k/1"])
        #expect(try keys(samples + whole + one, formats: [.fairPlay]) == ["skd://2"])
    }

    @Test func theErrorSaysWhatThePlaylistHas() {
        let lines = """
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",\(apple)
            #EXT-X-KEY:METHOD=SAMPLE-AES-CTR,URI="data:,1",\(microsoft)
            #EXTINF:1,
            1.ts
            """
        #expect {
            try keys(lines, formats: [.widevine])
        } throws: {
            ($0 as? FormatError)
                == .unsupported(
                    "playlist https://cdn.example/p/list.m3u8: line 3: no key format that can be used: the playlist has "
                        + "SAMPLE-AES with com.apple.streamingkeydelivery, SAMPLE-AES-CTR with com.microsoft.playready; "
                        + "set up are \(HLSKeyFormat.widevine.name)")
        }
    }

    @Test(arguments: [
        "METHOD=AES-4096,URI=\"k\"", "METHOD=sample-aes,URI=\"k\"", "METHOD=AES-256-GCM,URI=\"k\"",
        "METHOD=SAMPLE-AES,URI=\"k\",KEYFORMATVERSIONS=\"999/1000\"", "METHOD=SAMPLE-AES,URI=\"k\",KEYFORMAT=\"x\"",
    ])
    func whatIsNotKnownIsNotPlayed(attributes: String) {
        let lines = "#EXT-X-KEY:\(attributes)\n#EXTINF:1,\n1.ts"
        #expect {
            try keys(lines, formats: [.identity, .fairPlay])
        } throws: { ($0 as? FormatError)?.isSameKind(as: .unsupported("")) == true }
    }

    @Test func versionsOfAFormat() throws {
        let lines = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://1\",\(apple),KEYFORMATVERSIONS=\"2/3\"\n#EXTINF:1,\n1.ts"
        let later = HLSKeyFormat(HLSKeyFormat.fairPlay.name, versions: [1, 3])
        #expect(try keys(lines, formats: [later]) == ["skd://1"])
        #expect(throws: FormatError.self) { try keys(lines, formats: [.fairPlay]) }
    }

    /// A line that cannot be read does not matter where another format can be used.
    @Test func brokenLinesOfOtherFormats() throws {
        let lines = """
            #EXT-X-KEY:METHOD=SAMPLE-AES,\(microsoft)
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",\(apple)
            #EXTINF:1,
            1.ts
            """
        #expect(try keys(lines, formats: [.playReady, .fairPlay]) == ["skd://1"])
        #expect {
            try keys(lines, formats: [.playReady])
        } throws: { ($0 as? FormatError)?.reason.hasSuffix("line 2: no URI") == true }
    }

    @Test func wholeSegmentKeysNeedNoSetUp() throws {
        let lines = "#EXT-X-KEY:METHOD=AES-128,URI=\"https://k/1\"\n#EXTINF:1,\n1.ts"
        #expect(try keys(lines, formats: []) == ["https://k/1"])
        #expect(try keys(lines, formats: [.fairPlay]) == ["https://k/1"])
        let samples = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"https://k/1\"\n#EXTINF:1,\n1.ts"
        #expect(throws: FormatError.self) { try keys(samples, formats: [.fairPlay]) }
    }

    /// A key that no segment uses is no reason to refuse a playlist.
    @Test func keysWithoutSegments() throws {
        #expect(try keys("#EXTINF:1,\n1.ts\n#EXT-X-KEY:METHOD=X,URI=\"k\"", formats: []) == [nil])
        #expect(
            try keys("#EXT-X-KEY:METHOD=X,URI=\"k\"\n#EXT-X-KEY:METHOD=NONE\n#EXTINF:1,\n1.ts", formats: []) == [nil])
    }

    @Test func formatsAreCounted() throws {
        let lines = (0..<16).map { "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"k\",KEYFORMAT=\"\($0)\"\n" }.joined()
        #expect(try keys(lines + "#EXTINF:1,\n1.ts", formats: [HLSKeyFormat("15")]) == ["https://cdn.example/p/k"])
        #expect {
            try keys(lines + "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"k\",KEYFORMAT=\"16\"", formats: [])
        } throws: { ($0 as? FormatError)?.isSameKind(as: .tooLarge("")) == true }
    }

    @Test(arguments: [
        "#EXT-X-KEY:URI=\"k", "#EXT-X-KEY", "#EXT-X-KEY:", "#EXT-X-MAP:", "#EXT-X-MAP:URI=\"\"",
        "#EXT-X-MAP:BYTERANGE=\"1@0\"",
        "#EXT-X-MAP:URI=\"i\",BYTERANGE=\"0@0\"", "#EXT-X-MAP:URI=\"i\",BYTERANGE=\"1@9223372036854775807\"",
        "#EXT-X-BYTERANGE:a@1", "#EXT-X-BYTERANGE:1@", "#EXT-X-BYTERANGE:-1@0",
        "#EXT-X-MEDIA-SEQUENCE:x", "#EXT-X-MEDIA-SEQUENCE:18446744073709551616",
        "#EXT-X-MEDIA-SEQUENCE:18446744073709551615", "#EXT-X-MEDIA-SEQUENCE:-1", "#EXT-X-SKIP:A=1",
    ])
    func brokenTagsNameTheirLine(tag: String) {
        #expect {
            try keys("\(tag)\n#EXTINF:1,\na.ts", formats: [.fairPlay])
        } throws: {
            let error = $0 as? FormatError
            let isNamed = error?.reason.contains(": line 2: ") == true || error?.reason.contains(": line 4: ") == true
            return isNamed && error?.isSameKind(as: .malformed("")) == true
        }
    }
}
