// SPDX-License-Identifier: MPL-2.0

import HTTP
import MediaFormats

/// Reads a cached item as an origin would answer: what is on disk from there, the rest from the network, which then is on
/// disk too. Without the network, the item ends where the cached part ends.
actor CacheReader {
    /// What is at a URL.
    enum Answer: Sendable {
        case document(CachedPresentation.Document)
        /// `size` is what a player is told; it ends at the edge where there is no network.
        case resource(url: String, size: UInt64, contentType: String)
    }

    nonisolated let item: CachedItem
    private var opened: Opened?
    private var opening: Task<Result<Opened, CacheError>, Never>?

    private struct Opened: Sendable {
        var fetcher: ItemFetcher
        var record: ItemRecord
        var presentation: CachedPresentation
        /// What is behind this cannot be had now; nil: everything can.
        var edge: Duration?
        /// The same of a file, in bytes.
        var edgeOffset: UInt64?
    }

    init(_ item: CachedItem) { self.item = item }

    /// What ends playback before the end of the content; nil where nothing does.
    var edge: Duration? { opened?.edge }

    /// What a player gets for a URL of the origin; nil for what is no part of the item. `route` is what URLs in manifests
    /// become.
    func answer(_ url: String, route: @Sendable (String) -> String) async throws(CacheError) -> Answer? {
        let opened = try await open()
        if let document = opened.presentation.document(
            url, of: opened.record, until: opened.edge, route: route)
        {
            return .document(document)
        }
        guard await opened.fetcher.store.resources[url] != nil else { return nil }
        var resource = try await opened.fetcher.store.resource(url)
        if resource.size == nil {
            _ = try await opened.fetcher.block(0, of: url, ahead: opened.fetcher.playbackSize, mustStore: false)
            resource = try await opened.fetcher.store.resource(url)
        }
        guard let size = resource.size else {
            throw .invalidContent("the server does not tell its size", at: url)
        }
        let type = resource.contentType
        if let edge = opened.edgeOffset, url == opened.record.url {
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
        guard let opened, let number = await opened.fetcher.store.resources[url]?.number else { return nil }
        let pieces = await opened.fetcher.store.pieces.filter { $0.resource == number && $0.duration > .zero }
        let piece = pieces.first { piece in
            piece.offset <= offset && piece.length.map { offset - piece.offset < $0 } ?? true
        }
        return piece?.begin ?? pieces.last?.end
    }

    // MARK: Opening

    private func open() async throws(CacheError) -> Opened {
        if let opened { return opened }
        if opening == nil {
            opening = Task { [item] in
                do throws(CacheError) { return .success(try await Self.opened(item)) } catch { return .failure(error) }
            }
        }
        let result = await opening?.value
        opening = nil
        guard let result else { throw CacheError(.cancelled, "the item was closed") }
        opened = try result.get()
        return try result.get()
    }

    private static func opened(_ item: CachedItem) async throws(CacheError) -> Opened {
        let fetcher = try await item.operations.opened()
        let record = await fetcher.store.record
        var opened = Opened(
            fetcher: fetcher, record: record,
            presentation: try await CachedPresentation(of: record, fetcher, mustStore: false))
        guard let gap = await fetcher.store.firstGap() else { return opened }
        // Whether there is a network shows when something is asked of it, and this will be wanted anyway.
        do throws(CacheError) {
            _ = try await fetcher.block(
                gap.block, of: gap.url, ahead: fetcher.playbackSize, mustStore: false)
        } catch {
            // What the origin refuses for good shows in its place, as without a cache.
            if error.code == .serverError, !error.isTemporary { return opened }
            let edge = await fetcher.store.cachedDuration()
            guard edge > .zero else { throw error }
            opened.edge = edge
            if case .file = opened.presentation {
                opened.edgeOffset = await fetcher.store.edgeOffset()
            }
        }
        return opened
    }
}
