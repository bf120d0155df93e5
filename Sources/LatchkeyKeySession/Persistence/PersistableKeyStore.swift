// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection
import Synchronization

/// Where small records are that need no protection from an older copy: reports of sessions, and which key servers send their
/// code. Keys are in a license store (`PersistableKeys`). It keeps bytes by name: letters, digits and hyphens, 128 at most.
///
/// Thread-safe. Calls may block for as long as a file system does.
public protocol PersistableKeyStore: Sendable {
    /// Nil where there is nothing of this name.
    func data(named name: String) throws(KeyError) -> [UInt8]?
    /// In place of what has this name.
    func store(_ data: [UInt8], named name: String) throws(KeyError)
    /// Nothing happens where there is nothing of this name.
    func remove(named name: String) throws(KeyError)
    /// In no order.
    func names() throws(KeyError) -> [String]
}

extension PersistableKeyStore {
    /// Removes everything. Throws at the first that cannot be removed; the others stay.
    public func removeAll() throws(KeyError) {
        for name in try names() { try remove(named: name) }
    }
}

/// A folder with one file for each record, which only its owner may read. Thread-safe; several processes may share
/// the folder, as each file is replaced in one step.
public final class FilePersistableKeyStore: PersistableKeyStore {
    /// The path of the folder.
    public let folder: String
    private let kind: String
    private let isMadeOnDemand: Bool
    private static let suffix = ".lkpk"
    private static let maximumSize = 64 * 1024

    /// Makes the folder where it is missing. Throws `invalidConfiguration` with the path and the reason.
    public init(folder: String) throws(KeyError) {
        self.folder = folder
        (kind, isMadeOnDemand) = ("stored key", false)
        guard mkdir(folder, 0o700) == 0 || errno == EEXIST else {
            throw RegularFile.failure("stored keys \(folder)", errno)
        }
    }

    /// Makes the folder, and those above it, with the first file. `kind` names what is stored in error texts.
    init(onDemand folder: String, kind: String) {
        self.folder = folder
        (self.kind, isMadeOnDemand) = (kind, true)
    }

    /// Reads a file of 64 KiB at most. Throws `invalidConfiguration` with path and reason.
    public func data(named name: String) throws(KeyError) -> [UInt8]? {
        let path = try path(name)
        guard access(path, F_OK) == 0 else {
            if errno == ENOENT || errno == ENOTDIR { return nil }
            throw RegularFile.failure("\(kind) \(path)", errno)
        }
        try checkFolder()
        return try RegularFile(path: path, kind: kind, has: .settings, followsLinks: false)
            .contents(limit: Self.maximumSize)
    }

    /// Replaces the file in one step, so that a crash leaves the old or the new key. Throws `invalidConfiguration`, also if others
    /// may write to the folder.
    public func store(_ data: [UInt8], named name: String) throws(KeyError) {
        let path = try path(name)
        if isMadeOnDemand {
            do throws(LicenseStoreError) {
                try StoreFiles.createFolder(of: path)
            } catch {
                throw .invalidConfiguration("\(kind) \(error)")
            }
        }
        // Others could take it away again.
        try checkFolder()
        try RegularFile.write(data, to: path, subject: "\(kind) \(path)")
    }

    private func checkFolder() throws(KeyError) {
        if let flaw = FileAccess.flaw(files: [], folders: [folder]) { throw .invalidConfiguration("\(kind) \(flaw)") }
    }

    /// Removes the file; a copy that was made of it stays good. Throws `invalidConfiguration`.
    public func remove(named name: String) throws(KeyError) {
        let path = try path(name)
        guard unlink(path) == 0 || errno == ENOENT else { throw RegularFile.failure("\(kind) \(path)", errno) }
    }

    /// The names of the files without `.lkpk`. Throws `invalidConfiguration` where the folder cannot be read.
    public func names() throws(KeyError) -> [String] {
        guard let handle = opendir(folder) else {
            if isMadeOnDemand, errno == ENOENT { return [] }
            throw RegularFile.failure("\(kind)s \(folder)", errno)
        }
        defer { closedir(handle) }
        var names: [String] = []
        while let entry = readdir(handle) {
            // SAFETY: the entry holds a name that ends in NUL, good until the next call of `readdir`.
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasSuffix(Self.suffix) { names.append(String(name.dropLast(Self.suffix.count))) }
        }
        return names
    }

    /// Letters, digits and hyphens only, so that no name leads out of the folder.
    private func path(_ name: String) throws(KeyError) -> String {
        guard !name.isEmpty, name.utf8.count <= 128,
            name.utf8.allSatisfy({ 0x30...0x39 ~= $0 || 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 || $0 == 0x2D })
        else { throw .invalidConfiguration("\(kind)s \(folder): a name that no file can have") }
        return "\(folder)/\(name)\(Self.suffix)"
    }
}

