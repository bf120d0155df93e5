// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit

/// A pipeline in the words of gst-launch, with a record of what comes to some of its sinks.
public final class LaunchedPipeline: @unchecked Sendable {
    // SAFETY: everything is set up in `init`; GstElement is thread-safe.
    public let pipeline: UnsafeMutablePointer<GstElement>
    public let bus: MessageBus
    /// By the names of the elements.
    public let recorders: [String: StreamRecorder]

    /// `recorded` are the names of elements with a pad `sink`.
    public init(_ description: String, recorded: [String]) throws {
        TestProcess.prepare
        var error: UnsafeMutablePointer<GError>?
        guard let pipeline = gst_parse_launch(description, &error), error == nil,
            let bus = gst_element_get_bus(pipeline)
        else {
            defer { if let error { g_error_free(error) } }
            throw TestFailure("\(description): \(error.map { String(cString: $0.pointee.message) } ?? "no pipeline")")
        }
        gst_object_ref_sink(pipeline)
        self.pipeline = pipeline
        self.bus = MessageBus(owning: bus)
        var recorders: [String: StreamRecorder] = [:]
        for name in recorded {
            let bin = UnsafeMutableRawPointer(pipeline).assumingMemoryBound(to: GstBin.self)
            guard let element = gst_bin_get_by_name(bin, name) else { throw TestFailure("no element \(name)") }
            defer { gst_object_unref(element) }
            guard let pad = gst_element_get_static_pad(element, "sink") else { throw TestFailure("\(name): no pad") }
            defer { gst_object_unref(pad) }
            let recorder = StreamRecorder()
            recorder.attach(to: pad)
            recorders[name] = recorder
        }
        self.recorders = recorders
    }

    deinit {
        gst_element_set_state(pipeline, GST_STATE_NULL)
        gst_object_unref(pipeline)
    }

    /// Plays until the first error, or the end of all streams.
    public func play() throws -> BusMessage {
        gst_element_set_state(pipeline, GST_STATE_PLAYING)
        defer { gst_element_set_state(pipeline, GST_STATE_NULL) }
        return try bus.next { $0.type == "error" || $0.type == "eos" }
    }

    /// All bytes that came to an element.
    public func bytes(_ name: String) -> [UInt8] { recorders[name]?.samples.flatMap(\.bytes) ?? [] }
}
