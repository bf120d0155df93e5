// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import LatchkeyStorage

/// The records as one transaction sees them. Good only within the body that it is given to, on the store's thread;
/// afterwards every call throws `closed`.
public final class LicenseStoreTransaction {
    private let store: OpenStore
    private let isReadOnly: Bool
    private var isOver = false
    private(set) var meta: StoreMeta
    private(set) var hasChanges = false

    init(_ store: OpenStore, meta: StoreMeta, isReadOnly: Bool) {
        self.store = store
        self.meta = meta
        self.isReadOnly = isReadOnly
    }

    func end() { isOver = true }

    // MARK: Reading

    /// The record with this id; nil where there is none. Throws `recordUnreadable` where it cannot be opened.
    public func record(_ id: RecordID) throws(LicenseStoreError) -> LicenseRecord? {
        try records("WHERE id = ?") { statement throws(LicenseStoreError) in try statement.bind(1, id.bytes) }.first
    }

    /// The records of a kind (of any, for nil) that name a KID, the latest first. Throws as `record(_:)` does.
    public func records(for keyID: KeyID, kind: LicenseRecord.Kind? = nil) throws(LicenseStoreError) -> [LicenseRecord]
    {
        try records(
            "WHERE number IN (SELECT record FROM record_key WHERE key_id = ?) AND kind = coalesce(?, kind)"
        ) { statement throws(LicenseStoreError) in
            try statement.bind(1, keyID.bytes)
            try statement.bind(2, kind.map { Int64($0.rawValue) })
        }
    }

    /// The records of a kind (of any, for nil) with this content id, the latest first. Throws as `record(_:)` does.
    public func records(
        contentID: [UInt8], kind: LicenseRecord.Kind? = nil
    ) throws(LicenseStoreError) -> [LicenseRecord] {
        try records("WHERE content_id = ? AND kind = coalesce(?, kind)") { statement throws(LicenseStoreError) in
            try statement.bind(1, contentID)
            try statement.bind(2, kind.map { Int64($0.rawValue) })
        }
    }

    /// What is there, without payloads, the latest first. Throws `recordUnreadable` for a kind or a key system that is
    /// not known.
    public func list(kind: LicenseRecord.Kind? = nil) throws(LicenseStoreError) -> [LicenseRecord.Summary] {
        let rows = try rows("WHERE kind = coalesce(?, kind)") { statement throws(LicenseStoreError) in
            try statement.bind(1, kind.map { Int64($0.rawValue) })
        }
        var summaries: [LicenseRecord.Summary] = []
        for row in rows { summaries.append(try row.summary(keyIDs: try keyIDs(of: row.number).map(\.keyID))) }
        return summaries
    }

    // MARK: Writing