/// The stored keys of FairPlay-style licenses in a license store, and the trusted clock by which they end.
///
/// Keys are found by their content identifier, and by their KID if several have one identifier. The store is opened at the
/// first use, on a thread of its own. Several objects, also of several processes, may use one store. Thread-safe.
public final class PersistableKeys: Sendable {
    /// Where the keys are.
    public let configuration: LicenseStoreConfiguration
    private let policy: TrustedClockPolicy
    private let clocks: any ClockSource
    private let state = Mutex(State())

    private struct Parts: Sendable {
        let store: LicenseStore
        let clock: TrustedClock
    }

    private struct State {
        var opening: Task<Result<Parts, LicenseStoreError>, Never>?
        /// Nil until the store was opened, or could not be.
        var clock: Result<TrustedClock, LicenseStoreError>?
    }

    /// The user's own license store. Nil if there is no place for it.
    static let ofUser = LicenseStoreConfiguration(environment: ViewingSettings.processEnvironment).map {
        PersistableKeys($0)
    }

    /// Opens nothing yet.
    public init(
        _ configuration: LicenseStoreConfiguration, policy: TrustedClockPolicy = TrustedClockPolicy(),
        clocks: any ClockSource = SystemClocks()
    ) {
        self.configuration = configuration
        self.policy = policy
        self.clocks = clocks
    }

    // MARK: Keys

    /// The sealed key; nil if none is stored. With a KID, one that was stored without a KID will do if there is no other;
    /// without a KID, the only one of the content identifier. Throws `invalidConfiguration` if the store cannot be used.
    public func key(for contentIdentifier: [UInt8], keyID: KeyID? = nil) async throws(KeyError) -> [UInt8]? {
        try await record(for: contentIdentifier, keyID: keyID)?.payload
    }

    /// The same, as it is in the store.
    func record(for contentIdentifier: [UInt8], keyID: KeyID?) async throws(KeyError) -> LicenseRecord? {
        let records = try await records(for: contentIdentifier)
        if let keyID, let own = records.first(where: { $0.keyIDs == [keyID] }) { return own }
        if let plain = records.first(where: \.keyIDs.isEmpty) { return plain }
        return keyID == nil && records.count == 1 ? records[0] : nil
    }

    /// All that are stored for a content identifier. Makes no store.
    func records(for contentIdentifier: [UInt8]) async throws(KeyError) -> [LicenseRecord] {
        guard configuration.isThere else { return [] }
        let name = try Self.digest(contentIdentifier)
        return try await read { transaction throws(LicenseStoreError) in
            try transaction.records(contentID: name, kind: .persistableKey)
        }
    }

    /// Stores a sealed key, in place of the one that is there. Throws `invalidConfiguration`.
    public func store(_ key: [UInt8], for contentIdentifier: [UInt8], keyID: KeyID? = nil) async throws(KeyError) {
        _ = try await store(key, for: contentIdentifier, keyID: keyID) { _ in false }
    }

    /// Stores a sealed key, unless the one that is there is to be kept. Returns what is there then. Nothing comes between.
    func store(
        _ key: [UInt8], for contentIdentifier: [UInt8], keyID: KeyID? = nil,
        unless keeps: @Sendable ([UInt8]) -> Bool
    ) async throws(KeyError) -> LicenseRecord {
        let name = try Self.digest(contentIdentifier)
        let id = try Self.digest(Array("latchkey persistable key 1".utf8) + name + (keyID?.bytes ?? []))
        let record = LicenseRecord(
            id: RecordID(prefixOf: id), kind: .persistableKey, keySystem: .fairPlay, keyIDs: keyID.map { [$0] } ?? [],
            contentID: name, payload: key)
        return try await write { transaction throws(LicenseStoreError) in
            // One that cannot be read is of no use to anyone.
            if let stored = try? transaction.record(record.id), keeps(stored.payload) { return stored }
            try transaction.put(record)
            return record
        }
    }

    /// Replaces a key by what `change` makes of it, in one step, unless that is nil or the key is gone. Returns the new one.
    func update(_ id: RecordID, _ change: @Sendable ([UInt8]) -> [UInt8]?) async throws(KeyError) -> [UInt8]? {
        try await write { transaction throws(LicenseStoreError) in
            guard var record = try transaction.record(id), let changed = change(record.payload) else { return nil }
            record.payload = changed
            try transaction.put(record)
            return changed
        }
    }

    func remove(_ id: RecordID) async throws(KeyError) {
        _ = try await write { transaction throws(LicenseStoreError) in try transaction.delete(id) }
    }

    /// Removes the keys of a content identifier, as AVFoundation's `invalidatePersistableContentKey(_:options:)`. Sessions
    /// that use them go on. Throws `invalidConfiguration`.
    public func invalidate(_ contentIdentifier: [UInt8]) async throws(KeyError) {
        for record in try await records(for: contentIdentifier) { try await remove(record.id) }
    }

    /// How many keys are stored, those of earlier versions among them. Makes no store. Throws `invalidConfiguration`.
    public var count: Int {
        get async throws(KeyError) {
            let earlier = try earlierNames().count
            guard configuration.isThere else { return earlier }
            return try await read { transaction throws(LicenseStoreError) in
                try transaction.list(kind: .persistableKey).count
            } + earlier
        }
    }

