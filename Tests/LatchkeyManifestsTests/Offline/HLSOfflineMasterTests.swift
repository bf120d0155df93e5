// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import Testing

/// Tags of a master playlist that cannot be read, where it is kept for playback offline.
struct HLSOfflineMasterTests {
    private let url = "https://media.example/a/m.m3u8"
    private static let unreadVariant = "#EXT-X-STREAM-INF:BANDWIDTH=9,CODECS=avc1.4d400d,mp4a.40.2"

    private func master(_ lines: String..., selection: TrackSelection = TrackSelection()) throws -> HLSOfflineMaster {
        let text = (["#EXTM3U"] + lines).joined(separator: "\n")
        return try HLSOfflineMaster(Array(text.utf8), from: url, selection: selection)
    }

    private func served(_ master: HLSOfflineMaster) -> String {
        String(decoding: master.serialized { $0 }, as: UTF8.self)
    }

    @Test(arguments: [
        #"#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="cc",NAME="English "CC1"",INSTREAM-ID="CC1""#,
        #"#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="cc",NAME="English",DEFAULT,INSTREAM-ID="CC1""#,
    ]) func closedCaptionsAreNotNeeded(line: String) throws {
        let master = try master(line, "#EXT-X-STREAM-INF:BANDWIDTH=1,CLOSED-CAPTIONS=\"cc\"", "v.m3u8")
        #expect(master.playlists == ["https://media.example/a/v.m3u8"])
        #expect(served(master) == "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nhttps://media.example/a/v.m3u8\n")
    }

    /// As online.
    @Test(arguments: [
        #"#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="English "1"",URI="a.m3u8""#,
        #"#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="a",NAME="English "1"",URI = "a.m3u8",URI="b.m3u8""#,
    ]) func renditionsWithAURIAreNeeded(line: String) {
        let error = #expect(throws: FormatError.self) {
            try master(line, "#EXT-X-STREAM-INF:BANDWIDTH=1", "v.m3u8")
        }
        #expect(error?.reason.hasPrefix("line 2: ") == true)
    }

    /// Those that can be read go first, also if their bit rate is too high.
    @Test func variantsThatCannotBeReadAreTheLast() throws {
        let unread = Self.unreadVariant
        for limit in [nil, 1] as [UInt64?] {
            let master = try master(
                unread, "u.m3u8", "#EXT-X-STREAM-INF:BANDWIDTH=2", "v.m3u8", unread, "w.m3u8",
                selection: TrackSelection(maximumBitRate: limit))
            #expect(master.playlists == ["https://media.example/a/v.m3u8"])
            #expect(!served(master).contains("CODECS"))
        }
        let alone = try master(unread, "u.m3u8")
        #expect(alone.playlists == ["https://media.example/a/u.m3u8"])
        #expect(served(alone) == "#EXTM3U\n\(unread)\nhttps://media.example/a/u.m3u8\n")
        // Its sound may be elsewhere.
        let error = #expect(throws: FormatError.self) {
            try master(#"#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="a",URI="a.m3u8""#, unread, "u.m3u8")
        }
        #expect(error?.reason.hasPrefix("line 3: ") == true)
    }
}
