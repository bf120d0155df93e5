// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyStorage

/// The files of a license store while they are open. Used from the thread of its store alone.
final class OpenStore {
    let lock: StoreLock
    let connection: SQLiteConnection
    let seal: Seal
    let setCode: KeyedCode
    private let storeID: [UInt8]
    private var counter: GenerationFile
    private let path: String
    private let identity: StoreFiles.Identity?
    private let onStep: StoreStepObserver?
    /// Tell whether something changed the database without counting.
    private var dataVersion: Int64 = 0
    private var generation: UInt64 = 0

    init(_ configuration: LicenseStoreConfiguration) throws(LicenseStoreError) {
        path = configuration.database
        onStep = configuration.onStep
        try StoreFiles.createFolder(of: configuration.database)
        let database = configuration.database
        try Self.checkAccess([database, database + "-journal", configuration.lock])
        lock = try StoreLock(path: configuration.lock)
        // With the lock, because another process may be moving the files aside.
        let given = configuration
        let configuration = try given.withCounterFound()
        try Self.checkAccess([configuration.counter])
        // The database is made before the counter, so looking in this order sees no counter alone.
        let hasCounter = StoreFiles.exists(configuration.counter)
        let hasDatabase = StoreFiles.exists(configuration.database)
        guard hasDatabase || !hasCounter else {
            throw .missing(
                "\(configuration.database) is gone, but not its counter \(configuration.counter); put it back, or "
                    + "reset the license store")
        }
        let isNew = !hasDatabase
        seal = try Seal(key: try configuration.secret.key(for: "licence store records 1", creating: isNew))
        setCode = KeyedCode(key: try configuration.secret.key(for: "licence store set 1", creating: isNew))
        let counterKey = try configuration.secret.key(for: "licence store counter 1", creating: isNew)
        if isNew { try StoreFiles.create(configuration.database, contents: []) }
        connection = try SQLiteConnection(
            path: configuration.database, fileSystem: configuration.fileSystem,
            busyTimeout: configuration.busyTimeout)
        identity = StoreFiles.identity(of: configuration.database)
        try Self.prepare(connection, configuration: configuration, seal: seal)
        let counterSeal = try Seal(key: counterKey)
        (storeID, counter) = try Self.count(
            connection, configuration: configuration, seal: seal, counterSeal: counterSeal)
        try read { transaction throws(LicenseStoreError) in
            try self.verifySet(transaction.meta)
            generation = transaction.meta.generation
            dataVersion = try connection.integer("PRAGMA data_version")
        }
        var path = configuration.counter
        if path != given.counter {
            path = try given.place(path)
            try Self.checkAccess([path])
            guard let placed = try GenerationFile(path: path, seal: counterSeal, onStep: onStep) else {
                throw Self.removed(path)
            }
            counter = placed
            try read { _ throws(LicenseStoreError) in }
        }
        if path == given.counter { try removeLeftovers(given.earlierCounters, counterSeal) }
        // A transaction that was committed but not counted, because the power went between the two.
        try counter.advance(to: GenerationFile.Value(storeID: storeID, generation: generation))
    }

    /// If the power went while a counter was brought to its place, the earlier one is still there. An older copy would agree with it.
    private func removeLeftovers(_ counters: [String], _ seal: Seal) throws(LicenseStoreError) {
        for path in counters where StoreFiles.exists(path) {
            // That of another store stays: the folder that a link took the place of needs it.
            guard let value = try? GenerationFile(path: path, seal: seal, onStep: nil)?.read(),
                value.storeID == storeID, value.generation <= generation
            else { continue }
            try StoreFiles.remove(path)
        }
    }

    private static func checkAccess(_ files: [String]) throws(LicenseStoreError) {
        if let flaw = FileAccess.flaw(files: files, folders: Set(files.map(StoreFiles.folder(of:))).sorted()) {
            throw .cannotOpen(flaw)
        }
    }

    func close() { connection.close() }

    // MARK: Transactions

