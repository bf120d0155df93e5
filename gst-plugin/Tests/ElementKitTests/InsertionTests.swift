// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Testing

/// An element that comes into a stream which is under way.
@Suite struct InsertionTests {
    /// A bin at PLAYING with one sink pad, as `parsebin` is.
    private final class Container {
        let bin: UnsafeMutablePointer<GstElement>
        let sink: PadReference

        init(_ description: String) throws {
            TestProcess.prepare
            bin = try #require(gst_parse_bin_from_description_full(description, 1, nil, GST_PARSE_FLAG_NONE, nil))
            gst_object_ref_sink(bin)
            sink = try #require(ElementReference(bin).pad("sink"))
            gst_element_set_state(bin, GST_STATE_PLAYING)
        }

        deinit {
            gst_element_set_state(bin, GST_STATE_NULL)
            gst_object_unref(bin)
        }

        func send(_ text: String) -> FlowResult { sink.chain(Buffer(copying: text.utf8) ?? Buffer()) }

        func start() {
            gst_pad_send_event(sink.pointer, gst_event_new_stream_start("stream"))
            let caps = gst_caps_from_string("text/plain")
            gst_pad_send_event(sink.pointer, gst_event_new_caps(caps))
            gst_caps_unref(caps)
            var segment = GstSegment()
            gst_segment_init(&segment, GST_FORMAT_BYTES)
            gst_pad_send_event(sink.pointer, gst_event_new_segment(&segment))
        }

        /// The factory of what a child's source pad is linked to.
        func next(behind name: String) throws -> String? {
            let child = try #require(gst_bin_get_by_name(ek_as_bin(bin), name))
            defer { gst_object_unref(child) }
            let peer = try #require(ElementReference(child).pad("src")?.peer)
            let element = try #require(gst_pad_get_parent_element(peer.pointer))
            defer { gst_object_unref(element) }
            return ElementReference(element).factoryName
        }
    }

    @Test func whatFollowsGoesThroughIt() throws {
        let container = try Container("typefind name=finder ! identity name=chosen ! fakesink async=false")
        container.start()
        #expect(container.send("before") == .ok)
        #expect(try container.next(behind: "finder") == "identity")
        let seen = StreamRecorder()
        let element = try #require(ElementReference.make("queue"))
        seen.attach(to: try #require(element.pad("sink")).pointer)
        #expect(container.sink.insertBehindTypefinder(element))
        #expect(try container.next(behind: "finder") == "queue")
        #expect(try container.next(behind: element.name) == "identity")
        #expect(container.send("behind") == .ok)
        #expect(seen.samples.map(\.bytes) == [Array("behind".utf8)])
        #expect(seen.caps == ["text/plain"])
    }

    @Test func whereThereIsNoTypefinderNothingChanges() throws {
        let container = try Container("identity name=first ! fakesink async=false")
        container.start()
        let element = try #require(ElementReference.make("queue"))
        #expect(!container.sink.insertBehindTypefinder(element))
        #expect(try container.next(behind: "first") == "fakesink")
        #expect(container.send("behind") == .ok)
    }
}
