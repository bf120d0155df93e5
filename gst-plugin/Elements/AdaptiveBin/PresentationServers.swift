// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization

/// The loopback servers of one presentation. GStreamer's demuxers have no more than two connections to each server, so that
/// origins which do not answer would keep what comes from others waiting: each origin has a server of its own, as long as
/// there are any. Thread-safe.
final class PresentationServers: Sendable {
    /// For what has no origin, and for as many origins; further origins share them.
    static let count = 8
    /// Origins that are told apart. All later ones share a server.
    private static let originLimit = 256

    private let servers: [LoopbackServer]
    /// 1 where what has no origin has a server to itself.
    private let firstOfOrigins: Int
    private let origins = Mutex<[String]>([])

    /// Opens all of them, which answer the same. `sharesFirst`: what has no origin goes over the connections of the first
    /// origin, which a playback's start then need not open twice.
    init(
        sharesFirst: Bool = false, quick: @escaping LoopbackServer.QuickHandler = { _ in nil },
        handler: @escaping LoopbackServer.Handler
    ) throws(HTTPError) {
        var servers: [LoopbackServer] = []
        for _ in 0..<Self.count { servers.append(try LoopbackServer(quick: quick, handler: handler)) }
        self.servers = servers
        firstOfOrigins = sharesFirst ? 0 : 1
    }

    /// The URL of a path, which is always the same one. `origin`: scheme, host and port that its content comes from; nil:
    /// from none that it would have to wait for.
    func url(_ path: String, from origin: String?) -> String {
        guard let origin else { return servers[0].url(path) }
        let place = origins.withLock { origins in
            if let place = origins.firstIndex(of: origin) { return place }
            if origins.count < Self.originLimit { origins.append(origin) }
            return origins.count - 1
        }
        return servers[firstOfOrigins + place % (servers.count - firstOfOrigins)].url(path)
    }

    /// The path in a URL of one of them; nil in any other.
    func path(in url: String) -> Substring? {
        servers.first { $0.isOwn(url) }.map { url.dropFirst($0.url("").count) }
    }

    /// Whether the URL leads to one of them.
    func isOwn(_ url: String) -> Bool { servers.contains { $0.isOwn(url) } }

    /// The first URL of one of them in a text, up to where its path begins.
    func firstURL(in text: Substring) -> Range<Substring.Index>? {
        servers.compactMap { text.firstRange(of: $0.url("")) }.min { $0.lowerBound < $1.lowerBound }
    }

    /// Closes the ports.
    func close() {
        for server in servers { server.close() }
    }
}
