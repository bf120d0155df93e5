// SPDX-License-Identifier: MPL-2.0

import HTTP
import MediaFormats

/// What a `CachedItem` does, one command after the other.
actor ItemOperations {
    private let record: ItemRecord
    private let cache: CacheParts
    private let folder: String
    private var fetcher: ItemFetcher?
    private var download: Task<Void, Never>?
    private var status = CachedItem.Status.notCached
    private var tellings: UInt64 = 0
    private var observer: @Sendable (CachedItem.Progress) -> Void = { _ in }

    init(_ record: ItemRecord, _ cache: CacheParts, folder: String) {
        self.record = record
        self.cache = cache
        self.folder = folder
    }

    func setObserver(_ observer: @escaping @Sendable (CachedItem.Progress) -> Void) { self.observer = observer }

    func perform(_ command: CachedItem.Command) async {
        switch command {
        case .start: await start()
        case .pause: await pause()
        case .purge(let reply): reply(await purge())
        case .refresh(let reply):
            // A player that has it goes on with it.
            if download == nil, isKnownUniquelyReferenced(&fetcher) { fetcher = nil }
            _ = try? await opened()
            await tell()
            reply()
        }
    }

    /// What is on disk. Throws `notCached` where there is nothing.
    func opened() async throws(CacheError) -> ItemFetcher {
        if let fetcher { return fetcher }
        let store = try await cache.disk.open(folder, new: nil)
        return await keep(store)
    }

    private func keep(_ store: ItemStore) async -> ItemFetcher {
        if let fetcher { return fetcher }
        let new = ItemFetcher(store: store, transport: cache.transport, downloadSize: cache.fetchSize) { [weak self] in
            guard let self else { return }
            Task { await self.tell() }
        }
        fetcher = new
        if case .notCached = status { status = await store.record.isComplete ? .complete : .paused }
        return new
    }

    // MARK: Commands

    private func start() async {
        guard download == nil else { return }
        do throws(CacheError) {
            let fetcher = await keep(try await cache.disk.open(folder, new: record))
            status = .waiting
            await tell()
            let (queue, pause) = (cache.queue, cache.pause)
            download = Task {
                do throws(CacheError) {
                    try await queue.enter()
                    self.begin()
                    defer { Task { await queue.leave() } }
                    try await ItemDownload(fetcher: fetcher, pause: pause).run()
                    await self.end(.complete)
                } catch {
                    await self.end(error.code == .cancelled ? .paused : .failed(error))
                }
            }
        } catch {
            status = .failed(error)
            await tell()
        }
    }

    private func begin() {
        status = .caching
        Task { await tell() }
    }

    private func end(_ status: CachedItem.Status) async {
        download = nil
        self.status = status
        await tell()
    }

    private func pause() async {
        guard let running = download else { return }
        running.cancel()
        await running.value
    }

    private func purge() async -> CacheError? {
        await pause()
        do throws(CacheError) {
            if let fetcher { await fetcher.store.forget() }
            fetcher = nil
            try await cache.disk.remove(folder)
            status = .notCached
            await tell()
            return nil
        } catch {
            status = .failed(error)
            await tell()
            return error
        }
    }

    // MARK: Telling

    private func tell() async {
        tellings += 1
        let number = tellings
        var progress = CachedItem.Progress()
        if let fetcher {
            // A player may have found that something is not any more what was stored.
            if status == .complete, await fetcher.store.firstGap() != nil { status = .paused }
            let record = await fetcher.store.record
            progress.cachedDuration = await fetcher.store.cachedDuration()
            progress.cachedSize = await fetcher.store.cachedSize
            progress.totalDuration = record.totalDuration
            if let total = record.totalDuration {
                progress.cachedDuration = status == .complete ? total : min(progress.cachedDuration, total)
            }
            let wanted = min(cache.readyDuration, progress.totalDuration ?? cache.readyDuration)
            progress.isReadyToPlay = progress.cachedDuration > .zero && progress.cachedDuration >= wanted
        }
        // One that was overtaken has nothing new to say.
        guard number == tellings else { return }
        progress.status = status
        observer(progress)
    }
}
