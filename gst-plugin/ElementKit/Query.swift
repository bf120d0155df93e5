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

    /// Whether the query keeps its place among the buffers: an element that passes it on may have to wait for the other
    /// side.
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

extension Query {
    /// The caps that an ALLOCATION query is about.
    public var capsToAllocate: Caps? {
        guard kind == .allocation else { return nil }
        var caps: UnsafeMutablePointer<GstCaps>?
        var needsPool: gboolean = 0
        gst_query_parse_allocation(pointer, &caps, &needsPool)
        return caps.map { Caps(sharing: $0) }
    }

    /// Answers an ALLOCATION query with what the other side of `pad` says for `caps`: for elements whose output has other
    /// caps than their input. Memory that the CPU may not see is left out; a pool is tried for that. False where the
    /// other side does not answer.
    public func answerAllocation(for caps: Caps, by pad: Pad) -> Bool {
        var needsPool: gboolean = 0
        gst_query_parse_allocation(pointer, nil, &needsPool)
        guard let inner = caps.withPointer({ gst_query_new_allocation($0, needsPool) }) else { return false }
        defer { ek_mini_object_unref(inner) }
        guard gst_pad_peer_query(pad.pointer, inner) != 0 else { return false }
        for index in 0..<gst_query_get_n_allocation_metas(inner) {
            var parameters: UnsafePointer<GstStructure>?
            let api = gst_query_parse_nth_allocation_meta(inner, index, &parameters)
            gst_query_add_allocation_meta(pointer, api, parameters)
        }
        var isMappable = true
        for index in 0..<gst_query_get_n_allocation_params(inner) {
            var allocator: UnsafeMutablePointer<GstAllocator>?
            var parameters = GstAllocationParams()
            gst_query_parse_nth_allocation_param(inner, index, &allocator, &parameters)
            defer { if let allocator { gst_object_unref(UnsafeMutableRawPointer(allocator)) } }
            guard OutputMemory.isMappable(allocator, parameters) else {
                isMappable = false
                continue
            }
            gst_query_add_allocation_param(pointer, allocator, &parameters)
        }
        for index in 0..<gst_query_get_n_allocation_pools(inner) where isMappable {
            var pool: UnsafeMutablePointer<GstBufferPool>?
            var (size, minimum, maximum): (guint, guint, guint) = (0, 0, 0)
            gst_query_parse_nth_allocation_pool(inner, index, &pool, &size, &minimum, &maximum)
            defer { if let pool { gst_object_unref(UnsafeMutableRawPointer(pool)) } }
            gst_query_add_allocation_pool(pointer, pool, size, minimum, maximum)
        }
        return true
    }
}
