// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyElementTestSupport
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements
@testable import LatchkeyKeySession

@Suite(.timeLimit(.minutes(8)))
struct HLSUnitTests {
    private func playlist(_ number: Int) -> HLSResource { .playlist(url: "https://a.test/\(number)") }

    /// Four keys of 1,500 bytes each, in front of the variants. GStreamer's own finder looks at 4096 bytes.
    @Test(arguments: [100, 2048, 4096, .max]) func keysInFrontHideNoPlaylist(size: Int) {
        TestProcess.prepare
        #expect(AdaptiveDemuxerFactory.types.allSatisfy { $0.register() })
        let data = String(repeating: "A", count: 1400)
        let key =
            "#EXT-X-SESSION-KEY:METHOD=SAMPLE-AES,URI=\"data:;base64,\(data)\",KEYFORMAT=\"com.microsoft.playready\"\n"
        let text =
            "#EXTM3U\n#EXT-X-VERSION:6\n" + String(repeating: key, count: 4) + "#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8\n"
        #expect(TypeFinder.mediaType(of: Array(text.utf8.prefix(size))) == "application/x-hls")
        // Songs.
        #expect(TypeFinder.mediaType(of: Array("#EXTM3U\n#EXTINF:1,a\n/music/a.mp3\n".utf8)) != "application/x-hls")
    }

    @Test func namesStayAsLongAsAPlaylistHasThem() throws {
        let table = HLSResourceTable()
        let first = table.name(of: playlist(1))
        #expect(table.name(of: playlist(1)) == first)
        table.keep([playlist(1)], of: "a")
        for number in 2...4 {
            let name = table.name(of: playlist(number))
            #expect(name != first)
            table.keep([playlist(number)], of: "a")
        }
        // Three refreshes later it is forgotten.
        #expect(table.resource(first) == nil)
        #expect(table.count == 3)
        #expect(table.resource("p99") == nil)
    }

    @Test func whatAnotherPlaylistHasStays() {
        let table = HLSResourceTable()
        let name = table.name(of: playlist(1))
        table.keep([playlist(1)], of: "a")
        table.keep([playlist(1)], of: "b")
        for number in 2...9 {
            _ = table.name(of: playlist(number))
            table.keep([playlist(number)], of: "a")
        }
        #expect(table.resource(name) == playlist(1))
        #expect(table.count == 4)
    }

