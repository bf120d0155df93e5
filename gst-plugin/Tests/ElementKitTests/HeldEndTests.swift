// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementTestSupport
import Testing

@testable import LatchkeyElementKit

/// Where the end that an adaptive demuxer sends too early is held.
@Suite struct HeldEndTests {
    /// A demuxer with an element of a stream inside, in a bin as `parsebin` is, and with places for two streams.
    private final class Demuxer {
        let bin: UnsafeMutablePointer<GstElement>
        let parser: UnsafeMutablePointer<GstElement>
        /// The source pad inside the parser.
        let source: PadReference
        let (place, other): (PadReference, PadReference)

        init() throws {
            TestProcess.prepare
            bin = try #require(gst_bin_new(nil))
            gst_object_ref_sink(bin)
            parser = try #require(gst_bin_new(nil))
            let element = try #require(gst_element_factory_make("identity", nil))
            gst_bin_add(ek_as_bin(parser), element)
            source = try #require(ElementReference(element).pad("src"))
            gst_element_add_pad(parser, gst_ghost_pad_new("src", source.pointer))
            gst_bin_add(ek_as_bin(bin), parser)
            place = try Self.place(in: bin)
            other = try Self.place(in: bin)
        }

        deinit { gst_object_unref(bin) }

        private static func place(in bin: UnsafeMutablePointer<GstElement>) throws -> PadReference {
            let sink = try #require(gst_element_factory_make("fakesink", nil))
            gst_bin_add(ek_as_bin(bin), sink)
            return try #require(ElementReference(sink).pad("sink"))
        }

        func link() {
            guard let output = ElementReference(parser).pad("src") else { return }
            gst_pad_link(output.pointer, place.pointer)
        }

        /// What is found if the stream is linked between the two looks, or not.
        func places(linking: Bool) -> (unlinked: [PadReference], linked: [PadReference]) {
            Pad.placesOfEnd(behind: source.pointer, in: bin) { if linking { link() } }
        }
    }

    @Test func aPlaceThatIsLinkedIsFoundAlone() throws {
        let demuxer = try Demuxer()
        demuxer.link()
        let (unlinked, linked) = demuxer.places(linking: false)
        #expect(linked.map(\.pointer) == [demuxer.place.pointer])
        #expect(unlinked.map(\.pointer) == [demuxer.other.pointer])
    }

    @Test func withoutALinkAllPlacesThatWaitAreFound() throws {
        let demuxer = try Demuxer()
        let (unlinked, linked) = demuxer.places(linking: false)
        #expect(linked.isEmpty)
        #expect(Set(unlinked.map(\.pointer)) == [demuxer.place.pointer, demuxer.other.pointer])
    }

    /// As by the thread that plays, if the key comes while the demuxer ends the stream.
    @Test func aPlaceThatIsLinkedMeanwhileIsNotMissed() throws {
        let demuxer = try Demuxer()
        #expect(demuxer.places(linking: true).linked.map(\.pointer) == [demuxer.place.pointer])
    }
}
