// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import LatchkeyOutputs

@testable import LatchkeyElements

/// A guard in front of a sink, in a pipeline that the test feeds.
final class GuardBench: @unchecked Sendable {
    // SAFETY: everything is set up in `init`; GstElement is thread-safe.
    let launched: LaunchedPipeline
    let outputGuard: GuardElement
    let frames: RenderedFrames
    /// The source pad that the test pushes on.
    let pad: UnsafeMutablePointer<GstPad>

    /// `between` stands between guard and sink.
    init(between: String = "", sink: String = "async=false") throws {
        launched = try LaunchedPipeline(
            "latchkeyguard name=guard outputs=application ! \(between) "
                + "fakesink name=screen sync=false signal-handoffs=true \(sink)", recorded: ["screen"])
        let bin = UnsafeMutableRawPointer(launched.pipeline).assumingMemoryBound(to: GstBin.self)
        guard let element = gst_bin_get_by_name(bin, "guard"), let screen = gst_bin_get_by_name(bin, "screen"),
            let outputGuard = GuardElement.implementation(of: element), let pad = gst_pad_new("source", GST_PAD_SRC),
            let sink = gst_element_get_static_pad(element, "sink")
        else { throw TestFailure("no guard") }
        // The pipeline keeps both.
        gst_object_unref(element)
        gst_object_unref(screen)
        self.outputGuard = outputGuard
        frames = RenderedFrames(of: screen)
        self.pad = pad
        gst_object_ref_sink(pad)
        gst_pad_set_active(pad, 1)
        defer { gst_object_unref(sink) }
        guard gst_pad_link(pad, sink) == GST_PAD_LINK_OK else { throw TestFailure("the guard cannot be linked") }
    }

    deinit {
        gst_element_set_state(launched.pipeline, GST_STATE_NULL)
        gst_object_unref(pad)
    }

    static let raw = "video/x-raw,format=I420,width=16,height=16,framerate=30/1"

    func start(_ state: GstState = GST_STATE_PLAYING, caps: String = raw) throws {
        gst_element_set_state(launched.pipeline, state)
        push(gst_event_new_stream_start("bench"))
        push(try Self.capsEvent(caps))
        push(try Self.segment())
    }

    static func capsEvent(_ text: String) throws -> UnsafeMutablePointer<GstEvent> {
        guard let caps = Caps(text) else { throw TestFailure("no caps: \(text)") }
        return Event(caps: caps).release()
    }

    static func segment() throws -> UnsafeMutablePointer<GstEvent> { try Event.segment().release() }

    @discardableResult
    func push(_ event: UnsafeMutablePointer<GstEvent>?) -> Bool { gst_pad_push_event(pad, event) != 0 }

    func flushStart() { push(gst_event_new_flush_start()) }
    func flushStop() { push(gst_event_new_flush_stop(1)) }

    /// A white frame.
    @discardableResult
    func pushFrame(at time: UInt64 = 0) throws -> GstFlowReturn {
        var bytes = [UInt8](repeating: ElementTests.GuardTests.white, count: 16 * 16)
        bytes += [UInt8](repeating: 128, count: 16 * 8)
        guard let buffer = Buffer(copying: bytes)?.release() else { throw TestFailure("no buffer") }
        buffer.pointee.pts = GstClockTime(time)
        buffer.pointee.duration = 33_333_333
        return gst_pad_push(pad, buffer)
    }

    /// Flush events that came to the sink.
    var flushes: [String] { launched.recorders["screen"]?.order.filter { $0.hasPrefix("flush") } ?? [] }

    /// The first byte of each frame that was rendered.
    var shown: [UInt8] { frames.all.filter { !$0.isPreroll }.map(\.luma) }

    func shows(_ luma: UInt8, from start: Int) -> Bool { frames.wait(from: start) { $0.contains { $0.luma == luma } } }
}
