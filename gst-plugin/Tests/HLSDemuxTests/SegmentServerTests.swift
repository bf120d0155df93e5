// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import Synchronization
import Testing

@testable import LatchkeyElements

/// What the server of relayed media leads where, without a demuxer.
@Suite(.timeLimit(.minutes(8)))
struct SegmentServerTests {
    /// Answers one request after the other, and the last one for ever.
    private final class Script: HTTPTransport {
        let sent = Mutex<[HTTPRequest]>([])
        private let answers: Mutex<[Result<HTTPResponse, HTTPError>]>

        init(_ answers: [Result<HTTPResponse, HTTPError>]) { self.answers = Mutex(answers) }

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            sent.withLock { $0.append(request) }
            var response = try answers.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }.get()
            if response.url.isEmpty { response.url = request.url }
            return response
        }
    }

    private static func response(_ status: Int, _ text: String = "", url: String = "") -> Result<
        HTTPResponse, HTTPError
    > {
        .success(HTTPResponse(status: status, body: Array(text.utf8), url: url))
    }

    private func server(
        _ answers: Result<HTTPResponse, HTTPError>..., limit: Duration = .seconds(60),
        giveUp: @escaping @Sendable (PresentationFailure) -> Void = { _ in }
    ) throws -> (SegmentServer, Script, RelayTests.Time) {
        let (script, time) = (Script(answers), RelayTests.Time())
        let origin = PresentationOrigin(transport: script)
        let relay = SegmentRelay(
            origin, limit: limit, now: { time.now }, sleep: { try time.sleep($0) }, tell: { _ in })
        let server = SegmentServer(origin, relay: relay, giveUp: giveUp)
        try server.open()
        server.setHome("https://a.test/film.mpd?t=1")
        return (server, script, time)
    }

    @Test func aPathStandsForItsOriginAlone() async throws {
        let (server, script, _) = try server(Self.response(200, "media"))
        defer { server.close() }
        let first = try #require(server.route("https://a.test"))
        let second = try #require(server.route("https://b.test:8"))
        #expect(first.hasSuffix("/0") && second.hasSuffix("/1") && server.route("https://a.test") == first)
        let referrer = HTTPHeader(name: "Referer", value: "\(first)/film.mpd")
        let request = LoopbackRequest(path: "1/x/../y%2F$", query: "a=b&c", headers: [referrer])
        #expect(await server.answer(request).body == Array("media".utf8))
        for path in ["2/x", "0", "", "-1/x", "x/y", "m", "//x", "18446744073709551616/x"] {
            #expect(await server.answer(LoopbackRequest(path: path)).status == 404, "\(path)")
        }
        let sent = script.sent.withLock { $0 }
        #expect(sent.map(\.url) == ["https://b.test:8/x/../y%2F$?a=b&c"])
        // The secret of this process stays here, and that of the presentation at its origin.
        #expect(sent.first?.headers.first { $0.name == "Referer" }?.value == "https://a.test/")
    }

    /// The stock demuxer has two connections to each server: two origins that do not answer take none of a third one's.
    @Test func eachOriginHasConnectionsOfItsOwn() throws {
        let (server, _, _) = try server(Self.response(200))
        defer { server.close() }
        func port(_ url: String?) -> Substring? { url?.split(separator: "/").dropFirst().first }
        let manifest = try #require(port(server.serveManifest("https://a.test/film.mpd") { _ in nil }))
        let origins = (1..<PresentationServers.count).map { "https://\($0).test" }
        let ports = try origins.map { try #require(port(server.route($0))) }
        #expect(Set(ports + [manifest]).count == PresentationServers.count)
        #expect(origins.map { port(server.route($0)) } == ports)
        // Further ones share them, and never with the manifest.
        #expect(ports.contains(try #require(port(server.route("https://one.more.test")))))
    }

    @Test func notEveryOriginHasOne() throws {
        let (server, _, _) = try server(Self.response(200))
        #expect(server.route("https://anna:secret@a.test") == nil)
        for number in 0..<SegmentServer.originLimit { #expect(server.route("https://\(number).test") != nil) }
        #expect(server.route("https://one.more.test") == nil && server.route("https://7.test") != nil)
        server.close()
        #expect(server.route("https://7.test") == nil)
    }

    @Test func textsHaveTheOriginsURLs() throws {
        let (server, _, _) = try server(Self.response(200))
        defer { server.close() }
        let base = try #require(server.route("https://a.test"))
        let later = try #require(server.serveManifest("https://a.test/film.mpd") { _ in nil })
        let text = "No “x” at \(base)/v/1.m4s?sig=s, nor at \(later). (\(base)/a)"
        let told = server.withOriginURLs(text, isForPeople: true)
        #expect(told == "No “x” at https://a.test/v/1.m4s, nor at https://a.test/film.mpd. (https://a.test/a)")
        #expect(server.withOriginURLs("\(base)/v?sig=s", isForPeople: false) == "https://a.test/v?sig=s")
    }

    /// The stock demuxer asks again, and has few connections.
    @Test func aManifestThatFailsIsNotHeldUp() async throws {
        let (server, _, time) = try server(
            .failure(.refused("")), Self.response(503), Self.response(200, "<!DOCTYPE html><html></html>"),
            Self.response(200, "<Error>busy</Error>"), Self.response(200, "new", url: "https://c.test/now.mpd"))
        defer { server.close() }
        _ = server.serveManifest("https://a.test/film.mpd") { Array("\($0.url) \($0.body.count)".utf8) }
        for _ in 0..<4 { #expect(await server.answer(LoopbackRequest(path: "m")).status >= 400) }
        let answer = await server.answer(LoopbackRequest(path: "m"))
        #expect(answer.status == 200 && answer.body == Array("https://c.test/now.mpd 3".utf8))
        #expect(time.elapsed == .zero)
    }

    @Test func whoWasGivenNothingIsNotAwaited() throws {
        let (server, _, _) = try server(Self.response(200))
        defer { server.close() }
        _ = server.route("https://a.test")
        #expect(!server.isUsed)
        server.didHandOut()
        #expect(server.isUsed && !server.wasReached)
    }

    @Test func aManifestThatIsNoMatterOfThisIsElsewhere() async throws {
        let (server, _, _) = try server(Self.response(200, "new", url: "https://c.test/now.mpd"), Self.response(404))
        defer { server.close() }
        _ = server.serveManifest("https://a.test/film.mpd") { _ in nil }
        let answer = await server.answer(LoopbackRequest(path: "m"))
        #expect(answer.status == 302 && answer.headers.map(\.value) == ["https://c.test/now.mpd"])
        #expect(await server.answer(LoopbackRequest(path: "m")).status == 404)
    }

    /// Of a live presentation that has begun: it is waited for, and then left out. Not without an end.
    @Test(arguments: [(410, 8, 19, 30), (429, 0, 1, 4), (403, 2, 7, 12)])
    func aLiveSegmentThatIsNotThereIsLeftOut(_ status: Int, count: Int, seconds: Int, requests: Int) async throws {
        let (server, script, time) = try server(
            Self.response(404), Self.response(200, "first"), Self.response(404), Self.response(200, "late"),
            Self.response(status))
        defer { server.close() }
        _ = server.route("https://a.test")
        _ = server.serveManifest("https://a.test/film.mpd") { $0.body }
        let request = LoopbackRequest(path: "0/x")
        #expect(await server.answer(request).status == 404)
        #expect(await server.answer(request).body == Array("first".utf8))
        #expect(await server.answer(request).body == Array("late".utf8))
        #expect(time.elapsed == .seconds(1))
        for _ in 0..<count { #expect(await server.answer(request).status == 204) }
        #expect(time.elapsed == .seconds(seconds))
        #expect(script.sent.withLock { $0.count } == requests)
        #expect(await server.answer(request).status == status)
    }

    /// Of long segments, each may come as late as the one before it has ended.
    @Test(arguments: [(0, 4), (2, 4), (8, 12), (3_000_000_000, 20)])
    func aLongSegmentIsWaitedForLonger(longest: Int, seconds: Int) async throws {
        let (server, _, time) = try server(Self.response(200, "first"), Self.response(404))
        defer { server.close() }
        _ = server.route("https://a.test")
        _ = server.serveManifest("https://a.test/film.mpd", longestSegment: .seconds(longest)) { $0.body }
        let request = LoopbackRequest(path: "0/x")
        #expect(await server.answer(request).status == 200)
        #expect(await server.answer(request).status == 204)
        #expect(time.elapsed == .seconds(seconds))
        #expect(await server.answer(request).status == 204)
        #expect(time.elapsed == .seconds(seconds + 2))
    }

    @Test func laterVersionsOfAManifestMayMove() async throws {
        let (server, script, _) = try server(Self.response(200, "new"))
        defer { server.close() }
        server.manifestDidMove(to: "https://nowhere.test/")
        _ = server.serveManifest("https://a.test/film.mpd") { $0.body }
        _ = await server.answer(LoopbackRequest(path: "m"))
        server.manifestDidMove(to: "https://b.test/film.mpd")
        #expect(await server.answer(LoopbackRequest(path: "m")).body == Array("new".utf8))
        #expect(script.sent.withLock { $0.map(\.url) } == ["https://a.test/film.mpd", "https://b.test/film.mpd"])
    }

    /// Only for a presentation that is a file.
    @Test func filesAreServed() async throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "latchkey \(UInt64.random(in: 0 ... .max))")
            .path
        try Data("0123456789".utf8).write(to: URL(filePath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        let origin = PresentationOrigin(transport: Script([Self.response(500)]))
        let server = SegmentServer(origin, relay: SegmentRelay(origin, limit: .zero) { _ in }, giveUp: { _ in })
        try server.open()
        defer { server.close() }
        let file = "0" + path.replacing(" ", with: "%20")
        for (home, status) in [("https://a.test/film.mpd", 404), ("file:///film.mpd", 200)] {
            origin.setHome(home)
            #expect((server.route("file://") != nil) == (status == 200))
            let answer = await server.answer(LoopbackRequest(path: file))
            #expect(answer.status == status && (status == 404 || answer.body == Array("0123456789".utf8)))
        }
        let range = LoopbackRequest(path: file, headers: [HTTPHeader(name: "Range", value: "bytes=3-5")])
        let part = await server.answer(range)
        #expect(part.status == 206 && part.body == Array("345".utf8))
        #expect(await server.answer(LoopbackRequest(path: file + "x")).status == 404)
        #expect(await server.answer(LoopbackRequest(path: "0/dev/zero")).status == 404)
    }

    /// Of a large file, no more is read than there is room for.
    @Test func filesComeInPieces() async throws {
        let bytes = (0..<600_000).map { UInt8(truncatingIfNeeded: $0 / 256) }
        let place = FileManager.default.temporaryDirectory.appending(path: "latchkey-\(UInt64.random(in: 0 ... .max))")
        try Data(bytes).write(to: place)
        defer { try? FileManager.default.removeItem(at: place) }
        let received = Mutex<[UInt8]>([])
        let request = HTTPRequest(url: "file://\(place.path)")
        let response = try await FileTransport().send(request) { _, piece in received.withLock { $0 += piece } }
        #expect(response.status == 200 && response.body.isEmpty && received.withLock { $0 == bytes })

        let gate = HTTPBodyGate()
        let (pieces, sender) = AsyncStream.makeStream(of: Int.self)
        let task = Task {
            try await FileTransport().send(request, through: gate) { _, piece in
                gate.close()
                sender.yield(piece.count)
            }
        }
        var iterator = pieces.makeAsyncIterator()
        let first = await iterator.next() ?? 0
        #expect(0 < first && first < bytes.count)
        gate.open()
        #expect(await iterator.next() != nil)
        // One that waits ends too.
        task.cancel()
        await #expect(throws: HTTPError.self) { try await task.value }
    }

    @Test func anOutageHasAnEnd() async throws {
        let (server, _, time) = try server(.failure(.refused("")), limit: .seconds(30))
        defer { server.close() }
        _ = server.route("https://a.test")
        #expect(await server.answer(LoopbackRequest(path: "0/x")).status >= 400)
        #expect(time.elapsed == .seconds(30))
    }

    /// At a server error, the stock demuxer would ask for ever, or end without an error; of a live presentation, it asks for ever
    /// for what is not there.
    @Test(arguments: [Duration.zero, .seconds(30)])
    func whatCannotBeHadFourTimesInARowEndsPlayback(limit: Duration) async throws {
        let reasons = Mutex<[String]>([])
        let (server, _, _) = try server(
            .failure(.untrusted("")), .failure(.untrusted("")), .failure(.untrusted("")), Self.response(200, "media"),
            .failure(.refused("")), limit: limit, giveUp: { failure in reasons.withLock { $0.append(failure.text) } })
        defer { server.close() }
        _ = server.route("https://a.test")
        let request = LoopbackRequest(path: "0/x")
        for status in [404, 404, 404, 200, 404, 404, 404] { #expect(await server.answer(request).status == status) }
        #expect(reasons.withLock { $0 } == [])
        for _ in 0..<2 { #expect(await server.answer(request).status == 404) }
        #expect(reasons.withLock { $0.count } == 1)
    }

    /// Of a live presentation, the network may be back in a moment.
    @Test func connectionsOfALivePresentationHaveTime() async throws {
        let (server, _, time) = try server(.failure(.refused("")), limit: .zero)
        defer { server.close() }
        _ = server.route("https://a.test")
        _ = server.serveManifest("https://a.test/film.mpd") { $0.body }
        for _ in 0..<3 { #expect(await server.answer(LoopbackRequest(path: "0/x")).status == 404) }
        #expect(time.elapsed == .seconds(3))
    }

    /// If nothing is waited for, what the origin answers is up to the stock demuxer.
    @Test(arguments: [(503, "busy"), (200, "<!DOCTYPE html><html></html>")])
    func answersGoOnAsTheyAre(_ status: Int, _ text: String) async throws {
        let (server, _, time) = try server(
            Self.response(status, text), limit: .zero, giveUp: { Issue.record("\($0.text)") })
        defer { server.close() }
        _ = server.route("https://a.test")
        for _ in 0..<6 { #expect(await server.answer(LoopbackRequest(path: "0/x")).status == status) }
        #expect(time.elapsed == .zero)
    }

    /// The stock demuxer waits ten seconds for a byte. It ends what stalls where it is the one that asks again.
    @Test(arguments: [(Duration.zero, Duration.seconds(12)), (.seconds(60), .seconds(6))])
    func whoAsksAgainEndsWhatStalls(limit: Duration, stallTimeout: Duration) async throws {
        let (server, script, _) = try server(Self.response(200, "media"), limit: limit)
        defer { server.close() }
        _ = server.route("https://a.test")
        #expect(await server.answer(LoopbackRequest(path: "0/x")).status == 200)
        #expect(script.sent.withLock { $0.map(\.stallTimeout) } == [stallTimeout])
    }

    /// What failed before something else came is no news.
    @Test func whyNothingCameIsTold() async throws {
        let (server, _, _) = try server(Self.response(404), Self.response(200, "media"), Self.response(403))
        defer { server.close() }
        _ = server.route("https://a.test")
        for status in [404, 200, 403] {
            #expect(await server.answer(LoopbackRequest(path: "0/\(status)")).status == status)
        }
        #expect(server.takeFailure()?.status == 403)
        #expect(server.takeFailure() == nil)
    }

    @Test func afterTheEndNothingIsAnswered() async throws {
        let (server, script, _) = try server(Self.response(200, "media"))
        _ = server.route("https://a.test")
        server.end()
        #expect(await server.answer(LoopbackRequest(path: "0/x")).status == 404)
        #expect(script.sent.withLock { $0 }.isEmpty)
        server.close()
    }
}
