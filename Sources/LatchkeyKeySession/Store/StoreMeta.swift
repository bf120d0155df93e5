// SPDX-License-Identifier: MPL-2.0

/// What the store knows about itself: the one row of the table `meta`, sealed.
///
/// Latchkey's own format, version 1: the store's id (16 bytes), the generation (8, big-endian), the number of records
/// (8, big-endian), and the sum of the set's codes (32).
struct StoreMeta: Hashable {
    static let size = RecordID.size + 8 + 8 + RecordSetCode.size
    static let header = Array("latchkey store meta 1".utf8)

    /// Random; chosen when the database is made. Every record's seal covers it.
    var storeID: [UInt8]
    /// Grows by one with each transaction that changes something.
    var generation: UInt64
    var count: UInt64
    var set: RecordSetCode

    init(storeID: [UInt8]) {
        self.storeID = storeID
        generation = 0
        count = 0
        set = RecordSetCode()
    }

    init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.size else { return nil }
        storeID = Array(bytes.prefix(RecordID.size))
        generation = bytes[RecordID.size..<RecordID.size + 8].reduce(0) { $0 << 8 | UInt64($1) }
        count = bytes[RecordID.size + 8..<RecordID.size + 16].reduce(0) { $0 << 8 | UInt64($1) }
        set = RecordSetCode(Array(bytes.suffix(RecordSetCode.size)))
    }

    var bytes: [UInt8] {
        var bytes = storeID
        bytes.appendBigEndian(generation, size: 8)
        bytes.appendBigEndian(count, size: 8)
        return bytes + set.bytes
    }
}

/// A sum of 256 bits over keyed codes of the rows, modulo 2^256: the same for the same rows, in whatever order they came
/// and went. (MSet-Add-Hash of Clarke et al., “Incremental Multiset Hash Functions and Their Application to Memory
/// Integrity Checking”, ASIACRYPT 2003; the sum itself is sealed.)
///
/// It shows a row that was taken out, put back, or changed, without reading what the rows hold.
struct RecordSetCode: Hashable {
    static let size = 32

    private var words: [UInt64]

    init() { words = [0, 0, 0, 0] }

    /// 32 bytes, the most significant first.
    init(_ bytes: [UInt8]) {
        words = (0..<4).map { word in
            bytes.dropFirst(word * 8).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        for word in words { bytes.appendBigEndian(word, size: 8) }
        return bytes
    }

    mutating func add(_ other: RecordSetCode) {
        var carry: UInt64 = 0
        for place in (0..<4).reversed() {
            let (partial, first) = words[place].addingReportingOverflow(other.words[place])
            let (sum, second) = partial.addingReportingOverflow(carry)
            words[place] = sum
            carry = first || second ? 1 : 0
        }
    }

    mutating func subtract(_ other: RecordSetCode) {
        var borrow: UInt64 = 0
        for place in (0..<4).reversed() {
            let (partial, first) = words[place].subtractingReportingOverflow(other.words[place])
            let (difference, second) = partial.subtractingReportingOverflow(borrow)
            words[place] = difference
            borrow = first || second ? 1 : 0
        }
    }
}
