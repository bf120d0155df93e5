// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

extension Pad {
    /// Has queries about caps, and on a sink pad about allocation, answered by what is on the element's other side.
    public func proxyQueries() {
        ek_pad_set_proxy(pointer, gst_pad_get_direction(pointer) == GST_PAD_SINK ? 1 : 0)
    }

    /// Runs `body` while no other thread is inside this sink pad with a buffer or a serialized event. The calling thread
    /// may be in it.
    public func whileIdle(_ body: () -> Void) {
        // SAFETY: the lock lives as long as the pad, which the element keeps.
        g_rec_mutex_lock(&pointer.pointee.stream_rec_lock)
        defer { g_rec_mutex_unlock(&pointer.pointee.stream_rec_lock) }
        body()
    }

    /// The same where no thread is inside at this moment; false, with nothing done, where one is.
    public func ifIdle(_ body: () -> Void) -> Bool {
        // SAFETY: the lock lives as long as the pad, which the element keeps.
        guard g_rec_mutex_trylock(&pointer.pointee.stream_rec_lock) != 0 else { return false }
        defer { g_rec_mutex_unlock(&pointer.pointee.stream_rec_lock) }
        body()
        return true
    }

    /// Starts a flush of what is behind this source pad, of which no bin gets to know where a `GstBaseSink` is there.
    /// Otherwise the sink loses its state, and the bins around it bring it back to PLAYING when it has prerolled. They
    /// do not where they are still busy with the flush before: the sink then stays paused in a pipeline that plays.
    public func pushStartOfFlushKeepingState() {
        guard let sink = ek_base_sink_behind(pointer) else {
            push(.startOfFlush())
            return
        }
        defer { gst_object_unref(UnsafeMutableRawPointer(sink)) }
        let loses = gst_base_sink_is_async_enabled(sink) != 0
        if loses { gst_base_sink_set_async_enabled(sink, 0) }
        push(.startOfFlush())
        if loses { gst_base_sink_set_async_enabled(sink, 1) }
    }

    /// Whether what is behind this source pad takes such media.
    public func peerAccepts(_ caps: Caps) -> Bool {
        caps.withPointer { gst_pad_peer_query_accept_caps(pointer, $0) != 0 }
    }

    /// Whether what is behind this source pad has source pads itself. Of a demuxer, its own thread asks.
    public var peerHasOutputs: Bool {
        guard let peer = gst_pad_get_peer(pointer) else { return false }
        defer { gst_object_unref(UnsafeMutableRawPointer(peer)) }
        guard let element = gst_pad_get_parent_element(peer) else { return false }
        defer { gst_object_unref(UnsafeMutableRawPointer(element)) }
        return element.pointee.numsrcpads > 0
    }

    /// Sends the sticky events, but the end of the stream, that came to this sink pad and that `source` lost in a flush.
    public func resendStickyEvents(to source: Pad) { ek_resend_sticky_events(pointer, source.pointer) }

    /// Whether the end of the stream came to this sink pad.
    public var hasEnded: Bool { ek_pad_has_ended(pointer) != 0 }
}

extension Event {
    /// Nothing comes between `time` and its end, in nanoseconds.
    public static func gap(at time: UInt64, duration: UInt64?) -> Event {
        GStreamer.initialize()
        let duration = duration.map { GstClockTime($0) } ?? GstClockTime.max
        return Event(owning: gst_event_new_gap(GstClockTime(time), duration))
    }
}

extension Caps {
    /// Whether the media of these caps lies in plain memory.
    public var isInSystemMemory: Bool { withPointer { ek_caps_are_in_system_memory($0) != 0 } }

    /// The size of the frames, in pixels.
    public var frameSize: (width: Int, height: Int)? {
        var (width, height): (Int32, Int32) = (0, 0)
        guard withPointer({ ek_video_size($0, &width, &height) }) != 0 else { return nil }
        return (Int(width), Int(height))
    }
}

extension Buffer {
    /// A frame in one colour, in plain memory. Nil where the caps are no raw video of a known format.
    public init?(plainFrame caps: Caps, isWhite: Bool) {
        guard let pointer = caps.withPointer({ ek_video_plain_frame($0, isWhite ? 1 : 0) }) else { return nil }
        self.init(owning: pointer)
    }

    /// A copy of this frame, in plain memory, with no more detail than a frame of so many pixels has. Nil where it
    /// cannot be read.
    public borrowing func constricted(_ caps: Caps, pixels: Int) -> Buffer? {
        withPointer { source in
            caps.withPointer { ek_video_constricted(source, $0, guint64(max(pixels, 0))) }
        }.map { Buffer(owning: $0) }
    }

    /// Another buffer with this one's bytes, which are shared, and the times of a third.
    public borrowing func sharingBytes(presentationTime: UInt64?, duration: UInt64?) -> Buffer? {
        guard let copy = withPointer({ gst_buffer_copy($0) }) else { return nil }
        copy.pointee.pts = presentationTime.map { GstClockTime($0) } ?? GstClockTime.max
        copy.pointee.duration = duration.map { GstClockTime($0) } ?? GstClockTime.max
        return Buffer(owning: copy)
    }
}
