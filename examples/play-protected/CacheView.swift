// SPDX-License-Identifier: MPL-2.0

import LatchkeyOffline
import Latchkey

/// Shows what is cached of the content, and changes it: the manual's view of the cache.
struct CacheView {
    private let options: Options
    /// The user's own where the command line names none.
    let cache: ContentCache?

    init(_ options: Options) {
        self.options = options
        cache = options.agent.cache.map { given in
            var configuration = given.configuration
            configuration.downloadLimit = options.downloadLimit
            return ContentCache(configuration)
        }
    }

    /// Whether everything was done.
    func perform(_ caching: Options.Caching) async -> Bool {
        do throws(CacheError) {
            switch caching {
            case .download: return try await download()
            case .show:
                for content in try await contents() { show(content) }
            case .purge:
                guard !options.contents.isEmpty else {
                    for content in try await contents() { try await purge(content) }
                    break
                }
                for content in options.contents { try await purge(try cachedContent(content)) }
            }
            return true
        } catch {
            print("error: \(error)")
            return false
        }
    }

    func contents() async throws(CacheError) -> [CachedContent] { try await CachedContent.allItems(in: cache) }

    func cachedContent(_ content: Options.Content) throws(CacheError) -> CachedContent {
        try CachedContent(
            url: content.url, type: content.type, selection: options.selection, cache: cache,
            configuration: options.agent)
    }

    func purge(_ content: CachedContent) async throws(CacheError) {
        let isCached = (cache ?? .standard)?.isCached(content.contentURL) == true
        try await content.purgeAndWait()
        print("\(isCached ? "purged" : "not cached"): \(content.contentURL)")
    }

    func show(_ content: CachedContent) {
        let progress = content.progress
        print("cached: \(line(progress)) \(content.type.rawValue) \(content.contentURL)")
        if let warning = progress.warning { print("warning: \(warning)") }
    }

    private func line(_ progress: CachedItem.Progress) -> String {
        let total = progress.totalDuration.map { "\($0.inMilliseconds)" } ?? "?"
        return "\(name(progress.status)) \(progress.cachedDuration.inMilliseconds) of \(total) ms, "
            + "\(progress.cachedSize) bytes\(progress.isReadyToPlay ? ", ready" : "")"
    }

    private func name(_ status: CachedItem.Status) -> String {
        switch status {
        case .notCached: "not cached"
        case .waiting: "waiting"
        case .caching: "caching"
        case .paused: "paused"
        case .complete: "complete"
        case .failed: "failed"
        }
    }

    /// All at once, as far as the limit of the cache allows.
    private func download() async throws(CacheError) -> Bool {
        var contents: [CachedContent] = []
        for content in options.contents {
            contents.append(try cachedContent(content))
        }
        let all = contents
        return await withTaskGroup(of: Bool.self) { group in
            for content in all { group.addTask { await follow(content) } }
            return await group.allSatisfy { $0 }
        }
    }

    /// Starts it. Whether it is complete in the end.
    @discardableResult
    func follow(_ content: CachedContent) async -> Bool {
        content.start(acquiresLicense: options.agrees, delegate: options.delegate)
        var warning: CacheError?
        for await progress in content.updates {
            if let new = progress.warning, new != warning { print("warning: \(new)") }
            warning = progress.warning
            print("progress: \(line(progress)) \(content.contentURL)")
            switch progress.status {
            case .complete: return true
            case .failed(let error):
                print("error: \(error)")
                return false
            default: break
            }
        }
        return false
    }
}

extension Duration {
    /// Whole milliseconds.
    var inMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}
