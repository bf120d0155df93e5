// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// One reference to a `GstEvent`, given back when the value goes.
public struct Event: ~Copyable, @unchecked Sendable {
    // SAFETY: the reference is owned by this value alone; events are immutable once sent.
    private let pointer: UnsafeMutablePointer<GstEvent>

    /// Takes over the caller's reference.
    public init(owning pointer: UnsafeMutablePointer<GstEvent>) { self.pointer = pointer }

    deinit { ek_mini_object_unref(pointer) }

    /// A CAPS event.
    public init(caps: Caps) { self.init(owning: caps.withPointer { gst_event_new_caps($0) }) }

    /// An end-of-stream event.
    public static func endOfStream() -> Event {
        GStreamer.initialize()
        return Event(owning: gst_event_new_eos())
    }

    /// What waits or is queued downstream is thrown away until `endOfFlush`.
    public static func startOfFlush() -> Event {
        GStreamer.initialize()
        return Event(owning: gst_event_new_flush_start())
    }

    /// Ends a flush. `resetTime`: running time starts from zero again.
    public static func endOfFlush(resetTime: Bool) -> Event {
        GStreamer.initialize()
        return Event(owning: gst_event_new_flush_stop(resetTime ? 1 : 0))
    }

    /// Another reference to the same event.
    public borrowing func share() -> Event { Event(owning: gst_event_ref(pointer)) }

    /// Hands the reference to the caller.
    public consuming func release() -> UnsafeMutablePointer<GstEvent> {
        let pointer = self.pointer
        discard self
        return pointer
    }

    /// Lends the event for the call; the event keeps its reference.
    public borrowing func withPointer<Result>(_ body: (UnsafeMutablePointer<GstEvent>) -> Result) -> Result {
        body(pointer)
    }

    /// What Swift code asks about most; everything else is `other`.
    public enum Kind: Sendable {
        /// Of `GstEventType`.
        case flushStart, flushStop, caps, segment, protection, endOfStream, streamStart, gap, other
    }
    /// What it is about, as far as elements here care.
    public var kind: Kind {
        switch GstEventType(UInt32(ek_event_type(pointer))) {
        case GST_EVENT_FLUSH_START: .flushStart
        case GST_EVENT_FLUSH_STOP: .flushStop
        case GST_EVENT_CAPS: .caps
        case GST_EVENT_SEGMENT: .segment
        case GST_EVENT_PROTECTION: .protection
        case GST_EVENT_EOS: .endOfStream
        case GST_EVENT_STREAM_START: .streamStart
        case GST_EVENT_GAP: .gap
        default: .other
        }
    }
    /// Whether it says that something further down is linked in another way than before. It travels upstream.
    public var isReconfigure: Bool { GstEventType(UInt32(ek_event_type(pointer))) == GST_EVENT_RECONFIGURE }
    /// Whether it is a seek, which travels upstream.
    public var isSeek: Bool { GstEventType(UInt32(ek_event_type(pointer))) == GST_EVENT_SEEK }

    /// Whether the event keeps its place among the buffers.
    public var isSerialized: Bool { ek_event_is_serialized(pointer) != 0 }
    /// Whether a pad stores the event.
    public var isSticky: Bool { ek_event_is_sticky(pointer) != 0 }

    /// Whether this asks for another position, and for what is on its way to be dropped.
    public var isFlushingSeek: Bool { ek_event_is_flushing_seek(pointer) != 0 }

    /// Where a seek in time goes to, in nanoseconds; nil for every other event.
    public var seekTarget: UInt64? {
        guard isSeek else { return nil }
        var format = GST_FORMAT_UNDEFINED
        var type = GST_SEEK_TYPE_NONE
        var start: gint64 = 0
        gst_event_parse_seek(pointer, nil, &format, nil, &type, &start, nil, nil)
        return format == GST_FORMAT_TIME && type == GST_SEEK_TYPE_SET ? UInt64(exactly: start) : nil
    }

    /// The same for all events of one action, such as a seek that goes to several sinks.
    public var sequenceNumber: UInt32 { gst_event_get_seqnum(pointer) }

    /// The caps of a CAPS event.
    public var caps: Caps? {
        guard kind == .caps else { return nil }
        var caps: UnsafeMutablePointer<GstCaps>?
        gst_event_parse_caps(pointer, &caps)
        return caps.map { Caps(sharing: $0) }
    }

    /// Where the bytes of a SEGMENT event start; nil for one that counts in time.
    public var byteSegmentStart: UInt64? {
        guard kind == .segment else { return nil }
        var segment: UnsafePointer<GstSegment>?
        gst_event_parse_segment(pointer, &segment)
        guard let segment, segment.pointee.format == GST_FORMAT_BYTES else { return nil }
        return UInt64(segment.pointee.start)
    }

