// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection
import LatchkeyStorage

/// Licenses, domains, persistable keys, first-play marks and reports on disk, sealed for this device.
///
/// An SQLite database with the rollback journal and `synchronous=FULL`: what a call has acknowledged outlives a power
/// cut, and what it has not is there as a whole or not at all. The journal is the rollback one because then the database
/// is one file, with nothing beside it between two transactions: it can be told apart from an older copy of itself, moved
/// aside and looked at as one thing. Transactions here are few and small, and gain nothing from WAL.
///
/// Every record is sealed with AES-256-GCM under a key derived from the device secret. A generation, which grows with
/// each transaction, is sealed in the database and in a second place, the counter file: an older database that was put
/// back is refused with `rolledBack`. The counter follows the database, so after a power cut it may be behind, never
/// ahead. A code over all rows shows when the database is opened whether one was taken out, changed or put back
/// (`altered`).
///
/// The seal does not withstand an attacker that restores database and counter together, or that reads the device
/// secret. License services limit that by dates.
///
/// Thread-safe. Everything happens on a thread of its own, so that no caller ever waits for a disk. Several stores, also
/// of several processes, may have the same files open.
public actor LicenseStore {
    private let executor: StorageExecutor
    private let configuration: LicenseStoreConfiguration
    private var stage: Stage

    private enum Stage {
        case new
        case open(OpenStore)
        case failed(LicenseStoreError)
        case closed
    }

    /// A thread of the store's own, because SQLite and the disk block.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private init(_ configuration: LicenseStoreConfiguration) {
        executor = StorageExecutor()
        self.configuration = configuration
        stage = .new
    }

    /// Opens the store, and makes its files where none of them is there yet.
    ///
    /// A database that is damaged or foreign is moved aside with its counter, never emptied: the error says where to,
    /// and the next `open` makes a new store. After `rolledBack`, `altered`, `missing`, `secretMissing` and
    /// `newerSchema`, the files stay as they are: put the right ones back, or call `reset`.
    public static func open(_ configuration: LicenseStoreConfiguration) async throws(LicenseStoreError) -> LicenseStore
    {
        let store = LicenseStore(configuration)
        try await store.start()
        return store
    }

    /// Moves the files of a store aside, whatever state they are in, so that the next `open` makes a new one. Returns
    /// where they are now; delete them when they are not needed any more. The device secret stays.
    ///
    /// For a store that opens, `deleteAll` does the same without closing it. Throws `inUse` while it is open anywhere.
    public static func reset(_ configuration: LicenseStoreConfiguration) async throws(LicenseStoreError) -> [String] {
        try await LicenseStore(configuration).moveAside()
    }

    /// Ends the use of the files. Later calls throw `closed`. A store closes itself when its last reference goes.
    public func close() { stage = .closed }

    /// False once it was closed, or failed in a way that it does not go on from.
    public var isOpen: Bool { if case .open = stage { true } else { false } }

    // MARK: Records

    /// Adds a record, or replaces the one with its id. On disk when the call returns. Throws `recordTooLarge`,
    /// `aborted` where the id is that of a record of another kind, and the errors of `transaction`.
    public func put(_ record: LicenseRecord) throws(LicenseStoreError) {
        try transaction { transaction throws(LicenseStoreError) in try transaction.put(record) }
    }

    /// The record with this id; nil where there is none. Throws `recordUnreadable` where it cannot be opened, and the
    /// errors of `read`.
    public func record(_ id: RecordID) throws(LicenseStoreError) -> LicenseRecord? {
        try read { transaction throws(LicenseStoreError) in try transaction.record(id) }
    }

    /// The records of a kind (of any, for nil) that name a KID, the latest first. Throws as `record(_:)` does.
    public func records(for keyID: KeyID, kind: LicenseRecord.Kind? = nil) throws(LicenseStoreError) -> [LicenseRecord]
    {
        try read { transaction throws(LicenseStoreError) in try transaction.records(for: keyID, kind: kind) }
    }

    /// The records of a kind (of any, for nil) with this content id, the latest first. Throws as `record(_:)` does.
    public func records(
        contentID: [UInt8], kind: LicenseRecord.Kind? = nil
    ) throws(LicenseStoreError) -> [LicenseRecord] {
        try read { transaction throws(LicenseStoreError) in
            try transaction.records(contentID: contentID, kind: kind)
        }
    }

    /// What is there, without payloads, the latest first. Throws as `read` does.
    public func list(kind: LicenseRecord.Kind? = nil) throws(LicenseStoreError) -> [LicenseRecord.Summary] {
        try read { transaction throws(LicenseStoreError) in try transaction.list(kind: kind) }
    }

    /// Takes a record out. False where it is not there. Throws as `transaction` does.
    @discardableResult
    public func delete(_ id: RecordID) throws(LicenseStoreError) -> Bool {
        try transaction { transaction throws(LicenseStoreError) in try transaction.delete(id) }
    }

    /// Takes out every record whose removal date is `now` or earlier; returns how many. Call it with a trusted time.
    /// Throws as `transaction` does.
    @discardableResult
    public func deleteRemovable(at now: UnixTime) throws(LicenseStoreError) -> Int {
        try transaction { transaction throws(LicenseStoreError) in try transaction.deleteRemovable(at: now) }
    }

    /// “Reset DRM database”: takes out every record of a kind, or of all kinds but `clock`: emptying the store does not
    /// make the clock forget. Returns how many. Throws as `transaction` does.
    @discardableResult
    public func deleteAll(kind: LicenseRecord.Kind? = nil) throws(LicenseStoreError) -> Int {
        try transaction { transaction throws(LicenseStoreError) in try transaction.deleteAll(kind: kind) }
    }

    // MARK: Transactions

    /// Runs `body` on the store's thread as one transaction: all of its changes are on disk when the call returns, or
    /// none is there when it throws. `body` sees its own changes; it must not block and must not keep the transaction.
    ///
    /// One exception: where the error's text says that the change is on disk but not counted, it may be there.
    ///
    /// Throws what `body` throws, what `read` throws, `diskFull` and `readOnly`.
    public func transaction<Result: Sendable>(
        _ body: @Sendable (LicenseStoreTransaction) throws(LicenseStoreError) -> Result
    ) throws(LicenseStoreError) -> Result {
        try use { store throws(LicenseStoreError) in try store.write(body) }
    }

    /// Runs `body` on one state of the database, whatever others write meanwhile. It must not change anything. Throws
    /// what `body` throws, `closed`, `busy`, and what is wrong with the files: `corrupted`, `altered`, `rolledBack`,
    /// `missing`, `inputOutput`.
    public func read<Result: Sendable>(
        _ body: @Sendable (LicenseStoreTransaction) throws(LicenseStoreError) -> Result
    ) throws(LicenseStoreError) -> Result {
        try use { store throws(LicenseStoreError) in try store.read(body) }
    }

    /// Checks every page, every row and every record; throws what it finds first.
    public func verify() throws(LicenseStoreError) {
        try use { store throws(LicenseStoreError) in try store.verifyAll() }
    }

    // MARK: On the store's thread

    private func start() throws(LicenseStoreError) {
        do throws(LicenseStoreError) {
            stage = .open(try OpenStore(configuration))
        } catch {
            throw fail(error, lock: nil)
        }
    }

    private func use<Result>(
        _ body: (OpenStore) throws(LicenseStoreError) -> Result
    ) throws(LicenseStoreError) -> Result {
        switch stage {
        case .open(let store):
            do throws(LicenseStoreError) {
                return try body(store)
            } catch  where error.isSameKind(as: .corrupted("")) || error.isSameKind(as: .missing("")) {
                store.close()
                throw fail(error, lock: store.lock)
            }
        case .failed(let error): throw error
        case .new, .closed: throw .closed("the license store \(configuration.database) is closed")
        }
    }

    /// Ends the use of the files, with the database closed. Those of a damaged or foreign database are moved aside.
    private func fail(_ error: LicenseStoreError, lock: StoreLock?) -> LicenseStoreError {
        stage = .failed(error)
        guard error.isSameKind(as: .corrupted("")) || error.isSameKind(as: .foreign("")) else { return error }
        let result: String
        do throws(LicenseStoreError) {
            let held = if let lock { lock } else { try StoreLock(path: configuration.lock) }
            guard held.becomeExclusive() else { throw .inUse("another store has it open; close that") }
            let names = try StoreFiles.moveAside(configuration.itsOwn, reason: "aside")
            let next =
                if let counter = configuration.counters.first(where: StoreFiles.exists) {
                    "the counter \(counter) stays, because it may be that of another folder: put that back, or reset the "
                        + "license store"
                } else {
                    "the next start makes a new store"
                }
            result = "kept as \(names.joined(separator: ", ")); \(next)"
        } catch {
            result = "left in place: \(error)"
        }
        let explained = error.adding(result)
        stage = .failed(explained)
        return explained
    }

    private func moveAside() throws(LicenseStoreError) -> [String] {
        stage = .closed
        try StoreFiles.createFolder(of: configuration.database)
        let lock = try StoreLock(path: configuration.lock)
        guard lock.becomeExclusive() else {
            throw .inUse("\(configuration.database) is open in a store; close every store first")
        }
        return try StoreFiles.moveAside(configuration.movable, reason: "reset")
    }
}

