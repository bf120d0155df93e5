// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
import Synchronization
import Testing

@testable import LatchkeyElements

/// Segments that come through the relay, while the network fails.
@Suite(.timeLimit(.minutes(8)))
struct RelayTests {
    static let url = "https://a.test/media/1.ts?token=secret"
    static let page = Array("<!DOCTYPE html><html><body>Welcome to the hotel</body></html>".utf8)
    static let media = (0..<5000).map { UInt8(truncatingIfNeeded: $0 &* 7) }

    /// Answers one request after the other as the script says, and the last one for ever.
    final class Script: HTTPTransport {
        enum Answer: Sendable {
            case response(HTTPResponse)
            /// The head and so many bytes; then the connection breaks, or is given up.
            case broken(HTTPResponse, Int, by: HTTPError = .truncated(RelayTests.url))
            case failure(HTTPError)
        }

        private let answers: Mutex<[Answer]>
        let sent = Mutex<[HTTPRequest]>([])

        init(_ answers: [Answer]) { self.answers = Mutex(answers) }

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            guard case .failure(let error) = answers.withLock({ $0[0] }) else {
                throw .other(request.url, "bodies come in pieces here")
            }
            sent.withLock { $0.append(request) }
            throw error
        }

        func send(
            _ request: HTTPRequest, through gate: HTTPBodyGate?, to receiver: @escaping HTTPBodyReceiver
        ) async throws(HTTPError) -> HTTPResponse {
            sent.withLock { $0.append(request) }
            let answer = answers.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
            switch answer {
            case .failure(let error): throw error
            case .response(var response):
                guard response.status < 300 else { return response }
                let body = response.body
                response.body = []
                for start in stride(from: 0, to: body.count, by: 700) {
                    receiver(response, Array(body[start..<min(start + 700, body.count)]))
                }
                return response
            case .broken(var response, let count, let error):
                let body = Array(response.body.prefix(count))
                response.body = []
                if !body.isEmpty { receiver(response, body) }
                throw error
            }
        }

