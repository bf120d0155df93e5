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
