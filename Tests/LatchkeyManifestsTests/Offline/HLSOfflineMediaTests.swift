// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
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
        #expect(media.keys.isEmpty && media.indispensableKeys == ["skd://a", "skd://b"])
    }

    /// The segment in front has a key of its own.
    @Test func aKeyOfAnotherMethodIsThatOfTheSegmentsBehindIt() throws {
        let media = try media(
            "#EXT-X-KEY:METHOD=AES-128,URI=\"https://k/1\"", "#EXTINF:2,", "1.ts", own, "#EXTINF:2,", "2.ts")
        #expect(media.keys == ["https://k/1"] && media.serverKeys.map(\.uri) == ["skd://a"])
        #expect(media.pieces.map(\.isEncryptedAsWhole) == [true, false])
    }

    private let own = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://a\",KEYFORMAT=\"com.apple.streamingkeydelivery\""
    private let playReady = #"#EXT-X-KEY:METHOD=SAMPLE-AES,URI="data:,b",KEYFORMAT="com.microsoft.playready""#
    private let widevine =
        #"#EXT-X-KEY:METHOD=SAMPLE-AES,URI="data:,b",KEYFORMAT="urn:uuid:edef8ba9-79d6-4ace-a3c8-27dcd51d21ed""#

    @Test func aKeyIsDispensableWhereEachSegmentHasOneOfPlayReadyBeside() throws {
        #expect(try media(own, playReady, "#EXTINF:2,", "1.ts").indispensableKeys.isEmpty)
        #expect(try media(own, playReady, "#EXTINF:2,", "1.ts", "#EXTINF:2,", "2.ts").indispensableKeys.isEmpty)
        // Nothing here gets those.
        #expect(try media(own, widevine, "#EXTINF:2,", "1.ts").indispensableKeys == ["skd://a"])
        #expect(try media(own, "#EXTINF:2,", "1.ts", "#EXT-X-KEY:METHOD=NONE").indispensableKeys == ["skd://a"])
        // A later segment has it alone.
        let later = try media(
            own, playReady, "#EXTINF:2,", "1.ts", "#EXT-X-KEY:METHOD=NONE", own, "#EXTINF:2,", "2.ts")
        #expect(later.indispensableKeys == ["skd://a"])
        let other = own.replacing("skd://a", with: "skd://c")
        let mixed = try media(
            other, playReady, "#EXTINF:2,", "1.ts", "#EXT-X-KEY:METHOD=NONE", own, "#EXTINF:2,", "2.ts")
        #expect(mixed.serverKeys.map(\.uri) == ["skd://c", "skd://a"] && mixed.indispensableKeys == ["skd://a"])
        // One that cannot be used is none.
        let unknown = playReady + ",KEYFORMATVERSIONS=\"77\""
        #expect(try media(own, unknown, "#EXTINF:2,", "1.ts").indispensableKeys == ["skd://a"])
        #expect(try media(playReady, "#EXTINF:2,", "1.ts").indispensableKeys.isEmpty)
    }

    /// A map counts by the key in front of it.
    @Test func whatIsEncryptedAsAWholeIsKnown() throws {
        let media = try media(
            "#EXT-X-MAP:URI=\"clear.mp4\"", "#EXTINF:2,", "1.m4s", "#EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV=0x01",
            "#EXTINF:2,", "2.m4s", "#EXT-X-MAP:URI=\"encrypted.mp4\"", "#EXTINF:2,", "3.m4s", "#EXT-X-KEY:METHOD=NONE",
            "#EXTINF:2,", "4.m4s", own, "#EXT-X-MAP:URI=\"samples.mp4\"", "#EXTINF:2,", "5.m4s")
        let names = ["2.m4s", "encrypted.mp4", "3.m4s"]
        #expect(media.pieces.filter(\.isEncryptedAsWhole).map(\.url) == names.map { "https://media.example/a/\($0)" })
        #expect(media.pieces.count == 8)
    }

    /// As playback asks for them: with the block that may be padding.
    @Test func byteRangesOfWhatIsEncryptedAsAWhole() throws {
        let media = try media(
            "#EXTINF:2,", "#EXT-X-BYTERANGE:32@0", "1.m4s", "#EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV=0x01",
            "#EXT-X-MAP:URI=\"i.mp4\",BYTERANGE=\"16@0\"", "#EXTINF:2,", "#EXT-X-BYTERANGE:33@32", "1.m4s")
        #expect(media.pieces.map(\.byteRange?.text) == ["32@0", "32@0", "64@32"])
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
