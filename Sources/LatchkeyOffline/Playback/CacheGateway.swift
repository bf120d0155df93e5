// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyContainers
import LatchkeyHTTP
import LatchkeyManifests
import Synchronization

/// Serves a cached item to a player of this process, over a loopback server whose path cannot be guessed.
///
/// Answers only for what is part of the item. What is cached comes from disk, the rest from the origin, and is on disk
/// then. If the network fails in the middle of playback, a request waits until playback has come to what is missing,
/// and tries on; then it ends. Closes with the object. Thread-safe.
public final class CacheGateway: Sendable {
    /// What a player may want to know.
    public enum Event: Sendable {
        /// Playback has come to the end of what is cached, and the rest cannot be had. Once, until the network is back.
        case edgeReached(at: Duration?, CacheError)
        /// What is missing comes from the network. Once, before the player gets anything.
        case usesNetwork
        /// The item is damaged or cannot be opened, and plays from the network as far as needed; it cannot be written
        /// (`notPermitted`), and what is fetched now is not kept; or the origin does not give
        /// what is missing.
        case failure(CacheError)
    }

    /// What to play in the place of the item's URL. Any client that knows it may read the item: keep it out of logs.
    public let url: String
    private let server: LoopbackServer
    private let service: GatewayService

    /// Where the player is shown the end, because the rest is not cached and there was no network at the start; nil: at
    /// the end of the content.
    public var edge: Duration? { service.edge }

    /// Opens the port. `position` is what plays now; nil where that is not known. Throws `inputOutput` where there is no
    /// port.
    public init(
        _ item: CachedItem, position: @escaping @Sendable () -> Duration?,
        onEvent: @escaping @Sendable (Event) -> Void
    ) throws(CacheError) {
        service = GatewayService(item, position: position, onEvent: onEvent)
        do throws(HTTPError) {
            server = try LoopbackServer { [service] request in await service.answer(request) }
        } catch {
            throw CacheError(.inputOutput, "\(error)")
        }
        guard let path = service.origins.path(of: item.url) else {
            throw CacheError(.invalidURL, "\(CacheError.printable(item.url)) is no http or https URL")
        }
        server.setWaitsForNetwork()
        service.setBase(server.url(""))
        url = server.url(path)
    }

    deinit { server.close() }
}

/// What the gateway's server does. Thread-safe.
final class GatewayService: Sendable {
    /// How often something is asked for again where the network fails.
    private static let retryTime = Duration.seconds(2)
    private static let lookTime = Duration.milliseconds(250)
    /// How long a request waits at most for playback to come to it.
    private static let patience = Duration.seconds(45)
    /// How long before something is missing playback counts as having come to it.
    private static let margin = Duration.milliseconds(1500)

    private struct State {
        var base = ""
        var isAtEdge = false
        var edge: Duration?
    }

    let origins = OriginMap()
    private let reader: CacheReader
    private let position: @Sendable () -> Duration?
    private let onEvent: @Sendable (CacheGateway.Event) -> Void
    private let state = Mutex(State())

    init(
        _ item: CachedItem, position: @escaping @Sendable () -> Duration?,
        onEvent: @escaping @Sendable (CacheGateway.Event) -> Void
    ) {
        reader = CacheReader(item, onWarning: { onEvent(.failure($0)) }, onNetwork: { onEvent(.usesNetwork) })
        self.position = position
        self.onEvent = onEvent
    }

    var edge: Duration? { state.withLock { $0.edge } }

    func setBase(_ base: String) { state.withLock { $0.base = base } }

    func answer(_ request: LoopbackRequest) async -> LoopbackResponse {
        guard let url = origins.url(path: request.path, query: request.query) else { return .notFound }
        let base = state.withLock { $0.base }
        do throws(CacheError) {
            let answer = try await trying(url, 0) { () async throws(CacheError) in
                try await reader.answer(url) { [origins] url in origins.path(of: url).map { base + $0 } ?? url }
            }
            let edge = await reader.edge
            state.withLock { $0.edge = edge }
            switch answer {
            case nil: return .notFound
            case .document(let document):
                return LoopbackResponse(
                    headers: [HTTPHeader(name: "Content-Type", value: document.contentType)], body: document.bytes)
            case .key(let key): return LoopbackResponse(key: key, contentType: CacheReader.typeOfKeys)
            case .resource(let url, let size, let type): return part(of: url, size, type, request.range)
            }
        } catch {
            // A demuxer asks again after a server error.
            return LoopbackResponse(status: error.httpStatus ?? (error.isNoMedia ? 404 : 504))
        }
    }

