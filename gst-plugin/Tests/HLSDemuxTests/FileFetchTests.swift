// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization
import Testing

@testable import LatchkeyElements

/// What fetches a whole file in the place of a player's source. `RelayTests` has the outages.
@Suite(.timeLimit(.minutes(8)))
struct FileFetchTests {
    private static let url = "https://a.test/film.mp4"
    private static let media = RelayTests.media

    /// What follows `place`, of a file of that size.
    private static func rest(from place: Int, size: Int = media.count) -> RelayTests.Script.Answer {
        let body = Array(media[place...])
        return .response(
            HTTPResponse(
                status: 206,
                headers: [
                    HTTPHeader(name: "Content-Length", value: "\(body.count)"),
                    HTTPHeader(name: "Content-Range", value: "bytes \(place)-\(media.count - 1)/\(size)"),
                ], body: body, url: url))
    }

    private static func status(_ status: Int) -> RelayTests.Script.Answer {
        .response(HTTPResponse(status: status, headers: [], body: [], url: url))
    }

    /// A server from which nothing comes for so long, each time.
    private struct Silent: HTTPTransport {
        let script: RelayTests.Script
        let time: RelayTests.Time
        let silence: Duration

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse { try await script.send(request) }

        func send(
            _ request: HTTPRequest, through gate: HTTPBodyGate?, to receiver: @escaping HTTPBodyReceiver
        ) async throws(HTTPError) -> HTTPResponse {
            try? time.sleep(silence)
            return try await script.send(request, through: gate, to: receiver)
        }
    }

    /// Takes so many bytes at a time, and hears of what ends a run.
    private final class Reader: Sendable {
        let script: RelayTests.Script
        let time = RelayTests.Time()
        private let bytes = Mutex<[UInt8]>([])
        private let events = AsyncStream.makeStream(of: String.self)
        private let fetch = Mutex<FileFetch?>(nil)
        private let portion: Int
        private let fields: [HTTPHeader]
        private let silence: Duration

        init(
            _ answers: RelayTests.Script.Answer..., portion: Int = .max, fields: [HTTPHeader] = [],
            silence: Duration = .zero
        ) {
            (script, self.portion, self.fields) = (RelayTests.Script(answers), portion, fields)
            self.silence = silence
        }

        var taken: [UInt8] { bytes.withLock { $0 } }

        func run(_ number: UInt64, from place: UInt64) async -> String? {
            if fetch.withLock({ $0 == nil }) {
                let made = FileFetch(
                    FileFetchTests.url, size: UInt64(FileFetchTests.media.count), limit: .seconds(60),
                    transport: Silent(script: script, time: time, silence: silence), now: { [time] in time.now },
                    sleep: { [time] in try time.sleep($0) }, tell: { _ in },
                    receive: { [weak self] run, event in self?.receive(run, event) })
                made?.setHeaders(fields + [HTTPHeader(name: "Range", value: "bytes=0-")])
                fetch.withLock { $0 = made }
            }
            fetch.withLock { $0 }?.begin(at: place, run: number)
            var iterator = events.stream.makeAsyncIterator()
            return await iterator.next()
        }

        private func receive(_ run: UInt64, _ event: FileFetch.Event) -> Int? {
            switch event {
            case .bytes(let piece):
                let part = piece.prefix(portion)
                bytes.withLock { $0 += part }
                // There is room again at once.
                fetch.withLock { $0 }?.wake()
                return part.count
            case .end: events.continuation.yield("\(run): end")
            case .refused: events.continuation.yield("\(run): refused")
            case .failure: events.continuation.yield("\(run): failure")
            }
            return nil
        }
    }

    @Test(arguments: [1, 699, 5000]) func theRestComesInOrder(_ portion: Int) async {
        let player = HTTPHeader(name: "User-Agent", value: "player")
        let reader = Reader(Self.rest(from: 1200), portion: portion, fields: [player])
        #expect(await reader.run(7, from: 1200) == "7: end")
        #expect(reader.taken == Array(Self.media[1200...]))
        #expect(reader.script.ranges == ["bytes=1200-"])
        let fields = reader.script.sent.withLock { $0[0].headers }
        #expect(fields.contains { $0.name == "User-Agent" && $0.value == "player" })
    }

