// SPDX-License-Identifier: MPL-2.0

import MediaFormats
import ProtectionModel
import Testing

/// Which notes a playlist may be without.
@Suite struct HLSImpliedNoteTests {
    private static let keyTag =
        #"#EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",KEYFORMAT="com.apple.streamingkeydelivery""#
    private static let note = HLSKeyNote(
        kind: .transportStream,
        key: HLSKey(method: .sampleAES, uri: "skd://1", keyFormat: HLSKeyFormat.fairPlay.name),
        initializationVector: nil)

    private let routes = TestRoutes()

    /// The maps of the segments, and what was left out.
    private func rewritten(
        _ lines: [String], _ implied: HLSImpliedNote = .any, firstOnly: Bool = false, isEnded: Bool = true
    ) throws -> (maps: [String?], note: HLSKeyNote?) {
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay, .identity])
        rewriter.impliedNote = implied
        rewriter.impliesFirstNoteOnly = firstOnly
        let text = (["#EXTM3U", "#EXT-X-TARGETDURATION:4"] + lines + (isEnded ? ["#EXT-X-ENDLIST"] : []))
            .joined(separator: "\n")
        let (rewrittenText, result) = try rewriter.rewrite(text, routes: routes)
        #expect(!rewrittenText.contains("skd:"))
        return (SeenSegment.segments(of: rewrittenText).map(\.map), result.impliedNote)
    }

    private func segments(_ count: Int, key: String = keyTag, type: String = "ts") -> [String] {
        [key] + (1...count).flatMap { ["#EXTINF:4,", "\($0).\(type)"] }
    }

    private var map: String { "URI=\"\(routes.url(.keyNote(Self.note)))\"" }

    @Test func theOnlyNoteIsLeftOut() throws {
        let all = try rewritten(segments(3))
        #expect(all.maps == [nil, nil, nil] && all.note == Self.note)
        let known = try rewritten(segments(4), .note(Self.note))
        #expect(known.maps == [nil, nil, nil, nil] && known.note == Self.note)
    }

    @Test func behindTheFirstSegmentItStaysWhereTheKeyIsAwaited() throws {
        let first = try rewritten(segments(3), firstOnly: true)
        #expect(first.maps == [nil, map, map] && first.note == Self.note)
    }

    @Test func aShortPlaylistKeepsIt() throws {
        for firstOnly in [true, false] {
            let short = try rewritten(segments(2), firstOnly: firstOnly)
            #expect(short.maps == [map, map] && short.note == nil)
        }
    }

    @Test func nothingIsLeftOutWhereNobodyIsTold() throws {
        for implied in [
            HLSImpliedNote.none,
            .note(HLSKeyNote(kind: .transportStream, key: Self.note.key, initializationVector: .zero)),
        ] {
            let kept = try rewritten(segments(3), implied)
            #expect(kept.maps == [map, map, map] && kept.note == nil)
        }
    }

    /// A demuxer that goes back to a segment without a note gives it the last one that it had.
    @Test func oneOfSeveralNotesIsNot() throws {
        let other = Self.keyTag.replacing("skd://1", with: "skd://2")
        #expect(try rewritten(segments(3) + segments(1, key: other)).note == nil)
        #expect(try rewritten(segments(3) + segments(1, key: "#EXT-X-KEY:METHOD=NONE")).note == nil)
        // An IV for each segment, made of its number.
        let identity = #"#EXT-X-KEY:METHOD=SAMPLE-AES,URI="https://keys.example/1""#
        #expect(try rewritten(segments(3, key: identity)).note == nil)
        #expect(try rewritten(segments(3, key: identity + ",IV=0x01")).note != nil)
    }

    @Test func onlyOfCompleteTransportStreams() throws {
        #expect(try rewritten(segments(3), isEnded: false).note == nil)
        #expect(try rewritten(segments(3, type: "aac")).note == nil)
        // Until somebody has looked what they are.
        #expect(try rewritten(segments(3, type: "bin")).note == nil)
        #expect(try rewritten(["#EXT-X-MAP:URI=\"i.mp4\""] + segments(3, type: "mp4")).note == nil)
        #expect(try rewritten(segments(3, key: #"#EXT-X-KEY:METHOD=AES-128,URI="https://keys.example/1""#)).note == nil)
        #expect(try rewritten(segments(3, key: "")).note == nil)
    }
}

extension InitializationVector {
    fileprivate static let zero = InitializationVector(high: 0, low: 0)
}
