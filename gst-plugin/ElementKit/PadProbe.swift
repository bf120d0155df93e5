// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// Something that looks at what passes a pad. Stays until `remove`, or until the pad goes. Thread-safe.
public final class PadProbe: @unchecked Sendable {
    // SAFETY: constants; GStreamer removes a probe once.
    private let pad: PadReference
    private let id: gulong

    fileprivate init(_ pad: PadReference, _ id: gulong) {
        self.pad = pad
        self.id = id
    }

    /// Ends the probe. A call of it that is under way goes on. Call it once.
    public func remove() { gst_pad_remove_probe(pad.pointer, id) }

    /// Which way events travel.
    public enum Direction: Sendable { case upstream, downstream }
}

/// What is to happen after a look at a buffer.
public enum BufferLook: Sendable {
    /// It passes, and the next one is looked at, too.
    case more
    /// It passes, and no other one is looked at.
    case enough
    /// It does not pass; the sender takes it for delivered. The next one is looked at, too.
    case drop
}

extension PadReference {
    /// Sees every event of that direction, also flushes, on the thread that brings it. What `body` returns goes on in
    /// its place; nil drops the event and returns success to the sender.
    ///
    /// The pad keeps `body` until the probe ends, so `body` should hold its owner weakly or unowned.
    @discardableResult
    public func probeEvents(
        _ direction: PadProbe.Direction, _ body: @escaping (consuming Event) -> Event?
    ) -> PadProbe {
        let types =
            direction == .downstream ? GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM : GST_PAD_PROBE_TYPE_EVENT_UPSTREAM
        return add(types.rawValue | GST_PAD_PROBE_TYPE_EVENT_FLUSH.rawValue, EventProbe(direction, body), probeEvent)
    }

    /// Sees every buffer, also those that come in lists. What `body` returns goes on in its place; nil drops the buffer
    /// and returns success to the sender.
    @discardableResult
    public func probeBuffers(_ body: @escaping (consuming Buffer) -> Buffer?) -> PadProbe {
        let types = GST_PAD_PROBE_TYPE_BUFFER.rawValue | GST_PAD_PROBE_TYPE_BUFFER_LIST.rawValue
        return add(types, BufferProbe(body), probeBuffer)
    }

    /// Shows `body` each buffer, also those that come in lists, until it has seen enough. Then the probe ends, so that
    /// what comes later costs nothing. Of a list, all buffers pass or none.
    ///
    /// The pad keeps `body` until the probe ends, so `body` should hold its owner weakly or unowned.
    public func lookAtBuffers(_ body: @escaping (borrowing Buffer) -> BufferLook) {
        let types = GST_PAD_PROBE_TYPE_BUFFER.rawValue | GST_PAD_PROBE_TYPE_BUFFER_LIST.rawValue
        add(types, LookProbe(body), probeLook)
    }

    /// Calls `body` when the next buffer passes, or the next list of them, and ends then.
    public func probeNextBuffer(_ body: @escaping () -> Void) {
        let types = GST_PAD_PROBE_TYPE_BUFFER.rawValue | GST_PAD_PROBE_TYPE_BUFFER_LIST.rawValue
        add(types, NextBufferProbe(body), probeNextBufferOnce)
    }

    /// Answers the URI queries that the pad's own element sends, a sink pad's, with what `body` gives at that time; nil leaves
    /// a query to the other side.
    @discardableResult
    public func answerURIQueries(_ body: @escaping () -> String?) -> PadProbe {
        let types = GST_PAD_PROBE_TYPE_QUERY_UPSTREAM.rawValue | GST_PAD_PROBE_TYPE_PUSH.rawValue
        return add(types, QueryProbe(body), probeURIQuery)
    }

    /// Lets no buffer pass from now on. The sender takes each for delivered.
    public func dropBuffers() -> PadProbe {
        let types = GST_PAD_PROBE_TYPE_BUFFER.rawValue | GST_PAD_PROBE_TYPE_BUFFER_LIST.rawValue
        return PadProbe(
            self, gst_pad_add_probe(pointer, GstPadProbeType(types), { _, _, _ in GST_PAD_PROBE_DROP }, nil, nil))
    }

    /// Has buffers wait here from now on, on the thread that brings them. A flush or a stop of the pad ends the wait of the
    /// one that is there.
    public func holdBuffers() -> PadProbe {
        let types =
            GST_PAD_PROBE_TYPE_BUFFER.rawValue | GST_PAD_PROBE_TYPE_BUFFER_LIST.rawValue
            | GST_PAD_PROBE_TYPE_BLOCK.rawValue
        return PadProbe(
            self, gst_pad_add_probe(pointer, GstPadProbeType(types), { _, _, _ in GST_PAD_PROBE_OK }, nil, nil))
    }