    /// Adds a record, or replaces the one of its kind with its id. Throws `aborted` where that id is of another kind:
    /// services choose the ids of licenses, and must not reach anything else.
    public func put(_ record: LicenseRecord) throws(LicenseStoreError) {
        let old = try row(record.id)
        guard old?.kind ?? Int64(record.kind.rawValue) == Int64(record.kind.rawValue) else {
            throw .aborted("record \(record.id) is of another kind than \(record.kind); nothing was replaced")
        }
        var serialized = try record.serialized()
        defer { wipe(&serialized) }
        try beginChange()
        if let old { try remove(old) }
        let generation = try rowGeneration()
        let keyIDs = record.keyIDs.map(\.bytes)
        let header = StoredRow.header(
            storeID: meta.storeID, id: record.id.bytes, generation: generation, keyIDs: keyIDs)
        let sealed = try store.seal.seal(serialized, authenticating: header)
        let number = try store.connection.integer("SELECT coalesce(max(number), 0) + 1 FROM record")
        let row = StoredRow(record, number: number, generation: generation, sealed: sealed)
        let insertion = try store.connection.statement(
            "INSERT INTO record (\(StoredRow.columns), sealed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        try row.bind(to: insertion)
        try insertion.bind(12, sealed)
        try insertion.run()
        meta.set.add(try code(row.coded))
        for (place, keyID) in keyIDs.enumerated() {
            let insertion = try store.connection.statement(
                "INSERT INTO record_key (key_id, record, place) VALUES (?, ?, ?)")
            try insertion.bind(1, keyID)
            try insertion.bind(2, number)
            try insertion.bind(3, Int64(place))
            try insertion.run()
            meta.set.add(try code(StoredRow.codedKey(keyID, record: number, place: Int64(place))))
        }
        meta.count += 1
    }

    /// Takes a record out. False where it is not there. Throws `aborted` in a transaction that only reads.
    @discardableResult
    public func delete(_ id: RecordID) throws(LicenseStoreError) -> Bool {
        guard let row = try row(id) else { return false }
        try beginChange()
        try remove(row)
        return true
    }

    /// Takes out every record whose removal date is `now` or earlier; returns how many. Throws as `delete` does.
    @discardableResult
    public func deleteRemovable(at now: UnixTime) throws(LicenseStoreError) -> Int {
        let rows = try rows("WHERE removal <= ?") { statement throws(LicenseStoreError) in
            try statement.bind(1, now.seconds)
        }
        return try removeAll(rows)
    }

    /// Takes out every record of a kind, or of all kinds but `clock`: emptying the store does not make the clock
    /// forget. Returns how many. Throws as `delete` does.
    @discardableResult
    public func deleteAll(kind: LicenseRecord.Kind? = nil) throws(LicenseStoreError) -> Int {
        let rows = try rows("WHERE kind = coalesce(?1, kind) AND (?1 NOTNULL OR kind != ?2)") {
            statement throws(LicenseStoreError) in
            try statement.bind(1, kind.map { Int64($0.rawValue) })
            try statement.bind(2, Int64(LicenseRecord.Kind.clock.rawValue))
        }
        return try removeAll(rows)
    }

    private func removeAll(_ rows: [StoredRow]) throws(LicenseStoreError) -> Int {
        if !rows.isEmpty { try beginChange() }
        for row in rows { try remove(row) }
        return rows.count
    }

    private func beginChange() throws(LicenseStoreError) {
        try checkIsUsable()
        guard !isReadOnly else { throw .aborted("a change within a transaction that only reads; use `transaction`") }
        guard !hasChanges else { return }
        hasChanges = true
        meta.generation += 1
    }

    private func rowGeneration() throws(LicenseStoreError) -> Int64 {
        guard let generation = Int64(exactly: meta.generation) else { throw .altered("the generation is too high") }
        return generation
    }

    private func remove(_ row: StoredRow) throws(LicenseStoreError) {
        for key in try keyIDs(of: row.number) {
            meta.set.subtract(try code(StoredRow.codedKey(key.bytes, record: row.number, place: key.place)))
        }
        meta.set.subtract(try code(row.coded))
        for sql in ["DELETE FROM record_key WHERE record = ?", "DELETE FROM record WHERE number = ?"] {
            let deletion = try store.connection.statement(sql)
            try deletion.bind(1, row.number)
            try deletion.run()
        }
        guard meta.count > 0 else { throw .altered("more records than were counted; open the store again") }
        meta.count -= 1
    }

    // MARK: Rows

    private typealias Binding = (SQLiteStatement) throws(LicenseStoreError) -> Void

    private func rows(_ condition: String, _ bind: Binding) throws(LicenseStoreError) -> [StoredRow] {
        try checkIsUsable()
        let statement = try store.connection.statement(
            "SELECT \(StoredRow.columns) FROM record \(condition) ORDER BY number DESC")
        defer { statement.reset() }
        try bind(statement)
        var rows: [StoredRow] = []
        while try statement.step() { rows.append(StoredRow(statement)) }
        return rows
    }

    private func row(_ id: RecordID) throws(LicenseStoreError) -> StoredRow? {
        try rows("WHERE id = ?") { statement throws(LicenseStoreError) in try statement.bind(1, id.bytes) }.first
    }

    private func records(_ condition: String, _ bind: Binding) throws(LicenseStoreError) -> [LicenseRecord] {
        try checkIsUsable()
        let statement = try store.connection.statement(
            "SELECT \(StoredRow.columns), sealed FROM record \(condition) ORDER BY number DESC")
        defer { statement.reset() }
        try bind(statement)
        var records: [LicenseRecord] = []
        while try statement.step() { records.append(try open(StoredRow(statement), sealed: statement.bytes(11))) }
        return records
    }

    private func open(_ row: StoredRow, sealed: [UInt8]) throws(LicenseStoreError) -> LicenseRecord {
        let keyIDs = try keyIDs(of: row.number)
        let header = StoredRow.header(
            storeID: meta.storeID, id: row.id, generation: row.generation, keyIDs: keyIDs.map(\.bytes))
        guard var clear = try store.seal.open(sealed, authenticating: header) else {
            throw .recordUnreadable("record \(Hex.encode(row.id)) was altered; delete it and acquire it anew")
        }
        defer { wipe(&clear) }
        do {
            let record = try LicenseRecord(serialized: clear)
            guard row.matches(record), record.keyIDs.map(\.bytes) == keyIDs.map(\.bytes) else {
                throw LicenseStoreError.recordUnreadable(
                    "record \(Hex.encode(row.id)) is not what its columns say; delete it and acquire it anew")
            }
            return record
        } catch let error as LicenseStoreError {
            throw error
        } catch {
            throw .recordUnreadable("record \(Hex.encode(row.id)): \(error)")
        }
    }

    private struct StoredKey {
        let bytes: [UInt8]
        let place: Int64
        /// Zeros for what is no KID; the seal covers the bytes.
        var keyID: KeyID { KeyID(bytes) ?? KeyID(high: 0, low: 0) }
    }

    private func keyIDs(of number: Int64) throws(LicenseStoreError) -> [StoredKey] {
        let statement = try store.connection.statement(
            "SELECT key_id, place FROM record_key WHERE record = ? ORDER BY place")
        defer { statement.reset() }
        try statement.bind(1, number)
        var keys: [StoredKey] = []
        while try statement.step() { keys.append(StoredKey(bytes: statement.bytes(0), place: statement.integer(1))) }
        return keys
    }

    private func code(_ bytes: [UInt8]) throws(LicenseStoreError) -> RecordSetCode {
        RecordSetCode(try store.setCode.code(of: bytes))
    }

    private func checkIsUsable() throws(LicenseStoreError) {
        guard !isOver else { throw .closed("the transaction is over") }
    }
}
