// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// Buffers for elements that write their output anew, from the allocator that downstream asks for.
///
/// Sizes are rounded up to classes, four to each power of two, and each class keeps its own pool: a stream of samples
/// of all sizes reuses memory without holding the largest size for each. Not thread-safe.
public final class OutputMemory {
    /// Why there is no buffer.
    public enum Failure: Error, Sendable {
        /// Downstream wants memory that the CPU may not see.
        case notMappable
        /// The allocator gave nothing.
        case outOfMemory
        /// Downstream has all buffers of its pool in use.
        case exhausted
    }

    // SAFETY: each pool and the allocator are one reference that this object owns and `reset` gives back; buffers hold
    // their own.
    private static let largestPooled = 4 << 20
    private var pools: [Int: UnsafeMutablePointer<GstBufferPool>] = [:]
    private var allocator: UnsafeMutablePointer<GstAllocator>?
    private var parameters = GstAllocationParams()
    private var wantsSecureMemory = false
    /// What downstream proposes, and the size of its buffers in bytes.
    private var proposedPool: UnsafeMutablePointer<GstBufferPool>?
    private var proposedSize = 0

    /// The default allocator's memory, until `negotiate` finds what downstream wants.
    public init() {
        GStreamer.initialize()
        gst_allocation_params_init(&parameters)
    }

    deinit { reset() }

    /// Asks the other side of `pad` which allocator or pool it wants for these caps. Call it for each change of caps.
    /// False where there was no answer, or nothing in it.
    @discardableResult
    public func negotiate(_ caps: Caps, on pad: Pad) -> Bool {
        reset()
        guard let query = caps.withPointer({ gst_query_new_allocation($0, 1) }) else { return false }
        defer { ek_mini_object_unref(query) }
        guard gst_pad_peer_query(pad.pointer, query) != 0 else { return false }
        if gst_query_get_n_allocation_params(query) > 0 {
            gst_query_parse_nth_allocation_param(query, 0, &allocator, &parameters)
            wantsSecureMemory = !Self.isMappable(allocator, parameters)
        }
        if gst_query_get_n_allocation_pools(query) > 0 { takePool(of: query, for: caps) }
        return allocator != nil || proposedPool != nil
    }

