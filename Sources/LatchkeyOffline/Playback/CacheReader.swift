// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyHTTP
import LatchkeyManifests

/// Reads a cached item as an origin would answer: what is on disk from there, the rest from the network, which then is on
/// disk too. Without the network, the item ends where the cached part ends.
actor CacheReader {
    /// What is at a URL.
    enum Answer: Sendable {
        case document(CachedPresentation.Document)
        case key(ContentKey)
        /// `size` is what a player is told; it ends at the edge where there is no network.
        case resource(url: String, size: UInt64, contentType: String)
    }

    /// What players are told of keys.
    static let typeOfKeys = "application/octet-stream"

    nonisolated let item: CachedItem
    private var opened: Opened?
    private var opening: Task<Result<Opened, CacheError>, Never>?

    private struct Opened: Sendable {
        /// Keeps the item open.
        var use: ItemUse
        var fetcher: ItemFetcher { use.fetcher }
        var record: ItemRecord
        var presentation: CachedPresentation
        /// By URL, sealed: one is opened when a player asks for it.
        var keys: [String: [UInt8]]
        /// What is behind this cannot be had now; nil: everything can.
        var edge: Duration?
        /// The same of a file, in bytes.
        var edgeOffset: UInt64?
        /// What is missing can be had.
        var usesNetwork = false
    }

    private let onWarning: @Sendable (CacheError) -> Void
    private let onNetwork: @Sendable () -> Void
    private var warnings: Set<CacheError> = []

    /// `onWarning` hears once of each thing that is wrong with the item, and does not end playback where there is a network.
    /// `onNetwork` hears, before anything is answered, that what is missing comes from the network.
    init(
        _ item: CachedItem, onWarning: @escaping @Sendable (CacheError) -> Void = { _ in },
        onNetwork: @escaping @Sendable () -> Void = {}
    ) {
        self.item = item
        self.onWarning = onWarning
        self.onNetwork = onNetwork
    }

    /// What ends playback before the end of the content; nil where nothing does.
    var edge: Duration? { opened?.edge }

    /// What a player gets for a URL of the origin; nil for what is no part of the item. `route` is what URLs in manifests
    /// become.
    func answer(_ url: String, route: @Sendable (String) -> String) async throws(CacheError) -> Answer? {
        let opened = try await open()
        if let document = opened.presentation.document(
            url, of: opened.record, until: opened.edge, keptKeys: Set(opened.keys.keys), route: route)
        {
            return .document(document)
        }
        let spelling = URIReference.normalized(url)
        if let kept = opened.keys.first(where: { URIReference.normalized($0.key) == spelling }),
            var bytes = await opened.fetcher.store.opened(kept.value, from: kept.key)
        {
            defer { wipe(&bytes) }
            if let key = ContentKey(bytes) { return .key(key) }
        }
        guard var resource = await opened.fetcher.store.known(url) else { return nil }
        // As it is spelled where it was found.
        let url = resource.url
        if resource.size == nil {
            _ = try await opened.fetcher.block(0, of: url, ahead: opened.fetcher.playbackSize, mustStore: false)
            resource = await opened.fetcher.store.resource(url)
        }
        guard let size = resource.size else {
            throw .invalidContent("the server does not tell its size", at: url)
        }
        let type = resource.contentType
        if let edge = opened.edgeOffset {
            return .resource(url: url, size: min(edge, size), contentType: type)
        }
        return .resource(url: url, size: size, contentType: type)
    }

    /// Bytes of a resource, at most those of one block; empty at its end.
    func bytes(of url: String, at offset: UInt64) async throws(CacheError) -> [UInt8] {
        let opened = try await open()
        let blockSize = UInt64(opened.fetcher.store.blockSize)
        let block = try await opened.fetcher.block(
            offset / blockSize, of: url, ahead: opened.fetcher.playbackSize, mustStore: false)
        return Array(block.dropFirst(Int(offset % blockSize)))
    }

    /// When what is at this place plays; nil where that is not known.
    func time(of url: String, at offset: UInt64) async -> Duration? {
        guard let opened, let number = await opened.fetcher.store.known(url)?.number else { return nil }
        let pieces = await opened.fetcher.store.pieces.filter { $0.resource == number && $0.duration > .zero }
        let piece = pieces.first { piece in
            piece.offset <= offset && piece.length.map { offset - piece.offset < $0 } ?? true
        }
        if let piece { return piece.begin }
        // What stands in front of a piece is wanted with it.
        return pieces.filter { $0.offset > offset }.min { $0.offset < $1.offset }?.begin ?? pieces.last?.end
    }

    // MARK: Opening

    private func open() async throws(CacheError) -> Opened {
        if let opened { return opened }
        if opening == nil {
            opening = Task { [item, weak self] in
                let (use, warning) = await item.operations.openForPlaying()
                if let warning { await self?.warn(warning) }
                do throws(CacheError) {
                    let found = try await Self.opened(use)
                    // What was never downloaded has no keys that could be missed.
                    let missing = found.record.isComplete ? await use.fetcher.store.missingKeys() : []
                    if let warning = CacheError.notKept(missing) { await self?.warn(warning) }
                    return .success(found)
                } catch {
                    return .failure(error)
                }
            }
        }
        let result = await opening?.value
        opening = nil
        guard let result else { throw CacheError(.cancelled, "the item was closed") }
        let found = try result.get()
        if opened == nil, found.usesNetwork { onNetwork() }
        opened = found
        return found
    }

    private func warn(_ warning: CacheError) { if warnings.insert(warning).inserted { onWarning(warning) } }

    private static func opened(_ use: ItemUse) async throws(CacheError) -> Opened {
        let fetcher = use.fetcher
        let record = await fetcher.store.record
        let presentation = try await CachedPresentation(of: record, fetcher, mustStore: false)
        if !record.isPlanned, case .file = presentation {
        } else if !record.isPlanned {
            // Played before it was downloaded: what it is made of has to be known for the edge, and for the gateway.
            try? await fetcher.store.becomeWriter()
            let plan = PresentationPlan(store: fetcher.store) { range, url throws(CacheError) in
                try await fetcher.bytes(range, of: url, ahead: fetcher.playbackSize, mustStore: false)
            }
            try await plan.make(of: presentation, record)
        }
        // Players have keys from elsewhere: those are not in the cache.
        try? await presentation.noteKeys(in: fetcher.store)
        var opened = Opened(
            use: use, record: await fetcher.store.record, presentation: presentation,
            keys: await fetcher.store.keptKeys())
        guard let gap = await fetcher.store.firstGap() else { return opened }
        // Whether there is a network shows when something is asked of it, and this will be wanted anyway.
        do throws(CacheError) {
            _ = try await fetcher.block(
                gap.block, of: gap.url, ahead: fetcher.playbackSize, mustStore: false)
            opened.usesNetwork = true
        } catch {
            // What the origin refuses for good, or has no media for, shows in its place, as without a cache.
            if error.isNoMedia || error.code == .serverError && !error.isTemporary {
                opened.usesNetwork = true
                return opened
            }
            if case .file = presentation, !record.isPlanned { await walk(record.url, fetcher) }
            let edge = await fetcher.store.cachedDuration()
            guard edge > .zero else { throw error }
            opened.edge = edge
            if case .file = opened.presentation {
                opened.edgeOffset = await fetcher.store.edgeOffset()
            }
        }
        return opened
    }

    /// Finds the fragments that players brought and no download came to.
    private static func walk(_ url: String, _ fetcher: ItemFetcher) async {
        let absent = CacheError(.notCached, "\(CacheError.printable(url)): the rest is not cached")
        try? await fetcher.store.becomeWriter()
        let walk = FileWalk(
            store: fetcher.store, url: url,
            bring: { offset, length throws(CacheError) in
                let resource = await fetcher.store.resource(url)
                guard let size = resource.size, await fetcher.store.isPresent(offset, length, of: resource) else {
                    throw absent
                }
                return size
            },
            read: { range throws(CacheError) in
                guard let bytes = await fetcher.storedBytes(range, of: url) else { throw absent }
                return bytes
            }, wantsIndex: false)
        try? await walk.run()
    }
}
