// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// What a chain or push function returns: `GstFlowReturn`.
public enum FlowResult: Int32, Sendable {
    /// The buffer was taken.
    case ok = 0
    /// The pad has no peer.
    case notLinked = -1
    /// The pad is flushing, or not active. No error: stop, and wait for what comes.
    case flushing = -2
    /// Nothing more is wanted, as behind the last byte or the end of a segment.
    case endOfStream = -3
    /// The caps do not fit, or there are none.
    case notNegotiated = -4
    /// The element that returns it has posted an error on the bus.
    case error = -5
    /// The operation cannot be done here.
    case notSupported = -6
    /// A value outside the known ones, as elements use among themselves.
    case custom = -100

    /// Whether the data flow failed, and an error has to be posted on the bus.
    public var isFatal: Bool { self == .notLinked || rawValue < FlowResult.endOfStream.rawValue }

    init(_ flow: GstFlowReturn) {
        self = flow.rawValue > 0 ? .ok : FlowResult(rawValue: Int32(flow.rawValue)) ?? .custom
    }

    var value: GstFlowReturn { GstFlowReturn(rawValue) }
}

/// What comes of asking for a range of bytes.
public enum PulledRange: ~Copyable {
    /// Given to the caller. May be shorter than asked for at the end of the file.
    case buffer(Buffer)
    /// Nothing was read; `endOfStream` behind the last byte.
    case failed(FlowResult)
}

/// A pad of an element. Its handlers are set once, in the element's `init`. The handlers are called on the threads that
/// bring the data; everything else may be called from any thread.
public final class Pad: @unchecked Sendable {
    // SAFETY: the handlers are constant after init; GstPad does its own locking.

    /// Owned by the element that the pad was added to.
    public let pointer: UnsafeMutablePointer<GstPad>
    private let element: ElementReference

    fileprivate var chain: ((consuming Buffer) -> FlowResult)?
    fileprivate var event: ((consuming Event) -> Bool)?
    fileprivate var query: ((borrowing Query) -> Bool?)?
    fileprivate var activation: ((Bool) -> Void)?
    fileprivate var pullActivation: ((Bool) -> Bool)?
    fileprivate var range: ((UInt64, Int) -> PulledRange)?
    fileprivate var loop: (() -> Void)?

