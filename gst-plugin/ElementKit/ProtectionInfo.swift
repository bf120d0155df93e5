// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// The structure of a buffer's `GstProtectionMeta`, while it is being read. Reading allocates nothing.
@frozen public struct ProtectionInfo: ~Copyable {
    // SAFETY: the structure belongs to the meta of a buffer that `Buffer.withProtectionInfo` borrows.
    @usableFromInline let structure: UnsafePointer<GstStructure>

    @inlinable init(_ structure: UnsafePointer<GstStructure>) { self.structure = structure }

    /// A field's name, looked up once.
    @frozen public struct Field: Sendable {
        @usableFromInline let quark: GQuark
        public init(_ name: String) { quark = g_quark_from_string(name) }
    }

    /// Up to 16 bytes, as two big-endian halves with zeros behind.
    @frozen public struct ShortBytes: Sendable {
        /// In bytes; more than 16 means that the rest was not read.
        public let count: Int
        /// The first eight bytes, big-endian.
        public let high: UInt64
        /// The other eight, big-endian; zeros where there are only eight.
        public let low: UInt64

        @inlinable init(count: Int, high: UInt64, low: UInt64) {
            self.count = count
            self.high = high
            self.low = low
        }
    }

    /// Whether the field is there, of any type.
    @inlinable public func has(_ field: Field) -> Bool { gst_structure_id_has_field(structure, field.quark) != 0 }

    /// The field as a boolean; nil where it is missing or of another type.
    @inlinable public func boolean(_ field: Field) -> Bool? {
        guard let value = value(field, ek_type_boolean()) else { return nil }
        return g_value_get_boolean(value) != 0
    }

    /// The field as an unsigned number; nil where it is missing or of another type.
    @inlinable public func uint(_ field: Field) -> UInt32? {
        guard let value = value(field, ek_type_uint()) else { return nil }
        return g_value_get_uint(value)
    }

    /// Short texts (up to 15 bytes) are read without an allocation.
    @inlinable public func string(_ field: Field) -> String? {
        guard let value = value(field, ek_type_string()), let text = g_value_get_string(value) else { return nil }
        return String(cString: text)
    }

    /// A text of exactly four bytes, as a big-endian number; nil for any other text. Cheaper than `string`.
    @inlinable public func fourCharacterCode(_ field: Field) -> UInt32? {
        guard let value = value(field, ek_type_string()), let text = g_value_get_string(value) else { return nil }
        var code: UInt32 = 0
        for position in 0..<4 {
            // SAFETY: no byte before this one was the null at the end.
            guard text[position] != 0 else { return nil }
            code = code << 8 | UInt32(UInt8(bitPattern: text[position]))
        }
        return text[4] == 0 ? code : nil
    }

    /// The first 16 bytes of a field that holds a buffer.
    @inlinable public func shortBytes(_ field: Field) -> ShortBytes? {
        withBytes(field) { bytes in
            var words: (UInt64, UInt64) = (0, 0)
            // SAFETY: 16 bytes of storage, and no more than `bytes` has.
            withUnsafeMutableBytes(of: &words) {
                $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes.prefix(16)))
            }
            return ShortBytes(
                count: bytes.count, high: UInt64(bigEndian: words.0), low: UInt64(bigEndian: words.1))
        }
    }

    /// Lends the bytes of a field that holds a buffer.
    @inlinable public func withBytes<Result>(_ field: Field, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        guard let buffer = buffer(field) else { return nil }
        return Buffer.withBytes(of: buffer, body)
    }

    @inlinable func value(_ field: Field, _ type: GType) -> UnsafePointer<GValue>? {
        guard let value = gst_structure_id_get_value(structure, field.quark), ek_value_holds(value, type) != 0 else {
            return nil
        }
        return value
    }

    @inlinable func buffer(_ field: Field) -> UnsafeMutablePointer<GstBuffer>? {
        ek_value_buffer(gst_structure_id_get_value(structure, field.quark))
    }
}

extension Buffer {
    /// Reads the protection meta; nil where the buffer has none.
    @inlinable public borrowing func withProtectionInfo<Result>(_ body: (borrowing ProtectionInfo) -> Result) -> Result?
    {
        withPointer { pointer in
            guard let meta = ek_buffer_protection_meta(pointer), let structure = meta.pointee.info else { return nil }
            return body(ProtectionInfo(structure))
        }
    }

    /// Takes the protection meta away. The buffer must be writable; otherwise nothing happens.
    @inlinable public borrowing func removeProtectionInfo() {
        withPointer { pointer in
            guard ek_buffer_is_writable(pointer) != 0, let meta = ek_buffer_protection_meta(pointer) else { return }
            ek_buffer_remove_meta(pointer, meta)
        }
    }

    /// Copies flags, times and metas, not the bytes.
    public borrowing func copyMetadata(from other: borrowing Buffer) {
        withPointer { pointer in
            other.withPointer { source in
                _ = gst_buffer_copy_into(
                    pointer, source,
                    GstBufferCopyFlags(
                        GST_BUFFER_COPY_FLAGS.rawValue | GST_BUFFER_COPY_TIMESTAMPS.rawValue
                            | GST_BUFFER_COPY_META.rawValue), 0, gsize.max)
            }
        }
    }

    /// Adds a protection meta with these fields, for tests and for demuxers.
    public borrowing func addProtectionInfo(_ fields: [(String, FieldValue)], buffers: [(String, [UInt8])]) {
        withPointer { pointer in
            guard let structure = FieldValue.makeStructure("application/x-cenc", fields) else { return }
            for (name, bytes) in buffers {
                guard let buffer = Buffer(copying: bytes) else { continue }
                var value = GValue()
                ek_value_init(&value, ek_type_buffer())
                g_value_take_boxed(&value, UnsafeMutableRawPointer(buffer.release()))
                gst_structure_take_value(structure, name, &value)
            }
            gst_buffer_add_protection_meta(pointer, structure)
        }
    }
}
