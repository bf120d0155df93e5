// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// A PlayReady object (PRO): what a `pssh` box, a manifest or an envelope holds for PlayReady.
///
/// ```
/// UInt32 length (of all, this field included), UInt16 record count
/// each record: UInt16 type, UInt16 length (of the value), value
/// ```
///
/// All integers are little-endian. The format is Microsoft's "PlayReady Header Specification", section 2. A value;
/// thread-safe.
public struct PlayReadyObject: Hashable, Sendable {
    /// The most bytes of an object that are read. Microsoft asks for 15 KiB at most.
    public static let maximumSize = 256 * 1024

    /// One record. Types other than 1 and 3 are kept as they came.
    public struct Record: Hashable, Sendable {
        /// 1 is a header, 3 an embedded license store.
        public var type: UInt16
        /// At most 65535 bytes, as its length has 16 bits.
        public var value: [UInt8]

        /// `value` is not checked; `serialized` throws where it is too long.
        public init(type: UInt16, value: [UInt8]) {
            self.type = type
            self.value = value
        }

        static let header: UInt16 = 1
        static let embeddedLicenseStore: UInt16 = 3
    }

    /// In order, unknown ones included.
    public var records: [Record]

    /// Takes the records in the order that they are written in.
    public init(records: [Record]) { self.records = records }

    /// An object with one header, and with an embedded license store where there is one.
    public init(header: WRMHeader, embeddedLicenseStore: [UInt8]? = nil) {
        records = [Record(type: Record.header, value: header.utf16Bytes)]
        if let embeddedLicenseStore {
            records.append(Record(type: Record.embeddedLicenseStore, value: embeddedLicenseStore))
        }
    }

    /// Reads one object. Bytes behind its length are ignored.
    ///
    /// Throws `truncated`, `tooLarge` above `maximumSize`, and `malformed` where the length has no room for the count.
    public init(reading bytes: some Collection<UInt8>) throws(FormatError) {
        guard bytes.count <= Self.maximumSize else {
            throw .tooLarge("PlayReady object of \(bytes.count) bytes; \(Self.maximumSize) are read")
        }
        var outer = ByteReader(Array(bytes), structure: "PlayReady object")
        let length = try outer.readUInt32LittleEndian()
        guard length >= 6 else { throw .malformed("PlayReady object: a length of \(length) bytes") }
        var body = ByteReader(try outer.readBytes(length - 4), structure: "PlayReady object")
        let count = try body.readUInt16LittleEndian()
        records = []
        for _ in 0..<count { records.append(try Record(reading: &body)) }
    }

    /// The bytes of the object. Throws `tooLarge` where a record or the number of records does not fit into 16 bits.
    public func serialized() throws(FormatError) -> [UInt8] {
        var body: [UInt8] = []
        for record in records {
            guard let length = UInt16(exactly: record.value.count) else {
                throw .tooLarge("PlayReady object: a record of \(record.value.count) bytes")
            }
            body += littleEndian(record.type) + littleEndian(length) + record.value
        }
        guard let count = UInt16(exactly: records.count), let length = UInt32(exactly: body.count + 6) else {
            throw .tooLarge("PlayReady object: \(records.count) records")
        }
        return littleEndian(length) + littleEndian(count) + body
    }

    /// The first header. Nil where there is none; throws the errors of `WRMHeader.init(reading:)`.
    public func header() throws(FormatError) -> WRMHeader? {
        guard let record = records.first(where: { $0.type == Record.header }) else { return nil }
        return try WRMHeader(reading: record.value)
    }

    /// The value of the first record for licenses that travel with the content; may be filler.
    public var embeddedLicenseStore: [UInt8]? {
        records.first { $0.type == Record.embeddedLicenseStore }?.value
    }

    /// The licenses in all embedded stores. How a store is laid out is not public, but a license names itself: each one
    /// that can be read is taken, and everything between them is filler.
    public var embeddedLicenses: [XMRLicense] {
        records.filter { $0.type == Record.embeddedLicenseStore }.flatMap { XMRLicense.licenses(within: $0.value) }
    }
}

extension PlayReadyObject.Record {
    init(reading reader: inout ByteReader) throws(FormatError) {
        type = try reader.readUInt16LittleEndian()
        value = Array(try reader.readBytes(try reader.readUInt16LittleEndian()))
    }
}

func littleEndian(_ value: some FixedWidthInteger) -> [UInt8] {
    withUnsafeBytes(of: value.littleEndian) { Array($0) }
}

extension PlayReadyObject {
    /// Reads an object in any of the forms in which content carries it: alone; in one or more `pssh` boxes; in Base64,
    /// as manifests have it (`mspr:pro`, `cenc:pssh`, Smooth's ProtectionHeader); a single record; a header alone; and a
    /// `pssh` box without its first eight bytes, which one published sample has.
    ///
    /// Throws `malformed` for anything else, `tooLarge` above twice `maximumSize`, and, where an object was recognized,
    /// the errors of its reader. Which form it is follows from the bytes; no form is tried after another one fitted.
    public init(initializationData bytes: some Collection<UInt8>) throws(FormatError) {
        guard bytes.count <= 2 * Self.maximumSize else {
            throw .tooLarge("PlayReady initialization data of \(bytes.count) bytes")
        }
        var bytes = Array(bytes)
        if let decoded = Self.base64(bytes) { bytes = decoded }
        try self.init(binary: bytes)
    }

    private init(binary bytes: [UInt8]) throws(FormatError) {
        if bytes.count >= 8, bytes[4..<8].elementsEqual("pssh".utf8) {
            let data = PSSHBox.readableBoxes(in: bytes).first { $0.system == .playReady }?.data
            guard let data else { throw .malformed("pssh boxes: none of PlayReady that can be read") }
            try self.init(payload: data)
        } else if bytes.starts(with: [0, 0, 0, 0] + ProtectionSystem.playReady.bytes) {
            var reader = ByteReader(bytes, structure: "pssh box without its header")
            try reader.skip(20)
            try self.init(payload: Array(try reader.readBytes(try reader.readUInt32())))
        } else {
            try self.init(payload: bytes)
        }
    }

    private init(payload bytes: [UInt8]) throws(FormatError) {
        if Self.isHeader(bytes) {
            self.init(records: [Record(type: Record.header, value: bytes)])
        } else if Self.isHeader(bytes.dropFirst(4)), bytes.starts(with: littleEndian(Record.header)) {
            var reader = ByteReader(bytes, structure: "PlayReady record")
            self.init(records: [try Record(reading: &reader)])
        } else {
            try self.init(reading: bytes)
        }
    }

    /// Whether the bytes start as markup does, in UTF-16 or UTF-8.
    private static func isHeader(_ bytes: some Collection<UInt8>) -> Bool {
        ["<\0W\0R\0M\0", "\u{FEFF}"].contains { bytes.starts(with: $0.utf8) } || bytes.starts(with: "<WRM".utf8)
            || bytes.starts(with: [0xFF, 0xFE, 0x3C, 0x00]) || bytes.starts(with: "<\0?\0".utf8)
            || bytes.starts(with: "<?xml".utf8)
    }

    /// The bytes that Base64 text spells; nil where `bytes` is no such text. White space is left out.
    private static func base64(_ bytes: [UInt8]) -> [UInt8]? {
        guard bytes.count >= 8 else { return nil }
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
        let kept = bytes.filter { !isSpace($0) }
        guard kept.allSatisfy({ (0x2B...0x7A).contains($0) }) else { return nil }
        return Base64.decode(String(decoding: kept, as: UTF8.self))
    }
}
