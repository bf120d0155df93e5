// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests

/// What a `CachedItem` does, one command after the other. Files and locks are open as long as a download or a player
/// needs them.
actor ItemOperations {
    private let record: ItemRecord
    private let cache: CacheParts
    private let folder: String
    private var fetcher: ItemFetcher?
    /// How many need it.
    private var uses = 0
    private var opening: Task<Result<ItemStore, CacheError>, Never>?
    private var download: Task<Void, Never>?
    /// What the last download was started with, and what `suspend` stopped.
    private var started: Start?
    private var suspended: Start?
    private var status = CachedItem.Status.notCached
    /// As it was told last.
    private var progress = CachedItem.Progress()
    private var tellings: UInt64 = 0
    /// Of what is on disk.
    private var changes = PendingChanges()
    private var observer: @Sendable (CachedItem.Progress) -> Void = { _ in }

    private struct Start {
        let keys: KeyStoring?
        let licenses: LicenseStoring?
    }

    init(_ record: ItemRecord, _ cache: CacheParts, folder: String) {
        self.record = record
        self.cache = cache
        self.folder = folder
    }

    func setObserver(_ observer: @escaping @Sendable (CachedItem.Progress) -> Void) { self.observer = observer }

    func perform(_ command: CachedItem.Command) async {
        switch command {
        case .start(let keyStoring, let licenseStoring): await start(keyStoring, licenseStoring)
        case .pause:
            if suspended != nil {
                (suspended, status) = (nil, .paused)
                await tell()
            }
            await pause()
        case .suspend(let reply):
            if let running = download {
                suspended = started
                running.cancel()
                await running.value
            }
            reply()
        case .resume: if let suspended { await start(suspended.keys, suspended.licenses) }
        case .purge(let reply): reply(await purge())
        case .refresh(let reply):
            await look()
            reply()
        }
    }

    // MARK: Opening

    /// For a player. Where nothing can be read or stored, from the network alone, and `warning` tells why.
    func openForPlaying() async -> (use: ItemUse, warning: CacheError?) {
        do throws(CacheError) {
            let fetcher = try await open(for: .playing)
            let warning = await fetcher.store.warning ?? fetcher.store.readOnlyReason
            return (ItemUse(fetcher, of: self), warning)
        } catch {
            let store = await cache.disk.unstored(record)
            return (ItemUse(makeFetcher(store), of: nil), error.code == .notCached ? nil : error)
        }
    }

    /// `endUse` ends it.
    private func open(for purpose: ItemStore.Purpose) async throws(CacheError) -> ItemFetcher {
        while let opening {
            _ = await opening.value
            // The task that opens it goes first.
            await Task.yield()
        }
        if let fetcher {
            uses += 1
            do throws(CacheError) {
                if purpose == .downloading {
                    try await fetcher.store.becomeWriter()
                } else {
                    await fetcher.store.follow()
                }
            } catch {
                await endUse(of: fetcher)
                throw error
            }
            return fetcher
        }
        let (disk, folder, record) = (cache.disk, folder, record)
        let opening = Task { () -> Result<ItemStore, CacheError> in
            do throws(CacheError) {
                return .success(try await disk.open(folder, record, for: purpose))
            } catch {
                return .failure(error)
            }
        }
        self.opening = opening
        let result = await opening.value
        self.opening = nil
        let new = makeFetcher(try result.get())
        (fetcher, uses) = (new, 1)
        return new
    }

    private func makeFetcher(_ store: ItemStore) -> ItemFetcher {
        ItemFetcher(store: store, transport: cache.transport, downloadSize: cache.fetchSize, now: cache.now) {
            [weak self] in
            guard let self else { return }
            Task { await self.tellChanges() }
        }
    }

    /// If it is not needed any more, files and locks are let go before the end is reported: a caller that sees the end of a
    /// download may start the next, in this process or another. `outcome` is that of the download.
    func endUse(of used: ItemFetcher, outcome: CachedItem.Status? = nil) async {
        var last: ItemStore.Snapshot?
        if used === fetcher, uses == 1 { last = await used.store.snapshot() }
        if used === fetcher {
            uses -= 1
            if uses == 0 {
                fetcher = nil
                // A task that is just asking the store would find nothing.
                tellings += 1
                await used.store.close()
                // Of a download that came to nothing, nothing is left.
                if case .failed? = outcome, let last, last.cachedSize == 0, last.warning == nil {
                    try? await cache.disk.remove(folder)
                }
            }
        } else {
            // A purge has closed it meanwhile: what the item had is gone.
            last = nil
        }
        if let outcome { (download, status) = (nil, outcome) }
        // It may have ended before it heard that it is suspended.
        if outcome == .complete { suspended = nil }
        if let last { take(last) }
        await tell()
    }

    // MARK: Commands

    private func look() async {
        do throws(CacheError) {
            let fetcher = try await open(for: .looking)
            let snapshot = await fetcher.store.snapshot()
            let isComplete = snapshot?.record.isComplete == true
            switch status {
            case .notCached, .paused, .complete: status = isComplete ? .complete : .paused
            // Another process has gone on meanwhile.
            case .waiting where suspended != nil && isComplete && snapshot?.isWhole == true:
                (status, suspended) = (.complete, nil)
            case .failed(let error) where error.code == .damaged: status = .paused
            default: break
            }
            await endUse(of: fetcher)
        } catch {
            progress = CachedItem.Progress()
            switch status {
            // A download that has failed may have left nothing.
            case .failed(let failure) where error.code == .notCached && failure.code != .damaged: break
            default: status = error.code == .notCached ? .notCached : .failed(error)
            }
            await tell()
        }
    }

    private func start(_ keyStoring: KeyStoring?, _ licenseStoring: LicenseStoring?) async {
        guard download == nil else { return }
        (started, suspended) = (Start(keys: keyStoring, licenses: licenseStoring), nil)
        do throws(CacheError) {
            let fetcher = try await open(for: .downloading)
            status = .waiting
            let (queue, pause) = (cache.queue, cache.pause)
            download = Task {
                do throws(CacheError) {
                    try await queue.enter()
                    self.begin()
                    defer { Task { await queue.leave() } }
                    try await ItemDownload(
                        fetcher: fetcher, keyStoring: keyStoring, licenseStoring: licenseStoring, pause: pause
                    ).run()
                    await self.endUse(of: fetcher, outcome: .complete)
                } catch {
                    let stopped = self.suspended == nil ? CachedItem.Status.paused : .waiting
                    await self.endUse(
                        of: fetcher, outcome: error.code == .cancelled ? stopped : .failed(error))
                }
            }
            await tell()
        } catch {
            status = .failed(error)
            await tell()
        }
    }

    private func begin() {
        status = .caching
        Task { await tell() }
    }

    private func pause() async {
        guard let running = download else { return }
        running.cancel()
        await running.value
    }

    private func purge() async -> CacheError? {
        suspended = nil
        await pause()
        do throws(CacheError) {
            if let fetcher {
                (self.fetcher, uses) = (nil, 0)
                await fetcher.store.close()
            }
            try await cache.disk.remove(folder)
            (status, progress) = (.notCached, CachedItem.Progress())
            await tell()
            return nil
        } catch {
            status = .failed(error)
            await tell()
            return error
        }
    }

    // MARK: Telling

    /// More is on disk, or less. What changes while the store is asked is told together: to ask costs time on its thread.
    private func tellChanges() async {
        guard changes.note() else { return }
        while changes.next() { await tell() }
    }

    private func tell() async {
        tellings += 1
        let number = tellings
        let snapshot = await fetcher?.store.snapshot()
        // One that was overtaken has nothing new to say.
        guard number == tellings else { return }
        if let snapshot { take(snapshot) }
        progress.status = status
        observer(progress)
    }

    private func take(_ snapshot: ItemStore.Snapshot) {
        // A player may have found that something is not any more what was stored.
        if status == .complete, !snapshot.isWhole { status = .paused }
        progress.cachedDuration = snapshot.cachedDuration
        progress.cachedSize = snapshot.cachedSize
        progress.totalDuration = snapshot.record.totalDuration
        if let total = progress.totalDuration {
            progress.cachedDuration = status == .complete ? total : min(progress.cachedDuration, total)
        }
        let wanted = min(cache.readyDuration, progress.totalDuration ?? cache.readyDuration)
        progress.isReadyToPlay =
            progress.cachedDuration > .zero && progress.cachedDuration >= wanted && snapshot.missingKeys.isEmpty
            && snapshot.keyRefusals.isEmpty
        progress.warning = snapshot.warning ?? progress.warning
        if let missing = CacheError.notKept(snapshot.missingKeys) {
            progress.warning = missing
        } else if let (uri, reason) = snapshot.keyRefusals.min(by: { $0.key < $1.key }) {
            progress.warning = .notKept(uri, of: snapshot.keyRefusals.count, "is not stored", reason)
        } else if progress.warning?.code == .licenseNotKept {
            progress.warning = nil
        }
    }
}

