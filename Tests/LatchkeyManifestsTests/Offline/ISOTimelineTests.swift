// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import Foundation
import LatchkeyContainers
import LatchkeyManifests
import Testing

struct ISOTimelineTests {
    @Test func theFragmentsOfAPIFFFileHaveTimes() throws {
        let bytes = Array(try CorpusBoxes.corpusFile("bento4-piff-ctr-ismv/media.ismv"))
        var timeline: ISOTimeline?
        var parts: [ISOTimeline.Part] = []
        for box in try ISOBox.boxes(in: bytes, range: 0..<bytes.count) {
            let whole = Array(bytes[box.range])
            if box.type == "moov" { timeline = try ISOTimeline(movie: whole) }
            if box.type == "moof" { parts += try timeline?.take(fragment: whole) ?? [] }
        }
        #expect(timeline?.duration == .seconds(4))
        #expect(timeline?.isFragmented == true)
        let video = parts.filter { $0.track == 1 }
        #expect(video.map(\.begin) == [.zero, .seconds(1), .seconds(2), .seconds(3)])
        #expect(video.allSatisfy { $0.duration == .seconds(1) })
        let sound = parts.filter { $0.track == 2 }
        for (first, second) in zip(sound, sound.dropFirst()) {
            #expect(abs((first.begin + first.duration - second.begin) / .milliseconds(1)) < 1)
        }
    }

    @Test func anIndexSaysWhereThePartsAre() throws {
        let bytes = Array(try CorpusBoxes.corpusFile("shaka-cenc-iv8-h264-aac/video.mp4"))
        let index = try ISOSegmentIndex(Array(bytes[1643..<1723]))
        #expect(index.parts.count == 4)
        #expect(index.parts.map(\.begin) == (0..<4).map { .seconds($0) })
        #expect((index.parts.last.map { $0.offset + $0.size } ?? 0) + 1723 == UInt64(bytes.count))
    }

    /// As old QuickTime files have it. GStreamer plays them.
    @Test func aCompressedMovieBoxIsUnsupported() {
        func box(_ type: String, _ content: [UInt8]) -> [UInt8] {
            [0, 0, 0, UInt8(8 + content.count)] + Array(type.utf8) + content
        }
        let error = #expect(throws: FormatError.self) {
            try ISOTimeline(movie: box("moov", box("cmov", box("dcom", Array("zlib".utf8)))))
        }
        #expect(error?.isSameKind(as: .unsupported("")) == true && error?.reason.contains("cmov") == true)
    }

    @Test func boxesThatGoPastTheEndAreRefused() {
        #expect(throws: (any Error).self) {
            try ISOTopLevelBox([0, 0, 0, 99] + Array("mdat".utf8), at: 0, ofFileWith: 50)
        }
        #expect(throws: (any Error).self) { try ISOTopLevelBox([0, 0, 0], at: 0, ofFileWith: 50) }
    }
}