    /// Asks `passes` about each buffer, or list of them, that leaves or enters the pad. What may not pass is dropped: a pushing
    /// sender takes it for delivered, and a pulling element gets an end. What is pushed out of a pad without a link is dropped
    /// unasked, and the sender is told that there is none.
    ///
    /// The pad keeps `passes` until the probe ends.
    public func gateBuffers(_ passes: @escaping () -> Bool) -> PadProbe {
        let types = GST_PAD_PROBE_TYPE_BUFFER.rawValue | GST_PAD_PROBE_TYPE_BUFFER_LIST.rawValue
        return add(types, GateProbe(passes), probeGate)
    }

    /// Asks `passes` about an end of the stream that comes before the first buffer, or list of them. What may not pass is
    /// dropped; the sender takes it for delivered. The probe ends with the first buffer, so that what comes later costs nothing.
    ///
    /// The pad keeps `passes` until the probe ends.
    public func gateEndBeforeBuffers(_ passes: @escaping () -> Bool) {
        let types =
            GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM.rawValue | GST_PAD_PROBE_TYPE_BUFFER.rawValue
            | GST_PAD_PROBE_TYPE_BUFFER_LIST.rawValue
        add(types, GateProbe(passes), probeEndBeforeBuffers)
    }

    @discardableResult
    private func add(_ types: UInt32, _ box: AnyObject, _ callback: GstPadProbeCallback) -> PadProbe {
        // SAFETY: the probe owns the box and gives it up when it ends.
        let id = gst_pad_add_probe(
            pointer, GstPadProbeType(types), callback, Unmanaged.passRetained(box).toOpaque(),
            { if let data = $0 { Unmanaged<AnyObject>.fromOpaque(data).release() } })
        return PadProbe(self, id)
    }
}

private final class EventProbe {
    let direction: PadProbe.Direction
    let body: (consuming Event) -> Event?

    init(_ direction: PadProbe.Direction, _ body: @escaping (consuming Event) -> Event?) {
        self.direction = direction
        self.body = body
    }
}

private final class BufferProbe {
    let body: (consuming Buffer) -> Buffer?
    init(_ body: @escaping (consuming Buffer) -> Buffer?) { self.body = body }
}

private final class LookProbe {
    let body: (borrowing Buffer) -> BufferLook
    init(_ body: @escaping (borrowing Buffer) -> BufferLook) { self.body = body }

    /// Nil: the buffer passes, and more is to be seen.
    func end(at pointer: UnsafeMutablePointer<GstBuffer>) -> GstPadProbeReturn? {
        let buffer = Buffer(owning: gst_buffer_ref(pointer))
        return switch body(buffer) {
        case .more: nil
        case .enough: GST_PAD_PROBE_REMOVE
        case .drop: GST_PAD_PROBE_DROP
        }
    }
}

private func probeLook(
    _ pad: UnsafeMutablePointer<GstPad>?, _ info: UnsafeMutablePointer<GstPadProbeInfo>?, _ data: gpointer?
) -> GstPadProbeReturn {
    guard let info, let data, let content = info.pointee.data else { return GST_PAD_PROBE_OK }
    let probe = Unmanaged<LookProbe>.fromOpaque(data).takeUnretainedValue()
    if info.pointee.type.rawValue & GST_PAD_PROBE_TYPE_BUFFER.rawValue != 0 {
        return probe.end(at: content.assumingMemoryBound(to: GstBuffer.self)) ?? GST_PAD_PROBE_OK
    }
    let list = OpaquePointer(content)
    for index in 0..<gst_buffer_list_length(list) {
        guard let buffer = gst_buffer_list_get(list, index), let end = probe.end(at: buffer) else { continue }
        return end
    }
    return GST_PAD_PROBE_OK
}

private final class NextBufferProbe {
    let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
}

private func probeNextBufferOnce(
    _ pad: UnsafeMutablePointer<GstPad>?, _ info: UnsafeMutablePointer<GstPadProbeInfo>?, _ data: gpointer?
) -> GstPadProbeReturn {
    if let data { Unmanaged<NextBufferProbe>.fromOpaque(data).takeUnretainedValue().body() }
    return GST_PAD_PROBE_REMOVE
}

private final class GateProbe {
    let passes: () -> Bool
    init(_ passes: @escaping () -> Bool) { self.passes = passes }
}

