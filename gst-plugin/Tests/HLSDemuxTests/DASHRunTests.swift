// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// The manifest of a live presentation, read again and again, without a network and on a clock of its own. Not
    /// beside a presentation: the largest manifests take the few threads that Swift's tasks have.
    @Suite(.timeLimit(.minutes(8))) struct DASHRunTests {}
}

extension HLSDemuxTests.DASHRunTests {
    fileprivate static func manifest(_ number: Int, period: String = "PT5S", location: String = "") -> [UInt8] {
        let keyID = "00000000-0000-0000-0000-00000000000\(number)"
        return Array(
            """
            <MPD xmlns="urn:mpeg:dash:schema:mpd:2011" xmlns:cenc="urn:mpeg:cenc:2013" type="dynamic" \
            minimumUpdatePeriod="\(period)">\(location)<Period><AdaptationSet>
            <ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" cenc:default_KID="\(keyID)"/>
            <ContentProtection schemeIdUri="urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e"/>
            </AdaptationSet></Period></MPD>
            """.utf8)
    }

    /// Hands out the versions one by one, and remembers who asked for what.
    final class Versions: HTTPTransport {
        let urls = Mutex<[String]>([])
        private let bodies: Mutex<[[UInt8]]>
        private let redirect: @Sendable (HTTPRequest) -> (url: String, isForGood: Bool)?

