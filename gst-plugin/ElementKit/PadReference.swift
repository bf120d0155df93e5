// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// A pad that another element made, with a reference to it. Thread-safe.
public final class PadReference: @unchecked Sendable {
    // SAFETY: GstPad does its own locking; only such functions are called.

    /// Good for as long as this object is.
    public let pointer: UnsafeMutablePointer<GstPad>

    /// Takes over the caller's reference.
    public init(owning pointer: UnsafeMutablePointer<GstPad>) { self.pointer = pointer }
    /// Takes a reference of its own.
    public init(sharing pointer: UnsafeMutablePointer<GstPad>) {
        gst_object_ref(UnsafeMutableRawPointer(pointer))
        self.pointer = pointer
    }

    deinit { gst_object_unref(UnsafeMutableRawPointer(pointer)) }
    /// The name in its element, such as `src`.
    public var name: String {
        guard let text = gst_object_get_name(ek_as_object(pointer)) else { return "" }
        defer { g_free(text) }
        return String(cString: text)
    }
    /// The caps of the last caps event that passed; nil before.
    public var currentCaps: Caps? { gst_pad_get_current_caps(pointer).map { Caps(owning: $0) } }

    /// Where the stream comes from, as the other side answers a URI query. `base` is where redirects led to.
    public func peerURI() -> (uri: String, base: String)? {
        guard let query = gst_query_new_uri() else { return nil }
        defer { ek_mini_object_unref(query) }
        guard gst_pad_peer_query(pointer, query) != 0 else { return nil }
        var uri: UnsafeMutablePointer<gchar>?
        var redirection: UnsafeMutablePointer<gchar>?
        gst_query_parse_uri(query, &uri)
        gst_query_parse_uri_redirection(query, &redirection)
        defer {
            g_free(uri)
            g_free(redirection)
        }
        guard let uri else { return nil }
        let text = String(cString: uri)
        return (text, redirection.map { String(cString: $0) } ?? text)
    }

    /// Gives a buffer to the pad, a sink pad, as its peer does.
    public func chain(_ buffer: consuming Buffer) -> FlowResult { FlowResult(gst_pad_chain(pointer, buffer.release())) }

    /// Where the stream of a ghost source pad comes in: the other end of it, a sink pad. Nil for other pads.
    public var entrance: PadReference? { ek_ghost_pad_entrance(pointer).map { PadReference(owning: $0) } }

    /// What the last push from the pad, a source pad, has returned.
    public var lastFlow: FlowResult { FlowResult(gst_pad_get_last_flow_return(pointer)) }

    /// The pad on the other side of the link, at this moment.
    public var peer: PadReference? { gst_pad_get_peer(pointer).map { PadReference(owning: $0) } }

    /// Runs `body` while no other thread is inside the pad, a sink pad, with a buffer or a serialized event.
    public func whileIdle(_ body: () -> Void) {
        // SAFETY: the lock lives as long as the pad, which `self` keeps.
        g_rec_mutex_lock(&pointer.pointee.stream_rec_lock)
        defer { g_rec_mutex_unlock(&pointer.pointee.stream_rec_lock) }
        body()
    }

    /// The segment that was last sent out of the pad or came to it.
    public var segmentEvent: Event? {
        gst_pad_get_sticky_event(pointer, GST_EVENT_SEGMENT, 0).map { Event(owning: $0) }
    }

    /// Waits until no other thread is inside the pad, a sink pad, with a buffer or an event; for so many milliseconds at
    /// most. Returns whether that came to be.
    public func waitUntilIdle(milliseconds: Int) -> Bool {
        for attempt in 0...milliseconds {
            if attempt > 0 { g_usleep(1000) }
            // SAFETY: the lock lives as long as the pad, which `self` keeps.
            guard g_rec_mutex_trylock(&pointer.pointee.stream_rec_lock) != 0 else { continue }
            g_rec_mutex_unlock(&pointer.pointee.stream_rec_lock)
            return true
        }
        return false
    }

    /// Whether the end of the stream came to the pad or was sent out of it.
    public var hasEnded: Bool {
        gst_pad_get_sticky_event(pointer, GST_EVENT_EOS, 0).map { Event(owning: $0) } != nil
    }

    /// Gives an event to the pad, a sink pad, as its peer does.
    @discardableResult
    public func take(_ event: consuming Event) -> Bool { gst_pad_send_event(pointer, event.release()) != 0 }

