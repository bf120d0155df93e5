// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import LatchkeyContainers

/// A tag-length-length-value block: what the encrypted payloads of SPC and CKC are made of.
///
/// ```
/// UInt64 tag, UInt32 block length (value and padding), UInt32 value length, value, padding
/// ```
///
/// All integers are big-endian. The whole block, with its header of 16 bytes, is a multiple of 16 bytes long. The
/// layout is that of WebKit's key server for its FairPlay tests (BSD-3) and of two open key servers that agree with it.
public struct TLLV: Hashable, Sendable {
    /// In bytes: the tag and the two lengths.
    public static let headerSize = 16

    /// Known or not: unknown ones are kept.
    public var tag: Tag
    /// As `tag` defines it; see `TLLVValue`. May be a key.
    public var value: [UInt8]
    /// Random filler behind the value. It has no meaning, but a block that goes back unchanged keeps it.
    public var padding: [UInt8]

    /// A block as it stands in a payload. Only where value and padding together are a multiple of 16 bytes can it be
    /// read again.
    public init(_ tag: Tag, _ value: [UInt8], padding: [UInt8]) {
        self.tag = tag
        self.value = value
        self.padding = padding
    }

    /// A block whose padding fills the last 16 bytes of the value and then 16 more, because one key server rejects a
    /// block without padding. `random` gives as many random bytes as it is asked for. Throws what `random` throws.
    public init<Failure: Error>(
        _ tag: Tag, _ value: [UInt8], random: (Int) throws(Failure) -> [UInt8]
    ) throws(Failure) {
        self.init(tag, value, padding: try random((16 - value.count % 16) % 16 + 16))
    }

    /// In bytes, with the header.
    public var size: Int { Self.headerSize + value.count + padding.count }
}

extension TLLV {
    /// The names of the known blocks, as public sources write them.
    public struct Tag: RawRepresentable, Hashable, Sendable {
        /// 8 bytes of the block, big-endian.
        public var rawValue: UInt64
        /// Takes any number; `name` is nil for one that is not known.
        public init(rawValue: UInt64) { self.rawValue = rawValue }
    }
}

extension TLLV.Tag: CustomStringConvertible {
    /// The name and the number, or the number alone: "asset identifier (1bf7f53f5d5d5a1f)".
    public var description: String {
        let digits = String(rawValue, radix: 16)
        let number = String(repeating: "0", count: 16 - digits.count) + digits
        return name.map { "\($0) (\(number))" } ?? number
    }
}

extension TLLV: Redacted {
    /// Without the value, which may be a key.
    public var description: String { "\(tag), \(value.count) bytes" }
    /// The size stands for the value, so that `dump` shows no key.
    public var shown: KeyValuePairs<String, Any> { ["tag": tag, "size": value.count] }
}

extension TLLV.Tag {
    // MARK: SPC

    /// [SK..R1]: an IV of 16 bytes and 96 encrypted bytes (session key 16, anonymised device identifier 20, R1 44,
    /// integrity 16).
    public static let sessionKeyAndR1 = TLLV.Tag(rawValue: 0x3D1A_10B8_BFFA_C2EC)
    /// 16 bytes, equal to the integrity bytes within [SK..R1].
    public static let sessionKeyAndR1Integrity = TLLV.Tag(rawValue: 0xB349_D480_9E91_0687)
    /// Anti-replay seed, 16 bytes: what the key of the CKC's payload is derived from, with R1.
    public static let antiReplaySeed = TLLV.Tag(rawValue: 0x89C9_0F12_2041_06B2)
    /// R2, 21 bytes: what the derivation function takes.
    public static let r2 = TLLV.Tag(rawValue: 0x71B5_595A_C152_1133)
    /// 8 bytes for each tag whose block goes back unchanged in the CKC.
    public static let returnRequest = TLLV.Tag(rawValue: 0x19F9_D4E5_AB76_09CB)
    /// The content identifier that the application sets, 2 to 200 bytes.
    public static let assetIdentifier = TLLV.Tag(rawValue: 0x1BF7_F53F_5D5D_5A1F)
    /// 8 random bytes that name the request.
    public static let transactionIdentifier = TLLV.Tag(rawValue: 0x47AA_7AD3_4405_77DE)
    /// 4 bytes for each version, see `ProtocolVersions`.
    public static let protocolVersionsSupported = TLLV.Tag(rawValue: 0x67B8_FB79_ECCE_1A13)
    /// 4 bytes, see `ProtocolVersion`.
    public static let protocolVersionUsed = TLLV.Tag(rawValue: 0x5D81_BCBC_C7F6_1703)
    /// 8 bytes, see `StreamingIndicator`.
    public static let streamingIndicator = TLLV.Tag(rawValue: 0xABB0_256A_3184_3974)
    /// Client reference time and state, 16 bytes, see `MediaPlaybackState`.
    public static let mediaPlaybackState = TLLV.Tag(rawValue: 0xEB8E_FDF2_B25A_B3A0)
    /// 36 bytes or more, see `DeviceIdentity`.
    public static let deviceIdentity = TLLV.Tag(rawValue: 0x94C1_7CD6_76C6_9B59)