    /// What a PROTECTION event carries.
    public struct Protection: Sendable {
        /// As the demuxer spells it: a UUID, or `unspecified-system-id`.
        public let systemID: String
        /// The initialization data, such as whole `pssh` boxes.
        public let data: [UInt8]
        /// `isobmff/moov`, `isobmff/moof`, `dash/mpd`, `smooth-streaming`, `matroskademux`, …
        public let origin: String

        /// For tests and for elements that make such events; nothing is checked.
        public init(systemID: String, data: [UInt8], origin: String) {
            self.systemID = systemID
            self.data = data
            self.origin = origin
        }
    }

    /// The content of a PROTECTION event.
    public var protection: Protection? {
        guard kind == .protection else { return nil }
        var systemID: UnsafePointer<CChar>?
        var data: UnsafeMutablePointer<GstBuffer>?
        var origin: UnsafePointer<CChar>?
        gst_event_parse_protection(pointer, &systemID, &data, &origin)
        guard let systemID else { return nil }
        let bytes = data.map { Buffer(owning: gst_buffer_ref($0)).copyBytes() } ?? []
        return Protection(
            systemID: String(cString: systemID), data: bytes, origin: origin.map { String(cString: $0) } ?? "")
    }

    /// The request fields of an `http-headers` event, by which HTTP sources tell what they sent. Nil for other events.
    /// Values of a field that was sent more than once stand in one text, as they mean the same in one field.
    public var httpRequestHeaders: [(name: String, value: String)]? {
        guard let structure = gst_event_get_structure(pointer), gst_structure_has_name(structure, "http-headers") != 0,
            let value = gst_structure_get_value(structure, "request-headers"),
            let fields = gst_value_get_structure(value)
        else { return nil }
        return (0..<gst_structure_n_fields(fields)).compactMap { index in
            guard let name = gst_structure_nth_field_name(fields, guint(index)) else { return nil }
            let field = String(cString: name)
            if let text = gst_structure_get_string(fields, name) { return (field, String(cString: text)) }
            guard let value = gst_structure_get_value(fields, name) else { return nil }
            let texts = Self.texts(value)
            // RFC 9110, 5.3; cookies alone have a separator of their own (RFC 6265, 5.4).
            let separator = field.lowercased() == "cookie" ? "; " : ", "
            return texts.isEmpty ? nil : (field, texts.joined(separator: separator))
        }
    }

    /// The strings of an array; none of any other value.
    private static func texts(_ value: UnsafePointer<GValue>) -> [String] {
        guard ek_value_holds(value, gst_value_array_get_type()) != 0 else { return [] }
        return (0..<gst_value_array_get_size(value)).compactMap { index in
            gst_value_array_get_value(value, index).flatMap { g_value_get_string($0) }.map { String(cString: $0) }
        }
    }

    /// The values of the `Set-Cookie` fields of the answer that an HTTP source reports in such an event.
    package var httpSetCookies: [String] {
        guard let structure = gst_event_get_structure(pointer), gst_structure_has_name(structure, "http-headers") != 0,
            let value = gst_structure_get_value(structure, "response-headers"),
            let fields = gst_value_get_structure(value)
        else { return [] }
        return (0..<gst_structure_n_fields(fields)).flatMap { index -> [String] in
            guard let name = gst_structure_nth_field_name(fields, guint(index)),
                String(cString: name).lowercased() == "set-cookie"
            else { return [] }
            if let text = gst_structure_get_string(fields, name) { return [String(cString: text)] }
            return gst_structure_get_value(fields, name).map(Self.texts) ?? []
        }
    }

    /// Whether the answer that an HTTP source reports in such an event says that the server takes byte ranges. Nil for
    /// other events.
    public var serverTakesRanges: Bool? {
        guard let structure = gst_event_get_structure(pointer), gst_structure_has_name(structure, "http-headers") != 0
        else { return nil }
        var status: guint = 0
        if gst_structure_get_uint(structure, "http-status-code", &status) != 0, status == 206 { return true }
        guard let value = gst_structure_get_value(structure, "response-headers"),
            let fields = gst_value_get_structure(value)
        else { return nil }
        return (0..<gst_structure_n_fields(fields)).contains { index in
            guard let name = gst_structure_nth_field_name(fields, guint(index)),
                String(cString: name).lowercased() == "accept-ranges",
                let text = gst_structure_get_string(fields, name)
            else { return false }
            return String(cString: text).lowercased().contains("bytes")
        }
    }
}
