// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyStorage

/// What happens to the database and its counter when a store is opened.
extension OpenStore {
    /// Sees to it that the database is ours, and has all tables.
    static func prepare(
        _ connection: SQLiteConnection, configuration: LicenseStoreConfiguration, seal: Seal
    ) throws(LicenseStoreError) {
        let path = configuration.database
        try connection.execute("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY")
        try checkOwner(connection, configuration)
        // Truncating the journal ends a transaction, and is on disk before COMMIT returns. Deleting it would not be.
        try connection.execute(
            "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON")
        guard try connection.integer("PRAGMA user_version") < configuration.schema.version else { return }
        try connection.execute("BEGIN IMMEDIATE")
        do throws(LicenseStoreError) {
            // Another process may have been here first.
            try checkOwner(connection, configuration)
            let version = try connection.integer("PRAGMA user_version")
            if version == 0, StoreFiles.exists(configuration.counter) {
                throw .missing(
                    "\(path) is empty, but its counter \(configuration.counter) has counted; put the right database "
                        + "back, or reset the licence store")
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

    /// Throws `foreign` for another program's database, and `newerSchema` for one from the future.
    private static func checkOwner(
        _ connection: SQLiteConnection, _ configuration: LicenseStoreConfiguration
    ) throws(LicenseStoreError) {
        let path = configuration.database
        let tables = try connection.integer("SELECT count(*) FROM sqlite_schema")
        let owner = try connection.integer("PRAGMA application_id")
        let version = try connection.integer("PRAGMA user_version")
        guard owner == StoreSchema.applicationID || (owner == 0 && version == 0 && tables == 0) else {
            throw .foreign("\(path) is another program's database")
        }
        guard owner == 0 || version > 0 else { throw .corrupted("\(path): the schema version is gone") }
        guard version <= configuration.schema.version else {
            throw .newerSchema(
                "\(path) has schema \(version), this version of the library knows \(configuration.schema.version); "
                    + "use the newer version, or reset the licence store")
        }
    }

    /// The store's id and the counter, which is made for a new database.
    static func count(
        _ connection: SQLiteConnection, configuration: LicenseStoreConfiguration, seal: Seal, counterSeal: Seal
    ) throws(LicenseStoreError) -> (storeID: [UInt8], counter: GenerationFile) {
        func openCounter() throws(LicenseStoreError) -> GenerationFile? {
            try GenerationFile(path: configuration.counter, seal: counterSeal, onStep: configuration.onStep)
        }
        let path = configuration.database
        let present = try openCounter()
        // With a counter of another device, the database is that device's, too: it says so better.
        let meta = try meta(connection, path, seal)
        if let present { return (meta.storeID, present) }
        guard meta.generation == 0 else {
            throw .missing(
                "the counter \(configuration.counter) of \(path) is gone; put it back, or reset the licence store")
        }
        try GenerationFile.create(
            path: configuration.counter, value: GenerationFile.Value(storeID: meta.storeID, generation: 0),
            seal: counterSeal)
        guard let made = try openCounter() else {
            throw .missing("the counter \(configuration.counter) was removed; start again")
        }
        return (meta.storeID, made)
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
                    + "the latest one back, or reset the licence store")
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