/// Where a license store keeps what.
public struct LicenseStoreConfiguration: Sendable {
    /// The path of the database.
    public var database: String
    /// The path of the generation counter. Put it where a backup of the database does not take it along: to restore
    /// both is to restore the past.
    public var counter: String
    /// What the store is sealed with.
    public var secret: any DeviceSecret
    /// How long the store waits for other processes before it says `busy`. Milliseconds count.
    public var busyTimeout: Duration = .seconds(10)

    /// Where earlier versions had the counter. The first that is there is taken over once the database was compared with it.
    private(set) var earlierCounters: [String] = []

    // What tests set.
    package var schema = StoreSchema.current
    package var fileSystem: String?
    package var onStep: StoreStepObserver?

    /// `database` and `counter` are paths; their folders are made where they are missing.
    public init(database: String, counter: String, secret: any DeviceSecret) {
        self.database = database
        self.counter = counter
        self.secret = secret
    }

    /// The places of the XDG Base Directory Specification: the database under `XDG_DATA_HOME`, the counter and the file
    /// with the device secret under `XDG_STATE_HOME`, in folders named `latchkey`. Nil where `environment` has neither
    /// these nor `HOME`. Variables that are no absolute paths count as unset, as the specification asks for.
    public init?(environment: [String: String]) {
        func folder(_ variable: String, _ fallback: String) -> String? {
            if let path = environment[variable], path.hasPrefix("/") { return path + "/latchkey" }
            guard let home = environment["HOME"], home.hasPrefix("/") else { return nil }
            return "\(home)/\(fallback)/latchkey"
        }
        guard let data = folder("XDG_DATA_HOME", ".local/share"), let state = folder("XDG_STATE_HOME", ".local/state")
        else { return nil }
        self.init(
            database: data + "/licenses.db", counter: state + "/licenses.counter",
            secret: FileDeviceSecret(path: state + "/device.secret"))
    }

