// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

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
        /// 1 is a header, 3 an embedded licence store.
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

    /// An object with one header, and with an embedded licence store where there is one.
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

    /// The value of the first record for licences that travel with the content; may be filler.
    public var embeddedLicenseStore: [UInt8]? {
        records.first { $0.type == Record.embeddedLicenseStore }?.value
    }

    /// The licences in all embedded stores. How a store is laid out is not public, but a licence names itself: each one
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