    func write<Result>(
        _ body: (LicenseStoreTransaction) throws(LicenseStoreError) -> Result
    ) throws(LicenseStoreError) -> Result {
        try checkPlace()
        let counted = try counter.read()
        try connection.execute("BEGIN IMMEDIATE")
        let result: Result
        let meta: StoreMeta
        do throws(LicenseStoreError) {
            onStep?(.transactionBegun)
            let transaction = LicenseStoreTransaction(self, meta: try checkedMeta(after: counted), isReadOnly: false)
            defer { transaction.end() }
            result = try body(transaction)
            meta = transaction.meta
            guard transaction.hasChanges else {
                try connection.execute("COMMIT")
                return result
            }
            try Self.write(meta, connection, seal)
            onStep?(.beforeCommit)
            try connection.execute("COMMIT")
        } catch {
            connection.rollBack()
            throw error
        }
        onStep?(.afterCommit)
        generation = meta.generation
        do throws(LicenseStoreError) {
            try counter.advance(to: GenerationFile.Value(storeID: storeID, generation: meta.generation))
        } catch {
            throw error.adding("the change is on disk, but not counted")
        }
        return result
    }

    func read<Result>(
        _ body: (LicenseStoreTransaction) throws(LicenseStoreError) -> Result
    ) throws(LicenseStoreError) -> Result {
        try checkPlace()
        // Read before the database is: the counter follows it, so what it says now is in what is read next.
        let counted = try counter.read()
        try connection.execute("BEGIN")
        do throws(LicenseStoreError) {
            let transaction = LicenseStoreTransaction(self, meta: try checkedMeta(after: counted), isReadOnly: true)
            defer { transaction.end() }
            let result = try body(transaction)
            try connection.execute("COMMIT")
            return result
        } catch {
            connection.rollBack()
            throw error
        }
    }

    /// A file that was moved away can still be written to, and what was written would never be found again.
    private func checkPlace() throws(LicenseStoreError) {
        guard let identity, StoreFiles.identity(of: path) == identity else {
            throw .missing(
                "\(path) was moved, removed or replaced while it was open; put it back, or reset the license store")
        }
    }

    private func checkedMeta(after counted: GenerationFile.Value) throws(LicenseStoreError) -> StoreMeta {
        let meta = try Self.meta(connection, path, seal)
        try Self.compare(meta, with: counted, path: path)
        guard meta.storeID == storeID else { throw .altered("\(path) was replaced while it was open; open it again") }
        let version = try connection.integer("PRAGMA data_version")
        if version != dataVersion, dataVersion != 0 {
            // Another store counts what it does. Where nothing was counted, something else was at work.
            if meta.generation == generation { try verifySet(meta) }
            generation = meta.generation
        }
        dataVersion = version
        return meta
    }

    // MARK: Checks

    /// Compares all rows with the code over them. An index that does not name a row would hide it from those who look for it,
    /// so SQLite compares the indices with the tables.
    private func verifySet(_ meta: StoreMeta) throws(LicenseStoreError) {
        try Self.refuseAdditions(connection, path)
        let check = try connection.statement("PRAGMA integrity_check(1)")
        defer { check.reset() }
        if try check.step(), check.text(0) != "ok" { throw .corrupted("\(path): \(check.text(0))") }
        var set = RecordSetCode()
        var count: UInt64 = 0
        let rows = try connection.statement("SELECT \(StoredRow.columns) FROM record")
        defer { rows.reset() }
        while try rows.step() {
            set.add(RecordSetCode(try setCode.code(of: StoredRow(rows).coded)))
            count += 1
        }
        let keys = try connection.statement("SELECT key_id, record, place FROM record_key")
        defer { keys.reset() }
        while try keys.step() {
            let coded = StoredRow.codedKey(keys.bytes(0), record: keys.integer(1), place: keys.integer(2))
            set.add(RecordSetCode(try setCode.code(of: coded)))
        }
        guard set == meta.set, count == meta.count else { throw Self.altered(path) }
    }

    func verifyAll() throws(LicenseStoreError) {
        try read { transaction throws(LicenseStoreError) in
            try verifySet(transaction.meta)
            for summary in try transaction.list(kind: nil) { _ = try transaction.record(summary.id) }
        }
    }
}

extension LicenseStoreError: SQLiteFailure {}

