// SPDX-License-Identifier: MPL-2.0

import ContentCache
import ElementKit
import HTTP
import MediaFormats
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

    /// A source element of a pipeline that the application made reads from the cache, where the content is in there. Call it
    /// before the source begins.
    func leadToCache(_ source: ElementReference, in id: UInt64) {
        guard let uri = source.sourceURI, URIReference.normalized(uri) == URIReference.normalized(contentURL),
            let gateway = gateway(of: id)
        else { return }
        if !source.setSourceURI(gateway.url) { log(.warning, "\(source.name) cannot read from the cache") }
    }

    /// That of an attachment, which lives as long; nil where nothing of the content is in the cache.
    private func gateway(of id: UInt64) -> CacheGateway? {
        if let known = guarded.withLock({ $0.attachments[id]?.gateway }) { return known }
        let made: CacheGateway?
        do throws(AgentError) { made = try cacheGateway() } catch {
            log(.warning, "the cache is left aside: \(error)")
            return nil
        }
        guard let made else { return nil }
        // Two sources may begin at once. The one that is too much ends behind the lock.
        return withExtendedLifetime(made) {
            guarded.withLock { guarded in
                let gateway = guarded.attachments[id]?.gateway ?? made
                guarded.attachments[id]?.gateway = gateway
                return gateway
            }
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
