// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyProtection
import Synchronization

/// A manifest that was fetched before playback, for the playback that follows at once: so its origin is asked for it once, and
/// sets up one session.
///
/// A source that reads `url` gets it, once and while it is fresh, and is redirected to the manifest's own URL otherwise. The
/// demuxers of this library take it for the answer of the origin. Thread-safe.
package final class ManifestHandover: Sendable {
    /// What was fetched.
    package struct Content: Sendable {
        package var body: [UInt8]
        package var type: String?
        /// What was asked for, and what answered.
        package var source: String
        package var url: String
        package var time: ContinuousClock.Instant

        package init(
            body: [UInt8], type: String?, source: String, url: String, time: ContinuousClock.Instant = .now
        ) {
            (self.body, self.type, self.source, self.url, self.time) = (body, type, source, url, time)
        }

        package func isFresh(at now: ContinuousClock.Instant) -> Bool {
            time.duration(to: now) <= ManifestHandover.limit
        }
    }

    /// Where a manifest came from: its URL, and what answered.
    struct Place: Equatable {
        var source: String
        var url: String
    }

    /// The places of manifests by the URLs of those that are handed over.
    private static let places = Mutex<[String: Place]>([:])

    /// How old it may be. A session that is not used may end.
    private static let limit = Duration.seconds(10)

    /// What the source reads.
    package let url: String
    private let server: LoopbackServer
    private let kept: Kept
    private let now: @Sendable () -> ContinuousClock.Instant

    /// `now` is the time that the content's is part of.
    package init(
        _ content: Content, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) throws(HTTPError) {
        let kept = Kept(content)
        (self.kept, self.now) = (kept, now)
        server = try LoopbackServer { _ in kept.answer(at: now()) }
        url = server.url("manifest")
        let (url, place) = (url, Place(source: content.source, url: content.url))
        Self.places.withLock { $0[url] = place }
    }

    /// Whether a source would be redirected.
    package var isSpent: Bool { !kept.isThere(at: now()) }

    deinit {
        let url = url
        Self.places.withLock { $0[url] = nil }
        server.close()
    }

    /// Where a manifest came from that a source has read at `uri`; `base` is where redirects led. Nil: from there.
    static func place(of uri: String, base: String) -> Place? {
        guard var place = places.withLock({ $0[uri] }) else { return nil }
        if base != uri { place.url = base }
        return place
    }

    /// Whether the demuxers of this library are those that players plug, and a source here reaches this process.
    package static var isPossible: Bool {
        LoopbackReach.isDirect(Environment.variable) && AdaptiveDemuxerFactory.areRankedFirst
    }

    private final class Kept: Sendable {
        private let content: Mutex<Content?>
        private let source: String

        init(_ content: Content) {
            source = content.source
            self.content = Mutex(content)
        }

        func isThere(at now: ContinuousClock.Instant) -> Bool { content.withLock { $0?.isFresh(at: now) ?? false } }

        func answer(at now: ContinuousClock.Instant) -> LoopbackResponse {
            let content = content.withLock { content in
                defer { content = nil }
                return content
            }
            guard let content, content.isFresh(at: now) else {
                return LoopbackResponse(status: 301, headers: [HTTPHeader(name: "Location", value: source)])
            }
            let headers = content.type.map { [HTTPHeader(name: "Content-Type", value: $0)] } ?? []
            return LoopbackResponse(headers: headers, body: content.body)
        }
    }
}
