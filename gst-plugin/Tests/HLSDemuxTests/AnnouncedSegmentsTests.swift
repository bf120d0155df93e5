// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// What the length alone tells of a segment behind a note.
    @Suite struct AnnouncedSegmentsTests {
        @Test func theLengthOfATransportStreamDecides() {
            for length: UInt64 in [1, 187] {
                for isFirst in [false, true] {
                    #expect(AnnouncedSegments.flaw(ofLength: length, .transportStream, isFirst: isFirst) != nil)
                }
            }
            #expect(AnnouncedSegments.flaw(ofLength: 188, .transportStream, isFirst: true) == nil)
            #expect(AnnouncedSegments.flaw(ofLength: 0, .transportStream, isFirst: true) == "it is empty")
        }

        @Test(arguments: [0, 100, 187] as [UInt64])
        func soundGoesOnPastWhatTheStockDemuxerLeavesOut(length: UInt64) {
            #expect(AnnouncedSegments.flaw(ofLength: length, .packedAudio, isFirst: true) == nil)
            if length == 0 {
                #expect(AnnouncedSegments.flaw(ofLength: length, .transportStream, isFirst: false) == nil)
            }
        }

        /// Where nothing was fetched behind a note, an error of the stock demuxer is about something else.
        @Test func withoutASegmentThereIsNothingToSay() {
            #expect(AnnouncedSegments(HLSResourceTable(), PadWatch()).failure("details") == nil)
        }
    }
}
