// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

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
