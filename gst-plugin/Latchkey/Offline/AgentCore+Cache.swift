// SPDX-License-Identifier: MPL-2.0

import ContentCache
import ElementKit
import HTTP
import Synchronization

/// Content that is in the cache: looked at and played from there.
extension AgentCore {
    private var cachedItem: CachedItem? {
        guard let format = type.cacheFormat else { return nil }
        return configuration.cache?.cachedItem(contentURL, format: format)
    }

    /// What content is looked at with.
    func contentTransport() -> any HTTPTransport {
        guard let item = cachedItem else { return CurlTransport.shared }
        return CachedTransport(item, otherwise: CurlTransport.shared) { [weak self] in
            self?.log(.warning, "from the cache: \($0)")
        }
    }

    /// Nil where nothing of the content is in the cache.
    func cacheGateway() throws(AgentError) -> CacheGateway? {
        guard let item = cachedItem else { return nil }
        do throws(CacheError) {
            return try CacheGateway(
                item, position: { [weak self] in self?.position },
                onEvent: { [weak self] in self?.handle($0) })
        } catch {
            throw .configuration("\(error)")
        }
    }

    /// Of whatever plays.
    private var position: Duration? {
        let pipelines = guarded.withLock { $0.attachments.values.map(\.pipeline) }
        return pipelines.lazy.compactMap { $0.with { $0.shownPosition() } ?? nil }.first
            .map { .nanoseconds(Int64(clamping: $0)) }
    }

    private func handle(_ event: CacheGateway.Event) {
        switch event {
        case .edgeReached(let edge, let error): cacheEdgeWasReached(edge, error.reason)
        case .failure(let error):
            log(.warning, "from the cache: \(error)")
            if let status = error.httpStatus { serverDidFail(status, at: contentURL) }
            if error.code == .invalidContent { contentIsInvalid(error.reason, at: contentURL) }
        }
    }

    /// At the end of playback: whether that is the end of the content, or of what is cached.
    func tellCacheEdge() {
        for gateway in guarded.withLock({ $0.attachments.values.compactMap(\.gateway) }) {
            guard let edge = gateway.edge else { continue }
            cacheEdgeWasReached(edge, "the rest is not cached, and there is no network")
        }
    }
}