private func probeGate(
    _ pad: UnsafeMutablePointer<GstPad>?, _ info: UnsafeMutablePointer<GstPadProbeInfo>?, _ data: gpointer?
) -> GstPadProbeReturn {
    guard let pad, let info, let data else { return GST_PAD_PROBE_OK }
    let isPushed = info.pointee.type.rawValue & GST_PAD_PROBE_TYPE_PUSH.rawValue != 0
    guard !isPushed || gst_pad_get_direction(pad) == GST_PAD_SINK || gst_pad_is_linked(pad) != 0 else {
        // Not left to the pad, which looks for its link again later: another thread may link it before that.
        if let content = info.pointee.data { ek_mini_object_unref(content) }
        info.pointee.data = nil
        info.pointee.ABI.abi.flow_ret = GST_FLOW_NOT_LINKED
        return GST_PAD_PROBE_HANDLED
    }
    return Unmanaged<GateProbe>.fromOpaque(data).takeUnretainedValue().passes() ? GST_PAD_PROBE_OK : GST_PAD_PROBE_DROP
}

private func probeEndBeforeBuffers(
    _ pad: UnsafeMutablePointer<GstPad>?, _ info: UnsafeMutablePointer<GstPadProbeInfo>?, _ data: gpointer?
) -> GstPadProbeReturn {
    guard let info, let data, info.pointee.type.rawValue & GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM.rawValue != 0 else {
        return GST_PAD_PROBE_REMOVE
    }
    guard ek_probed_event_type(info) == GST_EVENT_EOS else { return GST_PAD_PROBE_OK }
    return Unmanaged<GateProbe>.fromOpaque(data).takeUnretainedValue().passes() ? GST_PAD_PROBE_OK : GST_PAD_PROBE_DROP
}

private final class QueryProbe {
    let body: () -> String?
    init(_ body: @escaping () -> String?) { self.body = body }
}

private func probeURIQuery(
    _ pad: UnsafeMutablePointer<GstPad>?, _ info: UnsafeMutablePointer<GstPadProbeInfo>?, _ data: gpointer?
) -> GstPadProbeReturn {
    guard let info, let data, let content = info.pointee.data else { return GST_PAD_PROBE_OK }
    let query = Query(lending: content.assumingMemoryBound(to: GstQuery.self))
    guard query.kind == .uri, let uri = Unmanaged<QueryProbe>.fromOpaque(data).takeUnretainedValue().body() else {
        return GST_PAD_PROBE_OK
    }
    query.answer(uri: uri)
    return GST_PAD_PROBE_HANDLED
}

private func probeEvent(
    _ pad: UnsafeMutablePointer<GstPad>?, _ info: UnsafeMutablePointer<GstPadProbeInfo>?, _ data: gpointer?
) -> GstPadProbeReturn {
    guard let info, let data, let event = info.pointee.data else { return GST_PAD_PROBE_OK }
    let probe = Unmanaged<EventProbe>.fromOpaque(data).takeUnretainedValue()
    let pointer = event.assumingMemoryBound(to: GstEvent.self)
    // The flush types select flushes of both directions.
    guard ek_event_is_downstream(pointer) != 0 || probe.direction == .upstream else { return GST_PAD_PROBE_OK }
    // SAFETY: a callback may take over the event, and says so by what it leaves in its place.
    if let next = probe.body(Event(owning: pointer)) {
        info.pointee.data = UnsafeMutableRawPointer(next.release())
        return GST_PAD_PROBE_OK
    }
    info.pointee.data = nil
    return GST_PAD_PROBE_HANDLED
}

private func probeBuffer(
    _ pad: UnsafeMutablePointer<GstPad>?, _ info: UnsafeMutablePointer<GstPadProbeInfo>?, _ data: gpointer?
) -> GstPadProbeReturn {
    guard let info, let data, let content = info.pointee.data else { return GST_PAD_PROBE_OK }
    let probe = Unmanaged<BufferProbe>.fromOpaque(data).takeUnretainedValue()
    // SAFETY: a callback may take over the buffer or the list, and says so by what it leaves in its place.
    if info.pointee.type.rawValue & GST_PAD_PROBE_TYPE_BUFFER.rawValue != 0 {
        if let next = probe.body(Buffer(owning: content.assumingMemoryBound(to: GstBuffer.self))) {
            info.pointee.data = UnsafeMutableRawPointer(next.release())
            return GST_PAD_PROBE_OK
        }
        info.pointee.data = nil
        return GST_PAD_PROBE_HANDLED
    }
    let list = OpaquePointer(content)
    let passed = gst_buffer_list_new()
    for index in 0..<gst_buffer_list_length(list) {
        guard let buffer = gst_buffer_list_get(list, index) else { continue }
        if let next = probe.body(Buffer(owning: gst_buffer_ref(buffer))) {
            gst_buffer_list_insert(passed, -1, next.release())
        }
    }
    ek_mini_object_unref(content)
    guard gst_buffer_list_length(passed) > 0 else {
        ek_mini_object_unref(UnsafeMutableRawPointer(passed))
        info.pointee.data = nil
        return GST_PAD_PROBE_HANDLED
    }
    info.pointee.data = passed.map { UnsafeMutableRawPointer($0) }
    return GST_PAD_PROBE_OK
}
