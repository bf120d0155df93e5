// SPDX-License-Identifier: MPL-2.0

import Foundation
import MediaFormats
import ProtectionModel
import TestSupport
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
        #expect(result.keys == [.init(key: key, decryptor: .element, segments: 0...3, start: 0)])
        #expect(result.isProtected && result.isEnded && result.kind == .media)
        #expect(result.targetDuration == 2)
        #expect(result.origins == ["https://cdn.example:443"])
        #expect(result.segmentToInspect == nil)
    }
}