    @Test func theSourcesCookiesGoAlong() async {
        let fields = [
            HTTPHeader(name: "Cookie", value: "id=7; more=8"), HTTPHeader(name: "Authorization", value: "Bearer abc"),
        ]
        let reader = Reader(Self.rest(from: 1200), fields: fields)
        #expect(await reader.run(1, from: 1200) == "1: end")
        let sent = reader.script.sent.withLock { $0[0].headers }
        for field in fields { #expect(sent.filter { $0.name == field.name } == [field]) }
    }

    /// The source may have a log-in that this has not: it goes on itself. Later there is no way back.
    @Test func aRefusalAtTheBeginningIsTheSourcesMatter() async {
        let reader = Reader(Self.status(403))
        #expect(await reader.run(1, from: 100) == "1: refused")
        let later = Reader(Self.rest(from: 100), Self.status(404))
        #expect(await later.run(1, from: 100) == "1: end")
        #expect(await later.run(2, from: 900) == "2: failure")
        #expect(later.taken == Array(Self.media[100...]))
    }

    /// That the source brought something tells that there was a network a moment ago.
    @Test func aConnectionThatFailsAtTheBeginningIsTriedAgain() async {
        let refused = RelayTests.Script.Answer.failure(.refused(Self.url))
        let reader = Reader(refused, .failure(.truncated(Self.url)), refused, Self.rest(from: 100))
        #expect(await reader.run(1, from: 100) == "1: end")
        #expect(reader.taken == Array(Self.media[100...]) && reader.time.elapsed == .seconds(3))
        #expect(reader.script.ranges == Array(repeating: "bytes=100-", count: 4))
    }

    /// As without the source's proxy. That it brought something tells that there is a way.
    @Test func withoutAConnectionTheSourceGoesOnSoon() async {
        let reader = Reader(.failure(.refused(Self.url)))
        #expect(await reader.run(1, from: 100) == "1: refused")
        #expect(reader.time.elapsed == .seconds(6) && reader.script.ranges.count == 7)
        // Of a server that answers, nothing else is to be had in a moment: it may allow one connection alone.
        let limited = Reader(Self.status(503))
        #expect(await limited.run(1, from: 100) == "1: refused")
        #expect(limited.time.elapsed == .zero && limited.script.ranges == ["bytes=100-"])
    }

    /// As at a server that serves one connection after the other.
    @Test func aConnectionThatIsSilentAtTheBeginningIsNotTriedAgain() async {
        let reader = Reader(.failure(.timedOut(Self.url)), silence: .seconds(6))
        #expect(await reader.run(1, from: 100) == "1: refused")
        #expect(reader.script.ranges == ["bytes=100-"])
    }

    @Test func aDigestIsTheSourcesAlone() async {
        let digest = HTTPHeader(name: "authorization", value: "Digest username=\"a\", nc=00000001")
        let reader = Reader(Self.rest(from: 1200), fields: [digest])
        #expect(await reader.run(1, from: 1200) == "1: refused")
        #expect(reader.script.ranges.isEmpty)
    }

    /// RFC 9110, section 14.2: a server may leave the range out.
    @Test func allOfTheFileMayComeAsAWhole() async {
        let fields = [HTTPHeader(name: "Content-Length", value: "\(Self.media.count)")]
        let reader = Reader(.response(HTTPResponse(status: 200, headers: fields, body: Self.media, url: Self.url)))
        #expect(await reader.run(1, from: 0) == "1: end")
        #expect(reader.taken == Self.media)
    }

    @Test func anotherFileIsNotMixedIn() async {
        for answer in [Self.rest(from: 1200, size: 9000), Self.rest(from: 1300), Self.status(200)] {
            let reader = Reader(answer)
            #expect(await reader.run(1, from: 1200) == "1: refused")
            #expect(reader.taken.isEmpty)
        }
    }

    @Test(arguments: ["file:///film.mp4", "film.mp4", "rtsp://a.test/film"]) func onlyFilesOfHTTPServersAreFetched(
        _ url: String
    ) {
        let fetch = FileFetch(url, size: 10, limit: .seconds(1), tell: { _ in }, receive: { _, _ in nil })
        #expect(fetch == nil)
        #expect(FileFetch(Self.url, size: 10, limit: .zero, tell: { _ in }, receive: { _, _ in nil }) == nil)
    }
}
