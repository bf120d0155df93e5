// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Initialization data of one protection system in a file: a `pssh` box, or PIFF's box of the same meaning.
public struct ISOProtection: Hashable, Sendable {
    /// Where it was found.
    public enum Origin: String, Hashable, Sendable {
        /// In the `moov` box: for the whole file. The text is the origin that GStreamer's protection events carry.
        case movie = "isobmff/moov"
        /// In a `moof` box: from that fragment on, as at a rotation of keys.
        case fragment = "isobmff/moof"
    }

    /// The SystemID (ISO/IEC 23001-7, 8.1).
    public var system: ProtectionSystem
    /// A whole `pssh` box.
    public var box: [UInt8]
    /// Also what a protection event says of it.
    public var origin: Origin
    /// The KIDs of the tracks that can play, of a box in `moov`, which may name others: those of other qualities, in other
    /// files. Empty where nothing says which are used.
    public var usedKeyIDs: [KeyID] = []
}

/// The extended types of boxes (`uuid`) in protected files.
enum ISOExtendedType {
    /// PIFF 1.1, 5.3.1.
    static let protectionSystem: [UInt8] = [
        0xD0, 0x8A, 0x4F, 0x18, 0x10, 0xF3, 0x4A, 0x82, 0xB6, 0xC8, 0x32, 0xD8, 0xAB, 0xA1, 0x83, 0xD3,
    ]
    /// PIFF 1.1, 5.3.2.
    static let trackEncryption: [UInt8] = [
        0x89, 0x74, 0xDB, 0xCE, 0x7B, 0xE7, 0x4C, 0x51, 0x84, 0xF9, 0x71, 0x48, 0xF9, 0x88, 0x25, 0x54,
    ]
    /// PIFF 1.1, 5.3.3.
    static let sampleEncryption: [UInt8] = [
        0xA2, 0x39, 0x4F, 0x52, 0x5A, 0x9B, 0x4F, 0x14, 0xA2, 0x44, 0x6C, 0x42, 0x7C, 0x64, 0x8D, 0xF4,
    ]
}

extension ISOBox {
    /// Whether this is the `uuid` box of an extended type.
    package func isExtended(_ extendedType: [UInt8], in bytes: [UInt8]) -> Bool {
        type == "uuid" && bytes[body.clamped(to: 0..<bytes.count)].starts(with: extendedType)
    }

    /// A cursor behind version and flags, with them.
    package func fullReader(_ bytes: [UInt8]) throws(FormatError) -> (reader: ByteReader, version: UInt8, flags: UInt32)
    {
        var reader = reader(bytes)
        let version = try reader.readUInt8()
        let flags = try reader.readUInt24()
        return (reader, version, flags)
    }

    /// Where the type stands in the file, if `bytes` start at `origin`.
    func typeOffset(from origin: UInt64) -> UInt64 { origin &+ UInt64(range.lowerBound) &+ 4 }

    /// What makes this box one that readers step over.
    func freeing(from origin: UInt64) -> ISOPatch {
        ISOPatch(offset: typeOffset(from: origin), type: ISOPatch.free)
    }

    /// The initialization data of this box; nil for another box and for one that cannot be read.
    func protection(in bytes: [UInt8], origin: ISOProtection.Origin) -> ISOProtection? {
        if type == "pssh" {
            // Broken data in the box is left to the key system; a box without a system ID belongs to no system.
            guard body.count >= 20, let id = KeyID(bytes[body.lowerBound + 4..<body.lowerBound + 20]),
                let system = ProtectionSystem(uuid: id.uuidString)
            else { return nil }
            return ISOProtection(system: system, box: Array(bytes[range]), origin: origin)
        }
        guard isExtended(ISOExtendedType.protectionSystem, in: bytes) else { return nil }
        var reader = reader(bytes)
        guard (try? reader.skip(20)) != nil, let id = try? reader.readBytes(16), let keyID = KeyID(id),
            let system = ProtectionSystem(uuid: keyID.uuidString), let size = try? reader.readUInt32(),
            let data = try? reader.readBytes(size), let box = PSSHBox(system: system, data: Array(data)).serialized()
        else { return nil }
        return ISOProtection(system: system, box: box, origin: origin)
    }
}
