// SPDX-License-Identifier: MPL-2.0

import MediaFormats
import Testing

/// The keys that a media playlist from a cache names.
struct HLSOfflineMediaTests {
    private let url = "https://media.example/a/b.m3u8"
    private let fairPlay = #"KEYFORMAT="com.apple.streamingkeydelivery""#

    private func media(_ lines: String...) throws -> HLSOfflineMedia {
        let text = (["#EXTM3U", "#EXT-X-TARGETDURATION:2"] + lines + ["#EXT-X-ENDLIST"]).joined(separator: "\n")
        return try HLSOfflineMedia(Array(text.utf8), from: url, variables: [:])
    }

    private func served(_ media: HLSOfflineMedia) -> String {
        String(decoding: media.serialized(until: nil, keptKeys: Set(media.keys)) { $0 }, as: UTF8.self)
    }

    @Test func keysOfKeyServersAreNamedOnceEach() throws {
        let media = try media(
            "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://a\",\(fairPlay)", "#EXTINF:2,", "1.ts",
            "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://b\",\(fairPlay)", "#EXTINF:2,", "2.ts",
            "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://a\",\(fairPlay)", "#EXTINF:2,", "3.ts")
        #expect(media.serverKeys.map(\.uri) == ["skd://a", "skd://b"])
        #expect(media.keys.isEmpty && !media.offersOtherSystems)
    }

    @Test func otherKeySystemsAreSeen() throws {
        let own = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://a\",\(fairPlay)"
        let other = #"#EXT-X-KEY:METHOD=SAMPLE-AES,URI="data:,b",KEYFORMAT="com.microsoft.playready""#
        #expect(try media(own, other, "#EXTINF:2,", "1.ts").offersOtherSystems)
        #expect(try !media(own, "#EXTINF:2,", "1.ts", "#EXT-X-KEY:METHOD=NONE").offersOtherSystems)
        // Without one of a key server there is nothing beside which it would be.
        #expect(try !media(other, "#EXTINF:2,", "1.ts").offersOtherSystems)
    }

    /// What players leave aside at the origin they have to leave aside here.
    @Test func aKeyThatCannotBeReadStaysSo() throws {
        let media = try media(
            "#EXT-X-KEY:METHOD=AES-128,URI=\"k\u{6}\"", "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://a\",\(fairPlay)",
            "#EXTINF:2,", "1.ts")
        #expect(media.serverKeys.map(\.uri) == ["skd://a"] && media.keys.isEmpty)
        let again = try HLSOfflineMedia(Array(served(media).utf8), from: url, variables: [:])
        #expect(again.serverKeys.map(\.uri) == ["skd://a"] && again.keys.isEmpty)
    }
}
