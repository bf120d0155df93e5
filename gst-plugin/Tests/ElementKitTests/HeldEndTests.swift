// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementTestSupport
import Testing

@testable import LatchkeyElementKit

/// Where the end that an adaptive demuxer sends too early is held.
@Suite struct HeldEndTests {
    /// A demuxer with an element of a stream inside, in a bin as `parsebin` is, and with places for two streams.
    private final class Demuxer: @unchecked Sendable {
        // SAFETY: everything is set in `init` alone, and is for use from any thread.
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
            gst_element_set_state(parser, GST_STATE_PAUSED)
            place = try Self.place(in: bin)
            other = try Self.place(in: bin)
        }

        deinit {
            gst_element_set_state(bin, GST_STATE_NULL)
            gst_element_set_state(parser, GST_STATE_NULL)
            gst_object_unref(bin)
        }

        private static func place(in bin: UnsafeMutablePointer<GstElement>) throws -> PadReference {
            let track = try #require(gst_bin_new(nil))
            let sink = try #require(gst_pad_new("sink", GST_PAD_SINK))
            gst_pad_set_active(sink, 1)
            gst_element_add_pad(track, sink)
            gst_bin_add(ek_as_bin(bin), track)
            return try #require(ElementReference(track).pad("sink"))
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

    // MARK: Orders of the steps of two threads

    enum Step {
        /// The demuxer's thread: it ends the place itself, and is back in its loop.
        case ownEnd, loop
        /// The thread of the stream inside.
        case link, end, deliver
    }

    enum Place: CaseIterable { case linked, linkedMeanwhile, neverLinked }

    /// Each order in which both threads may take their steps.
    private static func orders(_ one: ArraySlice<Step>, _ other: ArraySlice<Step>) -> [[Step]] {
        guard let first = one.first else { return [Array(other)] }
        guard let second = other.first else { return [Array(one)] }
        return orders(one.dropFirst(), other).map { [first] + $0 }
            + orders(one, other.dropFirst()).map { [second] + $0 }
    }

    /// In each order, the place ends with the stream inside, and not before.
    @Test(arguments: Place.allCases) func aPlaceEndsOnceTheStreamInsideHas(place: Place) throws {
        let context = try #require(g_main_context_new())
        defer { g_main_context_unref(context) }
        let inside: [Step] = place == .linkedMeanwhile ? [.link, .end, .deliver] : [.end, .deliver]
        let last: Step = place == .neverLinked ? .deliver : .end
        for order in Self.orders([.ownEnd, .loop], inside[...]) {
            let demuxer = try Demuxer()
            if place == .linked { demuxer.link() }
            let (unlinked, linked) = demuxer.places(linking: false)
            let held = place == .linked ? HeldEnd(linked, until: nil) : HeldEnd(unlinked, until: context)
            for (index, step) in order.enumerated() {
                switch step {
                case .ownEnd: demuxer.place.take(.endOfStream())
                case .loop: while g_main_context_iteration(context, 0) != 0 {}
                case .link: TestThread { demuxer.link() }.join()
                case .end: TestThread { demuxer.source.push(.endOfStream()) }.join()
                case .deliver: TestThread { held.deliver() }.join()
                }
                #expect(order[...index].contains(last) || !demuxer.place.hasEnded, "\(order), after \(step)")
            }
            #expect(demuxer.place.hasEnded, "\(order)")
            demuxer.other.take(.endOfStream())
            #expect(demuxer.other.hasEnded, "the other stream's, after \(order)")
        }
    }
}
