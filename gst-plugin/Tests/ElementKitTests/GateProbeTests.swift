// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Testing

/// The probes that ask whether something may pass.
@Suite struct GateProbeTests {
    /// A stream that has begun, and its two ends.
    private final class Stream {
        let bin: UnsafeMutablePointer<GstElement>
        let start: PadReference
        /// Where the probe is.
        let middle: PadReference
        let end: PadReference

        init() throws {
            TestProcess.prepare
            let description = "identity name=first ! fakesink name=last async=false sync=false"
            bin = try #require(gst_parse_bin_from_description_full(description, 1, nil, GST_PARSE_FLAG_NONE, nil))
            gst_object_ref_sink(bin)
            start = try #require(ElementReference(bin).pad("sink"))
            middle = try Self.pad(bin, "first", "src")
            end = try Self.pad(bin, "last", "sink")
            gst_element_set_state(bin, GST_STATE_PLAYING)
            gst_pad_send_event(start.pointer, gst_event_new_stream_start("stream"))
            var segment = GstSegment()
            gst_segment_init(&segment, GST_FORMAT_BYTES)
            gst_pad_send_event(start.pointer, gst_event_new_segment(&segment))
        }

        deinit {
            gst_element_set_state(bin, GST_STATE_NULL)
            gst_object_unref(bin)
        }

        @discardableResult
        func send(_ text: String) -> FlowResult { start.chain(Buffer(copying: text.utf8) ?? Buffer()) }

        func finish() { start.take(.endOfStream()) }

        private static func pad(
            _ bin: UnsafeMutablePointer<GstElement>, _ element: String, _ pad: String
        ) throws -> PadReference {
            let child = try #require(gst_bin_get_by_name(ek_as_bin(bin), element))
            defer { gst_object_unref(child) }
            return try #require(ElementReference(child).pad(pad))
        }
    }

    @Test(arguments: [true, false]) func anEndBeforeMediaPassesAsAsked(passes: Bool) throws {
        let stream = try Stream()
        stream.middle.gateEndBeforeBuffers { passes }
        stream.finish()
        #expect(stream.end.hasEnded == passes)
    }

    @Test func anEndBehindMediaPasses() throws {
        let stream = try Stream()
        stream.middle.gateEndBeforeBuffers { false }
        stream.send("media")
        stream.finish()
        #expect(stream.end.hasEnded)
    }

    @Test(arguments: [true, false]) func aBufferPassesAsAsked(passes: Bool) throws {
        let stream = try Stream()
        var hasArrived = false
        stream.end.probeNextBuffer { hasArrived = true }
        _ = stream.middle.gateBuffers { passes }
        #expect(stream.send("media") == .ok)
        #expect(hasArrived == passes)
    }

    /// The link comes after the gate's look, and before the buffer would leave.
    @Test func aBufferOfAPadWithoutALinkPassesNoNewOne() throws {
        let stream = try Stream()
        var (questions, arrivals) = (0, 0)
        let (middle, end) = (stream.middle, stream.end)
        gst_pad_unlink(middle.pointer, end.pointer)
        _ = middle.gateBuffers {
            questions += 1
            return true
        }
        middle.probeNextBuffer { gst_pad_link(middle.pointer, end.pointer) }
        end.probeNextBuffer { arrivals += 1 }
        #expect(stream.send("media") == .notLinked)
        #expect(questions == 0 && arrivals == 0)

        gst_pad_link(middle.pointer, end.pointer)
        #expect(stream.send("media") == .ok)
        #expect(questions == 1 && arrivals == 1)
    }
}
