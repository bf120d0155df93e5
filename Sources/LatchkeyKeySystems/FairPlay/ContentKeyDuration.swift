// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// How long a content key may be used.
///
/// ```
/// UInt32 lease, UInt32 rental, UInt32 type, UInt32 0x86d34a3a
/// ```
///
/// Integers are big-endian. See `TLLV` for the sources. A value; thread-safe.
public struct ContentKeyDuration: TLLVValue {
    /// Which of the two durations count, and whether the key may be stored.
    public enum Kind: UInt32, Sendable, CaseIterable {
        /// The key ends unless the lease is renewed.
        case lease = 0x1A4B_DE7E
        /// Playback may start until then.
        case rental = 0x3DFE_45A0
        /// Both durations count, whichever ends first.
        case leaseAndRental = 0x27B5_9BDE
        /// The key may be stored and does not end.
        case persistent = 0x3DF2_D9FB
        /// The key may be stored and ends after the rental duration.
        case persistentForRental = 0x18F0_6048
    }

    /// `47acf6a418cd091a`. Key servers send it only where the SPC has a `MediaPlaybackState`.
    public static let tag = TLLV.Tag.contentKeyDuration
    /// What stands in the place of a duration that does not end.
    public static let unlimited = UInt32.max
    /// What the last four bytes are.
    public static let marker: UInt32 = 0x86D3_4A3A

    /// In seconds; `unlimited` for none.
    public var lease: UInt32
    /// In seconds; `unlimited` for none.
    public var rental: UInt32
    /// Says which of `lease` and `rental` has a meaning.
    public var kind: Kind

    /// Both durations are without an end unless they are given.
    package init(lease: UInt32 = Self.unlimited, rental: UInt32 = Self.unlimited, kind: ContentKeyDuration.Kind) {
        self.lease = lease
        self.rental = rental
        self.kind = kind
    }

    /// Throws `malformed` for another length than 16 bytes, an unknown type, and a block that does not end in `marker`.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 16)
        lease = try reader.readUInt32()
        rental = try reader.readUInt32()
        guard let kind = Kind(rawValue: try reader.readUInt32()) else {
            throw .malformed("TLLV \(Self.tag) is of an unknown type")
        }
        self.kind = kind
        guard try reader.readUInt32() == Self.marker else {
            throw .malformed("TLLV \(Self.tag) does not end in its fixed number")
        }
    }

    /// 16 bytes, `marker` at the end.
    public var tllvValue: [UInt8] {
        bigEndian(lease) + bigEndian(rental) + bigEndian(kind.rawValue) + bigEndian(Self.marker)
    }
}

/// Which HDCP an output needs.
///
/// ```
/// UInt64 level, UInt64 reserved (some servers leave it out)
/// ```
///
/// Integers are big-endian. See `TLLV` for the sources. A value; thread-safe.
public struct HDCPRequirement: TLLVValue {
    /// `2e52f1530d8ddb4a`, in the CKC. Without the block, Apple's players require HDCP type 0.
    public static let tag = TLLV.Tag.hdcp

    /// On the wire a fixed number of 64 bits for each of the three; public key servers agree on them.
    public var requirement: OutputRequirement

    /// The rule that a CKC is to carry.
    package init(_ requirement: OutputRequirement) { self.requirement = requirement }

    /// Throws `unsupported` for a level that is not known.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 8, 16)
        let level = try reader.readUInt64()
        guard let requirement = OutputRequirement.allCases.first(where: { Self.level(of: $0) == level }) else {
            throw .unsupported("TLLV \(Self.tag) names an unknown level")
        }
        self.requirement = requirement
    }

    /// 16 bytes.
    public var tllvValue: [UInt8] { bigEndian(Self.level(of: requirement)) + bigEndian(UInt64(0)) }

    private static func level(of requirement: OutputRequirement) -> UInt64 {
        switch requirement {
        case .unprotected: 0xEF72_894C_A789_5B78
        case .hdcpType0: 0x4079_1AC7_8BD5_C571
        case .hdcpType1: 0x285A_0863_BBA8_E1D3
        }
    }
}

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
    package init?(streamID: [UInt8], titleID: [UInt8]? = nil, storage: UInt32, playback: UInt32) {
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
