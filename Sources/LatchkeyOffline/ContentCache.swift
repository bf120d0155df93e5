// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Glibc
public import LatchkeyHTTP
public import LatchkeyKeySession
public import LatchkeyManifests
import LatchkeyStorage
import Synchronization

/// The content that is kept on disk for playback without the network.
///
/// Each item has a folder of its own, for the owner alone, with its bytes as the origin sent them: what is encrypted
/// there is encrypted here. Items do not expire, and nothing is removed but by `purge`. Several processes may use one
/// cache: one of them writes to an item, the others read it, and one that is open is not purged by another. Thread-safe;
/// no method blocks.
public final class ContentCache: Sendable {
    /// Where the cache is, and how much it does at once.
    public struct Configuration: Sendable {
        /// Made with the first download where it is not there.
        public var folder: String
        /// How many downloads run at once.
        public var downloadLimit = 3
        /// How much has to be cached for playback to start without the network; of shorter content, all.
        public var readyDuration = Duration.seconds(5)
        /// What is compared with its digest, and fetched again, as one, in bytes: a power of two from 1024 on.
        public var blockSize = 64 << 10
        /// What a download asks for at once, in bytes.
        public var fetchSize = 1 << 20

        /// What keys that content has at a URL (HLS with AES-128) are sealed with; nil: a secret in a file of the cache's
        /// folder.
        public var deviceSecret: (any DeviceSecret)?

        /// The usual limits.
        public init(folder: String) { self.folder = folder }

        /// In the place that the XDG Base Directory Specification has for it: `latchkey/content` under `XDG_DATA_HOME`.
        /// Nil where `environment` has neither this nor `HOME`.
        public init?(environment: [String: String]) {
            if let path = environment["XDG_DATA_HOME"], path.hasPrefix("/") {
                self.init(folder: path + "/latchkey/content")
            } else if let home = environment["HOME"], home.hasPrefix("/") {
                self.init(folder: home + "/.local/share/latchkey/content")
            } else {
                return nil
            }
        }
    }

    /// The cache of this user, in the place that the environment of the process says; nil where it says none.
    public static let standard: ContentCache? = {
        let names = ["HOME", "XDG_DATA_HOME"]
        let environment = names.reduce(into: [String: String]()) { found, name in
            // SAFETY: a string that ends in NUL; the environment does not change under its reader in a sound process.
            if let value = getenv(name) { found[name] = String(cString: value) }
        }
        return Configuration(environment: environment).map { ContentCache($0) }
    }()

    /// Where the cache is, and how much it does at once.
    public let configuration: Configuration
    private let parts: CacheParts
    private let items = Mutex<[String: CachedItem]>([:])

    /// Touches nothing yet. `transport` is where everything is fetched with.
    public convenience init(
        _ configuration: Configuration, transport: any HTTPTransport = CurlTransport.shared
    ) {
        self.init(
            configuration, transport: transport, files: .system, pause: { try await Task.sleep(for: $0) })
    }

    init(
        _ configuration: Configuration, transport: any HTTPTransport, files: BlockFiles,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        pause: @escaping @Sendable (Duration) async throws -> Void
    ) {
        self.configuration = configuration
        parts = CacheParts(
            disk: CacheDisk(configuration, files), transport: transport,
            queue: DownloadQueue(limit: configuration.downloadLimit), readyDuration: configuration.readyDuration,
            fetchSize: configuration.fetchSize, now: now, pause: pause)
    }

    /// The path of a cache's folder, the same for each spelling. Looks at the disk for a moment.
    package static func place(of folder: String) -> String { CacheFolder.resolved(folder) }

    /// The item with this URL, in the cache or not: always the same object, for each spelling of the URL (RFC 3986, section
    /// 6.2). For one that is there, its own format and selection count once it is read.
    public func item(
        _ url: String, format: CachedItem.Format, selection: TrackSelection = TrackSelection()
    ) -> CachedItem {
        let record = ItemRecord(url: url, format: format, selection: selection)
        let key = URIReference.normalized(url)
        return items.withLock { items in
            if let known = items[key] { return known }
            let new = CachedItem(record, parts, folder: ItemFolder(of: url, in: configuration.folder).settled())
            items[key] = new
            return new
        }
    }

    /// The item with this URL, where something of it is in the cache. Looks at the disk for a moment.
    public func cachedItem(_ url: String, format: CachedItem.Format) -> CachedItem? {
        isCached(url) ? item(url, format: format) : nil
    }

    /// Whether something of the content with this URL is in the cache. Looks at the disk for a moment.
    public func isCached(_ url: String) -> Bool {
        // Without a cache there is nothing to digest: an application that caches nothing does without OpenSSL here.
        CacheFolder.exists(configuration.folder) && ItemFolder(of: url, in: configuration.folder).isThere
    }

    /// Stops the downloads that are under way, as before the machine sleeps: their status is `waiting` until
    /// `resumeDownloads`.
    public func suspendDownloads() { for item in items.withLock({ Array($0.values) }) { item.suspend() } }

    /// `suspendDownloads`, and waits until they have stopped.
    package func suspendDownloadsAndWait() async {
        suspendDownloads()
        for item in items.withLock({ Array($0.values) }) { await item.suspendAndWait() }
    }

    /// Goes on with what `suspendDownloads` stopped and nothing else has started, paused or purged since.
    public func resumeDownloads() { for item in items.withLock({ Array($0.values) }) { item.resume() } }