        var ranges: [String?] {
            sent.withLock { $0.map { $0.headers.first { $0.name == "Range" }?.value } }
        }
    }

    /// A time that passes where somebody sleeps.
    final class Time: Sendable {
        private let passed = Mutex(Duration.zero)
        private let start = ContinuousClock.now

        var now: ContinuousClock.Instant { passed.withLock { start + $0 } }
        var elapsed: Duration { passed.withLock { $0 } }

        func sleep(_ duration: Duration) throws {
            try Task.checkCancellation()
            passed.withLock { $0 += duration }
        }
    }

    final class World: Sendable {
        let script: Script
        let time = Time()
        let relay: SegmentRelay
        private let told: Told

        private final class Told: Sendable { let notices = Mutex<[String]>([]) }

        init(_ answers: Script.Answer..., limit: Duration = .seconds(60)) {
            let script = Script(answers)
            let told = Told()
            (self.script, self.told) = (script, told)
            relay = SegmentRelay(
                PresentationOrigin(transport: script), limit: limit, now: { [time] in time.now },
                sleep: { [time] in try time.sleep($0) }
            ) { notice in
                let text =
                    switch notice {
                    case .done(_, let status, _, let size, _): "done \(status) \(size)"
                    case .serverError(_, let status): "server error \(status)"
                    case .foreign(let content, _): content.rawValue
                    case .noNetwork: "no network"
                    case .lost(let failure): failure.text.contains("another size") ? "changed" : "lost"
                    }
                told.notices.withLock { $0.append(text) }
            }
        }

        var notices: [String] { told.notices.withLock { $0 } }

        struct Fetched {
            let status: Int
            var bytes: [UInt8]
            /// What `Content-Length` says, which goes out in chunks where there is none.
            let announced: Int?
            /// False where the connection ends before the body does.
            var isWhole = true
        }

        /// What the stock demuxer gets.
        func fetch(range: String? = nil, isEncrypted: Bool = false) async throws -> Fetched {
            let headers = range.map { [HTTPHeader(name: "Range", value: $0)] } ?? []
            let response = try await relay.answer(
                RelayTests.url, LoopbackRequest(path: "r1", headers: headers), isEncrypted: isEncrypted)
            guard let stream = response.stream else {
                return Fetched(status: response.status, bytes: response.body, announced: response.body.count)
            }
            let length = stream.length.map { Int($0) }
            var fetched = Fetched(status: response.status, bytes: [], announced: length)
            do {
                while fetched.bytes.count < length ?? .max, let piece = try await stream.next() {
                    fetched.bytes += piece
                }
                fetched.isWhole = fetched.bytes.count >= length ?? 0
            } catch {
                fetched.isWhole = false
            }
            return fetched
        }
    }

    static func response(
        _ body: [UInt8], status: Int = 200, tag: String = "1", range: String? = nil, hasLength: Bool = true
    ) -> HTTPResponse {
        var headers = [HTTPHeader(name: "ETag", value: tag)]
        if hasLength { headers.append(HTTPHeader(name: "content-length", value: "\(body.count)")) }
        if let range { headers.append(HTTPHeader(name: "Content-Range", value: range)) }
        return HTTPResponse(status: status, headers: headers, body: body, url: url)
    }

    @Test(arguments: [true, false]) func aSegmentComesAsItIs(_ hasLength: Bool) async throws {
        let world = World(.response(Self.response(Self.media, hasLength: hasLength)))
        let fetched = try await world.fetch()
        #expect(fetched.status == 200 && fetched.bytes == Self.media && fetched.isWhole)
        #expect(fetched.announced == (hasLength ? 5000 : nil))
        #expect(world.notices == ["done 200 5000"])
    }

    /// In front of packed audio: a PRIV frame whose owner is not UTF-8, at which the stock demuxer of GStreamer 1.22 crashes.
    static let hostileTag =
        Array("ID3".utf8) + [4, 0, 0, 0, 0, 11, 104] + Array("PRIV".utf8) + [0, 0, 11, 94, 0, 0, 0xFF, 0]
        + [UInt8](repeating: 1, count: 1500)

    /// Other bytes stay, wherever the pieces end, and behind a connection that broke inside the tag.
    @Test(arguments: [true, false]) func anID3TagIsMadeHarmless(_ hasLength: Bool) async throws {
        let media = Self.hostileTag + Self.media
        var harmless = media
        harmless[10] = UInt8(ascii: "X")
        let all = Self.response(media, hasLength: hasLength)
        let rest = Self.response(
            Array(media[900...]), status: 206, range: "bytes 900-\(media.count - 1)/\(media.count)",
            hasLength: hasLength)
        for world in [World(.response(all)), World(.broken(all, 900), .response(rest))] {
            let fetched = try await world.fetch()
            #expect(fetched.bytes == harmless && fetched.isWhole)
        }
        // Less than is looked at.
        let short = Array(Self.hostileTag.prefix(40))
        let world = World(.response(Self.response(short, hasLength: hasLength)))
        #expect(try await world.fetch().bytes == Array(harmless.prefix(40)))
    }

    @Test func aRangeComesAsItIs() async throws {
        let part = Self.response(Array(Self.media[1000..<3000]), status: 206, range: "bytes 1000-2999/5000")
        let world = World(.response(part))
        let fetched = try await world.fetch(range: "bytes=1000-2999")
        #expect(fetched.status == 206 && fetched.bytes == Array(Self.media[1000..<3000]))
        #expect(world.script.ranges == ["bytes=1000-2999"])
    }

    /// What was asked for is cut out as it comes, also behind a connection that broke.
    @Test(arguments: [
        ("1000-2999", 1000..<3000), ("300-", 300..<5000), ("-10", 4990..<5000), ("4000-9999", 4000..<5000),
    ])
    func aServerWithoutRangesSendsAll(_ range: String, _ part: Range<Int>) async throws {
        let all = Self.response(Self.media)
        let world = World(.broken(all, part.lowerBound + 5), .response(all))
        let fetched = try await world.fetch(range: "bytes=\(range)")
        // What decrypts it reads on to what was announced, and no further.
        #expect(fetched.status == 206 && fetched.bytes[...] == Self.media[part])
        #expect(fetched.announced == part.count)
        #expect(world.notices == ["no network", "done 200 \(part.count)"])
    }

    /// One that breaks while the front is skipped, and another that gives the part.
    @Test func whatWasToBeSkippedIsNotSkippedElsewhere() async throws {
        let part = Self.response(Array(Self.media[1000..<3000]), status: 206, range: "bytes 1000-2999/5000")
        let world = World(.broken(Self.response(Self.media), 500), .response(part))
        let fetched = try await world.fetch(range: "bytes=1000-2999")
        #expect(fetched.status == 206 && fetched.bytes[...] == Self.media[1000..<3000])
    }

    /// Without a length, the loopback server cuts it out.
    @Test func aServerWithoutRangesAndLengthSendsAll() async throws {
        let world = World(.response(Self.response(Self.media, hasLength: false)))
        #expect(try await world.fetch(range: "bytes=1000-2999").bytes == Self.media)
    }

    static let foreign: [(String, ForeignContent)] = [
        (String(decoding: page, as: UTF8.self), .webPage), (#"{"error": "not authorized"}"#, .json),
        (#"<?xml version="1.0"?><Error><Code>SlowDown</Code></Error>"#, .xml), ("Please log in", .text),
        (String(repeating: "Please log in. ", count: 100), .text),
    ]

    @Test(arguments: foreign)
    func foreignContentIsFetchedAgainUntilMediaComes(_ text: String, _ content: ForeignContent) async throws {
        for isEncrypted in [false, true] {
            let answer = Script.Answer.response(Self.response(Array(text.utf8)))
            let world = World(answer, answer, answer, .response(Self.response(Self.media)))
            #expect(try await world.fetch(isEncrypted: isEncrypted).bytes == Self.media)
            #expect(world.notices == [content.rawValue, "done 200 5000"])
            #expect(world.time.elapsed == SegmentRelay.pause * 3)
        }
    }

    /// In the middle of a segment, too, and though the network failed before.
    @Test(arguments: foreign)
    func foreignContentIsNoRestOfASegment(_ text: String, _ content: ForeignContent) async throws {
        let rest = Self.response(Array(Self.media[700...]), status: 206, range: "bytes 700-4999/5000")
        let foreign = Self.response(Array((text + "    ").utf8), tag: "2")
        let world = World(.broken(Self.response(Self.media), 700), .response(foreign), .response(rest))
        #expect(try await world.fetch().bytes == Self.media)
        #expect(world.notices == ["no network", content.rawValue, "done 200 5000"])
    }

    /// A part from the middle of a file may be text, as subtitles are.
    @Test func aPartMayBeText() async throws {
        let part = Array("Please log in".utf8)
        let world = World(.response(Self.response(part, status: 206, range: "bytes 1000-1012/5000")))
        #expect(try await world.fetch(range: "bytes=1000-1012").bytes == part)
    }

    @Test func anOutageIsWaitedFor() async throws {
        let broken = Script.Answer.failure(.refused(Self.url))
        let world = World(broken, .failure(.timedOut(Self.url)), broken, .response(Self.response(Self.media)), broken)
        #expect(try await world.fetch().bytes == Self.media)
        #expect(world.notices == ["no network", "done 200 5000"])
    }

    /// Thirty seconds and more, up to the limit; then the stock demuxer gives up at once, and hears why.
    @Test func anOutageThatLastsTooLongIsTheEnd() async throws {
        let world = World(.failure(.refused(Self.url)), limit: .seconds(40))
        for _ in 0..<4 {
            let failure = try #require(
                await #expect(throws: PresentationFailure.self) { try await world.fetch() })
            #expect(failure.status == 404)
            #expect(failure.text.contains("https://a.test/media/1.ts") && !failure.text.contains("secret"))
        }
        #expect(world.time.elapsed == .seconds(40))
        #expect(world.notices == ["no network"])
    }

    @Test func aServerErrorGoesOnAndIsNotAskedForTooOften() async throws {
        let world = World(
            .response(Self.response([], status: 503)), .response(Self.response([], status: 404)),
            .response(Self.response([], status: 503)), limit: .seconds(30))
        var failure = try #require(await #expect(throws: PresentationFailure.self) { try await world.fetch() })
        #expect(failure.status == 503)
        #expect(world.time.elapsed == SegmentRelay.pause)
        failure = try #require(await #expect(throws: PresentationFailure.self) { try await world.fetch() })
        #expect(failure.status == 404)
        #expect(world.time.elapsed == SegmentRelay.pause)
        // The stock demuxer would take three in a row for the end of the stream.
        failure = try #require(await #expect(throws: PresentationFailure.self) { try await world.fetch() })
        #expect(failure.status == 404)
        #expect(world.time.elapsed == .seconds(30))
        #expect(world.notices.filter { $0 == "server error 503" }.count == 31)
    }

    /// Nobody waits for what stays as it is: the stock demuxer gives up at once.
    @Test(arguments: [
        HTTPError.redirect(url), .untrusted(url), .tooManyRedirects(url), .invalidURL(url), .tooLarge(url), .other(url),
    ])
    func whatCannotPassIsTheEndAtOnce(_ error: HTTPError) async throws {
        let world = World(.failure(error))
        let failure = try #require(await #expect(throws: PresentationFailure.self) { try await world.fetch() })
        #expect(failure.status == 404)
        #expect(failure.text.contains(error.shortDescription) && failure.text.contains("https://a.test/media/1.ts"))
        #expect(world.time.elapsed == .zero && world.script.ranges.count == 1 && world.notices == [])
    }

    /// The same in the middle of a segment.
    @Test func whatCannotPassEndsASegmentAtOnce() async throws {
        let world = World(.broken(Self.response(Self.media), 700), .failure(.redirect(Self.url)))
        let fetched = try await world.fetch()
        #expect(fetched.bytes == Array(Self.media[..<700]) && !fetched.isWhole)
        #expect(world.time.elapsed == SegmentRelay.pause && world.notices == ["no network", "lost"])
    }

    /// A network that breaks off in a TLS handshake may be back later.
    @Test func aBrokenHandshakeIsWaitedFor() async throws {
        let world = World(.failure(.tls(Self.url)), .response(Self.response(Self.media)))
        #expect(try await world.fetch().bytes == Self.media)
        #expect(world.notices == ["no network", "done 200 5000"])
    }

    /// Then the stock demuxer decides what to try again, by what happened.
    @Test(arguments: [(503, 503), (429, 429), (401, 401), (403, 403), (404, 404), (nil, 502)])
    func aRelayThatTriesOnceChangesNoStatus(_ status: Int?, _ expected: Int) async throws {
        let world = World(
            status.map { .response(Self.response([], status: $0)) } ?? .failure(.refused(Self.url)), limit: .zero)
        for attempt in 1...3 {
            let failure = try #require(await #expect(throws: PresentationFailure.self) { try await world.fetch() })
            #expect(failure.status == expected)
            #expect(world.script.ranges.count == attempt)
        }
        #expect(world.time.elapsed == .zero)
    }

    @Test(arguments: [1, 700, 4999]) func aBrokenSegmentGoesOnWhereItWas(_ count: Int) async throws {
        let rest = Self.response(Array(Self.media[count...]), status: 206, range: "bytes \(count)-4999/5000")
        let world = World(
            .broken(Self.response(Self.media), max(count, 600)), .failure(.refused(Self.url)),
            count >= 600 ? .response(rest) : .response(Self.response(Self.media)))
        #expect(try await world.fetch().bytes == Self.media)
        #expect(world.script.ranges == [nil, "bytes=\(max(count, 600))-4999", "bytes=\(max(count, 600))-4999"])
        #expect(world.notices == ["no network", "done 200 5000"])
    }

    /// Of a connection that stays, no byte comes for six seconds.
    @Test func aSilentConnectionIsGivenUp() async throws {
        let rest = Self.response(Array(Self.media[700...]), status: 206, range: "bytes 700-4999/5000")
        let silence = HTTPError.timedOut(Self.url)
        let world = World(.broken(Self.response(Self.media), 700, by: silence), .failure(silence), .response(rest))
        #expect(try await world.fetch().bytes == Self.media)
        #expect(world.script.ranges == [nil, "bytes=700-4999", "bytes=700-4999"])
        #expect(world.script.sent.withLock { $0.map(\.stallTimeout) } == Array(repeating: .seconds(6), count: 3))
        #expect(world.notices == ["no network", "done 200 5000"])
    }

    @Test func theRestOfAnotherSegmentIsNotTaken() async throws {
        let other = Self.response(Array(Self.media[700...]), status: 206, tag: "2", range: "bytes 700-4999/5000")
        let world = World(.broken(Self.response(Self.media), 700), .response(other))
        let fetched = try await world.fetch()
        #expect(fetched.bytes == Array(Self.media[..<700]) && fetched.announced == 5000 && !fetched.isWhole)
    }

    @Test(arguments: ["bytes 701-4999/5000", "bytes 0-4999/5000", "bytes x", "bytes -1-4/5", ""])
    func aWrongRangeIsNotTaken(_ field: String) async throws {
        let other = Self.response(Array(Self.media[700...]), status: 206, range: field)
        let world = World(.broken(Self.response(Self.media), 700), .response(other))
        #expect(try await world.fetch().bytes == Array(Self.media[..<700]))
    }

    @Test(arguments: ["9223372036854775807", "140737488355328", "-1", "x", ""])
    func aLengthBeyondReasonIsNone(_ length: String) async throws {
        let headers = [
            HTTPHeader(name: "Content-Length", value: length), HTTPHeader(name: "Content-Range", value: "bytes 9-/*"),
        ]
        let world = World(.response(HTTPResponse(status: 206, headers: headers, body: Self.media, url: Self.url)))
        #expect(try await world.fetch(range: "bytes=9-").bytes == Self.media)
    }

    /// As a log-in page with a status of success.
    @Test func aResourceOfAnotherSizeIsNotMixedIn() async throws {
        func response(_ body: [UInt8]) -> HTTPResponse {
            HTTPResponse(
                status: 200, headers: [HTTPHeader(name: "Content-Length", value: "\(body.count)")], body: body,
                url: Self.url)
        }
        let page = response([UInt8](repeating: 0x20, count: 9000))
        let world = World(.broken(response(Self.media), 700), .response(page))
        let fetched = try await world.fetch()
        #expect(fetched.bytes == Array(Self.media[..<700]) && fetched.announced == 5000 && !fetched.isWhole)
    }

    /// A film in one piece, whose reader stands still: what came of it stays small, and nothing of it is missing.
    @Test(arguments: [true, false]) func aReaderThatStopsHoldsTheOriginBack(_ hasLength: Bool) async throws {
        let source = Endless(pieces: 1000, size: 16 << 10, hasLength: hasLength)
        let relay = SegmentRelay(PresentationOrigin(transport: source), limit: .seconds(60)) { _ in }
        let response = try await relay.answer(Self.url, LoopbackRequest(path: "r1"))
        let stream = try #require(response.stream)
        var taken = 0
        for stop in [1, 20, 400, 1000] {
            while taken < stop * source.size, let piece = try await stream.next() { taken += piece.count }
            // It ends where it must not go on; until then it does not stop.
            await source.waitUntilHeld()
            let held = source.sent - taken
            let limit = SegmentDownload.bufferLimit
            let isRight = held <= limit + source.size && (stop == 1000 || held >= limit / 2)
            #expect(isRight, "\(held) bytes at \(stop)")
        }
        #expect(taken == 1000 * source.size)
        if !hasLength { #expect(try await stream.next() == nil) }
    }

    /// Sends a body as fast as the gate lets it.
    final class Endless: HTTPTransport {
        let pieces: Int
        let size: Int
        private let hasLength: Bool
        private let state = Mutex((sent: 0, isHeld: false, isReleased: false))
        private let (events, event) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

        init(pieces: Int, size: Int, hasLength: Bool) {
            (self.pieces, self.size, self.hasLength) = (pieces, size, hasLength)
        }

        var sent: Int { state.withLock { $0.sent } }

        /// Until the gate is closed, or all is sent.
        func waitUntilHeld() async {
            var events = events.makeAsyncIterator()
            while !state.withLock({ $0.isHeld || $0.sent == pieces * size }) { _ = await events.next() }
        }

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            throw .other(request.url, "bodies come in pieces here")
        }

        func send(
            _ request: HTTPRequest, through gate: HTTPBodyGate?, to receiver: @escaping HTTPBodyReceiver
        ) async throws(HTTPError) -> HTTPResponse {
            let fields = hasLength ? [HTTPHeader(name: "Content-Length", value: "\(pieces * size)")] : []
            let head = HTTPResponse(status: 200, headers: fields, body: [], url: request.url)
            for _ in 0..<pieces {
                await withCheckedContinuation { (go: CheckedContinuation<Void, Never>) in
                    state.withLock { $0.isReleased = false }
                    let holds = gate?.holds { [self] in
                        state.withLock { ($0.isReleased, $0.isHeld) = (true, false) }
                        go.resume()
                    }
                    guard holds == true else { return go.resume() }
                    state.withLock { $0.isHeld = !$0.isReleased }
                    event.yield()
                }
                receiver(head, [UInt8](repeating: 7, count: size))
                state.withLock { $0.sent += size }
            }
            event.yield()
            return head
        }
    }

    @Test func whoIsCancelledIsNotKeptWaiting() async throws {
        let world = World(.failure(.refused(Self.url)), limit: .seconds(1_000_000))
        let task = Task { try await world.fetch() }
        task.cancel()
        await #expect(throws: PresentationFailure.self) { try await task.value }
    }
}
