// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyStorage

/// The columns of a record that stand in clear: what queries use, and what the set's code covers.
struct StoredRow: Hashable {
    static let columns = "number, id, kind, key_system, key_count, content_id, begins, ends, removal, generation, tag"

    var number: Int64
    var id: [UInt8]
    var kind: Int64
    var keySystem: Int64
    var keyCount: Int64
    var contentID: [UInt8]
    var begins: Int64?
    var ends: Int64?
    var removal: Int64?
    /// The store's generation that the record was written with.
    var generation: Int64
    /// The last bytes of the sealed record, which stand for all of it.
    var tag: [UInt8]

    /// Reads a row that `columns` selected, in that order.
    init(_ statement: SQLiteStatement) {
        number = statement.integer(0)
        id = statement.bytes(1)
        kind = statement.integer(2)
        keySystem = statement.integer(3)
        keyCount = statement.integer(4)
        contentID = statement.bytes(5)
        begins = statement.optionalInteger(6)
        ends = statement.optionalInteger(7)
        removal = statement.optionalInteger(8)
        generation = statement.integer(9)
        tag = statement.bytes(10)
    }

    init(_ record: LicenseRecord, number: Int64, generation: Int64, sealed: [UInt8]) {
        self.number = number
        id = record.id.bytes
        kind = Int64(record.kind.rawValue)
        keySystem = Int64(record.keySystemNumber)
        keyCount = Int64(record.keyIDs.count)
        contentID = record.contentID
        begins = record.begins?.seconds
        ends = record.ends?.seconds
        removal = record.removal?.seconds
        self.generation = generation
        tag = sealed.suffix(AESGCM.tagSize)
    }

    /// Whether the columns say what the sealed record says.
    func matches(_ record: LicenseRecord) -> Bool {
        self == StoredRow(record, number: number, generation: generation, sealed: tag)
    }

    /// What stands for the row in the set's code: every column, each with its size.
    var coded: [UInt8] {
        var bytes: [UInt8] = [1]
        for field in [id, contentID, tag] {
            bytes.appendBigEndian(UInt64(field.count), size: 4)
            bytes += field
        }
        for value in [number, kind, keySystem, keyCount, generation] {
            bytes.appendBigEndian(UInt64(bitPattern: value), size: 8)
        }
        for date in [begins, ends, removal] {
            bytes.append(date == nil ? 0 : 1)
            bytes.appendBigEndian(UInt64(bitPattern: date ?? 0), size: 8)
        }
        return bytes
    }

    /// What stands for a row of the table of KIDs.
    static func codedKey(_ keyID: [UInt8], record: Int64, place: Int64) -> [UInt8] {
        var bytes: [UInt8] = [2]
        bytes.appendBigEndian(UInt64(keyID.count), size: 4)
        bytes += keyID
        bytes.appendBigEndian(UInt64(bitPattern: record), size: 8)
        bytes.appendBigEndian(UInt64(bitPattern: place), size: 8)
        return bytes
    }

    /// What the seal of a record authenticates besides its bytes: the store, the record, the KIDs and the generation.
    static func header(storeID: [UInt8], id: [UInt8], generation: Int64, keyIDs: [[UInt8]]) -> [UInt8] {
        var bytes = Array("latchkey store record 1".utf8) + storeID + id
        bytes.appendBigEndian(UInt64(bitPattern: generation), size: 8)
        bytes.appendBigEndian(UInt64(keyIDs.count), size: 8)
        for keyID in keyIDs {
            bytes.appendBigEndian(UInt64(keyID.count), size: 4)
            bytes += keyID
        }
        return bytes
    }
}

extension StoredRow {
    /// Binds the columns to the first eleven places.
    func bind(to statement: SQLiteStatement) throws(LicenseStoreError) {
        try statement.bind(1, number)
        try statement.bind(2, id)
        try statement.bind(3, kind)
        try statement.bind(4, keySystem)
        try statement.bind(5, keyCount)
        try statement.bind(6, contentID)
        try statement.bind(7, begins)
        try statement.bind(8, ends)
        try statement.bind(9, removal)
        try statement.bind(10, generation)
        try statement.bind(11, tag)
    }

    func summary(keyIDs: [KeyID]) throws(LicenseStoreError) -> LicenseRecord.Summary {
        guard let id = RecordID(id), let kind = UInt8(exactly: kind).flatMap(LicenseRecord.Kind.init(rawValue:)) else {
            throw .recordUnreadable("record \(Hex.encode(id)) is of a kind that is not known")
        }
        return LicenseRecord.Summary(
            id: id, kind: kind, keySystem: LicenseRecord.keySystem(number: keySystem), keyIDs: keyIDs,
            contentID: contentID, begins: begins.map(UnixTime.init(seconds:)), ends: ends.map(UnixTime.init(seconds:)),
            removal: removal.map(UnixTime.init(seconds:)))
    }
}