    /// Everything that is in the cache, as a whole or in part, in the order of the URLs. Items whose index does not give
    /// their URL any more are left out; with the URL they can be downloaded and purged. Throws `notPermitted` and
    /// `inputOutput` if the folder cannot be read, or no item in it can be opened, and `notPermitted` if others may write to it.
    public func allItems() async throws(CacheError) -> [CachedItem] {
        var found: [CachedItem] = []
        for record in try await parts.disk.listing().records {
            let item = item(record.url, format: record.format, selection: record.selection)
            // Two folders may be for spellings of one URL.
            guard !found.contains(where: { $0 === item }) else { continue }
            await item.refreshIfIdle()
            found.append(item)
        }
        return found.sorted { $0.url < $1.url }
    }

    /// The folders of items that `allItems` leaves out, with why. Throws as that does.
    package func unlistedFolders() async throws(CacheError) -> [(folder: String, error: CacheError)] {
        try await parts.disk.listing().unlisted
    }
}

/// What all items of a cache share.
struct CacheParts: Sendable {
    let disk: CacheDisk
    let transport: any HTTPTransport
    let queue: DownloadQueue
    let readyDuration: Duration
    let fetchSize: Int
    let now: @Sendable () -> ContinuousClock.Instant
    let pause: @Sendable (Duration) async throws -> Void
}

/// Opens and removes items. Runs on the thread of the cache.
actor CacheDisk {
    private let configuration: ContentCache.Configuration
    private let files: BlockFiles
    private let executor = StorageExecutor()
    private let keySeal: KeySeal

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(_ configuration: ContentCache.Configuration, _ files: BlockFiles) {
        self.configuration = configuration
        self.files = files
        keySeal = KeySeal(
            configuration.deviceSecret ?? FileDeviceSecret(path: configuration.folder + "/.device-secret"))
    }

    func open(
        _ folder: String, _ record: ItemRecord?, for purpose: ItemStore.Purpose
    ) throws(CacheError) -> ItemStore {
        try ItemStore(
            folder: folder, record, for: purpose, blockSize: configuration.blockSize, executor: executor, files: files,
            keySeal: keySeal)
    }

    /// For an item that cannot be opened.
    func unstored(_ record: ItemRecord) -> ItemStore {
        ItemStore(unstored: record, blockSize: configuration.blockSize, executor: executor, files: files)
    }

    func listing() async throws(CacheError) -> (
        records: [ItemRecord], unlisted: [(folder: String, error: CacheError)]
    ) {
        // Before anything is removed: others may have put it there.
        if let flaw = FileAccess.flaw(files: [], folders: [configuration.folder]) {
            throw CacheError(.notPermitted, flaw)
        }
        // What a process that ended left behind.
        for name in try CacheFolder.names(in: configuration.folder, hidden: true) where name.hasPrefix(".purged-") {
            do throws(CacheError) {
                try CacheFolder.clear("\(configuration.folder)/\(name)")
            } catch {
                // It stays where this user may not write, if it is a link, and if something else is in it.
                guard error.code == .notPermitted else { throw error }
            }
        }
        var records: [ItemRecord] = []
        var unlisted: [(folder: String, error: CacheError)] = []
        var failure: CacheError?
        for name in try CacheFolder.names(in: configuration.folder) {
            let folder = "\(configuration.folder)/\(name)"
            do throws(CacheError) {
                let store = try open(folder, nil, for: .looking)
                records.append(await store.record)
                await store.close()
            } catch {
                if error.code == .notPermitted || error.code == .inputOutput { failure = error }
                if error.code == .damaged, let record = IndexRecovery.record(in: folder) {
                    records.append(record)
                } else if error.code != .notCached, error.code != .inUse {
                    unlisted.append((folder, error))
                }
            }
        }
        // Nothing at all would be a wrong answer.
        if records.isEmpty, let failure { throw failure }
        return (records, unlisted)
    }

    /// Takes the folder of an item away. Throws `inUse` where another process has it open, and `notPermitted` for a link.
    func remove(_ folder: String) throws(CacheError) {
        guard CacheFolder.exists(folder) else { return }
        try CacheFolder.refuseLink(folder)
        let lock: CacheFolder.Lock
        do throws(CacheError) {
            lock = try CacheFolder.Lock(folder, for: .removal)
        } catch {
            // Another process may have taken it away since.
            guard CacheFolder.exists(folder) else { return }
            throw error
        }
        defer { withExtendedLifetime(lock) {} }
        let name = folder.split(separator: "/").last.map(String.init) ?? "item"
        var number = 1
        while CacheFolder.exists("\(configuration.folder)/.purged-\(name)-\(number)") { number += 1 }
        try CacheFolder.remove(folder, through: "\(configuration.folder)/.purged-\(name)-\(number)")
    }
}

/// Lets so many downloads run at once; the others wait for their turn, first come, first served.
actor DownloadQueue {
    private let limit: Int
    private var running = 0
    private var waiting: [(id: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
    private var lastID: UInt64 = 0

    init(limit: Int) { self.limit = max(1, limit) }

    /// Waits for a place. `leave` gives it back. Throws `cancelled` with the task, and then there is no place to give back.
    func enter() async throws(CacheError) {
        if running < limit, waiting.isEmpty {
            running += 1
            return
        }
        lastID += 1
        let id = lastID
        let hasPlace = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                waiting.append((id, continuation))
            }
        } onCancel: {
            Task { await self.cancel(id) }
        }
        guard hasPlace else { throw CacheError(.cancelled, "the download was paused") }
    }

    func leave() {
        // The first that waits takes the place over.
        if waiting.isEmpty { running -= 1 } else { waiting.removeFirst().continuation.resume(returning: true) }
    }

    private func cancel(_ id: UInt64) {
        if let index = waiting.firstIndex(where: { $0.id == id }) {
            waiting.remove(at: index).continuation.resume(returning: false)
        }
    }
}
