// SPDX-License-Identifier: MPL-2.0

/// The versions of the exchange that a client can speak: 4 bytes each.
public struct ProtocolVersions: TLLVValue {
    public static let tag = TLLV.Tag.protocolVersionsSupported
    /// At least one.
    public var versions: [UInt32]

    public init(_ versions: [UInt32]) { self.versions = versions }

    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        guard !bytes.isEmpty, bytes.count % 4 == 0 else {
            throw .malformed("TLLV \(Self.tag) has \(bytes.count) bytes, no multiple of 4")
        }
        var reader = ByteReader(bytes, structure: "TLLV \(Self.tag)")
        versions = []
        while !reader.isAtEnd { versions.append(try reader.readUInt32()) }
    }

    public var tllvValue: [UInt8] { versions.flatMap { bigEndian($0) } }
}

/// The version of the exchange that a request is made in: 4 bytes.
public struct ProtocolVersion: TLLVValue {
    public static let tag = TLLV.Tag.protocolVersionUsed
    public var version: UInt32

    public init(_ version: UInt32) { self.version = version }

    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 4)
        version = try reader.readUInt32()
    }

    public var tllvValue: [UInt8] { bigEndian(version) }
}

/// The tags whose blocks the key server sends back unchanged: 8 bytes each.
public struct ReturnRequest: TLLVValue {
    public static let tag = TLLV.Tag.returnRequest
    /// May be empty.
    public var tags: [TLLV.Tag]

    public init(_ tags: [TLLV.Tag]) { self.tags = tags }

    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        guard bytes.count % 8 == 0 else {
            throw .malformed("TLLV \(Self.tag) has \(bytes.count) bytes, no multiple of 8")
        }
        var reader = ByteReader(bytes, structure: "TLLV \(Self.tag)")
        tags = []
        while !reader.isAtEnd { tags.append(TLLV.Tag(rawValue: try reader.readUInt64())) }
    }

    public var tllvValue: [UInt8] { tags.flatMap { bigEndian($0.rawValue) } }
}
