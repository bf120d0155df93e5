// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyProtection

/// An encrypted sample with the protection meta that a demuxer gives it.
public struct EncryptedSample: Sendable {
    public var bytes: [UInt8]
    public var keyID: [UInt8]?
    public var vector: [UInt8]?
    /// How the IV's size is named: video of qtdemux says `iv_size`, audio with one IV for all samples says
    /// `constant_iv_size`.
    public var vectorSizeField = "iv_size"
    public var pattern: (crypt: Int, skip: Int)?
    public var subsampleCount: UInt32?
    /// Six bytes an entry.
    public var subsampleTable: [UInt8]?
    public var isEncrypted = true
    public var cipherMode: String?
    public var presentationTime: UInt64 = 0
    public var duration: UInt64 = 40_000_000

    public init(bytes: [UInt8], keyID: [UInt8]?, vector: [UInt8]?) {
        (self.bytes, self.keyID, self.vector) = (bytes, keyID, vector)
    }

    /// Encrypts `clear`, and describes how.
    public init(_ clear: [UInt8], keyID: [UInt8]?, _ encryption: CommonEncryption) {
        self.init(bytes: encryption.encrypt(clear), keyID: keyID, vector: encryption.vector)
        if encryption.pattern != (0, 0) { pattern = encryption.pattern }
        if !encryption.subsamples.isEmpty { setSubsamples(encryption.subsamples) }
    }

    public mutating func setSubsamples(_ subsamples: [(clear: Int, protected: Int)]) {
        subsampleCount = UInt32(subsamples.count)
        subsampleTable = subsamples.flatMap { clear, protected in
            [8, 0].map { UInt8(truncatingIfNeeded: clear >> $0) }
                + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: protected >> $0) }
        }
    }

    /// A new buffer. Flags, times and a reference-timestamp meta are there to be kept.
    public func makeBuffer() throws -> Buffer {
        guard let buffer = Buffer(copying: bytes) else { throw TestFailure("no memory") }
        mark(buffer)
        return buffer
    }

    /// A new buffer over a part of memory that `owner` holds too, as adaptive demuxers hand out.
    public func makeBuffer(inside owner: borrowing Buffer, at offset: Int) throws -> Buffer {
        let part = owner.withPointer {
            gst_buffer_copy_region($0, GST_BUFFER_COPY_MEMORY, gsize(offset), gsize(bytes.count))
        }
        guard let part else { throw TestFailure("no memory") }
        let buffer = Buffer(owning: part)
        mark(buffer)
        return buffer
    }

    /// Adds the meta, flags and times to a buffer.
    public func mark(_ buffer: borrowing Buffer) {
        var fields: [(String, FieldValue)] = [("encrypted", .boolean(isEncrypted))]
        if let vector { fields.append((vectorSizeField, .uint(UInt32(vector.count)))) }
        if let pattern {
            fields.append(("crypt_byte_block", .uint(UInt32(pattern.crypt))))
            fields.append(("skip_byte_block", .uint(UInt32(pattern.skip))))
        }
        if let subsampleCount { fields.append(("subsample_count", .uint(subsampleCount))) }
        if let cipherMode { fields.append(("cipher-mode", .string(cipherMode))) }
        let blobs = [("kid", keyID), ("iv", vector), ("subsamples", subsampleTable)]
        buffer.addProtectionInfo(fields, buffers: blobs.compactMap { name, bytes in bytes.map { (name, $0) } })
        let presentationTime = GstClockTime(presentationTime)
        let duration = GstClockTime(duration)
        buffer.withPointer { pointer in
            pointer.pointee.pts = presentationTime
            pointer.pointee.dts = presentationTime
            pointer.pointee.duration = duration
            gst_buffer_set_flags(pointer, GST_BUFFER_FLAG_DELTA_UNIT)
            let reference = gst_caps_new_empty_simple("timestamp/x-test")
            gst_buffer_add_reference_timestamp_meta(pointer, reference, presentationTime, GstClockTime.max)
            gst_mini_object_unref(UnsafeMutableRawPointer(reference)?.assumingMemoryBound(to: GstMiniObject.self))
        }
    }
}