    /// A live playlist with other names at each refresh, and one that is refused at its last line.
    @Test func namesThatChangeDoNotPileUp() throws {
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: CurlTransport.shared),
            keys: HLSKeys(session: KeySession(), timeout: .seconds(1)),
            keyFormats: [.identity])
        try presentation.open { _ in }
        defer { presentation.close() }
        let long = String(repeating: "a", count: 70_000)
        for refresh in 0..<20 {
            var text = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-MEDIA-SEQUENCE:\(100 * refresh)\n"
            var refused = "#EXTM3U\n"
            for number in 0..<100 {
                let name = "\(refresh)_\(number)"
                text += "#EXT-X-KEY:METHOD=AES-128,URI=\"\(name).key\"\n#EXTINF:1,\n\(name).ts\n"
                refused += "#EXT-X-STREAM-INF:BANDWIDTH=1\n\(name).m3u8\n"
            }
            _ = try presentation.rewrite(Array(text.utf8), from: "https://a.test/live.m3u8")
            let known = presentation.table.count
            #expect(known >= 100 && known <= HLSResourceTable.generations * 100)
            #expect(throws: HLSFailure.self) {
                _ = try presentation.rewrite(
                    Array((refused + "#EXT-X-STREAM-INF:BANDWIDTH=1\n\(long)\n").utf8), from: "https://a.test/x.m3u8")
            }
            #expect(presentation.table.count == known)
        }
    }

    /// A stop takes no turn. What is rewritten by then changes nothing, and no key is asked for.
    @Test func aStopWaitsForNoRewriting() async throws {
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: CurlTransport.shared),
            keys: HLSKeys(session: KeySession(), timeout: .seconds(1)),
            keyFormats: [.identity])
        try presentation.open { _ in }
        let master = Array("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8\n".utf8)
        let rewriting = presentation.turn.withLock { _ in
            let rewriting = Task { try presentation.rewrite(master, from: "https://a.test/m.m3u8").kind }
            presentation.close()
            return rewriting
        }
        let kind = try await rewriting.value
        #expect(kind == .master)
        let isKept = presentation.state.withLock { !$0.rewriters.isEmpty || !$0.roles.isEmpty }
        #expect(!isKept)
    }

    /// The pool has few threads, so what waits for its turn takes none.
    @Test func rewritingsWaitWithoutThreads() async throws {
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: CurlTransport.shared),
            keys: HLSKeys(session: KeySession(), timeout: .seconds(1)),
            keyFormats: [.identity])
        try presentation.open { _ in }
        defer { presentation.close() }
        let master = Array("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8\n".utf8)
        await presentation.turns.take()
        let rewritings = (0..<64).map { number in
            let url = "https://a.test/\(number).m3u8"
            return Task { try await presentation.rewriteInTurn(master, from: url, as: url).kind }
        }
        // Another task runs meanwhile, and ends the turn.
        await Task { presentation.turns.pass() }.value
        for rewriting in rewritings {
            let kind = try await rewriting.value
            #expect(kind == .master)
        }
    }

    @Test func aSlowAnswerIsAskedForAgain() async {
        let answers = HLSAnswers(patience: .milliseconds(20))
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let count = Mutex(0)
        @Sendable func make() async -> LoopbackResponse {
            count.withLock { $0 += 1 }
            for await _ in gate { break }
            return LoopbackResponse(body: [7])
        }
        #expect(await answers.answer("a") { await make() }.status == 503)
        #expect(await answers.answer("a") { await make() }.status == 503)
        open.yield()
        var last = await answers.answer("a") { await make() }
        for _ in 0..<100 where last.status == 503 { last = await answers.answer("a") { await make() } }
        #expect(last.body == [7])
        #expect(count.withLock { $0 } == 1)
    }

    /// Nobody would ask for a key again.
    @Test func whatIsAskedForOnceIsWaitedFor() async {
        let answers = HLSAnswers(patience: .zero)
        #expect(await answers.answer("a") { await Self.nothing() }.status == 503)
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        async let answer = answers.answer("b", isAskedOnce: true) {
            for await _ in gate { break }
            return LoopbackResponse(body: [7])
        }
        for _ in 0..<100 { await Task.yield() }
        open.yield()
        #expect(await answer.body == [7])
        async let last = answers.answer("c", isAskedOnce: true) { await Self.nothing() }
        answers.end()
        #expect(await last.status == 404)
    }

    /// An answer that does not come before the end.
    private static func nothing() async -> LoopbackResponse {
        try? await Task.sleep(for: .seconds(3600))
        return .notFound
    }

    @Test func theEndAnswersEverybody() async {
        let answers = HLSAnswers(patience: .seconds(3600))
        let (started, begun) = AsyncStream.makeStream(of: Void.self)
        async let answer = answers.answer("a") {
            begun.yield()
            try? await Task.sleep(for: .seconds(3600))
            return .notFound
        }
        for await _ in started { break }
        answers.end()
        #expect(await answer.status == 404)
        #expect(await answers.answer("b") { LoopbackResponse() }.status == 404)
    }

    /// Work on a large playlist takes no notice of its end.
    @Test(arguments: [true, false]) func theEndWaitsForNoWork(isAskedOnce: Bool) async {
        let answers = HLSAnswers(patience: .seconds(3600))
        let (started, begun) = AsyncStream.makeStream(of: Void.self)
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        async let answer = answers.answer("a", isAskedOnce: isAskedOnce) {
            begun.yield()
            // A task of its own is not cancelled.
            await Task { for await _ in gate { break } }.value
            return LoopbackResponse(body: [7])
        }
        for await _ in started { break }
        answers.end()
        #expect(await answer.status == 404)
        open.yield()
    }

    @Test func whatWasPreparedIsHandedOutOnce() async {
        let time = ManualInstant()
        let answers = HLSAnswers(patience: .seconds(3600), now: { time.now })
        let count = Mutex(0)
        @Sendable func make() async -> LoopbackResponse {
            LoopbackResponse(body: [
                count.withLock {
                    $0 += 1; return UInt8($0)
                }
            ])
        }
        #expect(answers.takeReady("a") == nil)
        answers.prepare("a") { await make() }
        #expect(await Self.ready("a", of: answers)?.body == [1])
        #expect(answers.takeReady("a") == nil)
        #expect(await answers.answer("a") { await make() }.body == [2])
        // What was asked for is not kept for others.
        #expect(answers.takeReady("a") == nil)

        // Who comes while it is made waits for it.
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        answers.prepare("b") {
            for await _ in gate { break }
            return LoopbackResponse(body: [7])
        }
        #expect(answers.takeReady("b") == nil)
        async let answer = answers.answer("b") { await make() }
        open.yield()
        #expect(await answer.body == [7])

        // One that is too old is made again.
        answers.prepare("c") { await make() }
        while count.withLock({ $0 }) < 3 { await Task.yield() }
        time.advance(by: HLSAnswers.freshness)
        #expect(answers.takeReady("c") == nil)
        #expect(await answers.answer("c") { await make() }.body == [4])
    }

    /// What came to nothing before anybody asked is made again for who asks, and that tells of what was wrong.
    @Test func nothingIsTakenForAnAnswer() async {
        let answers = HLSAnswers(patience: .seconds(3600))
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        answers.prepare("a") {
            for await _ in gate { break }
            return nil
        }
        async let answer = answers.answer("a") { LoopbackResponse(status: 502) }
        open.yield()
        #expect(await answer.status == 502)
        answers.end()
        answers.prepare("b") { LoopbackResponse() }
        #expect(await answers.answer("b") { LoopbackResponse() }.status == 404)
        #expect(answers.takeReady("b") == nil)
    }

    /// What was prepared and may never be asked for makes room, and not what a request waits for.
    @Test func whatIsWaitedForIsNotGivenUp() async {
        let time = ManualInstant()
        let answers = HLSAnswers(patience: .seconds(3600), now: { time.now })
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let (started, begun) = AsyncStream.makeStream(of: Void.self)
        async let answer = answers.answer("a") {
            begun.yield()
            // Ends without one if the task is cancelled.
            for await _ in gate { return LoopbackResponse(body: [7]) }
            return .notFound
        }
        for await _ in started { break }
        for number in 0..<100 { answers.prepare("\(number)") { LoopbackResponse() } }
        #expect(await Self.ready("99", of: answers)?.status == 200)
        #expect(answers.takeReady("0") == nil)
        open.yield()
        #expect(await answer.body == [7])
    }

    private static func ready(_ name: String, of answers: HLSAnswers) async -> LoopbackResponse? {
        while true {
            if let answer = answers.takeReady(name) { return answer }
            await Task.yield()
        }
    }

    /// Before the stock demuxer has fetched any media.
    @Test func playlistsTellWhetherInitSegmentsAreProtected() throws {
        let key = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://1\",KEYFORMAT=\"com.apple.streamingkeydelivery\"\n"
        for (line, isProtected) in [("", false), (key, true), ("#EXT-X-KEY:METHOD=AES-128,URI=\"key\"\n", false)] {
            let presentation = HLSPresentation(
                origin: HLSOrigin(transport: CurlTransport.shared),
                keys: HLSKeys(session: KeySession(), timeout: .seconds(1)),
                keyFormats: [.identity, .fairPlay])
            try presentation.open { _ in }
            defer { presentation.close() }
            let head = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-MAP:URI=\"init.mp4\"\n"
            let text = head + line + "#EXTINF:1,\n1.m4s\n#EXT-X-ENDLIST\n"
            _ = try presentation.rewrite(Array(text.utf8), from: "https://a.test/v.m3u8")
            #expect(presentation.hasProtectedInitSegments == isProtected, "\(line)")
        }
    }

    @Test func secureDecryptorsDecideWhereMediaIsDecryptedUnlessItIsSaid() {
        #expect(ISOPath(wanted: nil, hasSecureDecryptor: false) == .box)
        #expect(ISOPath(wanted: nil, hasSecureDecryptor: true) == .sample)
        for path in [ISOPath.box, .sample] {
            #expect(ISOPath(wanted: path, hasSecureDecryptor: false) == path)
            #expect(ISOPath(wanted: path, hasSecureDecryptor: true) == path)
        }
    }

    @Test func keyFormatsComeInTheOrderOfPreference() {
        #expect(HLSSettings().keyFormats(preferring: nil).first == .identity)
        #expect(HLSSettings().keyFormats(preferring: .fairPlay).first == .fairPlay)
        #expect(HLSSettings().keyFormats(preferring: .playReady).prefix(2) == [.playReady, .identity])
        #expect(
            HLSSettings().keyFormats(preferring: nil, provisioned: [.playReady])
                == [.identity, .playReady, .fairPlay, .widevine])
        #expect(
            HLSSettings().keyFormats(preferring: .fairPlay, provisioned: [.playReady])
                == [.fairPlay, .identity, .playReady, .widevine])
        let named = HLSSettings(keyFormats: "org.example.own, com.apple.streamingkeydelivery")
        #expect(named.keyFormats(preferring: .playReady) == [HLSKeyFormat("org.example.own"), .fairPlay])
        let preferring = ControlSettings(
            keySystem: .fairPlay, keyFormats: ["com.microsoft.playready", "org.example.own"])
        #expect(
            HLSSettings().keyFormats(for: preferring)
                == [.playReady, HLSKeyFormat("org.example.own"), .fairPlay, .identity, .widevine])
        #expect(named.keyFormats(for: preferring) == [HLSKeyFormat("org.example.own"), .fairPlay])
    }
}

