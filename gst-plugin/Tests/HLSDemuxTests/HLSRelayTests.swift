// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization
import Testing

@testable import LatchkeyElements
@testable import LatchkeyKeySession
@testable import LatchkeyManifests

/// Segments of HLS with keys where no outage is waited for: they come through this process all the same.
@Suite(.timeLimit(.minutes(8)))
struct HLSRelayTests {
    private final class World: Sendable {
        let script: RelayTests.Script
        let presentation: HLSPresentation
        private let name: String
        private let told: Told

        private final class Told: Sendable { let failures = Mutex<[String]>([]) }

        /// `answers`: of the origin to requests for the segment.
        init(_ answers: [RelayTests.Script.Answer], isLive: Bool = false, keepsFromAbsent: Bool = false) throws {
            let (script, told) = (RelayTests.Script(answers), Told())
            let presentation = HLSPresentation(
                origin: HLSOrigin(transport: script), keys: HLSKeys(session: KeySession(), timeout: .seconds(1)),
                keyFormats: [.identity])
            try presentation.open { failure in told.failures.withLock { $0.append(failure.text) } }
            presentation.state.withLock { $0.absent = keepsFromAbsent ? AbsentSegments() : nil }
            let head = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"1.key\"\n"
            let segments = "#EXTINF:2,\n1.ts?token=secret\n#EXTINF:2,\n2.ts\n"
            let playlist = head + segments + (isLive ? "" : "#EXT-X-ENDLIST\n")
            _ = try presentation.rewrite(Array(playlist.utf8), from: "https://a.test/media/v.m3u8")
            name = try #require(presentation.table.knownName(of: .relayedSegment(url: RelayTests.url)))
            (self.script, self.presentation, self.told) = (script, presentation, told)
        }

        deinit { presentation.close() }

        /// What the stock demuxer gets.
        func status() async -> Int { await presentation.answer(LoopbackRequest(path: name)).status }

        var failures: [String] { told.failures.withLock { $0 } }
        var count: Int { script.sent.withLock { $0.count } }
    }

    private static let media = RelayTests.Script.Answer.response(RelayTests.response(RelayTests.media))
    private static let refused = RelayTests.Script.Answer.failure(.refused(RelayTests.url))

    @Test func theyHaveTheCookiesOfThePresentation() async throws {
        let world = try World([Self.media])
        #expect(await world.status() == 200)
        #expect(world.script.sent.withLock { $0.map { $0.cookies === world.presentation.origin.cookies } } == [true])
        #expect(world.script.sent.withLock { $0.map(\.url) } == [RelayTests.url])
    }

    /// As often as the stock demuxer would ask. At a server error, that would ask for ever, or end without an error; and it
    /// may abort the process at a live segment that is not there.
    @Test(arguments: [(false, false, 404), (true, false, 404), (false, true, 404), (true, true, 204)])
    func whatCannotBeHadFourTimesEndsPlayback(isLive: Bool, keepsFromAbsent: Bool, status: Int) async throws {
        var world = try World([Self.refused, Self.refused, Self.refused, Self.media], isLive: isLive)
        #expect(await world.status() == 200)
        #expect(world.failures.isEmpty && world.count == 4)
        world = try World([Self.refused], isLive: isLive, keepsFromAbsent: keepsFromAbsent)
        #expect(await world.status() == status)
        #expect(world.count == 4)
        #expect(world.failures.count == 1 && world.failures.allSatisfy { $0.contains("https://a.test/media/1.ts") })
        #expect(!world.failures.contains { $0.contains("secret") })
    }

    @Test func whatStaysAsItIsEndsPlaybackAtOnce() async throws {
        let world = try World([.failure(.untrusted(RelayTests.url))])
        #expect(await world.status() == 404)
        #expect(world.failures.count == 1 && world.count == 1)
    }

    /// If nothing is waited for, what the origin answers is up to the stock demuxer.
    @Test(arguments: [403, 404, 410, 503]) func answersGoOnAsTheyAre(status: Int) async throws {
        let world = try World([.response(RelayTests.response([], status: status))], isLive: true)
        for _ in 0..<6 { #expect(await world.status() == status) }
        #expect(world.failures.isEmpty && world.count == 6)
    }
}
