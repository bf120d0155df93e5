// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementTestSupport
import LatchkeyContainers
import Testing

@testable import LatchkeyElements

struct ClearStartTests {
    private static let cases = [("hls-fmp4-cbcs-captions", true), ("hls-fmp4-aes128-openssl", false)]

    /// The stock demuxer joins an init segment and what it has of the first segment.
    @Test(arguments: cases) func whatStandsBehindAnInitSegmentIsNotLookedAt(_ name: String, _ isProtected: Bool) throws
    {
        let start = try CorpusCase(name).bytes("v_init.mp4")
        let media: [[UInt8]] = [[], [0, 0, 0], [0xFF, 0xFF, 0xFF, 0xFF] + Array("mdatencv".utf8)]
        for media in media {
            #expect((start + media).withUnsafeBytes { ClearStart.isProtected($0) } == isProtected)
        }
    }

    /// Its own names decide, and not those behind it.
    @Test(arguments: cases) func oneThatCannotBeReadIsToldByItsNames(_ name: String, _ isProtected: Bool) throws {
        var start = try CorpusCase(name).bytes("v_init.mp4")
        let track = try #require(start.firstRange(of: Array("trak".utf8)))
        // The box in the track is longer than the track.
        start.replaceSubrange(track.upperBound..<track.upperBound + 4, with: [0x7F, 0xFF, 0xFF, 0xFF])
        #expect((try? InitSegment(start)) == nil)
        #expect((start + Array("encv".utf8)).withUnsafeBytes { ClearStart.isProtected($0) } == isProtected)
    }

    @Test(arguments: cases) func oneThatIsCutOffIsToldByItsNames(_ name: String, _ isProtected: Bool) throws {
        let start = try CorpusCase(name).bytes("v_init.mp4")
        for length in 0..<start.count {
            #expect(start.prefix(length).withUnsafeBytes { ClearStart.isProtected($0) } == nil)
        }
        #expect(start.dropLast().withUnsafeBytes { ClearStart.namesEncryption($0) } == isProtected)
        #expect([UInt8]().withUnsafeBytes { !ClearStart.namesEncryption($0) })
        #expect(Array("encv".utf8).withUnsafeBytes { ClearStart.namesEncryption($0) })
    }

    @Test(arguments: cases) func boxesInFrontOfAnInitSegment(_ name: String, _ isProtected: Bool) throws {
        let start = try CorpusCase(name).bytes("v_init.mp4")
        let media = try CorpusCase(name).bytes("v_1.m4s")
        for type in ["free", "skip", "styp", "uuid"] {
            let box: [UInt8] = [0, 0, 0, 24] + Array(type.utf8) + [UInt8](repeating: 1, count: 16)
            for front in [box, box + box] {
                #expect((front + start).withUnsafeBytes { ClearStart.beginsInitSegment($0) }, "\(type)")
                #expect((front + start).withUnsafeBytes { ClearStart.isProtected($0) } == isProtected, "\(type)")
                #expect((front + media).withUnsafeBytes { !ClearStart.beginsInitSegment($0) }, "\(type)")
            }
            // One that is cut off, or shorter than its header.
            #expect(box.dropLast().withUnsafeBytes { !ClearStart.beginsInitSegment($0) })
            var short = box + start
            short[3] = 7
            #expect(short.withUnsafeBytes { !ClearStart.beginsInitSegment($0) })
        }
        #expect(start.withUnsafeBytes { ClearStart.beginsInitSegment($0) })
        #expect(media.withUnsafeBytes { !ClearStart.beginsInitSegment($0) })
    }
}
