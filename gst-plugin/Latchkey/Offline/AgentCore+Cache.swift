// SPDX-License-Identifier: MPL-2.0

import LatchkeyOffline
import LatchkeyElementKit
import LatchkeyElements
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
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
        guard let uri = source.sourceURI, URIReference.normalized(uri) == URIReference.normalized(contentURL) else {
            return
        }
        if let gateway = gateway(of: id) {
            if !source.setSourceURI(gateway.url) { log(.warning, "\(source.name) cannot read from the cache") }
        } else if let file = fileGateway(of: id) {
            if !source.setSourceURI(file.url) {
                log(.warning, "\(source.name) does not wait for outages of the network")
            }
            waitForOutages(source, in: id)
        }
    }

    /// The content's URL for what a gateway serves; nil for other URLs.
    func originalURL(_ url: String) -> String? {
        let gateways = guarded.withLock { $0.attachments.values.flatMap { [$0.gateway?.url, $0.file?.url] } }
        let origin = URIReference(url).origin
        return gateways.contains { $0.map { URIReference($0).origin == origin } ?? false } ? contentURL : nil
    }

    /// That of an attachment, which lives as long; nil where there is none for this content.
    private func fileGateway(of id: UInt64) -> FileGateway? {
        if let known = guarded.withLock({ $0.attachments[id]?.file }) { return known }
        guard let made = fileGateway() else { return nil }
        return withExtendedLifetime(made) {
            guarded.withLock { guarded in
                let file = guarded.attachments[id]?.file ?? made
                guarded.attachments[id]?.file = file
                return file
            }
        }
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
        let gateway = withExtendedLifetime(made) {
            guarded.withLock { guarded in
                let gateway = guarded.attachments[id]?.gateway ?? made
                guarded.attachments[id]?.gateway = gateway
                return gateway
            }
        }
        noteStoredContent()
        return gateway
    }

    /// Content that is stored needs no viewing session while its keys are stored, too.
    func noteStoredContent() {
        let (session, isStored) = guarded.withLock { guarded in
            let hasGateway = guarded.attachments.values.contains { $0.gateway != nil }
            // A manifest on disk may name media on servers.
            let isFile =
                URIReference(contentURL).scheme?.lowercased() == "file"
                && [.mp4, .piff].contains(ContentType(url: contentURL))
            return (guarded.parts?.session, hasGateway && !guarded.usesNetwork || isFile)
        }
        if isStored { session?.setContentIsStored(true) }
    }

    /// Of whatever plays.
    private var position: Duration? {
        let pipelines = guarded.withLock { $0.attachments.values.map(\.pipeline) }
        return pipelines.lazy.compactMap { $0.with { $0.shownPosition() } ?? nil }.first
            .map { .nanoseconds(Int64(clamping: $0)) }
    }

    private func handle(_ event: CacheGateway.Event) {
        switch event {
        case .usesNetwork:
            let session = guarded.withLock { guarded in
                guarded.usesNetwork = true
                return guarded.parts?.session
            }
            session?.setContentIsStored(false)
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
