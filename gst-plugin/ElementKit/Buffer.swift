// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// One reference to a `GstBuffer`, given back when the value goes.
@frozen public struct Buffer: ~Copyable, @unchecked Sendable {
    // SAFETY: the reference is owned by this value alone; GstBuffer's reference count is atomic.
    @usableFromInline let pointer: UnsafeMutablePointer<GstBuffer>

    /// Takes over the caller's reference.
    @inlinable public init(owning pointer: UnsafeMutablePointer<GstBuffer>) { self.pointer = pointer }

    /// A new buffer with a copy of the bytes, or nil without memory.
    public init?(copying bytes: some Collection<UInt8>) {
        GStreamer.initialize()
        guard let pointer = gst_buffer_new_allocate(nil, gsize(bytes.count), nil) else { return nil }
        let array = Array(bytes)
        // SAFETY: gst_buffer_fill checks the size.
        _ = array.withUnsafeBytes { gst_buffer_fill(pointer, 0, $0.baseAddress, gsize($0.count)) }
        self.pointer = pointer
    }

    /// A buffer of one memory, whose reference it takes over.
    public init(owningMemory memory: UnsafeMutablePointer<GstMemory>) {
        pointer = gst_buffer_new()
        gst_buffer_append_memory(pointer, memory)
    }

    /// A buffer of bytes that lie elsewhere. It keeps `owner`, with which they stay good and its own, and lets it go on
    /// whatever thread the buffer ends. Nil without memory.
    public init?(of bytes: UnsafeMutableRawBufferPointer, owner: some AnyObject & Sendable) {
        GStreamer.initialize()
        let retained = Unmanaged.passRetained(owner)
        // SAFETY: the buffer gives the reference back when it ends, once.
        let buffer = gst_buffer_new_wrapped_full(
            GstMemoryFlags(0), bytes.baseAddress, gsize(bytes.count), 0, gsize(bytes.count), retained.toOpaque()
        ) { owner in
            if let owner { Unmanaged<AnyObject>.fromOpaque(owner).release() }
        }
        guard let buffer else {
            retained.release()
            return nil
        }
        pointer = buffer
    }

    /// A new buffer of `size` bytes, whose content is not defined; nil without memory.
    public init?(size: Int) {
        GStreamer.initialize()
        guard size > 0, let pointer = gst_buffer_new_allocate(nil, gsize(size), nil) else { return nil }
        self.pointer = pointer
    }

    /// A buffer without memory.
    public init() {
        GStreamer.initialize()
        pointer = gst_buffer_new()
    }

    @inlinable deinit { ek_mini_object_unref(pointer) }

    /// Hands the reference to the caller.
    @inlinable public consuming func release() -> UnsafeMutablePointer<GstBuffer> {
        let pointer = self.pointer
        discard self
        return pointer
    }

    /// Another reference to the same buffer, which makes both read-only.
    public borrowing func share() -> Buffer {
        Buffer(owning: gst_buffer_ref(pointer))
    }

    /// Lends the C pointer. The reference stays here. Throws what `body` throws.
    @inlinable public borrowing func withPointer<Result>(
        _ body: (UnsafeMutablePointer<GstBuffer>) throws -> Result
    ) rethrows -> Result {
        try body(pointer)
    }

    /// The size of all memories together, in bytes.
    @inlinable public var size: Int { Int(gst_buffer_get_size(pointer)) }

    /// Presentation time in nanoseconds; nil where the buffer has none.
    public var presentationTime: UInt64? { Self.time(pointer.pointee.pts) }

    /// How long the content lasts, in nanoseconds; nil where the buffer does not say.
    public var duration: UInt64? { Self.time(pointer.pointee.duration) }

    /// Decoding time in nanoseconds; nil where the buffer has none.
    public var decodeTime: UInt64? { Self.time(pointer.pointee.dts) }

    /// Whether something is missing in front of the buffer.
    public var isDiscontinuous: Bool {
        gst_buffer_get_flags(pointer).rawValue & GST_BUFFER_FLAG_DISCONT.rawValue != 0
    }

    /// Where the first byte stands in what it was read from; nil where the buffer does not say.
    public var offset: UInt64? { pointer.pointee.offset == guint64.max ? nil : UInt64(pointer.pointee.offset) }

    private static func time(_ value: GstClockTime) -> UInt64? {
        value == GstClockTime.max ? nil : UInt64(value)
    }

    /// Keeps `count` bytes from `start` on; both lie inside. Nothing is copied. The buffer must be writable.
    public borrowing func keep(_ count: Int, from start: Int) {
        guard isWritable, start >= 0, count >= 0, start + count <= size else { return }
        gst_buffer_resize(pointer, gssize(start), gssize(count))
    }

    /// The bytes from `start` on, without times, flags and metas. They are shared, not copied. Nil where `start` is not
    /// inside, and without memory.
    public borrowing func part(from start: Int) -> Buffer? {
        guard start >= 0, start < size else { return nil }
        guard let part = gst_buffer_copy_region(pointer, GST_BUFFER_COPY_MEMORY, gsize(start), gsize.max) else {
            return nil
        }
        return Buffer(owning: part)
    }

