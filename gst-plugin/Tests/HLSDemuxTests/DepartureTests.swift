// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements
@testable import LatchkeyManifests

/// Variants whose next keys are refused while they play.
@Suite(.timeLimit(.minutes(8))) struct HLSDepartureTests {
    /// A master playlist with the qualities 9 and 1, whose segments have a key each: `skd://9/0` and so on. `live…` has no end.
    private struct Playlists: HTTPTransport {
        static let master = Array(
            "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=9\n9.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=1\n1.m3u8\n".utf8)
        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            let name = request.url.split(separator: "/").last?.prefix { $0 != "." } ?? ""
            let segments = (0..<6).map { number in
                "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://\(name)/\(number)\","
                    + "KEYFORMAT=\"com.apple.streamingkeydelivery\"\n#EXTINF:1,\(name)-\(number)\n\(number).ts\n"
            }
            let end = name.hasPrefix("live") ? "" : "#EXT-X-ENDLIST\n"
            let text = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n\(segments.joined())\(end)"
            return HTTPResponse(status: 200, body: Array(text.utf8), url: request.url)
        }
    }

    private static func key(_ name: String) -> HLSKey {
        HLSKey(method: .sampleAES, uri: "skd://\(name)", keyFormat: HLSKeyFormat.fairPlay.name)
    }

    /// What is told of the higher quality, whose fourth key is refused.
    private final class Told: Sendable {
        let departures = Mutex<[HLSVariantChoice.Departure?]>([])
        let leftOut = Mutex<[[KeyID: KeyError]]>([])
    }

    /// One that is open. The key server refuses the keys of these URIs. `hold` may take a request, which is left open then.
    private static func presentation(
        refusing isRefused: @escaping @Sendable (String) -> Bool = { _ in false },
        hold: @escaping @Sendable (KeyLoadingRequest) -> Bool = { _ in false }
    ) throws -> (HLSPresentation, KeySession, HLSKeys, Told) {
        let contentKey = try #require(ContentKey([UInt8](repeating: 7, count: 16)))
        let loader = CallbackLoader { request in
            if hold(request) { return true }
            if isRefused(request.keyURI ?? "") {
                request.finishLoading(with: .denied("not in the subscription"))
            } else {
                request.finishLoading(with: .key(contentKey))
            }
            return true
        }
        let session = KeySession(loaders: [loader])
        let keys = HLSKeys(session: session, timeout: .seconds(30))
        let told = Told()
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: Playlists()), keys: keys, keyFormats: [.fairPlay],
            choice: KeyChoice(session: session, timeout: .seconds(30)),
            onLeftOut: { refusals in told.leftOut.withLock { $0.append(refusals) } },
            onDeparture: { departure in told.departures.withLock { $0.append(departure) } })
        try presentation.open { _ in }
        return (presentation, session, keys, told)
    }

    /// On demand, sound stands in for that of another language. Its keys are asked for like those of the first.
    @Test(arguments: [
        ("a", "b", true), ("b", "a", false), ("a b", "a", false), ("9 a", "b", true), ("live-a", "live-a", false),
    ]) func soundOfAnotherLanguageIsPlayed(refused: String, expected: String, isTold: Bool) async throws {
        let refused = refused.split(separator: " ").map { "skd://\($0)/" }
        let (presentation, session, _, told) = try Self.presentation { uri in refused.contains { uri.hasPrefix($0) } }
        defer { presentation.close() }
        let names = expected.hasPrefix("live") ? ["live-a", "live-b"] : ["a", "b"]
        let sounds = names.map { "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"s\",NAME=\"\($0)\",URI=\"\($0).m3u8\"\n" }
        let master = "#EXTM3U\n\(sounds.joined())#EXT-X-STREAM-INF:BANDWIDTH=9,AUDIO=\"s\"\n9.m3u8\n"
        _ = try presentation.start(Array(master.utf8), from: "https://a.test/master.m3u8")
        for (asked, given) in [("9", "9"), (names[0], expected), (names[0], expected)] {
            let resource = HLSResource.playlist(url: "https://a.test/\(asked).m3u8")
            let path = try #require(presentation.table.knownName(of: resource))
            let answer = await presentation.answer(LoopbackRequest(path: "\(path).m3u8"))
            #expect(String(decoding: answer.body, as: UTF8.self).contains(",\(given)-0\n"))
        }
        let all = told.leftOut.withLock { $0 }
        #expect(all.isEmpty != isTold)
        #expect(all.flatMap(\.keys).allSatisfy { session.name(of: $0).contains("a/") })
        // The pictures stay as they are.
        #expect(told.departures.withLock { $0.isEmpty })
    }

    /// That of the same name in another group goes before another language of the same group.
    @Test(
        arguments: [
            ("a", "b", ["a"]), ("a b", "c", ["a", "b"]), ("a b c", "d", ["a", "b", "c"]), ("a b c d", "a", []),
            ("b", "a", []),
        ] as [(String, String, [String])])
    func soundOfAnotherGroupIsPlayed(refused: String, expected: String, names: [String]) async throws {
        let refused = refused.split(separator: " ").map { "skd://\($0)/" }
        let (presentation, session, _, told) = try Self.presentation { uri in refused.contains { uri.hasPrefix($0) } }
        defer { presentation.close() }
        let sounds = [("high", "en", "a"), ("high", "de", "c"), ("low", "en", "b"), ("low", "de", "d")].map {
            "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"\($0.0)\",NAME=\"\($0.1)\",URI=\"\($0.2).m3u8\"\n"
        }
        let variants = [(9, "high"), (1, "low")].map {
            "#EXT-X-STREAM-INF:BANDWIDTH=\($0.0),AUDIO=\"\($0.1)\"\n\($0.0).m3u8\n"
        }
        let master = "#EXTM3U\n\(sounds.joined())\(variants.joined())"
        _ = try presentation.start(Array(master.utf8), from: "https://a.test/master.m3u8")
        for (asked, given) in [("9", "9"), ("a", expected), ("a", expected)] {
            let resource = HLSResource.playlist(url: "https://a.test/\(asked).m3u8")
            let path = try #require(presentation.table.knownName(of: resource))
            let answer = await presentation.answer(LoopbackRequest(path: "\(path).m3u8"))
            #expect(String(decoding: answer.body, as: UTF8.self).contains(",\(given)-0\n"))
        }
        let all = Set(told.leftOut.withLock { $0 }.flatMap(\.keys).map { session.name(of: $0) })
        #expect(all.allSatisfy { key in names.contains { key.contains("\($0)/") } })
        #expect(names.allSatisfy { name in all.contains { $0.contains("\(name)/") } })
        // All variants stay.
        #expect(told.departures.withLock { $0.isEmpty })
    }

    @Test func aVariantIsLeftBeforeAKeyThatIsRefused() async throws {
        let (presentation, session, keys, told) = try Self.presentation { $0 == "skd://9/3" }
        defer { presentation.close() }
        _ = try presentation.start(Playlists.master, from: "https://a.test/master.m3u8")
        func playlist(_ name: String) async throws -> String {
            let resource = HLSResource.playlist(url: "https://a.test/\(name).m3u8")
            let path = try #require(presentation.table.knownName(of: resource))
            return String(
                decoding: await presentation.answer(LoopbackRequest(path: "\(path).m3u8")).body, as: UTF8.self)
        }
        #expect(try await playlist("9").contains("9-5\n"))
        presentation.keysDidFail()
        #expect(told.departures.withLock { $0.isEmpty })
        // The segments of the second key are fetched.
        for key in presentation.state.withLock({ $0.schedule.didFetch(Self.key("9/1")) }) { keys.demand(key) }
        await keys.waitForAnswers(to: [Self.key("9/3")], from: session.now)
        for _ in 0..<2 { presentation.keysDidFail() }
        #expect(told.departures.withLock { $0 } == [.atMost(1)])
        #expect(told.leftOut.withLock { $0.isEmpty })
        // The lower one plays from now on, whichever the stock demuxer asks for. The key is told of.
        for name in ["1", "9", "1"] { #expect(try await playlist(name).contains("1-5\n")) }
        let names = told.leftOut.withLock { $0.first?.keys.map { session.name(of: $0) } ?? [] }
        #expect(names.count == 1 && names.first?.contains("9/3") == true)
        #expect(told.departures.withLock { $0.count } == 1)
    }

    /// A playlist that is made ahead, here that of the higher quality, plays when the stock demuxer has got it, and not before.
    @Test func onlyWhatPlaysIsLeft() async throws {
        let (requests, requested) = AsyncStream.makeStream(of: KeyLoadingRequest.self)
        let (presentation, session, keys, told) = try Self.presentation(hold: { request in
            guard request.keyURI == "skd://9/2" else { return false }
            requested.yield(request)
            return true
        })
        defer { presentation.close() }
        _ = try presentation.start(Playlists.master, from: "https://a.test/master.m3u8")
        func path(_ name: String) throws -> String {
            try #require(presentation.table.knownName(of: HLSResource.playlist(url: "https://a.test/\(name).m3u8")))
        }
        let lower = await presentation.answer(LoopbackRequest(path: "\(try path("1")).m3u8"))
        #expect(String(decoding: lower.body, as: UTF8.self).contains("1-5\n"))
        presentation.prepareFirstVariant()
        await presentation.answers.wait(for: "\(try path("9"))?")
        for await request in requests {
            request.finishLoading(with: .denied("not in the subscription"))
            break
        }
        await keys.waitForAnswers(to: [Self.key("9/2")], from: session.now)
        presentation.keysDidFail()
        #expect(presentation.state.withLock { $0.variants.isRefused("https://a.test/9.m3u8") })
        #expect(told.departures.withLock { $0.isEmpty })
        // It is left where the stock demuxer gets it after all.
        if let tell = presentation.didAnswer("https://a.test/9.m3u8") { tell() }
        #expect(told.departures.withLock { $0 } == [.atMost(1)])
    }

    /// The session made the KID. A key of fragmented MP4 is asked for once more when its init segment says another one.
    @Test func aKeyThatIsAskedForAnewIsNotRefused() async throws {
        let session = KeySession(loaders: [
            CallbackLoader { request in
                request.finishLoading(with: .denied("no KID"))
                return true
            }
        ])
        let keys = HLSKeys(session: session, timeout: .seconds(30))
        let (made, own) = (keys.keyID(of: Self.key("9/0")), KeyID(high: 0, low: 1))
        #expect(!session.mayBeAskedForAnew(made))
        keys.demand(Self.key("9/0"))
        session.demand(KeyDemand(keyIDs: [own]))
        await keys.waitForAnswers(to: [Self.key("9/0")], from: session.now)
        #expect(session.mayBeAskedForAnew(made) && !session.mayBeAskedForAnew(own))
        var schedule = HLSKeySchedule()
        var rewriting = Self.rewriting(isEnded: true)
        _ = schedule.update(rewriting, of: "ts")
        rewriting.resources = [
            .initSegment(HLSInitSegment(url: "i", protection: .key(Self.key("8"))))
        ]
        _ = schedule.update(rewriting, of: "mp4")
        #expect(!schedule.hasNamedKeys("ts") && schedule.hasNamedKeys("mp4") && !schedule.hasNamedKeys("none"))
    }

    /// Where no variant has all keys, one that begins is as good as ever.
    @Test func whatBeginsPlaysUntilItsRefusedKey() async throws {
        let (presentation, session, keys, told) = try Self.presentation {
            $0.hasPrefix("skd://9/") || $0 == "skd://1/2"
        }
        defer { presentation.close() }
        _ = try presentation.start(Playlists.master, from: "https://a.test/master.m3u8")
        for name in ["9", "9", "1", "9"] {
            let resource = HLSResource.playlist(url: "https://a.test/\(name).m3u8")
            let path = try #require(presentation.table.knownName(of: resource))
            let answer = await presentation.answer(LoopbackRequest(path: "\(path).m3u8"))
            #expect(String(decoding: answer.body, as: UTF8.self).contains("1-5\n"))
            await keys.waitForAnswers(to: [Self.key("1/2")], from: session.now)
            presentation.keysDidFail()
        }
        #expect(told.departures.withLock { $0.allSatisfy { $0 == nil } })
    }

    /// It has keys of a window, and later versions are read anyway.
    @Test func aLivePlaylistIsNotLeftForThat() throws {
        let (live, complete) = (Self.rewriting(isEnded: false), Self.rewriting(isEnded: true))
        var schedule = HLSKeySchedule()
        _ = schedule.update(live, of: "v")
        #expect(schedule.nextKeys(of: "v").isEmpty && schedule.nextKeys(of: "w").isEmpty)
        _ = schedule.update(complete, of: "v")
        func next() -> [String] { schedule.nextKeys(of: "v").compactMap(\.uri) }
        #expect(next() == ["skd://0", "skd://1", "skd://2"])
        _ = schedule.didFetch(Self.key("7"))
        #expect(next() == ["skd://7", "skd://8"])
        _ = schedule.didFetch(Self.key("3"))
        #expect(next() == ["skd://3", "skd://4", "skd://5"])
    }

    private static func rewriting(isEnded: Bool) -> HLSRewriting {
        var rewriting = HLSRewriting(kind: .media)
        rewriting.firstSegment = 0
        rewriting.durations = Array(repeating: 2, count: 9)
        rewriting.targetDuration = 2
        rewriting.isEnded = isEnded
        for number in 0..<9 {
            rewriting.keys.append(
                HLSRewriting.KeyUse(
                    key: key("\(number)"), decryptor: .element, segments: UInt64(number)...UInt64(number),
                    start: Double(2 * number), end: Double(2 * number + 2)))
        }
        return rewriting
    }

    @Test(
        arguments: [
            // Lower, and best where keys are; higher where there is nothing lower; nowhere where nothing is left.
            ([1, 4, 9], [9], 9, .atMost(4)), ([1, 4, 9], [9, 4], 9, .atMost(1)), ([4, 9], [4], 4, .atLeast(9)),
            ([1, 4, 9], [1, 4], 4, .atMost(1)), ([4, 9], [4, 9], 4, nil), ([9], [9], 9, nil), ([4, 9], [9], 4, nil),
        ] as [([UInt32], [UInt32], UInt32, HLSVariantChoice.Departure?)])
    func whereItGoes(rates: [UInt32], refused: [UInt32], current: UInt32, expected: HLSVariantChoice.Departure?) {
        var choice = HLSVariantChoice()
        choice.setVariants(rates.map { HLSRewriting.Variant(url: "\($0)", bitRate: $0) }, among: [])
        #expect(choice.departure == nil)
        let areVariants = ["\(current)", "sound"].map { choice.didAnswer($0) }
        #expect(areVariants == [true, false])
        // Made ahead, and not asked for.
        for rate in rates { choice.give("\(rate)", for: "\(rate)") }
        for rate in refused { choice.refuse("\(rate)") }
        #expect(choice.departure == expected)
        #expect(choice.kept == rates.filter { !refused.contains($0) }.map { "\($0)" })
    }

    /// Not to sound alone while other pictures have keys.
    @Test(arguments: [([9], .atLeast(20)), ([9, 20], .atMost(1))] as [([UInt32], HLSVariantChoice.Departure)])
    func picturesStayPictures(refused: [UInt32], expected: HLSVariantChoice.Departure) {
        var choice = HLSVariantChoice()
        choice.setVariants(
            [1, 9, 20].map { HLSRewriting.Variant(url: "\($0)", bitRate: $0, hasPictures: $0 > 1) }, among: [])
        _ = choice.didAnswer("9")
        for rate in refused { choice.refuse("\(rate)") }
        #expect(choice.departure == expected)
    }

    /// What plays in the place of another variant counts.
    @Test func whatStandsForAnotherIsLeft() {
        var choice = HLSVariantChoice()
        choice.setVariants([1, 4, 9].map { HLSRewriting.Variant(url: "\($0)", bitRate: $0) }, among: [])
        choice.refuse("9")
        choice.give("4", for: "9")
        #expect(choice.departure == nil)
        _ = choice.didAnswer("9")
        #expect(choice.departure == nil)
        choice.refuse("4")
        #expect(choice.departure == .atMost(1))
    }

    @Test func whatTheStockDemuxerGets() {
        var rates = RateLimits()
        rates.departure = .atMost(500)
        #expect(rates.effectiveMaximum == 500 && rates.effectiveConnection == 0)
        (rates.connection, rates.maximum, rates.allowed) = (900, 300, 400)
        #expect(rates.effectiveMaximum == 300 && rates.effectiveConnection == 400)
        rates.departure = .atLeast(700)
        #expect(rates.effectiveMaximum == 300 && rates.effectiveConnection == 400)
        (rates.connection, rates.allowed) = (0, nil)
        #expect(rates.effectiveConnection == 700)
    }
}