extension CacheError {
    /// Of the keys at these URLs; nil if there are none.
    static func notKept(_ urls: [String]) -> CacheError? {
        urls.first.map {
            notKept($0, of: urls.count, "is not in the cache", "the next download asks for what is missing")
        }
    }

    fileprivate static func notKept(_ uri: String, of count: Int, _ what: String, _ reason: String) -> CacheError {
        let others = count > 1 ? " (and \(count - 1) more)" : ""
        let name = uri == ItemStore.license ? "license" : "key \(URIReference(uri).printable)"
        return CacheError(
            .licenseNotKept, "the \(name)\(others) \(what), so playback needs the network for it: \(reason)")
    }
}

/// Has one task at a time tell of changes. Those that come meanwhile are told together, in its next round. A value.
struct PendingChanges: Sendable {
    private var isTelling = false
    private var hasNew = false

    /// There is a change. True if the caller is to tell, as long as `next` is true.
    mutating func note() -> Bool {
        hasNew = true
        guard !isTelling else { return false }
        isTelling = true
        return true
    }

    /// Whether there is something to tell. If not, the next change has another caller tell.
    mutating func next() -> Bool {
        isTelling = hasNew
        hasNew = false
        return isTelling
    }
}

/// Keeps an item open for a player as long as it lives.
final class ItemUse: Sendable {
    let fetcher: ItemFetcher
    private let operations: ItemOperations?

    init(_ fetcher: ItemFetcher, of operations: ItemOperations?) {
        self.fetcher = fetcher
        self.operations = operations
    }

    deinit {
        let (fetcher, operations) = (fetcher, operations)
        if let operations { Task { await operations.endUse(of: fetcher) } }
    }
}
