// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// The versions of the exchange that a client can speak: 4 bytes each.
public struct ProtocolVersions: TLLVValue {
    /// `67b8fb79ecce1a13`, in the SPC.
    public static let tag = TLLV.Tag.protocolVersionsSupported
    /// At least one.
    public var versions: [UInt32]

    /// `versions` should not be empty: such a block cannot be read again.
    public init(_ versions: [UInt32]) { self.versions = versions }

    /// Throws `malformed` for no version and for a length that is no multiple of 4.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        guard !bytes.isEmpty, bytes.count % 4 == 0 else {
            throw .malformed("TLLV \(Self.tag) has \(bytes.count) bytes, no multiple of 4")
        }
        var reader = ByteReader(bytes, structure: "TLLV \(Self.tag)")
        versions = []
        while !reader.isAtEnd { versions.append(try reader.readUInt32()) }
    }

    /// 4 bytes for each version.
    public var tllvValue: [UInt8] { versions.flatMap { bigEndian($0) } }
}

/// The version of the exchange that a request is made in: 4 bytes.
public struct ProtocolVersion: TLLVValue {
    /// `5d81bcbcc7f61703`, in the SPC.
    public static let tag = TLLV.Tag.protocolVersionUsed
    /// One of `ProtocolVersions.versions` where the client keeps to the rules; nothing checks that here.
    public var version: UInt32

    /// Takes any number.
    public init(_ version: UInt32) { self.version = version }

    /// Throws `malformed` for another length than 4 bytes.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 4)
        version = try reader.readUInt32()
    }

    /// 4 bytes.
    public var tllvValue: [UInt8] { bigEndian(version) }
}

/// The tags whose blocks the key server sends back unchanged: 8 bytes each.
public struct ReturnRequest: TLLVValue {
    /// `19f9d4e5ab7609cb`, in the SPC.
    public static let tag = TLLV.Tag.returnRequest
    /// May be empty.
    public var tags: [TLLV.Tag]

    /// Takes tags whose blocks the SPC may not even have; the key server decides.
    public init(_ tags: [TLLV.Tag]) { self.tags = tags }

    /// Throws `malformed` where the length is no multiple of 8.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        guard bytes.count % 8 == 0 else {
            throw .malformed("TLLV \(Self.tag) has \(bytes.count) bytes, no multiple of 8")
        }
        var reader = ByteReader(bytes, structure: "TLLV \(Self.tag)")
        tags = []
        while !reader.isAtEnd { tags.append(TLLV.Tag(rawValue: try reader.readUInt64())) }
    }

    /// 8 bytes for each tag.
    public var tllvValue: [UInt8] { tags.flatMap { bigEndian($0.rawValue) } }
}