    // MARK: CKC

    /// An IV for the content of 16 bytes and the content key, encrypted with the session key, 16 bytes.
    public static let encryptedContentKey = TLLV.Tag(rawValue: 0x58B3_8165_AF0E_3D5A)
    /// R1 as the SPC had it, 44 bytes.
    public static let r1 = TLLV.Tag(rawValue: 0xEA74_C464_5D5E_FEE9)
    /// 16 bytes, see `ContentKeyDuration`.
    public static let contentKeyDuration = TLLV.Tag(rawValue: 0x47AC_F6A4_18CD_091A)
    /// 8 or 16 bytes, see `HDCPRequirement`.
    public static let hdcp = TLLV.Tag(rawValue: 0x2E52_F153_0D8D_DB4A)
    /// 32 or 48 bytes, see `OfflineKeyTerms`.
    public static let offlineKey = TLLV.Tag(rawValue: 0x6375_D972_7060_218C)

    // MARK: Latchkey's own

    // The first eight bytes of the SHA-256 of "latchkey: SPC integrity", "latchkey: CKC integrity" and "latchkey: media
    // KID".

    /// This project's own, optional: 32 bytes, an HMAC-SHA-256 over the whole SPC. See `PayloadIntegrity`.
    public static let requestIntegrity = TLLV.Tag(rawValue: 0xFA0D_120C_A720_092D)
    /// This project's own, optional: 32 bytes, an HMAC-SHA-256 over the whole CKC. See `PayloadIntegrity`.
    public static let responseIntegrity = TLLV.Tag(rawValue: 0xC586_F575_8609_97CD)

    /// This project's own, optional: the 16 bytes of the KID that the media has. For packagers that give several keys the
    /// same URI.
    public static let mediaKeyID = TLLV.Tag(rawValue: 0x6827_3168_B6E3_4415)

    /// What the tag is called in messages; nil where it is not known.
    public var name: String? {
        switch self {
        case .sessionKeyAndR1: "[SK..R1]"
        case .sessionKeyAndR1Integrity: "[SK..R1] integrity"
        case .antiReplaySeed: "AR seed"
        case .r2: "R2"
        case .returnRequest: "return request"
        case .assetIdentifier: "asset identifier"
        case .transactionIdentifier: "transaction identifier"
        case .protocolVersionsSupported: "protocol versions supported"
        case .protocolVersionUsed: "protocol version used"
        case .streamingIndicator: "streaming indicator"
        case .mediaPlaybackState: "media playback state"
        case .deviceIdentity: "device identity"
        case .encryptedContentKey: "encrypted content key"
        case .r1: "R1"
        case .contentKeyDuration: "content key duration"
        case .hdcp: "HDCP"
        case .offlineKey: "offline key"
        case .requestIntegrity: "SPC integrity"
        case .responseIntegrity: "CKC integrity"
        case .mediaKeyID: "media KID"
        default: nil
        }
    }
}

/// The decrypted payload of an SPC or a CKC: blocks in a row, each tag at most once.
///
/// Blocks with unknown tags are kept. See `TLLV` for the layout and its sources. A value; thread-safe; prints without
/// values.
public struct TLLVPayload: Hashable, Sendable {
    /// The most bytes of a payload that are read.
    public static let maximumSize = 64 * 1024

    /// In the order of the payload.
    public let blocks: [TLLV]
    private let positions: [TLLV.Tag: Int]

    /// Throws `duplicate` where two blocks have the same tag.
    public init(_ blocks: [TLLV]) throws(FormatError) {
        var positions: [TLLV.Tag: Int] = [:]
        for (position, block) in blocks.enumerated() {
            guard positions.updateValue(position, forKey: block.tag) == nil else {
                throw .duplicate("TLLV \(block.tag) stands there twice")
            }
        }
        self.blocks = blocks
        self.positions = positions
    }

