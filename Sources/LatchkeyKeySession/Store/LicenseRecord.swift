// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyKeySystems
public import LatchkeyProtection

/// What the license store keeps: some bytes, and what they are looked up by.
///
/// On disk, the whole record is sealed. Kind, key system, KIDs, content id and dates stand beside it in clear, for
/// queries; they are compared with the sealed ones whenever a record is read.
public struct LicenseRecord: Hashable, Sendable {
    /// What the payload is. The raw value stands in the database and does not change.
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// A license, as the license service sent it.
        case license = 1
        /// Membership in a domain: its certificate and keys.
        case domain = 2
        /// A FairPlay-style persistable key.
        case persistableKey = 3
        /// When a license was first used for playing. It outlives the license.
        case firstPlay = 4
        /// A report of a session that has expired, to be sent to its service.
        case expiredSessionReport = 5
        /// The state of the trusted clock.
        case clock = 6
        /// A device that was made locally: its certificate and keys.
        case device = 7
        /// A service still has to hear that its licenses arrived.
        case acknowledgement = 8
        /// Certificates that are not to be trusted any more, as a service sent them.
        case revocationList = 9
    }

    /// Names the record in the store. A new record of the same kind and id takes its place.
    public var id: RecordID
    /// What the payload is.
    public var kind: Kind
    /// The system that the payload belongs to; nil for none.
    public var keySystem: KeySystem?
    /// Each once. At most `maximumKeyIDs`.
    public var keyIDs: [KeyID]
    /// What the application or the key system calls the content; at most `maximumContentIDSize` bytes, may be empty.
    public var contentID: [UInt8]
    /// No use before; nil for none.
    public var begins: UnixTime?
    /// No use after; nil for none.
    public var ends: UnixTime?
    /// May be deleted after; nil for never.
    public var removal: UnixTime?
    /// At most `maximumPayloadSize` bytes.
    public var payload: [UInt8]

    /// The most KIDs of a record.
    public static let maximumKeyIDs = 1024
    /// The largest `contentID`, in bytes.
    public static let maximumContentIDSize = 4096
    /// The largest payload, in bytes.
    public static let maximumPayloadSize = 4 << 20

    /// Sizes are checked where the record is stored.
    public init(
        id: RecordID = .random(), kind: Kind, keySystem: KeySystem? = nil, keyIDs: [KeyID] = [],
        contentID: [UInt8] = [], begins: UnixTime? = nil, ends: UnixTime? = nil, removal: UnixTime? = nil,
        payload: [UInt8]
    ) {
        self.id = id
        self.kind = kind
        self.keySystem = keySystem
        self.keyIDs = keyIDs
        self.contentID = contentID
        self.begins = begins
        self.ends = ends
        self.removal = removal
        self.payload = payload
    }
}

extension LicenseRecord: Redacted {
    /// Without the payload: it may hold keys.
    public var description: String {
        "\(kind) \(id) (\(payload.count) bytes; KIDs: \(keyIDs.map(\.description).joined(separator: ", ")))"
    }
}

extension LicenseRecord {
    /// A record without its payload, for lists.
    public struct Summary: Hashable, Sendable {
        /// That of the record, for reading it whole.
        public let id: RecordID
        /// What the payload is.
        public let kind: Kind
        /// The system that the payload belongs to; nil for none.
        public let keySystem: KeySystem?
        /// Each once, in the order of the record.
        public let keyIDs: [KeyID]
        /// What the content is called; may be empty.
        public let contentID: [UInt8]
        /// No use before; nil for none.
        public let begins: UnixTime?
        /// No use after; nil for none.
        public let ends: UnixTime?
        /// May be deleted after; nil for never.
        public let removal: UnixTime?
    }
}

extension LicenseRecord {
    private static let formatVersion: UInt8 = 1

    /// The bytes that are sealed. Latchkey's own format, version 1; integers are big-endian:
    ///
    ///     1  version (1)
    ///     1  kind
    ///     1  key system: 0 none, 1 ClearKey, 2 FairPlay-style, 3 PlayReady-style
    ///     1  which dates are there: 1 begins, 2 ends, 4 removal
    ///     16 record id
    ///     8  for each date that is there, in this order: seconds since 1970, signed
    ///     2  number of KIDs, then 16 bytes for each, in UUID order
    ///     2  size of the content id, then the content id
    ///     4  size of the payload, then the payload, which ends the record
    ///
    /// Throws `recordTooLarge` above the limits, and where a KID comes twice.
    public func serialized() throws(LicenseStoreError) -> [UInt8] {
        guard keyIDs.count <= Self.maximumKeyIDs, contentID.count <= Self.maximumContentIDSize,
            payload.count <= Self.maximumPayloadSize
        else {
            throw .recordTooLarge(
                "record \(id) has \(keyIDs.count) KIDs, a content id of \(contentID.count) bytes and a payload of "
                    + "\(payload.count) bytes; \(Self.maximumKeyIDs), \(Self.maximumContentIDSize) and "
                    + "\(Self.maximumPayloadSize) are the limits")
        }
        guard Set(keyIDs).count == keyIDs.count else { throw .recordTooLarge("record \(id) names a KID twice") }
        let dates = [begins, ends, removal]
        var bytes: [UInt8] = []
        bytes.reserveCapacity(64 + keyIDs.count * 16 + contentID.count + payload.count)
        bytes.append(Self.formatVersion)
        bytes.append(kind.rawValue)
        bytes.append(keySystemNumber)
        bytes.append(dates.enumerated().reduce(0) { $1.element == nil ? $0 : $0 | 1 << UInt8($1.offset) })
        bytes += id.bytes
        for date in dates.compactMap(\.self) { bytes.appendBigEndian(UInt64(bitPattern: date.seconds), size: 8) }
        bytes.appendBigEndian(UInt64(keyIDs.count), size: 2)
        for keyID in keyIDs { bytes += keyID.bytes }
        bytes.appendBigEndian(UInt64(contentID.count), size: 2)
        bytes += contentID
        bytes.appendBigEndian(UInt64(payload.count), size: 4)
        bytes += payload
        return bytes
    }

