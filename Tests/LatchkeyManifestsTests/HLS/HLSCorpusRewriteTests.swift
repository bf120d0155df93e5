// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// The playlists of the corpus, rewritten.
@Suite struct HLSCorpusRewriteTests {
    @Test func fairPlayInFragmentedMP4() throws {
        let bytes = try CorpusBoxes.corpusFile("hls-fmp4-cbcs-fairplay-skd/v.m3u8")
        let routes = TestRoutes()
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        let result = try rewriter.rewrite(bytes, from: "https://cdn.example/a/v.m3u8?token=1", route: routes.url)

        let key = HLSKey(method: .sampleAES, uri: "skd://asset-0001", keyFormat: "com.apple.streamingkeydelivery")
        let section = HLSResource.initSegment(
            HLSInitSegment(url: "https://cdn.example/a/v_init.mp4", protection: .key(key)))
        #expect(result.resources == [section])
        #expect(
            String(decoding: result.bytes, as: UTF8.self) == """
                #EXTM3U
                #EXT-X-VERSION:6
                ## Generated with https://github.com/shaka-project/shaka-packager version v3.8.0-75b2faf-release
                #EXT-X-TARGETDURATION:2
                #EXT-X-PLAYLIST-TYPE:VOD
                #EXT-X-MAP:URI="\(routes.url(section))"
                #EXTINF:1.000,
                https://cdn.example/a/v_1.m4s
                #EXTINF:1.000,
                https://cdn.example/a/v_2.m4s
                #EXTINF:1.000,
                https://cdn.example/a/v_3.m4s
                #EXTINF:1.000,
                https://cdn.example/a/v_4.m4s
                #EXT-X-ENDLIST

                """)
        #expect(result.keys == [.init(key: key, decryptor: .element, segments: 0...3, start: 0, end: 4)])
        #expect(result.isProtected && result.isEnded && result.kind == .media)
        #expect(result.targetDuration == 2)
        #expect(result.origins == ["https://cdn.example:443"])
        #expect(result.segmentToInspect == nil)
    }

    private let formats: [HLSKeyFormat] = [.fairPlay, .identity, .widevine, .playReady]

    /// Nothing is left in any playlist that the stock demuxer would misread or look for at the wrong place.
    @Test func everyPlaylistIsRewritten() throws {
        var protected = 0
        for file in try HLSCorpus.playlists() where !file.hasPrefix("broken-") {
            let bytes = try CorpusBoxes.corpusFile(file)
            let routes = TestRoutes()
            var rewriter = HLSPlaylistRewriter(keyFormats: formats)
            let result = try rewriter.rewrite(bytes, from: "http://h/\(file)", route: routes.url)
            let text = String(decoding: result.bytes, as: UTF8.self)
            #expect(!text.contains("SAMPLE-AES"), "\(file)")
            for line in text.split(separator: "\n") where !line.hasPrefix("#") {
                #expect(line.hasPrefix("http://"), "\(file)")
            }
            for part in text.split(separator: "URI=\"").dropFirst() {
                #expect(part.hasPrefix("http://"), "\(file)")
            }
            let original = String(decoding: bytes, as: UTF8.self)
            if result.kind == .media {
                #expect(result.isProtected == original.contains("#EXT-X-KEY"), "\(file)")
                protected += result.isProtected ? 1 : 0
                if !result.isProtected {
                    #expect(!text.contains("127.0.0.1"), "\(file)")
                    let tags = original.split(separator: "\n").filter { $0.hasPrefix("#") && !$0.contains("URI=") }
                    #expect(tags == text.split(separator: "\n").filter { $0.hasPrefix("#") && !$0.contains("URI=") })
                }
            }
            let segments = original.split(separator: "\n").filter { !$0.hasPrefix("#") }.count
            #expect(SeenSegment.segments(of: text).count == segments, "\(file)")
            // A playlist that was rewritten has nothing left to rewrite but its routed URLs.
            var again = HLSPlaylistRewriter(keyFormats: formats)
            let second = try again.rewrite(result.bytes, from: "http://h/\(file)", route: routes.url)
            #expect(second.keys.isEmpty, "\(file)")
        }
        #expect(protected > 25)
    }

    private func fronts(_ file: String, formats: [HLSKeyFormat]) throws -> HLSRewriting {
        var rewriter = HLSPlaylistRewriter(keyFormats: formats)
        return try rewriter.rewrite(
            try CorpusBoxes.corpusFile(file), from: "http://h/\(file)", route: TestRoutes().url)
    }

    @Test func severalSystems() throws {
        let file = "hls-fmp4-cbcs-3drm/v.m3u8"
        for (format, start) in [
            (HLSKeyFormat.fairPlay, "skd://host/path?assetId=0002&x=%2F"),
            (.widevine, "data:text/plain;base64,AAAASnBzc2gA"),
            (.playReady, "data:text/plain;charset=UTF-16;base64,vgEA"),
        ] {
            let result = try fronts(file, formats: [HLSKeyFormat("com.example"), format])
            #expect(result.keys.count == 1)
            #expect(result.keys.first?.key.keyFormat == format.name)
            #expect(result.keys.first?.key.uri?.hasPrefix(start) == true)
        }
        let widevine = try fronts(file, formats: [.widevine]).keys.first?.key
        #expect(widevine?.keyID == KeyID(hex: "572b12fc1776638541b73676c3bc9e9e"))
        #expect {
            try fronts(file, formats: [.identity])
        } throws: {
            let reason = ($0 as? FormatError)?.reason ?? ""
            return reason.contains("com.microsoft.playready") && reason.contains("com.apple.streamingkeydelivery")
        }
    }

    @Test func wholeSegmentsOfFragmentedMP4() throws {
        let result = try fronts("hls-fmp4-aes128-openssl/v.m3u8", formats: [])
        #expect(result.resources.count == 5)
        #expect(result.keys.map(\.decryptor) == [.server])
        guard case .initSegment(let section) = result.resources.first else { throw FormatError.malformed("no section") }
        #expect(section.decryption == nil && section.protection == .unchanged)
    }

    @Test func byteRanges() throws {
        let result = try fronts("hls-fmp4-cbcs-byterange/v.m3u8", formats: [.fairPlay])
        guard case .initSegment(let section) = result.resources.first else { throw FormatError.malformed("no section") }
        #expect(section.byteRange?.httpRange == "bytes=0-967")
        let text = String(decoding: result.bytes, as: UTF8.self)
        #expect(
            SeenSegment.segments(of: text).map(\.range) == ["19603@1048", "24336@20651", "27861@44987", "30091@72848"])
    }

    @Test func notesOfTheCorpus() throws {
        let cases: [(String, HLSSegmentKind, Int)] = [
            ("hls-ts-sampleaes-skd-aac/v.m3u8", .transportStream, 1),
            ("hls-packed-ac3-sampleaes-skd/a.m3u8", .packedAudio, 1),
            // Without an IV, each segment has its own.
            ("hls-packed-aac-sampleaes-bento4/stream.m3u8", .packedAudio, 5),
            ("hls-ts-muxed-sampleaes-bento4/stream.m3u8", .transportStream, 4),
            ("hls-ts-muxed-sampleaes-bento4-fps/iframes.m3u8", .transportStream, 1),
        ]
        for (file, kind, count) in cases {
            let result = try fronts(file, formats: [.fairPlay, .identity])
            #expect(result.resources.count == count, "\(file)")
            for resource in result.resources {
                guard case .keyNote(let note) = resource else { throw FormatError.malformed("no note") }
                #expect(note.kind == kind && note.key != nil, "\(file)")
                let isFairPlay = note.key?.keyFormat == HLSKeyFormat.fairPlay.name
                #expect((note.initializationVector == nil) == isFairPlay, "\(file)")
            }
        }
    }

    /// What becomes of each of the broken playlists: the kind of the error, or how its segments are read.
    @Test(arguments: [
        ("no-uri", "malformed"), ("empty-uri", "malformed"), ("unterminated-quote", "malformed"),
        ("unknown-method", "unsupported"), ("no-method", "malformed"), ("method-lowercase", "unsupported"),
        ("iv-short-8", "sample 00000000000000003334353637383930"), ("iv-33-digits", "malformed"),
        ("iv-not-hex", "malformed"), ("iv-upper-0X", "sample 00000000000000000000000000000000"),
        // The playlists are right: what their URIs lead to is not.
        ("key-missing-file", "sample 00000000000000000000000000000000"),
        ("key-15-bytes", "sample 00000000000000000000000000000000"),
        ("key-17-bytes", "sample 00000000000000000000000000000000"),
        ("attr-order-iv-first", "sample 00000000000000000000000000000000"),
        ("spaces-around", "sample 00000000000000000000000000000000"),
        ("two-identity-keys", "sample 00000000000000000000000000000000"),
        ("skd-and-identity", "sample from the answer"),
        ("skd-empty", "malformed"), ("unknown-keyformat", "unsupported"), ("aes128-on-sampleaes-data", "whole"),
        ("keyformatversions-999", "unsupported"), ("crlf-bom", "sample 00000000000000000000000000000000"),
        ("data-uri-key", "sample 00000000000000000000000000000000"),
        ("method-none-after", "sample 00000000000000000000000000000000, clear"),
    ])
    func brokenKeys(name: String, expected: String) throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay, .identity])
        let bytes = try CorpusBoxes.corpusFile("broken-m3u8-keys/\(name).m3u8")
        var found: [String] = []
        do throws(FormatError) {
            let result = try rewriter.rewrite(bytes, from: "http://h/x/l.m3u8?secret", route: TestRoutes().url)
            if result.keys.first?.decryptor == .server { found.append("whole") }
            for case .keyNote(let note) in result.resources {
                let vector = note.initializationVector.map { Hex.encode($0.bytes) } ?? "from the answer"
                found.append(note.key == nil ? "clear" : "sample \(vector)")
            }
            #expect(result.bytes.first == UInt8(ascii: "#"))
        } catch {
            found.append(error.shortDescription)
            #expect(error.reason.contains("playlist http://h/x/l.m3u8: line 5: "))
        }
        #expect(found.joined(separator: ", ") == expected)
    }

    @Test func allBrokenPlaylistsAreInTheTable() throws {
        let files = try HLSCorpus.playlists().filter { $0.hasPrefix("broken-m3u8-keys/") }
        #expect(files.count == 24)
    }
}