    private func part(of url: String, _ size: UInt64, _ type: String, _ range: LoopbackRange?) -> LoopbackResponse {
        var headers = [HTTPHeader(name: "Accept-Ranges", value: "bytes")]
        if !type.isEmpty { headers.append(HTTPHeader(name: "Content-Type", value: type)) }
        var (start, end) = (UInt64(0), size)
        if let range {
            guard let bounds = range.bounds(in: Int(clamping: size)) else {
                // A seek to what cannot be had now.
                if let edge {
                    tellEdge(edge, CacheError(.unreachable, "the rest is not cached, and there is no network"))
                }
                return LoopbackResponse(
                    status: 416, headers: [HTTPHeader(name: "Content-Range", value: "bytes */\(size)")])
            }
            (start, end) = (UInt64(bounds.lowerBound), UInt64(bounds.upperBound))
            headers.append(HTTPHeader(name: "Content-Range", value: "bytes \(start)-\(end - 1)/\(size)"))
        }
        let cursor = Cursor(start..<end)
        let stream = LoopbackStream(length: end - start) { [weak self] in
            guard let self else { return nil }
            while true {
                let offset = cursor.offset
                guard
                    let bytes = try? await self.trying(
                        url, offset,
                        { () async throws(CacheError) in try await self.reader.bytes(of: url, at: offset) })
                else { return nil }
                let filtered = cursor.take(bytes)
                if !filtered.isEmpty || bytes.isEmpty { return filtered }
            }
        }
        return LoopbackResponse(status: range == nil ? 200 : 206, headers: headers, stream: stream)
    }

    /// Tries on as long as the network fails and playback has not come to what is missing.
    private func trying<Value: Sendable>(
        _ url: String, _ offset: UInt64, _ body: () async throws(CacheError) -> Value
    ) async throws(CacheError) -> Value {
        var waited = Duration.zero
        var hasFailed = false
        while true {
            do throws(CacheError) {
                let value = try await body()
                if hasFailed { state.withLock { $0.isAtEdge = false } }
                return value
            } catch {
                guard error.code == .unreachable else {
                    if error.code != .cancelled { onEvent(.failure(error)) }
                    throw error
                }
                hasFailed = true
                let time = await reader.time(of: url, at: offset)
                var next = Duration.zero
                while next < Self.retryTime {
                    // The client that asked went elsewhere: that tells nothing of the edge.
                    if Task.isCancelled { throw error }
                    if isReached(time) || waited >= Self.patience {
                        tellEdge(time, error)
                        throw error
                    }
                    try? await Task.sleep(for: Self.lookTime)
                    next += Self.lookTime
                    waited += Self.lookTime
                }
            }
        }
    }

    /// What has no time is wanted at once.
    private func isReached(_ time: Duration?) -> Bool {
        guard let time else { return true }
        return position().map { $0 + Self.margin >= time } ?? true
    }

    private func tellEdge(_ time: Duration?, _ error: CacheError) {
        let isNews = state.withLock { state in
            defer { state.isAtEdge = true }
            return !state.isAtEdge
        }
        if isNews { onEvent(.edgeReached(at: time, error)) }
    }

    /// Where a body goes on. One stream reads it, one piece after the other.
    private final class Cursor: Sendable {
        private let end: UInt64
        private let state: Mutex<(offset: UInt64, filter: ID3Filter)>

        init(_ range: Range<UInt64>) {
            end = range.upperBound
            state = Mutex((range.lowerBound, ID3Filter()))
        }

        var offset: UInt64 { state.withLock { $0.offset } }

        /// What goes on of a piece.
        func take(_ bytes: [UInt8]) -> [UInt8] {
            state.withLock { state in
                state.offset += UInt64(bytes.count)
                var filtered = state.filter.filter(bytes)
                if state.offset >= end { filtered += state.filter.end() }
                return filtered
            }
        }
    }
}

/// URLs of origins under the path of a local server: a number stands for each origin, and path and query stay, so that
/// relative references in manifests lead to the right places. URLs come out normalized. Thread-safe.
final class OriginMap: Sendable {
    private let origins = Mutex<[String]>([])

    /// `0/path?query`. Nil for what is no http or https URL.
    func path(of url: String) -> String? {
        let reference = URIReference(URIReference.normalized(url))
        guard reference.isHTTP, let scheme = reference.scheme, let authority = reference.authority else { return nil }
        let origin = "\(scheme)://\(authority)"
        let number = origins.withLock { origins in
            if let known = origins.firstIndex(of: origin) { return known }
            origins.append(origin)
            return origins.count - 1
        }
        return "\(number)\(reference.path)\(reference.query.map { "?\($0)" } ?? "")"
    }

    /// The URL that was given for `path`; nil where there was none.
    func url(path: String, query: String?) -> String? {
        guard let slash = path.firstIndex(of: "/"), let number = Int(path[..<slash]) else { return nil }
        let origin = origins.withLock { $0.indices.contains(number) ? $0[number] : nil }
        return origin.map { "\($0)\(path[slash...])\(query.map { "?\($0)" } ?? "")" }
    }
}