    /// The database and the device secret in one folder: `licenses.db` and `device.secret`. The counter is in the user's folder
    /// for state, under a name that the path of the folder gives: a copy of the folder that is put back, or is elsewhere, is
    /// refused. Where `environment` has neither `XDG_STATE_HOME` nor `HOME`, it is `licenses.counter` beside the database.
    public init(folder: String, environment: [String: String] = ViewingSettings.processEnvironment) {
        self.init(
            database: folder + "/licenses.db", counter: folder + "/licenses.counter",
            secret: FileDeviceSecret(path: folder + "/device.secret"))
        guard let counters = ViewingSettings.stateFolder("counters", environment) else { return }
        let names = [StoreFiles.resolved(folder), folder].compactMap { path -> String? in
            let digest = try? ExitGate.pass { () throws(CryptoError) in try Digest.sha256(Array(path.utf8)) }
            return digest.map { "\(counters)/\(Hex.encode($0.prefix(16)))" }
        }
        guard let name = names.first else { return }
        // Earlier versions had it beside the database, or named it by the path as it was written.
        earlierCounters = [counter] + names.filter { $0 != name }
        counter = name
    }

    /// Whether something was ever stored: opening makes a store where there is none, and looking must not.
    public var isThere: Bool { ([database] + counters).contains { (path: String) in access(path, F_OK) == 0 } }

    /// Where the counter may be, its own place first.
    var counters: [String] { [counter] + earlierCounters }

    /// The same with the counter that is there. One in an earlier place stays until the database was compared with it: behind a link
    /// may be a copy, and the folder that is put back then needs it. With the lock held.
    func withCounterFound() throws(LicenseStoreError) -> LicenseStoreConfiguration {
        var found = self
        if let there = counters.first(where: StoreFiles.exists) {
            found.counter = there
            // Another process may bring it to its place at any time.
            found.earlierCounters = counters.filter { $0 != there }
            return found
        }
        do throws(LicenseStoreError) {
            try StoreFiles.createFolder(of: counter)
        } catch {
            throw counterFailure(error)
        }
        return found
    }

    /// Brings a counter from an earlier place to its own, once, and returns where it is: it stays if none can be made in its place.
    /// With the lock held.
    func place(_ found: String) throws(LicenseStoreError) -> String {
        do throws(LicenseStoreError) {
            try StoreFiles.createFolder(of: counter)
            try StoreFiles.move(found, to: counter)
            return counter
        } catch {
            guard !StoreFiles.exists(counter) else { throw counterFailure(error) }
            return found
        }
    }

    /// Says what to do if the counter cannot be made.
    func counterFailure(_ error: LicenseStoreError) -> LicenseStoreError {
        error.adding(
            "the counter of \(database) belongs there. If XDG_STATE_HOME or HOME names that place, set it to a folder that can "
                + "be written and stays")
    }

    /// The file that stores lock while they are open.
    var lock: String { database + ".lock" }

    /// All that moves when the database is moved aside. SQLite names its journal after the database.
    var movable: [String] { [database, database + "-journal"] + counters }

    /// What of that surely is of this database, also if it was never compared with a counter. The path of the folder may be a link.
    /// Then a counter that its spelling names may be that of the folder whose place the link took.
    var itsOwn: [String] {
        movable.filter { $0 == counter || StoreFiles.folder(of: $0) == StoreFiles.folder(of: database) }
    }
}
