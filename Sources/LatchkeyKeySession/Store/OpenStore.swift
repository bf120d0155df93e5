// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyStorage

/// The files of a licence store while they are open. Used from the thread of its store alone.
final class OpenStore {
    let lock: StoreLock
    let connection: SQLiteConnection
    let seal: Seal
    let setCode: KeyedCode
    private let storeID: [UInt8]
    private let counter: GenerationFile
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
        try StoreFiles.createFolder(of: configuration.counter)
        let files = [
            configuration.database, configuration.database + "-journal", configuration.counter, configuration.lock,
        ]
        if let flaw = FileAccess.flaw(
            files: files, folders: [configuration.database, configuration.counter].map(StoreFiles.folder(of:)))
        {
            throw .cannotOpen(flaw)
        }
        lock = try StoreLock(path: configuration.lock)
        // The database is made before the counter, so looking in this order sees no counter alone.
        let hasCounter = StoreFiles.exists(configuration.counter)
        let hasDatabase = StoreFiles.exists(configuration.database)
        guard hasDatabase || !hasCounter else {
            throw .missing(
                "\(configuration.database) is gone, but not its counter \(configuration.counter); put it back, or "
                    + "reset the licence store")
        }
        let isNew = !hasDatabase
        seal = try Seal(key: try configuration.secret.key(for: "licence store records 1", creating: isNew))
        setCode = try KeyedCode(key: try configuration.secret.key(for: "licence store set 1", creating: isNew))
        let counterKey = try configuration.secret.key(for: "licence store counter 1", creating: isNew)
        if isNew { try StoreFiles.create(configuration.database, contents: []) }
        connection = try SQLiteConnection(
            path: configuration.database, fileSystem: configuration.fileSystem,
            busyTimeout: configuration.busyTimeout)
        identity = StoreFiles.identity(of: configuration.database)
        try Self.prepare(connection, configuration: configuration, seal: seal)
        (storeID, counter) = try Self.count(
            connection, configuration: configuration, seal: seal, counterSeal: try Seal(key: counterKey))
        try read { transaction throws(LicenseStoreError) in
            try self.verifySet(transaction.meta)
            generation = transaction.meta.generation
            dataVersion = try connection.integer("PRAGMA data_version")
        }
        // A transaction that was committed but not counted, because the power went between the two.
        try counter.advance(to: GenerationFile.Value(storeID: storeID, generation: generation))
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

    /// A file that was moved away can still be written to, and nobody would find again what was.
    private func checkPlace() throws(LicenseStoreError) {
        guard let identity, StoreFiles.identity(of: path) == identity else {
            throw .missing(
                "\(path) was moved, removed or replaced while it was open; put it back, or reset the licence store")
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

    /// Compares all rows with the code over them.
    private func verifySet(_ meta: StoreMeta) throws(LicenseStoreError) {
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
        let additions = try connection.integer("SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')")
        guard set == meta.set, count == meta.count, additions == 0 else {
            throw .altered(
                "\(path): rows were added, changed or taken out by something that is no licence store; put a right "
                    + "copy back, or reset the licence store")
        }
    }

    func verifyAll() throws(LicenseStoreError) {
        try read { transaction throws(LicenseStoreError) in
            let check = try connection.statement("PRAGMA integrity_check(1)")
            defer { check.reset() }
            if try check.step(), check.text(0) != "ok" { throw .corrupted("\(path): \(check.text(0))") }
            try verifySet(transaction.meta)
            for summary in try transaction.list(kind: nil) { _ = try transaction.record(summary.id) }
        }
    }
}

extension LicenseStoreError: SQLiteFailure {}

typealias SQLiteConnection = LatchkeyStorage.SQLiteConnection<LicenseStoreError>
typealias SQLiteStatement = LatchkeyStorage.SQLiteStatement<LicenseStoreError>