typealias SQLiteConnection = LatchkeyStorage.SQLiteConnection<LicenseStoreError>
typealias SQLiteStatement = LatchkeyStorage.SQLiteStatement<LicenseStoreError>

/// What happens to the database and its counter when a store is opened.
extension OpenStore {
    /// Sees to it that the database is ours, and has all tables.
    static func prepare(
        _ connection: SQLiteConnection, configuration: LicenseStoreConfiguration, seal: Seal
    ) throws(LicenseStoreError) {
        let path = configuration.database
        try connection.execute("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY")
        try checkOwner(connection, configuration)
        try refuseAdditions(connection, path)
        // Truncating the journal ends a transaction, and is on disk before COMMIT returns. Deleting it would not be.
        try connection.execute(
            "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON")
        guard try connection.integer("PRAGMA user_version") < configuration.schema.version else { return }
        try connection.execute("BEGIN IMMEDIATE")
        do throws(LicenseStoreError) {
            // Another process may have been here first.
            try checkOwner(connection, configuration)
            let version = try connection.integer("PRAGMA user_version")
            // Another process may have brought the counter to its place.
            if version == 0, let counter = configuration.counters.first(where: StoreFiles.exists) {
                throw .missing(
                    "\(path) is empty, but its counter \(counter) has counted; put the right database "
                        + "back, or reset the license store")
            }
            for step in configuration.schema.steps.dropFirst(Int(version)) { try connection.execute(step) }
            if version == 0 {
                try write(StoreMeta(storeID: try randomBytes(RecordID.size)), connection, seal)
                try connection.execute("PRAGMA application_id = \(StoreSchema.applicationID)")
            }
            try connection.execute("PRAGMA user_version = \(max(version, configuration.schema.version))")
            try connection.execute("COMMIT")
        } catch {
            connection.rollBack()
            throw error
        }
    }

    /// A view in the place of a table could give rows without an end, and a trigger could change what is written.
    static func refuseAdditions(_ connection: SQLiteConnection, _ path: String) throws(LicenseStoreError) {
        let additions = try connection.integer(
            "SELECT count(*) FROM sqlite_schema WHERE sql NOT LIKE 'CREATE TABLE %' AND sql NOT LIKE 'CREATE INDEX %'")
        guard additions == 0 else { throw altered(path) }
    }

    static func altered(_ path: String) -> LicenseStoreError {
        .altered(
            "\(path): rows were added, changed or taken out by something that is no license store; put a right copy back, or "
                + "reset the license store")
    }

    /// Throws `foreign` for another program's database, and `newerSchema` for one from the future.
    private static func checkOwner(
        _ connection: SQLiteConnection, _ configuration: LicenseStoreConfiguration
    ) throws(LicenseStoreError) {
        let path = configuration.database
        // One statement: another process may be making the tables.
        let found = try connection.statement(
            "SELECT count(*), (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version) "
                + "FROM sqlite_schema")
        defer { found.reset() }
        _ = try found.step()
        let (tables, owner, version) = (found.integer(0), found.integer(1), found.integer(2))
        guard owner == StoreSchema.applicationID || (owner == 0 && version == 0 && tables == 0) else {
            throw .foreign("\(path) is another program's database")
        }
        guard owner == 0 || version > 0 else { throw .corrupted("\(path): the schema version is gone") }
        guard version <= configuration.schema.version else {
            throw .newerSchema(
                "\(path) has schema \(version), this version of the library knows \(configuration.schema.version); "
                    + "use the newer version, or reset the license store")
        }
    }