    /// Makes the pad of a template of `element`; `Element.add` adds it.
    public init(_ template: PadTemplate, of element: ElementReference) {
        self.element = element
        let direction = template.direction == .sink ? GST_PAD_SINK : GST_PAD_SRC
        let padTemplate = gst_element_class_get_pad_template(
            ek_element_class(ek_object_class(element.pointer)), template.name)
        pointer =
            padTemplate.map { gst_pad_new_from_template($0, template.name) } ?? gst_pad_new(template.name, direction)
        gst_pad_set_element_private(pointer, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Buffers that arrive on a sink pad.
    public func onChain(_ handler: @escaping (consuming Buffer) -> FlowResult) {
        chain = handler
        gst_pad_set_chain_function_full(pointer, padChain, nil, nil)
    }

    /// Events that arrive. Return whether the event was handled.
    public func onEvent(_ handler: @escaping (consuming Event) -> Bool) {
        event = handler
        gst_pad_set_event_function_full(pointer, padEvent, nil, nil)
    }

    /// Queries that arrive. Return nil for GStreamer's default answer.
    public func onQuery(_ handler: @escaping (borrowing Query) -> Bool?) {
        query = handler
        gst_pad_set_query_function_full(pointer, padQuery, nil, nil)
    }

    /// The pad starts (true) or stops (false) in push mode. A stop must make blocked calls return.
    public func onActivation(_ handler: @escaping (Bool) -> Void) {
        activation = handler
        gst_pad_set_activatemode_function_full(pointer, padActivateMode, nil, nil)
    }

    // MARK: Pulling

    /// The pad starts (true) or stops (false) in pull mode: a source pad that is read anywhere, a sink pad that reads.
    /// Return whether that works; a pad without this handler has no pull mode. Set `onActivation` too.
    public func onPullActivation(_ handler: @escaping (Bool) -> Bool) { pullActivation = handler }

    /// A range of bytes, by offset and size, that is asked for on a source pad in pull mode.
    public func onRange(_ handler: @escaping (UInt64, Int) -> PulledRange) {
        range = handler
        gst_pad_set_getrange_function_full(pointer, padGetRange, nil, nil)
    }

    /// Starts or stops the pull mode of a sink pad and of what is in front of it.
    public func activatePull(_ isActive: Bool) -> Bool {
        gst_pad_activate_mode(pointer, GST_PAD_MODE_PULL, isActive ? 1 : 0) != 0
    }

    /// Asks for a range of bytes in front of a sink pad in pull mode. At the end there are fewer.
    public func pull(_ offset: UInt64, _ size: Int) -> PulledRange {
        guard let size = guint(exactly: size) else { return .failed(.error) }
        var buffer: UnsafeMutablePointer<GstBuffer>?
        let result = FlowResult(gst_pad_pull_range(pointer, guint64(offset), size, &buffer))
        guard result == .ok, let buffer else { return .failed(result == .ok ? .error : result) }
        return .buffer(Buffer(owning: buffer))
    }

    // MARK: Pushing

    /// Sends a buffer on, from the pad's streaming thread. Takes the buffer over; returns what downstream made of it.
    public func push(_ buffer: consuming Buffer) -> FlowResult { FlowResult(gst_pad_push(pointer, buffer.release())) }

    /// Sends an event on, and takes it over. Serialized events only from the streaming thread. False if no element took
    /// it.
    @discardableResult
    public func push(_ event: consuming Event) -> Bool { gst_pad_push_event(pointer, event.release()) != 0 }

    /// GStreamer's own handling of an event: forward it to the pads on the other side.
    public func forward(_ event: consuming Event) -> Bool {
        gst_pad_event_default(pointer, ek_as_object(element.pointer), event.release()) != 0
    }

    /// Keeps a sticky event for a pad that is linked later, without pushing it.
    public func store(_ event: consuming Event) {
        let owned = event.release()
        gst_pad_store_sticky_event(pointer, owned)
        ek_mini_object_unref(owned)
    }
    /// Whether there is a peer, at this moment.
    public var isLinked: Bool { gst_pad_is_linked(pointer) != 0 }

    // MARK: Caps
    /// The caps of the last caps event that passed; nil before.
    public var currentCaps: Caps? { gst_pad_get_current_caps(pointer).map { Caps(owning: $0) } }
    /// What the pad's template allows.
    public var templateCaps: Caps { gst_pad_get_pad_template_caps(pointer).map { Caps(owning: $0) } ?? .any }

    /// What the other side can take or give.
    public func peerCaps(filter: Caps? = nil) -> Caps {
        let caps =
            if let filter {
                filter.withPointer { gst_pad_peer_query_caps(pointer, $0) }
            } else {
                gst_pad_peer_query_caps(pointer, nil)
            }
        return caps.map { Caps(owning: $0) } ?? .any
    }

    /// Whether a source pad's other side has changed since it was last asked for its allocation. Cheap.
    public var needsReconfigure: Bool { ek_pad_needs_reconfigure(pointer) != 0 }

    /// Whether that was so; it is not any more.
    @discardableResult
    public func takeReconfigure() -> Bool { gst_pad_check_reconfigure(pointer) != 0 }

    /// Has the other side answer a query.
    public func askPeer(_ query: borrowing Query) -> Bool { gst_pad_peer_query(pointer, query.pointer) != 0 }

    // MARK: The pad's own thread

    /// What the pad's thread does, again and again.
    public func onTask(_ body: @escaping () -> Void) { loop = body }

    /// Starts the pad's thread, or wakes it; it runs until `pauseTask` or `stopTask`.
    ///
    /// Making the thread posts a message on the caller's thread, and an application may answer that at once: hold no
    /// lock here that a pad's or property's handler of the element takes.
    public func startTask() {
        gst_pad_start_task(pointer, padLoop, Unmanaged.passUnretained(self).toOpaque(), nil)
    }

    /// Makes the running call the last one, and waits for it unless called from it.
    public func pauseTask() { gst_pad_pause_task(pointer) }

    /// Ends the thread. Not to be called from it.
    public func stopTask() { gst_pad_stop_task(pointer) }

    fileprivate static func of(_ pad: UnsafeMutablePointer<GstPad>) -> Pad? {
        gst_pad_get_element_private(pad).map { Unmanaged<Pad>.fromOpaque($0).takeUnretainedValue() }
    }
}

private func padChain(
    _ pad: UnsafeMutablePointer<GstPad>?, _ parent: UnsafeMutablePointer<GstObject>?,
    _ buffer: UnsafeMutablePointer<GstBuffer>?
) -> GstFlowReturn {
    guard let pad, let buffer else { return GST_FLOW_ERROR }
    let owned = Buffer(owning: buffer)
    guard let chain = Pad.of(pad)?.chain else { return GST_FLOW_NOT_SUPPORTED }
    return chain(owned).value
}

private func padEvent(
    _ pad: UnsafeMutablePointer<GstPad>?, _ parent: UnsafeMutablePointer<GstObject>?,
    _ event: UnsafeMutablePointer<GstEvent>?
) -> gboolean {
    guard let pad, let event else { return 0 }
    let owned = Event(owning: event)
    guard let handler = Pad.of(pad)?.event else { return 0 }
    return handler(owned) ? 1 : 0
}

private func padQuery(
    _ pad: UnsafeMutablePointer<GstPad>?, _ parent: UnsafeMutablePointer<GstObject>?,
    _ query: UnsafeMutablePointer<GstQuery>?
) -> gboolean {
    guard let pad, let query else { return 0 }
    if let answer = Pad.of(pad)?.query?(Query(lending: query)) { return answer ? 1 : 0 }
    return gst_pad_query_default(pad, parent, query)
}

private func padActivateMode(
    _ pad: UnsafeMutablePointer<GstPad>?, _ parent: UnsafeMutablePointer<GstObject>?, _ mode: GstPadMode,
    _ active: gboolean
) -> gboolean {
    guard let pad else { return 0 }
    guard mode == GST_PAD_MODE_PUSH else { return Pad.of(pad)?.pullActivation?(active != 0) == true ? 1 : 0 }
    Pad.of(pad)?.activation?(active != 0)
    return 1
}

private func padGetRange(
    _ pad: UnsafeMutablePointer<GstPad>?, _ parent: UnsafeMutablePointer<GstObject>?, _ offset: guint64,
    _ size: guint, _ result: UnsafeMutablePointer<UnsafeMutablePointer<GstBuffer>?>?
) -> GstFlowReturn {
    guard let pad, let result, let handler = Pad.of(pad)?.range else { return GST_FLOW_NOT_SUPPORTED }
    switch handler(UInt64(offset), Int(size)) {
    case .failed(let flow): return flow.value
    case .buffer(let buffer):
        guard let target = result.pointee else {
            result.pointee = buffer.release()
            return GST_FLOW_OK
        }
        // The other side brought memory of its own.
        let filled = buffer.withBytes { gst_buffer_fill(target, 0, $0.baseAddress, gsize($0.count)) } ?? 0
        gst_buffer_set_size(target, gssize(filled))
        return filled == gsize(buffer.size) ? GST_FLOW_OK : GST_FLOW_ERROR
    }
}

private func padLoop(_ data: gpointer?) {
    if let data { Unmanaged<Pad>.fromOpaque(data).takeUnretainedValue().loop?() }
}

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
    /// A frame in one color, in plain memory. Nil where the caps are no raw video of a known format.
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

/// What is in front of a sink pad, as a file: how large it is, and whether it can be read elsewhere.
extension Pad {
    /// Whether what is in front of a sink pad can go on at another byte.
    public var canSeekBytes: Bool {
        guard let query = gst_query_new_seeking(GST_FORMAT_BYTES) else { return false }
        defer { ek_mini_object_unref(query) }
        var canSeek: gboolean = 0
        guard gst_pad_peer_query(pointer, query) != 0 else { return false }
        gst_query_parse_seeking(query, nil, &canSeek, nil, nil)
        return canSeek != 0
    }

    /// Has what is in front of a sink pad go on at a byte of the file. A flush comes, also on this thread, before the
    /// call returns, and then a segment.
    public func seekBytes(to offset: UInt64) -> Bool {
        guard let start = gint64(exactly: offset) else { return false }
        let event = gst_event_new_seek(
            1, GST_FORMAT_BYTES, GstSeekFlags(GST_SEEK_FLAG_FLUSH.rawValue), GST_SEEK_TYPE_SET, start,
            GST_SEEK_TYPE_NONE, -1)
        return gst_pad_push_event(pointer, event) != 0
    }

    /// The size of the file in front of a sink pad, in bytes; nil where that is not known, as for a live stream.
    public var peerByteSize: UInt64? {
        var size: gint64 = 0
        guard gst_pad_peer_query_duration(pointer, GST_FORMAT_BYTES, &size) != 0 else { return nil }
        return size > 0 ? UInt64(size) : nil
    }

    /// Whether what is in front of a sink pad can itself be read anywhere, in pull mode.
    public var canPullAnywhere: Bool {
        guard let query = gst_query_new_scheduling() else { return false }
        defer { ek_mini_object_unref(query) }
        return gst_pad_peer_query(pointer, query) != 0 && Query(lending: query).offersPullAnywhere
    }

    /// The fields of the request that the HTTP source in front of a sink pad has sent. Nil if no source reports it.
    public var httpRequestHeaders: [(name: String, value: String)]? {
        guard let event = ek_http_headers_in_front(pointer) else { return nil }
        return Event(owning: event).httpRequestHeaders
    }

    /// The `Set-Cookie` fields of the answer that this source reads; none if no source reports them.
    package var httpSetCookies: [String] {
        guard let event = ek_http_headers_in_front(pointer) else { return [] }
        return Event(owning: event).httpSetCookies
    }

    /// Whether the HTTP server in front of a sink pad says that it takes byte ranges, so far as the answer came. Nil if
    /// no source reports it: sources call themselves seekable before they know.
    public var serverTakesRanges: Bool? {
        guard let event = ek_http_headers_in_front(pointer) else { return nil }
        return Event(owning: event).serverTakesRanges
    }
}