    /// Reads what `serialized()` writes, and nothing else: every record has one form. Throws `truncated`, `malformed`,
    /// `tooLarge`, and `unsupported` for another version, kind or key system.
    public init(serialized bytes: [UInt8]) throws(FormatError) {
        var reader = ByteReader(bytes, structure: "store record")
        let version = try reader.readUInt8()
        guard version == Self.formatVersion else { throw .unsupported("store record, version \(version)") }
        let kindNumber = try reader.readUInt8()
        guard let kind = Kind(rawValue: kindNumber) else { throw .unsupported("store record, kind \(kindNumber)") }
        let systemNumber = try reader.readUInt8()
        let keySystem = Self.keySystem(number: Int64(systemNumber))
        guard keySystem != nil || systemNumber == 0 else {
            throw .unsupported("store record, key system \(systemNumber)")
        }
        let presence = try reader.readUInt8()
        guard presence < 8 else { throw .malformed("\(reader.place): unknown dates") }
        guard let id = RecordID(try reader.readBytes(RecordID.size)) else { throw .malformed(reader.place) }
        var dates: [UnixTime?] = []
        for position in 0..<3 as Range<UInt8> {
            let isThere = presence & 1 << position != 0
            dates.append(isThere ? UnixTime(seconds: Int64(bitPattern: try reader.readUInt64())) : nil)
        }
        let count = Int(try reader.readUInt16())
        guard count <= Self.maximumKeyIDs else { throw .tooLarge("\(reader.place): \(count) KIDs") }
        var keyIDReader = try reader.readStructure(count * 16, "store record, KIDs")
        var keyIDs: [KeyID] = []
        while !keyIDReader.isAtEnd {
            guard let keyID = KeyID(try keyIDReader.readBytes(16)) else { throw .malformed(keyIDReader.place) }
            keyIDs.append(keyID)
        }
        guard Set(keyIDs).count == keyIDs.count else { throw .malformed("\(reader.place): a KID comes twice") }
        let contentIDSize = Int(try reader.readUInt16())
        guard contentIDSize <= Self.maximumContentIDSize else {
            throw .tooLarge("\(reader.place): a content id of \(contentIDSize) bytes")
        }
        let contentID = Array(try reader.readBytes(contentIDSize))
        let payloadSize = try reader.readUInt32()
        guard payloadSize <= Self.maximumPayloadSize else {
            throw .tooLarge("\(reader.place): a payload of \(payloadSize) bytes")
        }
        let payload = Array(try reader.readBytes(payloadSize))
        guard reader.isAtEnd else { throw .malformed("\(reader.place): \(reader.remaining) bytes behind the payload") }
        self.init(
            id: id, kind: kind, keySystem: keySystem, keyIDs: keyIDs, contentID: contentID, begins: dates[0],
            ends: dates[1], removal: dates[2], payload: payload)
    }

    /// 0 for none.
    var keySystemNumber: UInt8 { keySystem.map(Self.number) ?? 0 }

    static func keySystem(number: Int64) -> KeySystem? {
        KeySystem.allCases.first { Int64(Self.number($0)) == number }
    }

    private static func number(_ system: KeySystem) -> UInt8 {
        switch system {
        case .clearKey: 1
        case .fairPlay: 2
        case .playReady: 3
        }
    }
}

extension [UInt8] {
    /// The last `size` bytes of `value`, the most significant first.
    mutating func appendBigEndian(_ value: UInt64, size: Int) {
        for place in (0..<size).reversed() { append(UInt8(truncatingIfNeeded: value >> UInt64(place * 8))) }
    }
}

/// The 16 bytes that name a record of the license store: a PlayReady-style license's own id, say, or random ones.
public struct RecordID: Hashable, Sendable {
    /// The size of an id, in bytes.
    public static let size = 16

    /// The id as it stands in the database; 16 bytes.
    public let bytes: [UInt8]

    /// Nil unless `bytes` has exactly 16 elements.
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// A random one, from the system's generator.
    public static func random() -> RecordID {
        var generator = SystemRandomNumberGenerator()
        return RecordID(checked: (0..<size).map { _ in .random(in: 0...255, using: &generator) })
    }

    private init(checked bytes: [UInt8]) { self.bytes = bytes }

    /// The first 16 bytes; zeros stand for those that are not there.
    init(prefixOf bytes: [UInt8]) {
        self.bytes = Array(bytes.prefix(Self.size)) + [UInt8](repeating: 0, count: max(0, Self.size - bytes.count))
    }
}

extension RecordID: CustomStringConvertible {
    /// 32 lower-case hexadecimal digits.
    public var description: String { Hex.encode(bytes) }
}
