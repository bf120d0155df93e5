// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// How long a stored key may be kept, and how long it may be used from the first playback on (dual expiry).
///
/// ```
/// UInt32 version, UInt32 reserved, UInt8[16] stream, UInt32 storage, UInt32 playback, version 2: UInt8[16] title
/// ```
///
/// Integers are big-endian. The layout is that of one public source. A value; thread-safe.
public struct OfflineKeyTerms: TLLVValue {
    /// `6375d9727060218c`, in the CKC.
    public static let tag = TLLV.Tag.offlineKey

    /// Names the stream; 16 bytes.
    public var streamID: [UInt8]
    /// 16 bytes, in version 2 only.
    public var titleID: [UInt8]?
    /// In seconds from the answer on; 0 for no limit.
    public var storage: UInt32
    /// In seconds from the first playback on; 0 for no limit.
    public var playback: UInt32

    /// Nil unless the identifiers have 16 bytes each.
    public init?(streamID: [UInt8], titleID: [UInt8]? = nil, storage: UInt32, playback: UInt32) {
        guard streamID.count == 16, titleID == nil || titleID?.count == 16 else { return nil }
        self.streamID = streamID
        self.titleID = titleID
        self.storage = storage
        self.playback = playback
    }

    /// 2 where there is a title, else 1.
    public var version: UInt32 { titleID == nil ? 1 : 2 }

    /// Throws `unsupported` for another version than 1 or 2.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 32, 48)
        let version = try reader.readUInt32()
        guard version == 1 || version == 2 else {
            throw .unsupported("TLLV \(Self.tag) is of version \(version)")
        }
        guard bytes.count == (version == 1 ? 32 : 48) else {
            throw .malformed("TLLV \(Self.tag) of version \(version) has \(bytes.count) bytes")
        }
        try reader.skip(4)
        streamID = Array(try reader.readBytes(16))
        storage = try reader.readUInt32()
        playback = try reader.readUInt32()
        titleID = version == 2 ? Array(try reader.readBytes(16)) : nil
    }

    /// 32 bytes in version 1, 48 in version 2. The reserved field is 0.
    public var tllvValue: [UInt8] {
        bigEndian(version) + bigEndian(UInt32(0)) + streamID + bigEndian(storage) + bigEndian(playback)
            + (titleID ?? [])
    }
}