    /// Reads a whole payload.
    ///
    /// Throws `truncated` where a block goes past the end, `malformed` for a block whose length is no multiple of 16 or
    /// smaller than its value, `duplicate` for a tag that comes again, and `tooLarge` above `maximumSize`.
    public init(reading bytes: [UInt8]) throws(FormatError) {
        guard bytes.count <= Self.maximumSize else {
            throw .tooLarge("a payload of \(bytes.count) bytes; \(Self.maximumSize) are read")
        }
        var reader = ByteReader(bytes, structure: "TLLV payload")
        var blocks: [TLLV] = []
        while !reader.isAtEnd { blocks.append(try TLLV(reading: &reader)) }
        try self.init(blocks)
    }

    /// The block with this tag; nil where there is none.
    public subscript(tag: TLLV.Tag) -> TLLV? { positions[tag].map { blocks[$0] } }

    /// The bytes of the payload. Throws `tooLarge` above `maximumSize`.
    public func serialized() throws(FormatError) -> [UInt8] {
        let size = blocks.reduce(0) { $0 + $1.size }
        guard size <= Self.maximumSize else {
            throw .tooLarge("a payload of \(size) bytes; \(Self.maximumSize) can be read")
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(size)
        for block in blocks {
            bytes += bigEndian(block.tag.rawValue)
            bytes += bigEndian(UInt32(clamping: block.value.count + block.padding.count))
            bytes += bigEndian(UInt32(clamping: block.value.count))
            bytes += block.value
            bytes += block.padding
        }
        return bytes
    }

    /// The same payload with another value, of the same length, in the block of `tag`. Does nothing without one. Throws
    /// nothing in fact: the tags stay.
    public func replacingValue(of tag: TLLV.Tag, with value: [UInt8]) throws(FormatError) -> TLLVPayload {
        var blocks = blocks
        if let position = positions[tag] { blocks[position].value = value }
        return try TLLVPayload(blocks)
    }
}

extension TLLV {
    fileprivate init(reading reader: inout ByteReader) throws(FormatError) {
        let place = reader.place
        let tag = Tag(rawValue: try reader.readUInt64())
        let (blockLength, valueLength) = (try reader.readUInt32(), try reader.readUInt32())
        guard blockLength % 16 == 0 else {
            throw .malformed("\(place): TLLV \(tag) has a block of \(blockLength) bytes, no multiple of 16")
        }
        guard valueLength <= blockLength else {
            throw .malformed("\(place): TLLV \(tag) has a value of \(valueLength) bytes in a block of \(blockLength)")
        }
        let value = Array(try reader.readBytes(valueLength))
        self.init(tag, value, padding: Array(try reader.readBytes(blockLength - valueLength)))
    }
}

extension TLLVPayload: Redacted {
    /// Tags and sizes, never values.
    public var description: String { "[\(blocks.map(\.description).joined(separator: "; "))]" }
    /// The blocks, which hide their values themselves.
    public var shown: KeyValuePairs<String, Any> { ["blocks": blocks] }
}

/// What a block with a certain tag says. Integers are big-endian. See `TLLV` for the sources.
public protocol TLLVValue: Hashable, Sendable {
    /// The tag of the block that the value stands in.
    static var tag: TLLV.Tag { get }

    /// Reads the value of a block. Throws `malformed` where it has another length than the tag wants, or a number that
    /// makes no sense.
    init(tllvValue bytes: [UInt8]) throws(FormatError)

    /// The value of a block.
    var tllvValue: [UInt8] { get }
}

extension TLLVPayload {
    /// What the block of this kind says; nil where there is none. Throws as `init(tllvValue:)` of the kind does.
    public func value<Value: TLLVValue>(_ type: Value.Type) throws(FormatError) -> Value? {
        guard let block = self[Value.tag] else { return nil }
        return try Value(tllvValue: block.value)
    }
}

extension TLLVValue {
    /// A reader over the value, which has to have one of the lengths.
    static func reader(_ bytes: [UInt8], lengths: Int...) throws(FormatError) -> ByteReader {
        guard lengths.contains(bytes.count) else {
            let wanted = lengths.map(String.init).joined(separator: " or ")
            throw .malformed("TLLV \(tag) has \(bytes.count) bytes, not \(wanted)")
        }
        return ByteReader(bytes, structure: "TLLV \(tag)")
    }
}

/// The bytes of a number, the most significant first.
package func bigEndian(_ value: some FixedWidthInteger) -> [UInt8] {
    withUnsafeBytes(of: value.bigEndian) { Array($0) }
}