    /// Sends an event out of the pad, a source pad.
    @discardableResult
    public func push(_ event: consuming Event) -> Bool { gst_pad_push_event(pointer, event.release()) != 0 }

    /// Whether both are references to one pad.
    public func isSame(as other: PadReference) -> Bool { pointer == other.pointer }
}

/// A reference that does not keep the pad alive. Thread-safe.
public final class WeakPad: @unchecked Sendable {
    // SAFETY: GWeakRef is thread-safe; the storage is freed only in deinit.
    private let reference = UnsafeMutablePointer<GWeakRef>.allocate(capacity: 1)

    /// Does not keep the pad alive.
    public init(_ pad: PadReference) { g_weak_ref_init(reference, UnsafeMutableRawPointer(pad.pointer)) }

    deinit {
        g_weak_ref_clear(reference)
        reference.deallocate()
    }

    /// The pad; nil when it is gone.
    public var pad: PadReference? {
        g_weak_ref_get(reference).map { PadReference(owning: $0.assumingMemoryBound(to: GstPad.self)) }
    }
}

extension PadReference {
    /// Puts a new element into a stream that is under way: between the typefinder of the `parsebin` whose sink pad this is,
    /// and the element that this one chose. The bin owns the new one from then on.
    ///
    /// Call it on the thread that feeds the pad, between two buffers, while the bin is at PAUSED or PLAYING. The new element
    /// gets the sticky events of the stream before the next buffer. Returns false where the bin has no such place; it is as
    /// it was then, and the element is gone.
    public func insertBehindTypefinder(_ element: ElementReference) -> Bool {
        // A new element floats.
        gst_object_ref_sink(UnsafeMutableRawPointer(element.pointer))
        defer { gst_object_unref(UnsafeMutableRawPointer(element.pointer)) }
        guard let arrival = entrance?.peer, let finder = gst_pad_get_parent_element(arrival.pointer) else {
            return false
        }
        defer { gst_object_unref(UnsafeMutableRawPointer(finder)) }
        guard ElementReference(finder).factoryName == "typefind", let source = ElementReference(finder).pad("src"),
            let next = source.peer, let sink = element.pad("sink"), let exit = element.pad("src"),
            let parent = gst_object_get_parent(ek_as_object(finder))
        else { return false }
        defer { gst_object_unref(UnsafeMutableRawPointer(parent)) }
        let bin = ek_as_bin(UnsafeMutableRawPointer(parent))
        guard gst_bin_add(bin, element.pointer) != 0 else { return false }
        gst_pad_unlink(source.pointer, next.pointer)
        let isThere =
            Self.link(exit, next) && gst_element_sync_state_with_parent(element.pointer) != 0
            && Self.link(source, sink)
        if isThere { return true }
        gst_element_set_state(element.pointer, GST_STATE_NULL)
        // Takes its links away too.
        gst_bin_remove(bin, element.pointer)
        _ = Self.link(source, next)
        return false
    }

    private static func link(_ source: PadReference, _ sink: PadReference) -> Bool {
        gst_pad_link_full(source.pointer, sink.pointer, GST_PAD_LINK_CHECK_NOTHING) == GST_PAD_LINK_OK
    }
}

/// Where a stream may go from a pad.
extension PadReference {
    /// The pads to which what comes to this one, a sink pad, may go on: through its element, or through the border of a bin.
    public var internalLinks: [PadReference] {
        guard let list = ek_internal_links(pointer) else { return [] }
        defer { g_ptr_array_unref(list) }
        return Self.pads(in: list)
    }

    /// The element whose pad this is; nil for the inner end of a bin's pad, and where the element is gone.
    public var element: SharedElement? { gst_pad_get_parent_element(pointer).map { SharedElement(owning: $0) } }

    /// Calls `body` with the pad each time its link is gone, on the thread that takes it away, before another can be made
    /// there. Ends when the last reference to the watch goes.
    public func watchLink(_ body: @escaping (PadReference) -> Void) -> PadSignalWatch {
        // SAFETY: GLib keeps the pad while it calls.
        let handler = connectPadSignal("unlinked", of: pointer) { [pointer] _ in body(PadReference(sharing: pointer)) }
        return PadSignalWatch(self, handler)
    }

    /// Calls `body` with the pad each time it has got other caps, on the thread that brings them; with a source pad, before
    /// they leave it. Ends when the last reference to the watch goes.
    public func watchCaps(_ body: @escaping (PadReference) -> Void) -> PadSignalWatch {
        // SAFETY: as above.
        let handler = connectNotice(of: "caps", pointer) { [pointer] in body(PadReference(sharing: pointer)) }
        return PadSignalWatch(self, handler)
    }