    /// Maps the first memory alone for reading, where `withBytes` would put several ones together and copy all of them
    /// for that. Nil where it cannot be mapped. The bytes must not be kept. Throws what `body` throws.
    public borrowing func withBytesOfFirstMemory<Result>(
        _ body: (UnsafeRawBufferPointer) throws -> Result
    ) rethrows -> Result? {
        var map = GstMapInfo()
        guard gst_buffer_n_memory(pointer) > 0, let memory = gst_buffer_peek_memory(pointer, 0),
            gst_memory_map(memory, &map, GST_MAP_READ) != 0
        else { return nil }
        defer { gst_memory_unmap(memory, &map) }
        return try body(UnsafeRawBufferPointer(start: map.data, count: Int(map.size)))
    }

    /// Says that something is missing in front of the buffer, which must be writable.
    package borrowing func setDiscontinuous() {
        guard isWritable else { return }
        _ = gst_buffer_set_flags(pointer, GST_BUFFER_FLAG_DISCONT)
    }

    /// Says where in a file the bytes stand. The buffer must be writable.
    public borrowing func setOffset(_ offset: UInt64) {
        guard isWritable else { return }
        pointer.pointee.offset = guint64(offset)
        pointer.pointee.offset_end = guint64(offset &+ UInt64(size))
    }

    /// Whether flags, times and metas may be changed: there is no other reference to the buffer.
    @inlinable public var isWritable: Bool { ek_buffer_is_writable(pointer) != 0 }

    /// Whether the bytes may be changed where they are: there is no other reference to the buffer or its memory.
    @inlinable public var isMemoryWritable: Bool { isWritable && gst_buffer_is_all_memory_writable(pointer) != 0 }

    /// Whether the CPU may see the bytes. Secure memory says no.
    public var isMappable: Bool { ek_buffer_is_mappable(pointer) != 0 }

    /// A buffer whose times, flags and metas may be changed; the bytes are shared, not copied.
    public consuming func writable() -> Buffer {
        Buffer(owning: ek_buffer_make_writable(release()))
    }

    /// Maps for reading. Nil where the memory cannot be mapped. The bytes must not be kept. Throws what `body` throws.
    @inlinable public borrowing func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows
        -> Result?
    {
        try Self.withBytes(of: pointer, body)
    }

    @inlinable @inline(__always)
    static func withBytes<Result>(
        of buffer: UnsafeMutablePointer<GstBuffer>, _ body: (UnsafeRawBufferPointer) throws -> Result
    ) rethrows -> Result? {
        var map = GstMapInfo()
        if let memory = ek_buffer_only_memory(buffer) {
            guard gst_memory_map(memory, &map, GST_MAP_READ) != 0 else { return nil }
            defer { gst_memory_unmap(memory, &map) }
            return try body(UnsafeRawBufferPointer(start: map.data, count: Int(map.size)))
        }
        guard gst_buffer_map(buffer, &map, GST_MAP_READ) != 0 else { return nil }
        defer { gst_buffer_unmap(buffer, &map) }
        return try body(UnsafeRawBufferPointer(start: map.data, count: Int(map.size)))
    }

    /// Maps for reading and writing. Nil where others hold the buffer or its memory, or map it at the moment: this
    /// never copies, as `gst_buffer_map` would. The bytes must not be kept. Throws what `body` throws.
    @inlinable public borrowing func withMutableBytes<Result>(
        _ body: (UnsafeMutableRawBufferPointer) throws -> Result
    ) rethrows -> Result? {
        guard isMemoryWritable else { return nil }
        var map = GstMapInfo()
        if let memory = ek_buffer_only_memory(pointer) {
            guard gst_memory_map(memory, &map, GstMapFlags(GST_MAP_READ.rawValue | GST_MAP_WRITE.rawValue)) != 0 else {
                return nil
            }
            defer { gst_memory_unmap(memory, &map) }
            return try body(UnsafeMutableRawBufferPointer(start: map.data, count: Int(map.size)))
        }
        guard gst_buffer_map(pointer, &map, GstMapFlags(GST_MAP_READ.rawValue | GST_MAP_WRITE.rawValue)) != 0 else {
            return nil
        }
        defer { gst_buffer_unmap(pointer, &map) }
        return try body(UnsafeMutableRawBufferPointer(start: map.data, count: Int(map.size)))
    }

    /// Maps `source` for reading and this buffer for writing; nil where one of them cannot be mapped so. Nothing is
    /// copied, and the bytes must not be kept. Throws what `body` throws.
    @inlinable public borrowing func withMutableBytes<Result>(
        from source: borrowing Buffer,
        _ body: (UnsafeRawBufferPointer, UnsafeMutableRawBufferPointer) throws -> Result
    ) rethrows -> Result? {
        var map = GstMapInfo()
        guard gst_buffer_map(source.pointer, &map, GST_MAP_READ) != 0 else { return nil }
        let sourcePointer = source.pointer
        defer { gst_buffer_unmap(sourcePointer, &map) }
        let bytes = UnsafeRawBufferPointer(start: map.data, count: Int(map.size))
        return try withMutableBytes { try body(bytes, $0) }
    }

    /// The bytes as an array.
    public func copyBytes() -> [UInt8] { withBytes { Array($0) } ?? [] }
}
