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
        let time = RelayTests.Time()
        private let name: String
        private let initName: String
        private let told: Told

        private final class Told: Sendable { let failures = Mutex<[String]>([]) }

        /// `answers`: of the origin to requests for the segment.
        init(
            _ answers: [RelayTests.Script.Answer], isLive: Bool = false, keepsFromAbsent: Bool = false,
            sleep: (@Sendable (Duration) async throws -> Void)? = nil
        ) throws {
            let (script, told) = (RelayTests.Script(answers), Told())
            let origin = HLSOrigin(transport: script)
            let plainRelay = SegmentRelay(
                origin, limit: .zero, now: { [time] in time.now }, sleep: sleep ?? { [time] in try time.sleep($0) }
            ) { _ in }
            let presentation = HLSPresentation(
                origin: origin, keys: HLSKeys(session: KeySession(), timeout: .seconds(1)), keyFormats: [.identity],
                plainRelay: plainRelay)
            try presentation.open { failure in told.failures.withLock { $0.append(failure.text) } }
            presentation.state.withLock { $0.absent = keepsFromAbsent ? AbsentSegments() : nil }
            let head = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"1.key\"\n"
            let segments = "#EXTINF:2,\n1.ts?token=secret\n#EXTINF:2,\n2.ts\n"
            let fragmented = "#EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:2,\n3.m4s\n"
            let end = isLive ? "" : "#EXT-X-ENDLIST\n"
            _ = try presentation.rewrite(
                Array((head + segments + end).utf8), from: "https://a.test/media/v.m3u8")
            let second = try presentation.rewrite(
                Array((head + fragmented + end).utf8), from: "https://a.test/media/w.m3u8")
            name = try #require(presentation.table.knownName(of: .relayedSegment(url: RelayTests.url)))
            let section = try #require(
                second.resources.first { if case .initSegment = $0 { true } else { false } })
            initName = try #require(presentation.table.knownName(of: section))
            (self.script, self.presentation, self.told) = (script, presentation, told)
        }

        deinit { presentation.close() }

        /// What the stock demuxer gets.
        func status() async -> Int { await presentation.answer(LoopbackRequest(path: name)).status }

        /// The same of the init segment.
        func initStatus() async -> Int { await presentation.answer(LoopbackRequest(path: initName)).status }

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

    /// As often as the stock demuxer would ask, with a pause where the server may be back in a moment. At a server error, that
    /// would ask for ever, or end without an error; and it may abort the process at a live segment that is not there.
    @Test(arguments: [(false, false, 404), (true, false, 404), (false, true, 404), (true, true, 204)])
    func whatCannotBeHadFourTimesEndsPlayback(isLive: Bool, keepsFromAbsent: Bool, status: Int) async throws {
        var world = try World([Self.refused, Self.refused, Self.refused, Self.media], isLive: isLive)
        #expect(await world.status() == 200)
        #expect(world.failures.isEmpty && world.count == 4)
        #expect(world.time.elapsed == .seconds(isLive ? 3 : 0))
        world = try World([Self.refused], isLive: isLive, keepsFromAbsent: keepsFromAbsent)
        #expect(await world.status() == status)
        #expect(world.count == 4)
        #expect(world.time.elapsed == .seconds(isLive ? 3 : 0))
        #expect(world.failures.count == 1 && world.failures.allSatisfy { $0.contains("https://a.test/media/1.ts") })
        #expect(!world.failures.contains { $0.contains("secret") })
    }

    /// The stock demuxer asks again at once for an init segment, and four times.
    @Test(arguments: [true, false]) func aLiveInitSegmentIsNotRefusedAtOnce(isLive: Bool) async throws {
        let world = try World([Self.refused], isLive: isLive)
        for _ in 0..<3 { #expect(await world.initStatus() == 502) }
        #expect(world.count == 3 && world.failures.isEmpty)
        #expect(world.time.elapsed == .seconds(isLive ? 3 : 0))
    }

    /// A pipeline that stops does not wait for the pause.
    @Test(arguments: [true, false]) func theEndDoesNotWait(isInit: Bool) async throws {
        let (waits, waiting) = AsyncStream.makeStream(of: Void.self)
        let world = try World([Self.refused], isLive: true) { _ in
            waiting.yield()
            try await Task.sleep(for: .seconds(3600))
        }
        async let status = isInit ? world.initStatus() : world.status()
        for await _ in waits { break }
        world.presentation.end()
        #expect(await status >= 400)
        #expect(world.count == 1 && world.failures.isEmpty)
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