    /// Whether the pad was made on request, as the sink pads of a funnel or a multiqueue are.
    public var isRequested: Bool { ek_has_presence(pointer, GST_PAD_REQUEST) != 0 }

    /// Whether its element has the pad from the start.
    public var isAlwaysThere: Bool { ek_has_presence(pointer, GST_PAD_ALWAYS) != 0 }

    /// What the pad's template allows.
    public var templateCaps: Caps { gst_pad_get_pad_template_caps(pointer).map { Caps(owning: $0) } ?? .any }

    fileprivate static func pads(in list: UnsafeMutablePointer<GPtrArray>) -> [PadReference] {
        // SAFETY: the array holds pads, with references of its own.
        (0..<Int(list.pointee.len)).compactMap { list.pointee.pdata[$0] }
            .map { PadReference(sharing: $0.assumingMemoryBound(to: GstPad.self)) }
    }
}

/// An element that another one made, with a reference to it. Thread-safe.
public final class SharedElement: @unchecked Sendable {
    // SAFETY: GstElement is thread-safe where its API says so; only such functions are called.
    private let pointer: UnsafeMutablePointer<GstElement>

    /// Takes over the caller's reference.
    public init(owning pointer: UnsafeMutablePointer<GstElement>) { self.pointer = pointer }

    deinit { gst_object_unref(UnsafeMutableRawPointer(pointer)) }

    /// Good for as long as this object is.
    public var reference: ElementReference { ElementReference(pointer) }

    /// The Swift object, if the element is one of this kit.
    public var implementation: Element? { Element.implementation(of: pointer) }

    /// The bin around the element; nil for the outermost one.
    public var parent: SharedElement? {
        gst_object_get_parent(ek_as_object(pointer)).map {
            // SAFETY: elements have elements around them and nothing else.
            SharedElement(owning: UnsafeMutableRawPointer($0).assumingMemoryBound(to: GstElement.self))
        }
    }

    /// Whether the element says that it is where a stream ends, or has such an element in it.
    public var isSink: Bool { ek_is_flagged_as_sink(pointer) != 0 }

    /// Whether it adds source pads itself, as a demuxer does.
    public var addsSourcePads: Bool { ek_has_source_template(pointer, GST_PAD_SOMETIMES) != 0 }

    /// Whether source pads come on request, as with a tee.
    public var givesSourcePads: Bool { ek_has_source_template(pointer, GST_PAD_REQUEST) != 0 }

    /// The source pads at this moment.
    public var sourcePads: [PadReference] {
        guard let list = ek_source_pads(pointer) else { return [] }
        defer { g_ptr_array_unref(list) }
        return PadReference.pads(in: list)
    }

    /// Whether both are references to one element.
    public func isSame(as other: SharedElement) -> Bool { pointer == other.pointer }

    /// Calls `body` with every source pad that comes, on the thread that adds it, until the watch is gone.
    public func watchSourcePads(_ body: @escaping (PadReference) -> Void) -> PadsWatch { PadsWatch(self, body) }
}

/// Watches for source pads that come to an element. Ends when the last reference to it goes. Thread-safe.
public final class PadsWatch: Sendable {
    /// The element that is watched.
    public let element: SharedElement
    private let handler: gulong

    fileprivate init(_ element: SharedElement, _ body: @escaping (PadReference) -> Void) {
        self.element = element
        handler = element.reference.onPadAdded { pad in
            if gst_pad_get_direction(pad.pointer) == GST_PAD_SRC { body(pad) }
        }
    }

    // A call of the handler that is under way goes on.
    deinit { g_signal_handler_disconnect(UnsafeMutableRawPointer(element.reference.pointer), handler) }
}

/// Watches a pad's links or caps. Ends when the last reference to it goes. Thread-safe.
public final class PadSignalWatch: @unchecked Sendable {
    // SAFETY: constants; GLib takes the handler away once.

    /// The pad that is watched.
    public let pad: PadReference
    private let handler: gulong

    fileprivate init(_ pad: PadReference, _ handler: gulong) {
        self.pad = pad
        self.handler = handler
    }

    // A call of the handler that is under way goes on.
    deinit { g_signal_handler_disconnect(UnsafeMutableRawPointer(pad.pointer), handler) }
}
