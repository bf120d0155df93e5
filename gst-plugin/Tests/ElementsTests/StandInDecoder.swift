// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementKit
import LatchkeyElementTestSupport

@testable import LatchkeyElements

/// A decryptor in front of a decoder that takes the place of a hardware, in a pipeline that the test feeds.
final class StandInDecoder: @unchecked Sendable {
    // SAFETY: everything is set up in `init`; GstElement is thread-safe.
    let pipeline: LaunchedPipeline
    let decoder: UnsafeMutablePointer<GstElement>
    let decryptor: UnsafeMutablePointer<GstElement>
    /// The source pad that the test pushes on.
    private let pad: UnsafeMutablePointer<GstPad>

    private static let register: Void = {
        TestProcess.prepare
        ekt_stand_in_register()
    }()

    /// `between` stands between decryptor and decoder; `key` is what the decryptor has for the KID.
    init(_ factory: String, between: String = "", key: [UInt8] = Media.key) throws {
        Self.register
        let keys = "keys=\(Media.keyIDText):\(Media.hex(key))"
        pipeline = try LaunchedPipeline(
            "latchkeycencdec name=decryptor \(keys) ! \(between) \(factory) name=decoder ! fakesink name=sink async=false",
            recorded: ["sink"])
        let bin = UnsafeMutableRawPointer(pipeline.pipeline).assumingMemoryBound(to: GstBin.self)
        guard let decoder = gst_bin_get_by_name(bin, "decoder"), let decryptor = gst_bin_get_by_name(bin, "decryptor"),
            let sink = gst_element_get_static_pad(decryptor, "sink"), let pad = gst_pad_new("source", GST_PAD_SRC)
        else { throw TestFailure("no decoder") }
        (self.decoder, self.decryptor, self.pad) = (decoder, decryptor, pad)
        gst_object_ref_sink(pad)
        gst_pad_set_active(pad, 1)
        defer { gst_object_unref(sink) }
        guard gst_pad_link(pad, sink) == GST_PAD_LINK_OK else { throw TestFailure("the decryptor cannot be linked") }
    }

    deinit {
        gst_element_set_state(pipeline.pipeline, GST_STATE_NULL)
        gst_object_unref(pad)
        gst_object_unref(decoder)
        gst_object_unref(decryptor)
    }

    func propose(
        allocator: UnsafeMutablePointer<GstAllocator>? = nil, pool: UnsafeMutablePointer<GstBufferPool>? = nil,
        size: Int = 0
    ) {
        ekt_stand_in_propose(decoder, allocator, pool, guint(size))
    }

    /// Plays, up to the first sample. Whether the caps were taken shows with that.
    func start(_ caps: String) throws {
        gst_element_set_state(pipeline.pipeline, GST_STATE_PLAYING)
        gst_pad_push_event(pad, gst_event_new_stream_start("stand-in"))
        try change(caps)
        gst_pad_push_event(pad, try Event.segment().release())
    }

    func change(_ caps: String) throws {
        guard let caps = Caps(caps) else { throw TestFailure("no caps: \(caps)") }
        gst_pad_push_event(pad, Event(caps: caps).release())
    }

    func push(_ buffer: consuming Buffer) -> FlowResult {
        FlowResult(rawValue: gst_pad_push(pad, buffer.release()).rawValue) ?? .custom
    }

    func push(copying bytes: [UInt8]) -> FlowResult {
        guard let buffer = Buffer(copying: bytes) else { return .error }
        return push(buffer)
    }

    func send(_ event: consuming Event) -> Bool { gst_pad_push_event(pad, event.release()) != 0 }

    var samples: [StreamRecorder.Sample] { pipeline.recorders["sink"]?.samples ?? [] }

    var askedCaps: Caps? {
        guard let text = ekt_stand_in_asked(decoder) else { return nil }
        defer { g_free(text) }
        return Caps(String(cString: text))
    }

    /// The caps that came to the decoder.
    var caps: Caps? {
        guard let sink = gst_element_get_static_pad(decoder, "sink") else { return nil }
        defer { gst_object_unref(sink) }
        return gst_pad_get_current_caps(sink).map { Caps(owning: $0) }
    }

    /// What upstream hears when it asks for an allocation.
    struct Answer {
        var allocators = 0
        var pools = 0
        var metas = 0
    }

    func ask(_ caps: String) throws -> Answer? {
        guard let caps = Caps(caps), let query = caps.withPointer({ gst_query_new_allocation($0, 1) }) else {
            throw TestFailure("no query")
        }
        defer { gst_mini_object_unref(UnsafeMutableRawPointer(query).assumingMemoryBound(to: GstMiniObject.self)) }
        guard gst_pad_peer_query(pad, query) != 0 else { return nil }
        return Answer(
            allocators: Int(gst_query_get_n_allocation_params(query)),
            pools: Int(gst_query_get_n_allocation_pools(query)), metas: Int(gst_query_get_n_allocation_metas(query)))
    }
}

/// A pool of buffers in ordinary or secure memory, as a decoder makes it.
func makePool(_ allocator: UnsafeMutablePointer<GstAllocator>? = nil) throws -> UnsafeMutablePointer<GstBufferPool> {
    guard let pool = gst_buffer_pool_new() else { throw TestFailure("no pool") }
    let configuration = gst_buffer_pool_get_config(pool)
    if let allocator { gst_buffer_pool_config_set_allocator(configuration, allocator, nil) }
    gst_buffer_pool_set_config(pool, configuration)
    return pool
}