    /// The store's id and the counter, which is made for a new database.
    static func count(
        _ connection: SQLiteConnection, configuration: LicenseStoreConfiguration, seal: Seal, counterSeal: Seal
    ) throws(LicenseStoreError) -> (storeID: [UInt8], counter: GenerationFile) {
        func openCounter() throws(LicenseStoreError) -> GenerationFile? {
            for path in configuration.counters {
                let file = try GenerationFile(path: path, seal: counterSeal, onStep: configuration.onStep)
                if let file { return file }
            }
            return nil
        }
        let path = configuration.database
        let present = try openCounter()
        // With a counter of another device, the database is that device's, too: it says so better.
        let meta = try meta(connection, path, seal)
        if let present { return (meta.storeID, present) }
        guard meta.generation == 0 else {
            throw .missing(
                "the counter \(configuration.counter) of \(path) is gone. If the store was copied or moved, or XDG_STATE_HOME or "
                    + "HOME has changed, put that back; else reset the license store")
        }
        do throws(LicenseStoreError) {
            try GenerationFile.create(
                path: configuration.counter, value: GenerationFile.Value(storeID: meta.storeID, generation: 0),
                seal: counterSeal)
        } catch {
            throw configuration.counterFailure(error)
        }
        guard let made = try openCounter() else { throw removed(configuration.counter) }
        return (meta.storeID, made)
    }

    private static func removed(_ counter: String) -> LicenseStoreError {
        .missing("the counter \(counter) was removed; start again")
    }

    static func compare(
        _ meta: StoreMeta, with counted: GenerationFile.Value, path: String
    ) throws(LicenseStoreError) {
        guard counted.storeID == meta.storeID else {
            throw .rolledBack("\(path) is not the database that its counter counts; put that back, or reset the store")
        }
        guard counted.generation <= meta.generation else {
            throw .rolledBack(
                "\(path) is an older copy: generation \(meta.generation), where \(counted.generation) was seen; put "
                    + "the latest one back, or reset the license store")
        }
    }

    static func meta(
        _ connection: SQLiteConnection, _ path: String, _ seal: Seal
    ) throws(LicenseStoreError) -> StoreMeta {
        let statement = try connection.statement("SELECT sealed FROM meta WHERE id = 1")
        defer { statement.reset() }
        guard try statement.step() else { throw .corrupted("\(path): the row about the store is gone") }
        guard let bytes = try seal.open(statement.bytes(0), authenticating: StoreMeta.header),
            let meta = StoreMeta(bytes)
        else { throw .foreign("\(path) was sealed on another device, with another secret, or was altered") }
        return meta
    }

    static func write(
        _ meta: StoreMeta, _ connection: SQLiteConnection, _ seal: Seal
    ) throws(LicenseStoreError) {
        let statement = try connection.statement("INSERT OR REPLACE INTO meta (id, sealed) VALUES (1, ?)")
        try statement.bind(1, try seal.seal(meta.bytes, authenticating: StoreMeta.header))
        try statement.run()
    }
}

/// The tables of the license store, and how they came to be: one step a version.
///
/// A database of an earlier version goes through the steps that it lacks, in one transaction. A step changes tables; it
/// neither adds records nor takes them out, and leaves the columns that `StoredRow` codes as they are.
package struct StoreSchema: Sendable {
    /// `PRAGMA application_id` of our databases: "LKLS".
    static let applicationID: Int64 = 0x4C4B_4C53

    /// The statements that lead to version 1, 2, ….
    package let steps: [String]

    package init(steps: [String]) { self.steps = steps }

    /// `PRAGMA user_version` of a database that has been through all steps.
    var version: Int64 { Int64(steps.count) }

    package static let current = StoreSchema(steps: [
        """
        CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), sealed BLOB NOT NULL);
        CREATE TABLE record (
            number INTEGER PRIMARY KEY,
            id BLOB NOT NULL UNIQUE,
            kind INTEGER NOT NULL,
            key_system INTEGER NOT NULL,
            key_count INTEGER NOT NULL,
            content_id BLOB NOT NULL,
            begins INTEGER,
            ends INTEGER,
            removal INTEGER,
            generation INTEGER NOT NULL,
            tag BLOB NOT NULL,
            sealed BLOB NOT NULL
        );
        CREATE INDEX record_content ON record (content_id);
        CREATE INDEX record_removal ON record (removal) WHERE removal IS NOT NULL;
        CREATE TABLE record_key (
            key_id BLOB NOT NULL,
            record INTEGER NOT NULL REFERENCES record (number),
            place INTEGER NOT NULL,
            PRIMARY KEY (key_id, record)
        ) WITHOUT ROWID;
        CREATE INDEX record_key_record ON record_key (record);
        """
    ])
}