    /// Removes every key, those of earlier versions too, as AVFoundation's
    /// `invalidateAllPersistableContentKeys(forApp:options:)`. Makes no store. Throws `invalidConfiguration`.
    public func invalidateAll() async throws(KeyError) {
        for name in try earlierNames() { try earlier.remove(named: name) }
        guard configuration.isThere else { return }
        _ = try await write { transaction throws(LicenseStoreError) in
            try transaction.deleteAll(kind: .persistableKey)
        }
    }

    // MARK: Keys of earlier versions

    /// Earlier versions had a file for each key, which could be put back. They are not read.
    private var earlier: FilePersistableKeyStore {
        FilePersistableKeyStore(onDemand: StoreFiles.folder(of: configuration.database), kind: "stored key")
    }

    private func earlierNames() throws(KeyError) -> [String] { try earlier.names().filter { $0.hasPrefix("key-") } }

    /// Whether an earlier version stored a key for a content identifier.
    func hasEarlierKey(for contentIdentifier: [UInt8]) -> Bool {
        guard let names = try? earlierNames(), let name = try? Self.digest(contentIdentifier) else { return false }
        return names.contains { $0.hasPrefix("key-\(Hex.encode(name))") }
    }

    // MARK: Time

    /// The time by which stored keys are judged, in seconds since 1970. It does not go back if the system clock does. Does not
    /// block. Throws `invalidConfiguration` before `prepare`, if the store could not be opened, and while the system clock is
    /// behind by more than the policy's tolerance, or is not set.
    func time() throws(KeyError) -> UInt64 {
        switch state.withLock(\.clock) {
        case .success(let clock): return try time(of: clock)
        case .failure(let error): throw KeyError(error)
        case nil: throw .invalidConfiguration("the trusted clock of stored keys was not opened")
        }
    }

    private func time(of clock: TrustedClock) throws(KeyError) -> UInt64 {
        let time = clock.now()
        let known = UInt64(clamping: time.time.seconds)
        if time.isTrusted { return known }
        // Stored keys have no signed time: a system clock that was set right again will do.
        let wall = clocks.reading().wall
        guard policy.takesSystemClock, wall >= policy.earliestTime else {
            throw .invalidConfiguration("stored keys need a trusted clock, and the system clock is not set; set it")
        }
        guard UInt64(clamping: (wall + policy.tolerance) / 1000) >= known else {
            throw .invalidConfiguration("stored keys cannot be used: the system clock was set back; set it right")
        }
        return max(known, UInt64(clamping: wall / 1000))
    }

    /// Opens the store for `time`. If that fails, `time` reports it, and it is tried again next time.
    public func prepare() async { _ = try? await parts() }

    // MARK: The store

    private func read<Result: Sendable>(
        _ body: @Sendable (LicenseStoreTransaction) throws(LicenseStoreError) -> Result
    ) async throws(KeyError) -> Result {
        do throws(LicenseStoreError) { return try await parts().store.read(body) } catch { throw KeyError(error) }
    }

    private func write<Result: Sendable>(
        _ body: @Sendable (LicenseStoreTransaction) throws(LicenseStoreError) -> Result
    ) async throws(KeyError) -> Result {
        do throws(LicenseStoreError) { return try await parts().store.transaction(body) } catch {
            throw KeyError(error)
        }
    }

    /// A failure is not kept: the next call tries again, also if the store failed while it was in use.
    private func parts() async throws(LicenseStoreError) -> Parts {
        let known = state.withLock(\.opening)
        if let known, case .success(let parts) = await known.value, await parts.store.isOpen { return parts }
        let opening = state.withLock { state in
            if let other = state.opening, other != known { return other }
            let opening = Task { [configuration, policy, clocks] in await Self.open(configuration, policy, clocks) }
            state.opening = opening
            return opening
        }
        let result = await opening.value
        state.withLock { state in
            if state.opening == opening { state.clock = result.map(\.clock) }
        }
        return try result.get()
    }

    private static func open(
        _ configuration: LicenseStoreConfiguration, _ policy: TrustedClockPolicy, _ clocks: any ClockSource
    ) async -> Result<Parts, LicenseStoreError> {
        do throws(LicenseStoreError) {
            let store = try await LicenseStore.open(configuration)
            return .success(
                Parts(store: store, clock: try await TrustedClock.open(storage: store, clocks: clocks, policy: policy)))
        } catch {
            return .failure(error)
        }
    }

    /// The name in the store does not tell which content it is for.
    private static func digest(_ bytes: [UInt8]) throws(KeyError) -> [UInt8] {
        do throws(CryptoError) {
            return try ExitGate.pass { () throws(CryptoError) in try Digest.sha256(bytes) }
        } catch {
            throw .invalidConfiguration("no name for a stored key: \(error)")
        }
    }
}