@Suite(.timeLimit(.minutes(8)))
struct HLSOriginTests {
    private final class Transport: HTTPTransport {
        let sent = Mutex<[HTTPRequest]>([])
        private let moved: [String: String]
        private let status: Int

        /// `moved`: where redirects for good lead.
        init(moved: [String: String] = [:], status: Int = 200) { (self.moved, self.status) = (moved, status) }

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            sent.withLock { $0.append(request) }
            var response = HTTPResponse(status: status, body: Array(0..<100), url: moved[request.url] ?? request.url)
            response.movedURL = moved[request.url]
            return response
        }
    }

    private func header(_ request: HTTPRequest, _ name: String) -> String? {
        request.headers.first { $0.name == name }?.value
    }

    @Test func credentialsStayWithTheOriginOfThePresentation() async throws {
        let transport = Transport()
        let origin = HLSOrigin(transport: transport)
        origin.setHome("https://a.test/master.m3u8")
        origin.setHeaders([
            HTTPHeader(name: "Authorization", value: "Bearer abc"), HTTPHeader(name: "Host", value: "a.test"),
            HTTPHeader(name: "Cookie", value: "own"),
        ])
        let request = LoopbackRequest(
            path: "x",
            headers: [
                HTTPHeader(name: "Host", value: "127.0.0.1:1"), HTTPHeader(name: "Range", value: "bytes=0-1"),
                HTTPHeader(name: "Cookie", value: "a server's"), HTTPHeader(name: "Accept-Encoding", value: "gzip"),
            ])
        for url in ["https://a.test/v", "https://b.test/v", "http://a.test/v", "https://a.test:8443/v"] {
            _ = try await origin.response(.playlist, url, for: request)
        }
        let sent = transport.sent.withLock { $0 }
        #expect(sent.map { header($0, "Authorization") } == ["Bearer abc", nil, nil, nil])
        let cookies = sent.map { request in request.headers.filter { $0.name == "Cookie" }.map(\.value) }
        #expect(cookies == [["own"], [], [], []])
        for request in sent {
            #expect(request.cookies === origin.cookies)
            #expect(header(request, "Host") == nil)
            #expect(header(request, "Range") == nil)
            #expect(header(request, "Accept-Encoding") == nil)
        }
    }

    /// A proxy that changed something of the answer says 203. What was asked for may come as a whole.
    @Test func status203CountsAs200() async throws {
        let origin = PresentationOrigin(transport: Transport(status: 203))
        let url = "https://a.test/v"
        for content in [PresentationOrigin.Content.playlist, .manifest, .initSegment, .segment, .key] {
            #expect(try await origin.response(content, url).status == 200)
            #expect(try await origin.bytes(content, url).count == 100)
        }
        let part = try await origin.bytes(.segment, url, range: HLSByteRange(offset: 10, length: 5))
        #expect(part == [10, 11, 12, 13, 14])
        let heads = Mutex<[Int]>([])
        let end = try await origin.receive(
            url, for: LoopbackRequest(path: "x"), range: nil, stallTimeout: .seconds(1), through: HTTPBodyGate()
        ) { head, _ in heads.withLock { $0.append(head.status) } }
        #expect(end.status == 200)
        #expect(heads.withLock { $0 } == [200])
    }

    /// As the stock demuxers ask, but for keys, which come compressed from servers that have nothing else.
    @Test func textMayComeCompressed() async throws {
        let transport = Transport()
        let origin = PresentationOrigin(transport: transport)
        for content in [PresentationOrigin.Content.playlist, .manifest, .initSegment, .segment, .key] {
            _ = try await origin.response(content, "https://a.test/v")
        }
        let sent = transport.sent.withLock { $0 }
        #expect(sent.map(\.acceptsCompression) == [true, true, false, false, false])
        #expect(sent.map(\.toleratesCompression) == [true, true, false, false, true])
    }

    /// For presentations whose segments are elsewhere. The referrer stays as it is for another origin.
    @Test(
        arguments: [
            (["https://b.test"], true), (["https://c.test", "https://B.test:443/path"], true), (["*"], true),
            ([], false), (["http://b.test"], false), (["https://b.test:8443"], false), ([""], false),
        ] as [([String], Bool)])
    func originsThatASettingNamesGetThem(origins: [String], isNamed: Bool) async throws {
        let transport = Transport()
        let origin = HLSOrigin(transport: transport)
        origin.setHeaderOrigins(origins)
        origin.setHeaders([
            HTTPHeader(name: "Authorization", value: "Bearer abc"), HTTPHeader(name: "Cookie", value: "own"),
            HTTPHeader(name: "Referer", value: "https://a.test/page?token=t"),
            HTTPHeader(name: "User-Agent", value: "Test/1"),
        ])
        origin.setHome("https://a.test/master.m3u8")
        let request = LoopbackRequest(path: "x", headers: [HTTPHeader(name: "User-Agent", value: "Test/2")])
        for content in [PresentationOrigin.Content.playlist, .segment, .key] {
            _ = try await origin.response(content, "https://b.test/v", for: request)
        }
        for sent in transport.sent.withLock({ $0 }) {
            #expect(header(sent, "Authorization") == (isNamed ? "Bearer abc" : nil))
            #expect(header(sent, "Cookie") == (isNamed ? "own" : nil))
            #expect(header(sent, "User-Agent") == "Test/2")
            #expect(header(sent, "Referer") == nil)
        }
    }

    /// The application named the one, and the source element followed its redirect to the other. Later versions of a manifest are
    /// asked for where the first one was.
    @Test func theOriginsInFrontOfARedirectAndBehindItGetThem() async throws {
        let transport = Transport()
        let origin = PresentationOrigin(transport: transport)
        origin.setHeaders([
            HTTPHeader(name: "Cookie", value: "own"), HTTPHeader(name: "Authorization", value: "Bearer abc"),
        ])
        origin.manifestDidCome(from: "https://b.test/1.mpd", source: "https://a.test/1.mpd", setCookies: [])
        origin.setHome("https://b.test/1.mpd", source: "https://a.test/1.mpd")
        for url in ["https://a.test/1.mpd", "https://b.test/v", "https://c.test/v"] {
            _ = try await origin.response(.manifest, url)
        }
        let sent = transport.sent.withLock { $0 }
        #expect(sent.map { header($0, "Cookie") } == ["own", "own", nil])
        #expect(sent.map { header($0, "Authorization") } == ["Bearer abc", "Bearer abc", nil])
    }

    /// User name, password and query of the presentation's URL, which the stock demuxer sends with every request.
    @Test(arguments: [
        ("https://a.test/v", "https://a.test/master.m3u8?token=t"), ("https://b.test/v", "https://a.test/"),
        ("https://a.test:8443/v", "https://a.test/"), ("http://a.test/v", nil),
    ])
    func theReferrerHasNoCredentialForOthers(url: String, referrer: String?) async throws {
        let transport = Transport()
        let origin = HLSOrigin(transport: transport)
        origin.setHome("https://user:password@a.test/master.m3u8?token=t")
        let request = LoopbackRequest(
            path: "x",
            headers: [HTTPHeader(name: "Referer", value: "https://user:password@a.test/master.m3u8?token=t#end")])
        for content in [PresentationOrigin.Content.playlist, .segment, .key] {
            _ = try await origin.response(content, url, for: request)
        }
        let sent = transport.sent.withLock { $0 }
        #expect(sent.map { header($0, "Referer") } == [referrer, referrer, referrer])
    }

    /// Before the stock demuxer has asked for anything, such as init segments that tell keys: with what it would send.
    @Test(arguments: [
        ("https://a.test/i.mp4", "https://a.test/first.mpd?token=t", "mine"),
        ("https://b.test/i.mp4", "https://a.test/", nil),
    ])
    func firstFetchesAreAsTheStockDemuxers(url: String, referrer: String, own: String?) async throws {
        let transport = Transport()
        let origin = PresentationOrigin(transport: transport)
        origin.setHeaders([
            HTTPHeader(name: "User-Agent", value: "Test/1"), HTTPHeader(name: "Cookie", value: "id=7"),
            HTTPHeader(name: "X-Own", value: "mine"),
        ])
        origin.setHome("https://a.test/now.mpd", source: "https://me:secret@a.test/first.mpd?token=t")
        _ = try await origin.bytes(.initSegment, url)
        let later = LoopbackRequest(path: "x", headers: [HTTPHeader(name: "User-Agent", value: "Test/2")])
        origin.note(later)
        _ = try await origin.bytes(.initSegment, url)
        let sent = transport.sent.withLock { $0 }
        #expect(sent.map { header($0, "User-Agent") } == ["Test/1", "Test/2"])
        #expect(sent.map { header($0, "Referer") } == [referrer, nil])
        let cookie = own == nil ? nil : "id=7"
        #expect(sent.map { header($0, "Cookie") } == [cookie, cookie])
        #expect(sent.map { header($0, "X-Own") } == [own, own])
        #expect(sent.allSatisfy { $0.cookies === origin.cookies })
        // The application's own one.
        let other = PresentationOrigin(transport: transport)
        other.setHeaders([HTTPHeader(name: "Referer", value: "https://a.test/page")])
        other.setHome("https://a.test/now.mpd")
        _ = try await other.bytes(.initSegment, "https://a.test/i.mp4")
        #expect(header(try #require(transport.sent.withLock { $0.last }), "Referer") == "https://a.test/page")
    }

    /// A redirect does not take them along either.
    @Test func theApplicationsCookiesDoNotMoveToAnotherOrigin() async throws {
        let transport = Transport(moved: [
            "https://a.test/v": "https://b.test/v", "https://a.test/w": "https://a.test/x",
        ])
        let origin = HLSOrigin(transport: transport)
        origin.setHome("https://a.test/master.m3u8")
        origin.setHeaders([HTTPHeader(name: "Cookie", value: "own")])
        for _ in 0..<2 {
            for name in ["v", "w"] { _ = try await origin.response(.playlist, "https://a.test/\(name)") }
        }
        let sent = transport.sent.withLock { $0 }
        #expect(
            sent.map(\.url) == ["https://a.test/v", "https://a.test/w", "https://b.test/v", "https://a.test/x"])
        #expect(sent.map { header($0, "Cookie") } == ["own", "own", nil, "own"])
    }

    private final class Guard: OutputGuard {
        let media: OutputPolicy.Media? = nil
        let isShowing = true
        let outputLevel: OutputRequirement? = .hdcpType1
        let maximumPixels: Int? = nil
        func keysInUseDidChange() {}
        func otherGuardsDidChange() {}
    }

    @Test func wholeSegmentsOfAKeyWithOutputRulesNeedAGuard() async throws {
        let session = KeySession()
        let keys = HLSKeys(session: session, timeout: .seconds(30))
        let key = HLSKey(method: .aes128, uri: "skd://rules", keyFormat: HLSKeyFormat.fairPlay.name)
        let bytes = [UInt8](repeating: 7, count: 16)
        session.install(
            [keys.keyID(of: key): try #require(ContentKey(bytes))], terms: KeyTerms(outputRequirement: .hdcpType1))
        let failure = await #expect(throws: HLSFailure.self) { _ = try await keys.contentKey(for: key) }
        #expect(failure?.text.contains("latchkeyguard") == true)
        let outputGuard = Guard()
        session.join(outputGuard)
        _ = try await keys.contentKey(for: key)
    }

    private static let envelopeKeyID = KeyID(high: 1, low: 2)

    private static func contentKey(_ number: UInt8 = 7) throws -> ContentKey {
        try #require(ContentKey([UInt8](repeating: number, count: 16)))
    }

    /// What an envelope has in front; with the checksum of a key.
    private static func object(checksumOf key: ContentKey? = nil) throws -> PlayReadyObject {
        let checksum = try key.map {
            try PlayReadyChecksum.checksum(of: $0, keyID: envelopeKeyID, algorithm: .aesCTR)
        }
        let header = try WRMHeader(
            version: .v4_0, keys: [.init(envelopeKeyID, algorithm: .aesCTR, checksum: checksum ?? [])])
        return PlayReadyObject(header: header)
    }

    @Test func envelopesOfAKeyWithOutputRulesNeedAGuard() async throws {
        let session = KeySession()
        let keys = HLSKeys(session: session, timeout: .seconds(30))
        session.install(
            [Self.envelopeKeyID: try Self.contentKey()], terms: KeyTerms(outputRequirement: .hdcpType1))
        let object = try Self.object()
        let failure = await #expect(throws: HLSFailure.self) {
            _ = try await keys.contentKey(Self.envelopeKeyID, of: object)
        }
        #expect(failure?.text.contains("latchkeyguard") == true)
        // What a decryptor uses is that one's matter.
        try await keys.wait(for: Self.envelopeKeyID, of: object)
        let outputGuard = Guard()
        session.join(outputGuard)
        _ = try await keys.contentKey(Self.envelopeKeyID, of: object)
    }

    /// A guard that stands elsewhere in the pipeline is none.
    @Test func theWayOfPicturesCounts() async throws {
        let session = KeySession()
        let keys = HLSKeys(session: session, timeout: .seconds(30), openRoute: { _ in .denied("no guard there") })
        let object = try Self.object()
        session.install([Self.envelopeKeyID: try Self.contentKey()])
        let outputGuard = Guard()
        session.join(outputGuard)
        _ = try await keys.contentKey(Self.envelopeKeyID, of: object)
        session.install(
            [Self.envelopeKeyID: try Self.contentKey()], terms: KeyTerms(outputRequirement: .hdcpType1))
        let failure = await #expect(throws: HLSFailure.self) {
            _ = try await keys.contentKey(Self.envelopeKeyID, of: object)
        }
        #expect(failure?.text.contains("no guard there") == true)
        withExtendedLifetime(outputGuard) {}
    }

    /// A license that counts from the first play. Preroll is none, unless the pipeline is to play at once.
    @Test(arguments: [false, true]) func aKeyWaitsForTheNoteOfItsFirstPlay(isAskedToPlay: Bool) async throws {
        for error in [nil, KeyError.leaseExpired("no note")] {
            let session = KeySession()
            let (answers, answer) = AsyncStream.makeStream(of: Void.self)
            let (begins, begin) = AsyncStream.makeStream(of: Void.self)
            var terms = KeyTerms()
            terms.playNotes[Self.envelopeKeyID] = PlayNote { _ throws(KeyError) in
                begin.yield()
                for await _ in answers { break }
                if let error { throw error }
            }
            session.install([Self.envelopeKeyID: try Self.contentKey()], terms: terms)
            let object = try Self.object()
            let keys = HLSKeys(session: session, timeout: .seconds(30), isAskedToPlay: { isAskedToPlay })
            if !isAskedToPlay {
                _ = try await keys.contentKey(Self.envelopeKeyID, of: object)
                #expect(session.unwrittenPlays.isEmpty)
                keys.setPlaying(true)
            }
            let hasKey = Mutex(false)
            let use = Task {
                defer { hasKey.withLock { $0 = true } }
                return try await keys.contentKey(Self.envelopeKeyID, of: object)
            }
            for await _ in begins { break }
            while !keys.isAwaited { await Task.yield() }
            #expect(!hasKey.withLock { $0 })
            answer.yield()
            switch await use.result {
            case .success: #expect(error == nil)
            case .failure(let failure):
                #expect(error != nil && (failure as? HLSFailure)?.text.contains("no note") == true, "\(failure)")
            }
        }
    }

    /// Whoever looks at one segment after the other in PAUSED plays.
    @Test func moreSegmentsThanAPrerollNeedANote() async throws {
        let session = KeySession()
        let notes = Mutex(0)
        var terms = KeyTerms()
        terms.playNotes[Self.envelopeKeyID] = PlayNote { _ throws(KeyError) in notes.withLock { $0 += 1 } }
        session.install([Self.envelopeKeyID: try Self.contentKey()], terms: terms)
        let keys = HLSKeys(session: session, timeout: .seconds(30))
        let object = try Self.object()
        for _ in 0..<PlayedKeys.segmentLimit { _ = try await keys.contentKey(Self.envelopeKeyID, of: object) }
        #expect(notes.withLock(\.self) == 0)
        for _ in 0..<2 { _ = try await keys.contentKey(Self.envelopeKeyID, of: object) }
        #expect(notes.withLock(\.self) == 1)
    }

    @Test func aKeyIsPlayedOncePlaybackBegins() async throws {
        let listener = PlayListener()
        let session = KeySession(loaders: [listener])
        let keys = HLSKeys(session: session, timeout: .seconds(30))
        let key = HLSKey(method: .aes128, uri: "skd://played", keyFormat: HLSKeyFormat.fairPlay.name)
        let keyID = keys.keyID(of: key)
        let object = try Self.object()
        session.install([keyID: try Self.contentKey(), Self.envelopeKeyID: try Self.contentKey(8)])
        for _ in 0..<2 { _ = try await keys.contentKey(for: key) }
        #expect(keys.hasUsed([keyID]) && !keys.hasUsed([Self.envelopeKeyID]))
        #expect(await listener.keyIDs(in: session) == [])
        keys.setPlaying(true)
        #expect(await listener.keyIDs(in: session) == [keyID])
        // What a decryptor uses it tells itself.
        try await keys.wait(for: Self.envelopeKeyID, of: object)
        #expect(await listener.keyIDs(in: session) == [keyID])
        for _ in 0..<2 { _ = try await keys.contentKey(Self.envelopeKeyID, of: object) }
        #expect(await listener.keyIDs(in: session) == [keyID, Self.envelopeKeyID])
        keys.setPlaying(false)
        keys.setPlaying(true)
        #expect(await listener.keyIDs(in: session) == [keyID, Self.envelopeKeyID])
        // Another license of the same key has a first play of its own.
        session.install([keyID: try Self.contentKey(9)])
        _ = try await keys.contentKey(for: key)
        #expect(await listener.keyIDs(in: session) == [keyID, Self.envelopeKeyID, keyID])
    }

    @Test func theChecksumOfAnEnvelopesHeaderTellsAWrongKey() async throws {
        for number: UInt8 in [7, 8] {
            let session = KeySession()
            let told = Mutex<[KeyID]>([])
            let keys = HLSKeys(
                session: session, timeout: .seconds(30), onWrongKey: { keyID in told.withLock { $0.append(keyID) } })
            session.install([Self.envelopeKeyID: try Self.contentKey(number)])
            let object = try Self.object(checksumOf: try Self.contentKey())
            for _ in 0..<2 { _ = try await keys.contentKey(Self.envelopeKeyID, of: object) }
            #expect(told.withLock { $0 } == (number == 7 ? [] : [Self.envelopeKeyID]))
        }
    }

    /// Before the stock demuxer asks for it, once, and as that would. What the source element sends goes to no other server.
    @Test(arguments: ["high.m3u8", "https://b.test/high.m3u8"])
    func theFirstVariantIsFetchedAhead(uri: String) async throws {
        let transport = Transport()
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: transport), keys: HLSKeys(session: KeySession(), timeout: .seconds(1)),
            keyFormats: [.identity])
        try presentation.open { _ in }
        defer { presentation.close() }
        let home = "https://a.test/master.m3u8"
        let variant = "#EXT-X-STREAM-INF:BANDWIDTH="
        let master = "#EXTM3U\n\(variant)2\n\(uri)\n\(variant)1\nlow.m3u8\n"
        _ = try presentation.start(Array(master.utf8), from: home)
        for _ in 0..<2 { presentation.prepareFirstVariant() }
        guard uri == "high.m3u8" else {
            #expect(presentation.state.withLock { $0.prepared.isEmpty })
            return
        }
        // Hashes are kept, which have the same size for URLs of any length.
        let prepared: Set<Int> = presentation.state.withLock { $0.prepared }
        #expect(prepared == [HLSResource.playlist(url: "https://a.test/high.m3u8").hashValue])
        while transport.sent.withLock(\.isEmpty) { await Task.yield() }
        let sent = transport.sent.withLock { $0 }
        #expect(sent.map(\.url) == ["https://a.test/high.m3u8"])
        #expect(header(sent[0], "Referer") == home && header(sent[0], "Cache-Control") == "max-age=0")
    }

    /// Which is a live one that was handed over.
    @Test(arguments: [(true, "", 0), (false, "", 1), (false, "#EXT-X-ENDLIST\n", 0)])
    func anOldMediaPlaylistIsFetchedAnew(isNew: Bool, end: String, count: Int) async throws {
        let transport = Transport()
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: transport), keys: HLSKeys(session: KeySession(), timeout: .seconds(1)),
            keyFormats: [.identity])
        try presentation.open { _ in }
        defer { presentation.close() }
        let url = "https://a.test/v.m3u8"
        let playlist = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n1.ts\n\(end)"
        _ = try presentation.start(Array(playlist.utf8), from: url, isNew: isNew)
        let name = try #require(presentation.table.knownName(of: .playlist(url: url)))
        _ = await presentation.answer(LoopbackRequest(path: "\(name).m3u8"))
        #expect(transport.sent.withLock { $0.filter { $0.url == url }.count } == count)
    }

    /// Samples of which nothing says how they are encrypted would go on as they are.
    @Test func aSectionWithoutEncryptionUnderAKeyIsAnError() throws {
        let keys = HLSKeys(session: KeySession(), timeout: .seconds(30))
        let key = HLSKey(method: .sampleAES, uri: "skd://1", keyFormat: HLSKeyFormat.fairPlay.name)
        for name in ["v_init.mp4", "a_init.mp4"] {
            let clear = try CorpusCase("hls-fmp4-aes128-openssl").bytes(name)
            let error = #expect(throws: FormatError.self) { try keys.prepare(clear, .key(key)) }
            #expect(error?.reason.contains("SAMPLE-AES") == true)
            #expect(try keys.prepare(clear, .unchanged) == clear)
            let encrypted = try CorpusCase("hls-fmp4-cbcs-identity").bytes(name)
            #expect(throws: Never.self) { try keys.prepare(encrypted, .key(key)) }
        }
    }

    /// Its groups of samples may be encrypted, and have the key of the playlist.
    @Test(arguments: [true, false]) func aSampleEntryNamesTheKeyOfThePlaylist(saysProtected: Bool) throws {
        let keys = HLSKeys(session: KeySession(), timeout: .seconds(30))
        var bytes = try CorpusCase("hls-fmp4-cbcs-identity").bytes("v_init.mp4")
        let media = try #require(try InitSegment(bytes).tracks.first?.encryption)
        let box = try #require(bytes.indices.first { bytes[$0...].starts(with: "tenc".utf8) })
        if !saysProtected { bytes[box + 10] = 0 }
        var keyIDs: [KeyID] = []
        for uri in ["skd://1", "skd://2"] {
            let key = HLSKey(method: .sampleAES, uri: uri, keyFormat: HLSKeyFormat.fairPlay.name)
            let section = try InitSegment(try keys.prepare(bytes, .key(key)))
            let track = try #require(section.tracks.first)
            #expect(track.isProtected == saysProtected)
            #expect(track.encryption?.keyID == keys.keyID(of: key))
            #expect(keys.session.keyURI(of: keys.keyID(of: key)) == uri)
            keyIDs.append(keys.keyID(of: key))
        }
        #expect(keyIDs[0] != keyIDs[1] && (keyIDs[0] == media.keyID) == saysProtected)
    }

    @Test func aServerWithoutRangesSendsAll() async throws {
        let origin = HLSOrigin(transport: Transport())
        let range = try #require(HLSByteRange(offset: 10, length: 5))
        #expect(try await origin.bytes(.initSegment, "https://a.test/i", range: range) == [10, 11, 12, 13, 14])
        let beyond = try #require(HLSByteRange(offset: 98, length: 5))
        await #expect(throws: HLSFailure.self) {
            try await origin.bytes(.initSegment, "https://a.test/i", range: beyond)
        }
        // A block of padding may be behind what is needed.
        let last = try #require(HLSByteRange(offset: 98, length: 2))
        let found = try await origin.bytes(.initSegment, "https://a.test/i", range: beyond, needing: last)
        #expect(found == [98, 99])
        await #expect(throws: HLSFailure.self) {
            try await origin.bytes(.initSegment, "https://a.test/i", range: beyond, needing: beyond)
        }
    }
}

/// A time that tests set.
private final class ManualInstant: Sendable {
    private let instant = Mutex(ContinuousClock.now)

    var now: ContinuousClock.Instant { instant.withLock { $0 } }

    func advance(by duration: Duration) { instant.withLock { $0 += duration } }
}
