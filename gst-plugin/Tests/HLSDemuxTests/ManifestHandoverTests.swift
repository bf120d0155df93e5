// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization
import Testing

@testable import LatchkeyElements

/// A manifest that was fetched before playback.
@Suite(.timeLimit(.minutes(8))) struct ManifestHandoverTests {
    private let origin: LoopbackServer
    private let start = ContinuousClock.now

    init() throws {
        origin = try LoopbackServer { request in LoopbackResponse(body: Array("new \(request.path)".utf8)) }
    }

    private func handover(after age: Duration) throws -> ManifestHandover {
        let content = ManifestHandover.Content(
            body: Array("old".utf8), type: "application/dash+xml", source: origin.url("a.mpd"),
            url: "https://a.test/session/a.mpd", time: start)
        return try ManifestHandover(content, now: { [start] in start + age })
    }

    private func read(_ handover: ManifestHandover) async throws -> HTTPResponse {
        var request = HTTPRequest(url: handover.url)
        // On a busy machine, the usual ten seconds may be over before a thread is free.
        request.timeout = .seconds(60)
        return try await CurlTransport.shared.send(request)
    }

    /// Afterwards the source is where the manifest is, for good.
    @Test func itIsHandedOverOnce() async throws {
        let handover = try handover(after: .seconds(10))
        #expect(!handover.isSpent)
        let first = try await read(handover)
        #expect(handover.isSpent)
        #expect(first.body == Array("old".utf8) && first.header("Content-Type") == "application/dash+xml")
        let second = try await read(handover)
        #expect(second.body == Array("new a.mpd".utf8))
        #expect(second.movedURL == origin.url("a.mpd"))
    }

    @Test func whatIsOldIsFetchedAnew() async throws {
        let handover = try handover(after: .seconds(11))
        #expect(handover.isSpent)
        for _ in 0..<2 { #expect(try await read(handover).body == Array("new a.mpd".utf8)) }
    }

    @Test func demuxersKnowWhereItCameFrom() throws {
        var handover: ManifestHandover? = try handover(after: .zero)
        let url = try #require(handover?.url)
        let source = origin.url("a.mpd")
        #expect(
            ManifestHandover.place(of: url, base: url)
                == ManifestHandover.Place(source: source, url: "https://a.test/session/a.mpd"))
        #expect(
            ManifestHandover.place(of: url, base: "https://b.test/")
                == ManifestHandover.Place(source: source, url: "https://b.test/"))
        #expect(ManifestHandover.place(of: source, base: source) == nil)
        handover = nil
        #expect(ManifestHandover.place(of: url, base: url) == nil)
    }
}