    /// A pool whose buffers have no size says nothing of samples, which have all sizes.
    private func takePool(of query: UnsafeMutablePointer<GstQuery>, for caps: Caps) {
        var pool: UnsafeMutablePointer<GstBufferPool>?
        var (size, minimum, maximum): (guint, guint, guint) = (0, 0, 0)
        gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &minimum, &maximum)
        guard let pool else { return }
        let configuration = gst_buffer_pool_get_config(pool)
        caps.withPointer { gst_buffer_pool_config_set_params(configuration, $0, size, minimum, maximum) }
        if allocator != nil { gst_buffer_pool_config_set_allocator(configuration, allocator, &parameters) }
        guard size > 0, gst_buffer_pool_set_config(pool, configuration) != 0,
            gst_buffer_pool_set_active(pool, 1) != 0
        else {
            gst_object_unref(UnsafeMutableRawPointer(pool))
            return
        }
        proposedPool = pool
        proposedSize = Int(size)
        guard let probe = acquire(from: pool) else { return }
        if ek_buffer_is_mappable(probe) == 0 { wantsSecureMemory = true }
        ek_mini_object_unref(probe)
    }

    /// Nil at once where all of its buffers are in use: the other side decides how long that is.
    private func acquire(from pool: UnsafeMutablePointer<GstBufferPool>) -> UnsafeMutablePointer<GstBuffer>? {
        var buffer: UnsafeMutablePointer<GstBuffer>?
        var how = GstBufferPoolAcquireParams()
        how.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT
        return gst_buffer_pool_acquire_buffer(pool, &buffer, &how) == GST_FLOW_OK ? buffer : nil
    }

    static func isMappable(_ allocator: UnsafeMutablePointer<GstAllocator>?, _ parameters: GstAllocationParams) -> Bool
    {
        var parameters = parameters
        guard allocator != nil, let probe = gst_allocator_alloc(allocator, 16, &parameters) else { return true }
        defer { gst_memory_unref(probe) }
        return ek_memory_is_mappable(probe) != 0
    }

    /// Whether downstream's memory can be written by the CPU.
    public var isMappable: Bool { !wantsSecureMemory }

    /// Whether downstream takes any memory.
    public var isAnyWelcome: Bool {
        !wantsSecureMemory && proposedPool == nil && allocator == nil && parameters.align == 0 && parameters.prefix == 0
            && parameters.padding == 0
    }

    /// A buffer of `size` bytes whose content is not defined. It comes from the pool that downstream proposes, if one that is
    /// large enough is free, else from downstream's allocator. Throws `notMappable` for secure memory, `outOfMemory` if there
    /// is no memory.
    public func makeBuffer(size: Int) throws(Failure) -> Buffer {
        guard !wantsSecureMemory else { throw .notMappable }
        if let buffer = makeProposedBuffer(size: size) { return buffer }
        guard size <= Self.largestPooled, let pool = pool(for: Self.sizeClass(size)) else {
            return try makeAllocatedBuffer(size: size)
        }
        var buffer: UnsafeMutablePointer<GstBuffer>?
        guard gst_buffer_pool_acquire_buffer(pool, &buffer, nil) == GST_FLOW_OK, let buffer else {
            throw .outOfMemory
        }
        gst_buffer_set_size(buffer, gssize(size))
        return Buffer(owning: buffer)
    }

    /// A buffer of `size` bytes in memory that the CPU may not see. Throws `exhausted` where downstream has all of its
    /// buffers in use and proposed no allocator for more.
    public func makeSecureBuffer(size: Int) throws(Failure) -> Buffer {
        if let buffer = makeProposedBuffer(size: size) { return buffer }
        guard allocator != nil else {
            throw proposedPool != nil && size <= proposedSize ? .exhausted : .outOfMemory
        }
        return try makeAllocatedBuffer(size: size)
    }

    private func makeProposedBuffer(size: Int) -> Buffer? {
        guard let proposedPool, size <= proposedSize, let buffer = acquire(from: proposedPool) else { return nil }
        gst_buffer_set_size(buffer, gssize(size))
        return Buffer(owning: buffer)
    }

    private func makeAllocatedBuffer(size: Int) throws(Failure) -> Buffer {
        guard let buffer = gst_buffer_new_allocate(allocator, gsize(size), &parameters) else { throw .outOfMemory }
        return Buffer(owning: buffer)
    }

    /// Gives the pools back. Buffers that are still on their way stay good.
    public func reset() {
        for pool in pools.values + [proposedPool].compactMap(\.self) {
            gst_buffer_pool_set_active(pool, 0)
            gst_object_unref(UnsafeMutableRawPointer(pool))
        }
        pools.removeAll()
        proposedPool = nil
        proposedSize = 0
        if let allocator { gst_object_unref(UnsafeMutableRawPointer(allocator)) }
        allocator = nil
        gst_allocation_params_init(&parameters)
        wantsSecureMemory = false
    }

    /// The smallest class that holds `size` bytes.
    private static func sizeClass(_ size: Int) -> Int {
        guard size > 1024 else { return 1024 }
        let power = Int.bitWidth - 1 - (size - 1).leadingZeroBitCount
        let step = 1 << (power - 2)
        return (size + step - 1) / step * step
    }

    private func pool(for size: Int) -> UnsafeMutablePointer<GstBufferPool>? {
        if let pool = pools[size] { return pool }
        guard let pool = gst_buffer_pool_new() else { return nil }
        let configuration = gst_buffer_pool_get_config(pool)
        gst_buffer_pool_config_set_params(configuration, nil, guint(size), 0, 0)
        gst_buffer_pool_config_set_allocator(configuration, allocator, &parameters)
        guard gst_buffer_pool_set_config(pool, configuration) != 0, gst_buffer_pool_set_active(pool, 1) != 0 else {
            gst_object_unref(UnsafeMutableRawPointer(pool))
            return nil
        }
        pools[size] = pool
        return pool
    }
}

/// The pool that a video frame came from, for frames of the same kind. Keeps the pool, and none of its frames.
public final class FramePool: @unchecked Sendable {
    // SAFETY: constant after `init`; pools do their own locking.
    private let pool: UnsafeMutablePointer<GstBufferPool>
    private let format: GstVideoFormat
    private let width: guint
    private let height: guint

    /// Nil for a frame without a pool.
    public init?(of frame: borrowing Buffer) {
        var (width, height): (guint, guint) = (0, 0)
        var format = GST_VIDEO_FORMAT_UNKNOWN
        let found = frame.withPointer { pointer -> UnsafeMutablePointer<GstBufferPool>? in
            format = ek_video_format_of(pointer, &width, &height)
            return pointer.pointee.pool
        }
        guard let found else { return nil }
        gst_object_ref(found)
        pool = found
        (self.format, self.width, self.height) = (format, width, height)
    }

    deinit { gst_object_unref(pool) }

    /// Whether the frame came from this pool.
    public func isOrigin(of frame: borrowing Buffer) -> Bool { frame.withPointer { $0.pointee.pool } == pool }

    /// A frame of these caps in one color. Nil where the pool has none left at this moment, or where the CPU may not
    /// write into its memory. Never waits.
    public func plainFrame(
        _ caps: Caps, isWhite: Bool, presentationTime: UInt64?, duration: UInt64?
    ) -> Buffer? {
        let frame = caps.withPointer { ek_video_plain_frame_from(pool, $0, format, width, height, isWhite ? 1 : 0) }
        guard let frame else { return nil }
        frame.pointee.pts = presentationTime.map { GstClockTime($0) } ?? GstClockTime.max
        frame.pointee.duration = duration.map { GstClockTime($0) } ?? GstClockTime.max
        return Buffer(owning: frame)
    }
}
