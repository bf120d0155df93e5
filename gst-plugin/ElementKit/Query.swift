// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// A query while it is being answered. Not owned.
public struct Query: ~Copyable {
    // SAFETY: valid for the time of the handler's call, which is all that a borrow lasts.
    /// The query; valid during the handler's call only.
    public let pointer: UnsafeMutablePointer<GstQuery>

    init(lending pointer: UnsafeMutablePointer<GstQuery>) { self.pointer = pointer }

    /// What is asked, as far as elements here care.
    public enum Kind: Sendable { case acceptCaps, caps, allocation, scheduling, uri, other }
    /// What is asked.
    public var kind: Kind {
        switch GstQueryType(UInt32(ek_query_type(pointer))) {
        case GST_QUERY_ACCEPT_CAPS: .acceptCaps
        case GST_QUERY_CAPS: .caps
        case GST_QUERY_ALLOCATION: .allocation
        case GST_QUERY_URI: .uri
        case GST_QUERY_SCHEDULING: .scheduling
        default: .other
        }
    }

    /// The caps that an ACCEPT_CAPS query asks about.
    public var capsToAccept: Caps? {
        guard kind == .acceptCaps else { return nil }
        var caps: UnsafeMutablePointer<GstCaps>?
        gst_query_parse_accept_caps(pointer, &caps)
        return caps.map { Caps(sharing: $0) }
    }

    /// Answers a query of the kind `acceptCaps`.
    public func answerAcceptCaps(_ accepted: Bool) { gst_query_set_accept_caps_result(pointer, accepted ? 1 : 0) }

    /// The filter of a CAPS query.
    public var capsFilter: Caps? {
        guard kind == .caps else { return nil }
        var filter: UnsafeMutablePointer<GstCaps>?
        gst_query_parse_caps(pointer, &filter)
        return filter.map { Caps(sharing: $0) }
    }

    /// Answers a CAPS query, within its filter.
    public func answer(caps: Caps) {
        let filtered = capsFilter.map { $0.intersection(caps) } ?? caps
        filtered.withPointer { gst_query_set_caps_result(pointer, $0) }
    }

    /// Whether the query keeps its place among the buffers: who passes it on may have to wait for the other side.
    public var isSerialized: Bool { ek_query_is_serialized(pointer) != 0 }

    /// Whether the answer to a SCHEDULING query allows reading anywhere.
    public var offersPullAnywhere: Bool {
        kind == .scheduling
            && gst_query_has_scheduling_mode_with_flags(pointer, GST_PAD_MODE_PULL, GST_SCHEDULING_FLAG_SEEKABLE) != 0
    }

    /// Answers a SCHEDULING query: bytes can be read anywhere, from a source whose rate is limited.
    public func offerPullAnywhere() {
        let flags = GST_SCHEDULING_FLAG_SEEKABLE.rawValue | GST_SCHEDULING_FLAG_BANDWIDTH_LIMITED.rawValue
        gst_query_set_scheduling(pointer, GstSchedulingFlags(flags), 1, -1, 0)
        gst_query_add_scheduling_mode(pointer, GST_PAD_MODE_PULL)
    }

    /// Answers a URI query; GStreamer copies the text.
    public func answer(uri: String) { gst_query_set_uri(pointer, uri) }
}