        /// `redirect`: where a request leads; nil: nowhere else.
        init(
            _ bodies: [[UInt8]],
            redirect: @escaping @Sendable (HTTPRequest) -> (url: String, isForGood: Bool)? = { _ in nil }
        ) {
            self.bodies = Mutex(bodies)
            self.redirect = redirect
        }

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            urls.withLock { $0.append(request.url) }
            let body = bodies.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            let place = redirect(request)
            var response = HTTPResponse(
                status: body == nil ? 404 : 200, body: body ?? [], url: place?.url ?? request.url)
            if let place, place.isForGood { response.movedURL = place.url }
            return response
        }
    }

    @Test func newVersionsBringTheirKeys() async throws {
        let (demands, demanded) = AsyncStream.makeStream(of: String.self)
        let (sleeps, slept) = AsyncStream.makeStream(of: Duration.self)
        let session = KeySession(loaders: [CallbackLoader { _ in true }])
        // In the order in which they are asked for. Loaders hear of each on a task of its own.
        let observation = session.observe { event in
            guard case .requested(let request, _) = event else { return }
            demanded.yield(request.keyIDs.map(\.description).joined())
        }
        defer { observation.cancel() }
        // One that is not there, and one that is broken, are passed over.
        let versions = Versions([
            Self.manifest(2), [], Array("<MPD".utf8), Self.manifest(3, period: "PT0.1S"), Self.manifest(3),
        ])
        let steps = Mutex(0)
        let start = ContinuousClock.now
        let time = Mutex(start)
        let run = try DASHRun(
            shared: SharedSession(session, ControlSettings()), transport: versions,
            sleep: { duration in
                slept.yield(duration)
                time.withLock { $0 += duration }
                if steps.withLock({
                    $0 += 1; return $0 > 5
                }) {
                    try await Task.sleep(for: .seconds(3600))
                }
            },
            now: { time.withLock { $0 } })
        run.observe { _ in }
        try run.start(
            Self.manifest(1, location: "<Location>b/next.mpd</Location>"), from: "https://a.test/x/live.mpd?t=1")
        #expect(run.mayBeProtected)
        var asked: [String] = []
        for await demand in demands {
            asked.append(demand)
            if asked.count == 3 { break }
        }
        #expect(asked.map { $0.suffix(2) } == ["01", "02", "03"])
        var waited: [Duration] = []
        for await sleep in sleeps {
            waited.append(sleep)
            if waited.count == 6 { break }
        }
        // Half a period ahead of the stock demuxer, also where the period changes. Nobody is asked more often than once a
        // second.
        #expect(waited == [.seconds(2.5), .seconds(5), .seconds(5), .seconds(5), .seconds(1), .seconds(1)])
        #expect(Set(versions.urls.withLock { $0 }) == ["https://a.test/x/b/next.mpd"])
        run.end()
    }

    /// Later versions are asked for where a redirect for good leads, and at the first place below any other; what they name
    /// relatively is relative to where they came from.
    @Test(arguments: [true, false]) func laterVersionsFollowRedirects(isForGood: Bool) async throws {
        let (sleeps, slept) = AsyncStream.makeStream(of: Void.self)
        let location = "<Location>next.mpd</Location>"
        let versions = Versions([
            Self.manifest(1), Self.manifest(1), Self.manifest(1, location: location), Self.manifest(1),
        ]) { request in
            request.url.hasPrefix("https://a.test") ? ("https://b.test/y/live.mpd", isForGood) : nil
        }
        let count = Mutex(0)
        let time = Mutex(ContinuousClock.now)
        let run = try DASHRun(
            shared: SharedSession(KeySession(), ControlSettings()), transport: versions,
            sleep: { duration in
                slept.yield()
                time.withLock { $0 += duration }
                let isLast = count.withLock {
                    $0 += 1
                    return $0 > 4
                }
                if isLast { try await Task.sleep(for: .seconds(3600)) }
            },
            now: { time.withLock { $0 } })
        try run.start(Self.manifest(1), from: "https://c.test/z/live.mpd", source: "https://a.test/live.mpd")
        var waited = 0
        for await _ in sleeps {
            waited += 1
            if waited == 5 { break }
        }
        let (first, moved) = ("https://a.test/live.mpd", "https://b.test/y/live.mpd")
        let urls = versions.urls.withLock { $0 }
        #expect(urls == [first] + (isForGood ? [moved, moved] : [first, first]) + ["https://b.test/y/next.mpd"])
        run.end()
    }

    /// A place that a playlist or manifest has moved to for good is forgotten where nothing is there any more.
    @Test func aPlaceThatIsThereNoMoreIsForgotten() async throws {
        let versions = Versions([Self.manifest(1), Self.manifest(1)]) { request in
            request.url.hasPrefix("https://a.test") ? ("https://b.test/live.mpd", true) : nil
        }
        let origin = PresentationOrigin(transport: versions)
        for _ in 0..<4 { _ = try await origin.response(.manifest, "https://a.test/live.mpd") }
        // A segment is where its URL says.
        _ = try await origin.response(.segment, "https://a.test/live.mpd")
        let (first, moved) = ("https://a.test/live.mpd", "https://b.test/live.mpd")
        #expect(versions.urls.withLock { $0 } == [first, moved, moved, first, first])
    }

    /// Neither at first nor later.
    @Test(arguments: ["<!DOCTYPE html><title>Log in", #"{"error": 1}"#])
    func foreignContentIsNoPlaceToMoveTo(_ text: String) async throws {
        let page = Array(text.utf8)
        let versions = Versions([page, Self.manifest(1), page, Self.manifest(1)]) { request in
            request.url.hasPrefix("https://a.test") ? ("https://b.test/live.mpd", true) : nil
        }
        let origin = PresentationOrigin(transport: versions)
        let (first, moved) = ("https://a.test/live.mpd", "https://b.test/live.mpd")
        for _ in 0..<4 { _ = try await origin.response(.manifest, first) }
        #expect(versions.urls.withLock { $0 } == [first, first, moved, first])
    }

    /// The stock demuxer is sent to the place that the manifest names, where its media stays what it was.
    @Test(arguments: [
        ("<Location>next.mpd?s=1</Location>", "https://a.test/x/next.mpd?s=1", false),
        ("<Location> https://b.test/y/live.mpd </Location>", "https://b.test/y/live.mpd", true),
        ("<Location>../y/live.mpd</Location>", "https://a.test/y/live.mpd", true),
        ("<Location>ftp://a.test/x/live.mpd</Location>", nil, false), ("", nil, false),
    ])
    func laterVersionsAreAtTheLocation(element: String, laterURL: String?, isBased: Bool) throws {
        let run = try DASHRun(
            shared: SharedSession(KeySession(), ControlSettings()), transport: Versions([]),
            sleep: { _ in try await Task.sleep(for: .seconds(3600)) })
        let bytes = Self.manifest(1, location: element)
        try run.start(bytes, from: "https://a.test/x/live.mpd?t=1")
        let handedOn = run.handedOn(
            bytes, from: "https://a.test/x/live.mpd?t=1", source: "https://a.test/x/live.mpd?t=1")
        #expect(handedOn.laterURL == laterURL)
        if isBased {
            let base = try XMLElement(reading: handedOn.bytes, limits: .manifest).child("BaseURL")?.text
            #expect(base == "https://a.test/x/live.mpd")
        } else {
            #expect(handedOn.bytes == bytes)
        }
        run.end()
    }

    /// Two Representations with KIDs of their own, of pictures and of sound, each of the latter in a set of its own.
    private static func qualities(type: String, isProtected: Bool = true) -> [UInt8] {
        let representations = (1...2).map { number in
            let protection = """
                <ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" \
                cenc:default_KID="00000000-0000-0000-0000-00000000000\(number)"/>
                <ContentProtection schemeIdUri="urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e"/>
                """
            return "<Representation id=\"\(number)\">\(isProtected ? protection : "")</Representation>"
        }
        return Array(
            """
            <MPD xmlns="urn:mpeg:dash:schema:mpd:2011" xmlns:cenc="urn:mpeg:cenc:2013" type="\(type)" \
            minimumUpdatePeriod="PT5S"><Period><AdaptationSet contentType="video">\(representations.joined())\
            </AdaptationSet><AdaptationSet contentType="audio" id="one">\(representations[0])</AdaptationSet>\
            <AdaptationSet contentType="audio" id="two">\(representations[1])</AdaptationSet></Period></MPD>
            """.utf8)
    }

    /// Also where this process has an HTTP proxy.
    static let makePlainSegments: @Sendable (PresentationOrigin) -> SegmentServer? = { origin in
        let server = SegmentServer(origin, relay: SegmentRelay(origin, limit: .zero) { _ in }, giveUp: { _ in })
        return (try? server.open()).map { server }
    }

    static func representations(_ bytes: [UInt8]) throws -> [String] {
        let root = try XMLElement(reading: bytes, limits: .manifest)
        return root.first("AdaptationSet")?.children.compactMap { $0[attribute: "id"] } ?? []
    }

    /// Of a live presentation, later versions come through this process, and lack the same.
    @Test(arguments: [("static", true), ("dynamic", true), ("dynamic", false), ("static", false)])
    func whatHasNoKeyIsLeftOut(type: String, isWanted: Bool) async throws {
        let (failures, failed) = AsyncStream.makeStream(of: Void.self)
        let good = KeyID(high: 0, low: 1)
        let loader = CallbackLoader { request in
            request.finishLoading(with: .denied("not in the subscription"))
            return true
        }
        let session = KeySession(loaders: [loader])
        session.install([good: try #require(ContentKey([UInt8](repeating: 7, count: 16)))])
        let observation = session.observe { event in if case .failed = event { failed.yield() } }
        defer { observation.cancel() }
        let bytes = Self.qualities(type: type)
        let run = try DASHRun(
            shared: SharedSession(session, ControlSettings()),
            choice: isWanted ? KeyChoice(session: session, timeout: .seconds(30)) : nil, transport: Versions([bytes]),
            makePlainSegments: Self.makePlainSegments,
            sleep: { _ in try await Task.sleep(for: .seconds(3600)) })
        defer { run.end() }
        let told = Mutex<[[KeyID: KeyError]]>([])
        run.onLeftOut { refusals in told.withLock { $0.append(refusals) } }
        try run.start(bytes, from: "https://a.test/x/live.mpd")
        for await _ in failures { break }
        #expect(run.decidingKeyIDs.count == (isWanted ? 2 : 0))
        let handedOn = run.handedOn(
            bytes, from: "https://a.test/x/live.mpd", source: "https://a.test/x/live.mpd")
        let kept = isWanted ? ["1"] : ["1", "2"]
        #expect(try Self.representations(handedOn.bytes) == kept)
        // Those that the stock demuxer has.
        #expect(run.audioTracks.map(\.name) == (isWanted && type == "static" ? ["one"] : ["one", "two"]))
        #expect(told.withLock { $0.count } == (isWanted ? 1 : 0))
        #expect(told.withLock { $0.first?.keys.map(\.description) ?? [] }.allSatisfy { $0.hasSuffix("2") })
        // Segments come through this process, for their cookies.
        func base(_ bytes: [UInt8]) throws -> String? {
            try XMLElement(reading: bytes, limits: .manifest).child("BaseURL")?.text
        }
        #expect(try base(handedOn.bytes)?.hasPrefix("http://127.0.0.1:") == true)
        guard type == "dynamic" else {
            #expect(handedOn.laterURL == nil)
            return
        }
        #expect(handedOn.laterURL?.hasSuffix("/m") == true)
        let later = try await #require(run.segments).answer(LoopbackRequest(path: "m"))
        #expect(try Self.representations(later.body) == kept && base(later.body) == base(handedOn.bytes))
    }

    /// Hands out files by their names, and remembers who asked for what.
    private final class Files: HTTPTransport {
        let names = Mutex<[String]>([])
        let referrers = Mutex<Set<String?>>([])
        private let files: [String: [UInt8]]

        init(_ files: [String: [UInt8]]) { self.files = files }

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            let name = String(request.url.split(separator: "/").last ?? "")
            names.withLock { $0.append(name) }
            if name.hasSuffix(".mp4") {
                _ = referrers.withLock { $0.insert(request.headers.first { $0.name == "Referer" }?.value) }
            }
            return HTTPResponse(
                status: files[name] == nil ? 404 : 200, body: files[name] ?? [], url: request.url)
        }
    }

    /// Keys that only init segments tell decide too: with a system that could be asked for them, and with data of another
    /// system than the configured one.
    @Test(arguments: ["static", "dynamic"], [true, false])
    func keysOfInitSegmentsDecide(type: String, hasSystem: Bool) async throws {
        var text = String(decoding: Self.qualities(type: type), as: UTF8.self)
        text.replace(#/ cenc:default_KID="[^"]*"/#, with: "")
        if !hasSystem { text.replace(#/<ContentProtection schemeIdUri="urn:uuid[^>]*>/#, with: "") }
        text.replace(
            "</Representation>",
            with: "<SegmentTemplate initialization=\"$RepresentationID$.mp4\"/></Representation>")
        let bytes = Array(text.utf8)
        let section = try InitSegment(CorpusCase("dash-cenc-static-live").bytes("v_init.mp4"))
        func file(_ number: UInt64) throws -> [UInt8] {
            let boxes = hasSystem ? [] : [PSSHBox(system: .widevine, data: [1])]
            return try section.rewriting(keyID: KeyID(high: 0, low: number), protectionBoxes: boxes)
        }
        let files = Files(["1.mp4": try file(1), "2.mp4": try file(2), "live.mpd": bytes])
        let (failures, failed) = AsyncStream.makeStream(of: Void.self)
        let loader = CallbackLoader { request in
            request.finishLoading(with: .denied("not in the subscription"))
            return true
        }
        let session = KeySession(loaders: [loader])
        session.install([KeyID(high: 0, low: 1): try #require(ContentKey([UInt8](repeating: 7, count: 16)))])
        let observation = session.observe { event in if case .failed = event { failed.yield() } }
        defer { observation.cancel() }
        var settings = ControlSettings()
        settings.keySystem = .clearKey
        let run = try DASHRun(
            shared: SharedSession(session, settings),
            choice: KeyChoice(session: session, timeout: .seconds(30)), transport: files,
            makePlainSegments: Self.makePlainSegments,
            sleep: { _ in try await Task.sleep(for: .seconds(3600)) })
        defer { run.end() }
        let told = Mutex<[[KeyID: KeyError]]>([])
        run.onLeftOut { refusals in told.withLock { $0.append(refusals) } }
        let url = "https://a.test/x/live.mpd"
        try run.start(bytes, from: url)
        #expect(run.hasUntoldKeys && run.decidingKeyIDs.isEmpty)
        await run.findKeys(bytes, from: url)
        for await _ in failures { break }
        #expect(run.decidingKeyIDs.count == 2)
        let handedOn = run.handedOn(bytes, from: url, source: url)
        #expect(try Self.representations(handedOn.bytes) == ["1"])
        #expect(told.withLock { $0.map { $0.keys.map(\.description.last) } } == [["2"]])
        if type == "dynamic" {
            let later = try await #require(run.segments).answer(LoopbackRequest(path: "m"))
            #expect(try Self.representations(later.body) == ["1"])
        }
        #expect(files.referrers.withLock { $0 } == [url])
        // Each once.
        #expect(files.names.withLock { $0 }.filter { $0 != "live.mpd" }.sorted() == ["1.mp4", "2.mp4"])
    }

    /// Sample groups tell such keys.
    @Test func zeroIsNoKeyOfAnInitSegment() throws {
        let section = try InitSegment(CorpusCase("dash-cenc-keyrot").bytes("v_init.mp4"))
        #expect(section.keyIDs == [KeyID(high: 0, low: 0)])
        #expect(DASHInitSegment.protections(of: section).isEmpty)
    }

    /// What is told is not looked for, and neither is anything where nothing is left out, or nothing encrypted.
    @Test(arguments: [(true, true, true), (false, true, false), (true, false, false)])
    func onlyAChoiceAmongUntoldKeysTakesInitSegments(isWanted: Bool, isProtected: Bool, hasKeyIDs: Bool) throws {
        var text = String(decoding: Self.qualities(type: "static", isProtected: isProtected), as: UTF8.self)
        if !hasKeyIDs { text.replace(#/ cenc:default_KID="[^"]*"/#, with: "") }
        text.replace(
            "</Representation>",
            with: "<SegmentTemplate initialization=\"$RepresentationID$.mp4\"/></Representation>")
        let session = KeySession(loaders: [CallbackLoader { _ in true }])
        let run = try DASHRun(
            shared: SharedSession(session, ControlSettings()),
            choice: isWanted ? KeyChoice(session: session, timeout: .seconds(30)) : nil, transport: Versions([]))
        defer { run.end() }
        try run.start(Array(text.utf8), from: "https://a.test/x/live.mpd")
        #expect(!run.hasUntoldKeys)
    }

    /// A cache waits for the network longer than what would stand in front of it.
    @Test func aCacheServesItsOwnSegments() throws {
        let cache = try LoopbackServer { _ in .notFound }
        defer { cache.close() }
        cache.setWaitsForNetwork()
        let (bytes, url) = (Self.qualities(type: "static"), cache.url("0/film.mpd"))
        let run = try DASHRun(
            shared: SharedSession(KeySession(), ControlSettings()), transport: Versions([bytes]),
            makePlainSegments: Self.makePlainSegments)
        defer { run.end() }
        try run.start(bytes, from: url)
        #expect(run.handedOn(bytes, from: url, source: url).bytes == bytes)
        #expect(run.segments == nil)
    }

    /// The chosen track is in front in later versions, too: these come through this process. Without a choice, clear ones do not.
    @Test(arguments: ["two", "one", nil]) func aTrackOfALivePresentationIsInFront(track: String?) async throws {
        let bytes = Self.qualities(type: "dynamic", isProtected: false)
        let run = try DASHRun(
            shared: SharedSession(KeySession(), ControlSettings()), transport: Versions([bytes]),
            makePlainSegments: Self.makePlainSegments,
            sleep: { _ in try await Task.sleep(for: .seconds(3600)) })
        defer { run.end() }
        let url = "https://a.test/x/live.mpd"
        try run.start(bytes, from: url)
        let handedOn = run.handedOn(bytes, from: url, source: url, audioTrack: track)
        #expect(handedOn.isOrdered == (track == "two") && (handedOn.laterURL != nil) == (track == "two"))
        #expect(try DASHManifest(handedOn.bytes).audioTracks.first?.name == (track == "two" ? "two" : "one"))
        guard track == "two" else { return }
        let later = try await #require(run.segments).answer(LoopbackRequest(path: "m"))
        #expect(try DASHManifest(later.body).audioTracks.map(\.name) == ["two", "one"])
    }

    /// A key that may not be used for pictures may be for sound.
    @Test func soundStaysWhereItsLicenseAllowsIt() throws {
        let session = KeySession()
        let free = KeyID(high: 0, low: 1)
        let soundOnly = KeyID(high: 0, low: 2)
        let key = try #require(ContentKey([UInt8](repeating: 7, count: 16)))
        var terms = KeyTerms()
        var policy = OutputPolicy.unrestricted
        policy.digitalVideo = .block
        terms.outputPolicies[soundOnly] = policy
        session.install([free: key])
        session.install([soundOnly: key], terms: terms)
        let run = try DASHRun(
            shared: SharedSession(session, ControlSettings()),
            choice: KeyChoice(session: session, timeout: .seconds(30)), transport: Versions([]))
        defer { run.end() }
        let bytes = Self.qualities(type: "static")
        let url = "https://a.test/x/film.mpd"
        try run.start(bytes, from: url)
        #expect(try Self.representations(run.handedOn(bytes, from: url, source: url).bytes) == ["1"])
        #expect(run.audioTracks.map(\.name) == ["one", "two"])
    }

    /// A server that takes longer than a period is asked at the next time that is half a period ahead, not at once.
    @Test func slowServersAreNotAskedInARow() async throws {
        struct Slow: HTTPTransport {
            let time: @Sendable () -> Void
            func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
                time()
                return HTTPResponse(status: 200, body: HLSDemuxTests.DASHRunTests.manifest(1), url: request.url)
            }
        }
        let (sleeps, slept) = AsyncStream.makeStream(of: Duration.self)
        let start = ContinuousClock.now
        let time = Mutex(start)
        let run = try DASHRun(
            shared: SharedSession(KeySession(), ControlSettings()),
            transport: Slow { time.withLock { $0 += .seconds(12) } },
            sleep: { duration in
                slept.yield(duration)
                time.withLock { $0 += duration }
            },
            now: { time.withLock { $0 } })
        try run.start(Self.manifest(1), from: "https://a.test/live.mpd")
        var waited: [Duration] = []
        for await sleep in sleeps {
            waited.append(sleep)
            if waited.count == 3 { break }
        }
        // Asked at 2.5 s, answered at 14.5 s, asked at 17.5 s.
        #expect(waited == [.seconds(2.5), .seconds(3), .seconds(3)])
        run.end()
    }

    /// The limits of the first version hold for those that come later: nothing goes on quietly.
    @Test(arguments: [nil, "elements", "entities"]) func aLaterVersionThatIsTooMuchEndsByName(kind: String?)
        async throws
    {
        struct Endless: HTTPTransport {
            func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
                throw .tooLarge(request.url, "more than \(request.maximumResponseSize) bytes")
            }
        }
        let many = "<MPD>\(String(repeating: "<S/>", count: 131_072))</MPD>"
        let text = kind == "elements" ? many : "<!DOCTYPE MPD [<!ENTITY a \"b\">]><MPD>&a;</MPD>"
        let transport: any HTTPTransport = kind == nil ? Endless() : Versions([Self.manifest(2), Array(text.utf8)])
        let (failures, failed) = AsyncStream.makeStream(of: PresentationFailure.self)
        let run = try DASHRun(
            shared: SharedSession(KeySession(), ControlSettings()), transport: transport, sleep: { _ in })
        run.onFailure { failed.yield($0) }
        try run.start(Self.manifest(1), from: "https://a.test/live.mpd?token=1")
        for await failure in failures {
            #expect(failure.text.contains("https://a.test/live.mpd") && !failure.text.contains("token"))
            #expect(
                failure.text.contains(kind == nil ? "too large" : kind == "elements" ? "131072 elements" : "cannot"))
            #expect(failure.isFinal)
            break
        }
        run.end()
    }

    /// What no player should read does not reach the stock demuxer; what is not well-formed does.
    @Test func whatGoesOn() throws {
        let run = try DASHRun(shared: SharedSession(KeySession(), ControlSettings()), transport: Versions([]))
        let entities = Array("<!DOCTYPE MPD [<!ENTITY a \"b\">]><MPD>&a;</MPD>".utf8)
        let error = #expect(throws: PresentationFailure.self) {
            try run.start(entities, from: "https://a.test/live.mpd?token=1")
        }
        #expect(error?.text.contains("https://a.test/live.mpd cannot be used") == true)
        #expect(error?.text.contains("token") == false)
        let many = Array("<MPD>\(String(repeating: "<S/>", count: 131_072))</MPD>".utf8)
        let excess = #expect(throws: PresentationFailure.self) { try run.start(many, from: "https://a.test/live.mpd") }
        #expect(excess?.text.contains("131072 elements") == true)
        try run.start(Array("<MPD><a></MPD>".utf8), from: "https://a.test/live.mpd")
        #expect(run.mayBeProtected && run.takeFailure()?.text.contains("live.mpd") == true)
        #expect(run.takeFailure() == nil)
        run.end()
    }

    /// Nobody but the stock demuxer fetches a clear live manifest. From the moment on at which media is encrypted, later
    /// versions are looked at here: at once, and then once each period.
    @Test func clearLiveMediaTurnsProtected() async throws {
        let clear = Array("<MPD type=\"dynamic\" minimumUpdatePeriod=\"PT1S\"><Period/></MPD>".utf8)
        let (demands, demanded) = AsyncStream.makeStream(of: [KeyID].self)
        let session = KeySession(loaders: [
            CallbackLoader { request in
                demanded.yield(request.keyIDs)
                return true
            }
        ])
        let (sleeps, slept) = AsyncStream.makeStream(of: Duration.self)
        let versions = Versions([Self.manifest(1, period: "PT1S")])
        let time = Mutex(ContinuousClock.now)
        let run = try DASHRun(
            shared: SharedSession(session, ControlSettings()), transport: versions,
            sleep: { duration in
                slept.yield(duration)
                if duration > .zero { try await Task.sleep(for: .seconds(3600)) }
            },
            now: { time.withLock { $0 } })
        run.observe { _ in }
        try run.start(clear, from: "https://a.test/live.mpd")
        #expect(!run.mayBeProtected)
        // Where there was a refresh it would sleep now.
        for _ in 0..<10 { await Task.yield() }
        #expect(versions.urls.withLock { $0 }.isEmpty)
        run.encryptionDidAppear()
        #expect(run.mayBeProtected)
        for await keyIDs in demands {
            #expect(keyIDs.count == 1)
            break
        }
        // Other streams tell of the same.
        run.encryptionDidAppear()
        var waited: [Duration] = []
        for await sleep in sleeps {
            waited.append(sleep)
            if waited.count == 2 { break }
        }
        #expect(waited == [.zero, .seconds(1)])
        #expect(versions.urls.withLock { $0 } == ["https://a.test/live.mpd"])
        run.end()
    }

    /// Media that is complete has no later versions, whatever it is.
    @Test func completeMediaThatIsEncryptedIsNotFetchedAgain() async throws {
        let versions = Versions([])
        let run = try DASHRun(shared: SharedSession(KeySession(), ControlSettings()), transport: versions)
        try run.start(Array("<MPD type=\"static\"><Period/></MPD>".utf8), from: "https://a.test/stream.mpd")
        run.encryptionDidAppear()
        #expect(run.mayBeProtected)
        for _ in 0..<10 { await Task.yield() }
        #expect(versions.urls.withLock { $0 }.isEmpty)
        run.end()
    }

    /// However often a version names the same keys, others that come later are still asked for.
    @Test func namedAgainIsNotAskedAgain() {
        let session = KeySession(loaders: [CallbackLoader { _ in true }])
        let keys = ManifestKeys(session: session, keySystem: nil)
        func demand(_ keyIDs: [KeyID]) {
            keys.demand(
                [ManifestKeyGroup(system: .common, keyIDs: keyIDs, boxes: [], licenseURL: nil)], origin: "dash/mpd",
                mediaURL: "https://media.example/a.mpd")
        }
        let old = (1...1000).map { KeyID(high: 1, low: $0) }
        for _ in 0..<100 { demand(old) }
        demand([KeyID(high: 2, low: 0)])
        guard case .pending = session.status(of: KeyID(high: 2, low: 0)) else {
            Issue.record("the new key is not asked for")
            return
        }
    }

    /// Every part of a manifest inherits what stands above it: what that adds up to is bounded.
    @Test func inheritedDescriptorsInManyParts() throws {
        let keyIDs = (0..<256).map { "00000000-0000-0000-0000-" + String(1_000_000_000_00 + $0) }.joined(separator: " ")
        let common = (0..<32).map { number in
            """
            <ContentProtection schemeIdUri="urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e" value="\(number)" \
            default_KID="\(keyIDs)"/>
            """
        }.joined()
        let sets = (0..<2000).map { number in
            "<AdaptationSet><ContentProtection value=\"\(number)\"/></AdaptationSet>"
        }.joined()
        let manifest = try DASHManifest(Array("<MPD>\(common)<Period>\(sets)</Period></MPD>".utf8))
        #expect(manifest.protections.count == 1024)
        #expect(manifest.flaws.count == 1)
        let groups = manifest.keyGroups { $0.first }
        #expect(groups.count == 1 && groups.first?.keyIDs.count == 256)
    }

    /// The decryptors of the pipeline say so where no key source has a key.
    @Test func whatCannotBeReadIsToldToDecryptors() throws {
        let session = KeySession()
        let playback = session.playback(of: 1)
        let run = try DASHRun(
            shared: SharedSession(session, ControlSettings()), playback: playback, transport: Versions([]))
        try run.start(Self.manifest(1), from: "https://a.test/live.mpd?token=1")
        #expect(playback.manifestFailure == nil)
        try run.start(Array("<MPD><a></MPD>".utf8), from: "https://a.test/live.mpd?token=1")
        let failure = try #require(playback.manifestFailure)
        #expect(failure.contains("https://a.test/live.mpd says") && !failure.contains("token"))
        run.end()
    }

    @Test func theChoiceOfTheKeySystem() {
        let keys = { (system: KeySystem?) in ManifestKeys(session: KeySession(), keySystem: system) }
        #expect(keys(nil).choose(among: [.widevine, .playReady, .common]) == .playReady)
        #expect(keys(nil).choose(among: [.widevine]) == .widevine)
        #expect(keys(nil).choose(among: []) == nil)
        #expect(keys(.clearKey).choose(among: [.playReady, .common]) == .common)
        #expect(keys(.fairPlay).choose(among: [.playReady, .common]) == nil)
    }

    /// Packagers write data below one name of ClearKey and the URL below the other, and what stands further inside counts.
    @Test func whatBelongsTogetherIsOneGroup() throws {
        func group(_ descriptors: String, _ inner: String = "") throws -> [ManifestKeyGroup] {
            let text = """
                <MPD><Period><AdaptationSet mimeType="video/mp4">\(descriptors)<Representation>\(inner)</Representation>
                </AdaptationSet></Period></MPD>
                """
            return try DASHManifest(Array(text.utf8)).keyGroups { $0.first }
        }
        let (keyID, uuid) = (KeyID(high: 0, low: 1), "00000000-0000-0000-0000-000000000001")
        let box = PSSHBox(system: .common, keyIDs: [keyID])
        let data = """
            <ContentProtection schemeIdUri="urn:uuid:1077efec-c0b2-4d02-ace3-3c1e52e2fb4b"><pssh>\(
                Base64.encode(try #require(box.serialized())))</pssh></ContentProtection>
            """
        func service(_ url: String) -> String {
            "<ContentProtection schemeIdUri=\"urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e\"><Laurl>\(url)</Laurl>"
                + "</ContentProtection>"
        }
        let joined = ManifestKeyGroup(system: .common, keyIDs: [keyID], boxes: [box], licenseURL: "u", media: .video)
        #expect(try group(data + service("u")) == [joined])
        var inner = joined
        inner.otherURLs = ["o"]
        #expect(try group(data + service("o"), service("u")) == [inner])
        // Each once, in their order, and not too many.
        let urls = ["b", "u", "c", "d", "e"].map { "<Laurl>\($0)</Laurl>" }.joined()
        let several = service("u").replacing("<Laurl>", with: urls + "<Laurl>")
        #expect(try group(data + service("u"), several).first?.licenseURL == "b")
        #expect(try group(data + service("u"), several).first?.otherURLs == ["u", "c", "d"])
        #expect(try group(data + service("a"), service("a")).first?.otherURLs == [])
        // Those of one element in the order of the manifest, those further inside first.
        let levels = try group(data + service("c") + service("d"), service("a") + service("b")).first
        #expect(([levels?.licenseURL].compactMap { $0 }) + (levels?.otherURLs ?? []) == ["a", "b", "c", "d"])
        // A URL alone, for KIDs that the media has.
        #expect(try group(service("u")).map(\.keyIDs) == [[]])
        #expect(try group(service("u")).map(\.licenseURL) == ["u"])
        let named = "<ContentProtection schemeIdUri=\"urn:mpeg:dash:mp4protection:2011\" default_KID=\"\(uuid)\"/>"
        #expect(try group(service("u") + named).map(\.keyIDs) == [[keyID]])
        // If keys rotate, sample groups name them.
        let zero =
            "<ContentProtection schemeIdUri=\"urn:mpeg:dash:mp4protection:2011\" "
            + "default_KID=\"00000000-0000-0000-0000-000000000000\"/>"
        #expect(try group(service("u") + zero).map(\.keyIDs) == [[]])
        #expect(try group(data + zero).map(\.keyIDs) == [[keyID]])
    }

    /// Boxes may stand in the descriptor of `mp4protection`, for several systems.
    @Test func boxesOfNoSystemInParticularCount() throws {
        let (keyID, other) = (KeyID(high: 0, low: 1), KeyID(high: 0, low: 2))
        let boxes = [PSSHBox(system: .widevine, data: [1]), PSSHBox(system: .common, keyIDs: [keyID])]
        func pssh(_ boxes: [PSSHBox]) -> String {
            "<pssh>\(Base64.encode(boxes.compactMap { $0.serialized() }.joined()))</pssh>"
        }
        func groups(_ system: String) throws -> [ManifestKeyGroup] {
            let text = """
                <MPD><Period><AdaptationSet mimeType="video/mp4"><ContentProtection \
                schemeIdUri="urn:mpeg:dash:mp4protection:2011">\(pssh(boxes))</ContentProtection>\(system)\
                </AdaptationSet></Period></MPD>
                """
            return try DASHManifest(Array(text.utf8)).keyGroups { ManifestKeys.choose(among: $0, preferring: nil) }
        }
        var expected = ManifestKeyGroup(system: .common, keyIDs: [keyID], boxes: [boxes[1]], media: .video)
        #expect(try groups("") == [expected])
        expected.system = .clearKey
        let clearKey = "<ContentProtection schemeIdUri=\"urn:uuid:\(ProtectionSystem.clearKey.uuid)\""
        #expect(try groups(clearKey + "/>") == [expected])
        // What the system has itself goes before them.
        let own = PSSHBox(system: .common, keyIDs: [other])
        (expected.keyIDs, expected.boxes) = ([other], [own])
        #expect(try groups("\(clearKey)>\(pssh([own]))</ContentProtection>") == [expected])
    }

    /// Descriptors of an MPD, of a Period, of an AdaptationSet and of a Representation, and the services that are asked. `m:u` is a
    /// descriptor of `mp4protection` with the URL `u`, `c` one of ClearKey, `p` of PlayReady, `l` of PlayReady with an `LA_URL` of
    /// its own.
    @Test(arguments: [
        // What belongs to no system is for one that names no service.
        (["", "", "m:u c", ""], "u"), (["", "", "m:u p", ""], "u"), (["m:u", "", "c", ""], "u"),
        (["m:u", "", "", "c"], "u"),
        (["", "m:u", "p", ""], "u"), (["c", "", "", "m:u"], "u"),
        // Each that has its own keeps it, wherever that is.
        (["", "", "m:u c:v", ""], "v"), (["c:v", "", "", "m:u c"], "v"), (["", "", "m:u p:v", ""], "v"),
        (["", "", "m:u l", ""], ""), (["l", "", "m:u", ""], ""), (["", "", "l m:u c", ""], ""),
        // The first system is asked: what others name is not for it.
        (["", "", "m:u c p:v", ""], "u"), (["", "", "m:u p c:v", ""], "u"), (["", "", "c p:v", ""], ""),
        // Further inside goes first, and several stay in their order.
        (["m:u", "", "c", "m:v"], "v u"), (["m:u m:v", "m:w", "m:x m:y c", ""], "x y w u"),
        (["c:u c:v", "c:w", "", "c:x c:y"], "x y w u"),
        // No system, no service that speaks its protocol.
        (["", "", "m:u", ""], ""),
    ])
    func theServicesOfASystem(levels: [String], expected: String) throws {
        func object(_ url: String?) throws -> String {
            let header = try WRMHeader(
                version: .v4_0, keys: [.init(KeyID(high: 0, low: 1))], details: .init(licenseAcquisitionURL: url))
            return "<pro>\(Base64.encode(try PlayReadyObject(header: header).serialized()))</pro>"
        }
        let data = ["p": try object(nil), "l": try object("https://la.test/")]
        let schemes = [
            "m": "urn:mpeg:dash:mp4protection:2011", "c": "urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e",
            "p": "urn:uuid:9a04f079-9840-4286-ab92-e65be0885f95", "l": "urn:uuid:9a04f079-9840-4286-ab92-e65be0885f95",
        ]
        let texts = levels.map { level in
            level.split(separator: " ").map { word in
                let parts = word.split(separator: ":").map(String.init)
                let url = parts.count > 1 ? "<Laurl>\(parts[1])</Laurl>" : ""
                return "<ContentProtection schemeIdUri=\"\(schemes[parts[0]] ?? "")\">\(data[parts[0]] ?? "")\(url)"
                    + "</ContentProtection>"
            }.joined()
        }
        let text = """
            <MPD>\(texts[0])<Period>\(texts[1])<AdaptationSet mimeType="video/mp4">\(texts[2])\
            <Representation>\(texts[3])</Representation></AdaptationSet></Period></MPD>
            """
        let group = try DASHManifest(Array(text.utf8)).keyGroups { $0.first }.first
        let urls = (group?.licenseURL.map { [$0] } ?? []) + (group?.otherURLs ?? [])
        #expect(urls.joined(separator: " ") == expected)
    }

    /// What the manifest says of a license service is for keys that it does not name, too.
    @Test func theLicenseServiceOfTheManifestIsForTheKIDsOfTheMedia() {
        let session = KeySession()
        let playback = session.playback(of: 1)
        #expect(playback.licensePlace(for: nil, nil) == nil)
        let keys = ManifestKeys(session: session, keySystem: nil, playback: playback)
        func demand(_ url: String, _ media: OutputPolicy.Media?) {
            keys.demand(
                [
                    ManifestKeyGroup(
                        system: .clearKey, keyIDs: [], boxes: [], licenseURL: url, otherURLs: ["\(url)/2"],
                        media: media)
                ],
                origin: "dash/mpd", mediaURL: "https://media.example/a/b.mpd?t=1")
        }
        demand("video", .video)
        demand("https://other.example/sound", .audio)
        #expect(playback.licensePlace(for: .clearKey, .video)?.url == "https://media.example/a/video")
        #expect(playback.licensePlace(for: nil, .audio)?.url == "https://other.example/sound")
        #expect(playback.licensePlace(for: nil, .audio)?.others == ["https://other.example/sound/2"])
        #expect(playback.licensePlace(for: .clearKey, .video)?.others == ["https://media.example/a/video/2"])
        #expect(playback.licensePlace(for: nil, nil)?.keySystem == .clearKey)
        #expect(playback.licensePlace(for: .playReady, .video) == nil)
        demand("/all", nil)
        #expect(playback.licensePlace(for: .clearKey, .video)?.url == "https://media.example/a/video")
        #expect(playback.licensePlace(for: .clearKey, nil)?.url == "https://media.example/all")
        // What is of no system that is known here is not for the data of another one.
        keys.demand(
            [ManifestKeyGroup(system: .widevine, keyIDs: [], boxes: [], licenseURL: "https://w.example/")],
            origin: "dash/mpd", mediaURL: "https://media.example/a/b.mpd")
        #expect(playback.licensePlace(for: nil, nil)?.url == "https://media.example/all")
    }

    @Test func keysOfOneKindMakeOneRequest() throws {
        let text = """
            <MPD xmlns:cenc="urn:mpeg:cenc:2013" xmlns:d="urn:d"><Period>\((1...3).map { number in
                """
                <AdaptationSet><ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" \
                cenc:default_KID="00000000-0000-0000-0000-00000000000\(number)"/><ContentProtection \
                schemeIdUri="urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e"><d:laurl>https://a.test/\(number / 3)\
                </d:laurl></ContentProtection></AdaptationSet>
                """
            }.joined())</Period></MPD>
            """
        let groups = try DASHManifest(Array(text.utf8)).keyGroups { $0.first }
        #expect(groups.map(\.keyIDs.count) == [2, 1])
        #expect(groups.map(\.licenseURL) == ["https://a.test/0", "https://a.test/1"])
        #expect(groups.allSatisfy { $0.system == .clearKey && $0.boxes.isEmpty })
    }
}
