// SPDX-License-Identifier: MPL-2.0

import Synchronization
import Testing

@testable import LatchkeyHTTP
@testable import LatchkeyLoopbackSupport

/// What is sent, and what comes back.
@Suite(.timeLimit(.minutes(8)))
struct ResponseTests {
    let transport = CurlTransport.direct()

    @Test(arguments: [200, 204, 304, 400, 403, 404, 500, 503])
    func everyStatusIsAResponse(_ status: Int) async throws {
        let body = [204, 304].contains(status) ? "" : "says \(status)"
        let server = try LoopbackServer { _ in .response(status, body: body) }
        let response = try await transport.get(server.url + "/a?b=c#d")
        #expect(response.status == status)
        #expect(response.text == body)
        #expect(response.url == server.url + "/a?b=c")
        #expect(server.requests.map(\.target) == ["/a?b=c"])
    }

    /// Who wipes it wipes the only copy.
    @Test func aBodyIsHeldByItsReceiverAlone() async throws {
        let server = try LoopbackServer { _ in .response(body: "a key") }
        for _ in 0..<20 {
            var response = try await transport.get(server.url)
            let before = response.body.withUnsafeBytes { $0.baseAddress }
            // A write copies what is shared.
            let after = response.body.withUnsafeMutableBytes { UnsafeRawPointer($0.baseAddress) }
            #expect(before == after)
        }
    }

    @Test func aGetSendsItsFieldsAndNoBody() async throws {
        let server = try LoopbackServer { _ in .response() }
        _ = try await transport.get(
            server.url,
            [
                HTTPHeader(name: "X-Token", value: "s3cret"), HTTPHeader(name: "X-Empty", value: ""),
                HTTPHeader(name: "Accept", value: "text/xml"),
            ])
        let request = try #require(server.requests.first)
        #expect(request.method == "GET")
        #expect(request.values("x-token") == ["s3cret"])
        #expect(request.values("x-empty") == [""])
        #expect(request.values("accept") == ["text/xml"])
        #expect(request.values("user-agent") == ["Latchkey"])
        #expect(request.values("content-type") == [])
        #expect(request.body == [])
    }

    /// A server may send any coding to who names none (RFC 9110, 12.5.3), and some have one alone.
    @Test func whatComesCompressedUnaskedIsUnpacked() async throws {
        // Of zlib's format (RFC 1950), with bytes below 128 alone.
        let body = "x\u{1}KNMMI\u{6}b\u{0}\u{E}\u{1E}\u{3}#"
        let server = try LoopbackServer { _ in .response(200, ["Content-Encoding: deflate"], body: body) }
        var request = HTTPRequest.patient(url: server.url)
        #expect(try await transport.send(request).text == body)
        request.toleratesCompression = true
        #expect(try await transport.send(request).text == "ceedceed")
        request.maximumResponseSize = 7
        #expect(try await transport.failure(request).isSameKind(as: .tooLarge("")))
        #expect(server.requests.map { $0.values("accept-encoding") } == [[], ["identity"], ["identity"]])
    }

    /// Some servers name a coding that there is not, or that the body does not have.
    @Test(arguments: ["utf-8", "aws-chunked", "gzip"])
    func whatCannotBeUnpackedIsTakenAsItComes(_ coding: String) async throws {
        let server = try LoopbackServer { _ in .response(200, ["Content-Encoding: \(coding)"], body: "a key as it is") }
        var request = HTTPRequest.patient(method: "POST", url: server.url, body: [1, 2])
        request.toleratesCompression = true
        #expect(try await transport.send(request).text == "a key as it is")
        #expect(server.requests.map { $0.values("accept-encoding") } == [["identity"], ["identity"]])
        #expect(server.requests.map(\.body) == [[1, 2], [1, 2]])
        // Also if codings were asked for first.
        request.acceptsCompression = true
        #expect(try await transport.send(request).text == "a key as it is")
        #expect(server.requests.count == 4)
        #expect(server.requests[2].values("accept-encoding") != ["identity"])
        #expect(server.requests[3].values("accept-encoding") == ["identity"])
        // One that asks for codings alone has to get one of them.
        request.toleratesCompression = false
        #expect(try await transport.failure(request).isSameKind(as: .coding("")))
        #expect(server.requests.count == 5)
    }

    /// The server of the redirect is asked once more, the one that it leads to once.
    @Test func whatARedirectLeadsToIsTakenAsItComesToo() async throws {
        let target = try LoopbackServer { _ in .response(200, ["Content-Encoding: utf-8"], body: "a key as it is") }
        let fields = ["Content-Encoding: utf-8", "Location: \(target.url)"]
        let server = try LoopbackServer { _ in .response(302, fields, body: "it is elsewhere") }
        var request = HTTPRequest.patient(url: server.url)
        request.toleratesCompression = true
        #expect(try await transport.send(request).text == "a key as it is")
        #expect(server.requests.map { $0.values("accept-encoding") } == [["identity"], ["identity"]])
        #expect(target.requests.map { $0.values("accept-encoding") } == [["identity"]])
    }

    @Test func aPostSendsEveryByte() async throws {
        let server = try LoopbackServer { _ in .response(body: "taken") }
        let body = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let type = HTTPHeader(name: "content-type", value: "text/xml; charset=utf-8")
        let response = try await transport.send(
            .patient(method: "POST", url: server.url, headers: [type], body: body))
        #expect(response.text == "taken")
        let request = try #require(server.requests.first)
        #expect(request.method == "POST")
        #expect(request.body == body)
        #expect(request.values("content-type") == ["text/xml; charset=utf-8"])
        #expect(request.values("expect") == [])
    }

    @Test func aPostWithoutABodySaysSo() async throws {
        let server = try LoopbackServer { _ in .response() }
        _ = try await transport.send(.patient(method: "POST", url: server.url))
        let request = try #require(server.requests.first)
        #expect(request.method == "POST")
        #expect(request.values("content-length") == ["0"])
        #expect(request.values("content-type") == [])
    }

    @Test(arguments: ["PUT", "DELETE", "GET"])
    func otherMethodsCarryABodyToo(_ method: String) async throws {
        let server = try LoopbackServer { _ in .response() }
        _ = try await transport.send(.patient(method: method, url: server.url, body: [1, 2, 3]))
        #expect(server.requests.map(\.method) == [method])
        #expect(server.requests.map(\.body) == [[1, 2, 3]])
    }

    @Test func aHeadHasNoBodyAndNoSizeLimit() async throws {
        let server = try LoopbackServer { _ in .send("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n") }
        let response = try await transport.send(.patient(method: "HEAD", url: server.url))
        #expect(server.requests.map(\.method) == ["HEAD"])
        #expect(response.header("content-length") == "99999999")
        #expect(response.body == [])
    }

    @Test func fieldsOfTheResponseAreThoseOfTheLastHead() async throws {
        let server = try LoopbackServer { _ in
            .send(
                "HTTP/1.1 103 Early Hints\r\nX-Early: yes\r\n\r\n"
                    + "HTTP/1.1 200 OK\r\nDate:  Thu, 01 Jan 1970 00:00:00 GMT \r\nX-Two: a\r\nX-TWO: b\r\n"
                    + "Transfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n"
                    + "5\r\nhello\r\n0\r\nX-Late: yes\r\n\r\n")
        }
        let response = try await transport.get(server.url)
        #expect(response.text == "hello")
        #expect(response.header("date") == "Thu, 01 Jan 1970 00:00:00 GMT")
        #expect(response.header("x-two") == "a")
        #expect(response.headers.filter { $0.isNamed("x-two") }.map(\.value) == ["a", "b"])
        #expect(response.header("x-early") == nil)
        #expect(response.header("x-late") == nil)
    }

    @Test func aBodyUpToTheLimitIsTaken() async throws {
        let server = try LoopbackServer { _ in .response(body: String(repeating: "x", count: 1_000)) }
        var request = HTTPRequest.patient(url: server.url)
        request.maximumResponseSize = 1_000
        #expect(try await transport.send(request).body.count == 1_000)
        request.maximumResponseSize = 999
        let error = try await transport.failure(request)
        #expect(error.isSameKind(as: .tooLarge("")))
    }

    @Test(arguments: [0, -1, 99_999])
    func aBodyThatDoesNotAnnounceItsSizeIsCutOff(_ limit: Int) async throws {
        // It would never end by itself.
        let server = try LoopbackServer { _ in
            .sendAndHold(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186A0\r\n"
                    + String(repeating: "x", count: 100_000))
        }
        var request = HTTPRequest.patient(url: server.url)
        request.maximumResponseSize = limit
        let error = try await transport.failure(request)
        #expect(error.isSameKind(as: .tooLarge("")))
        var events = server.events.makeAsyncIterator()
        #expect(await events.next() == .requested(connection: 0))
        #expect(await events.next() == .closed(connection: 0))
    }

    @Test func tooManyFieldsAreRefused() async throws {
        let server = try LoopbackServer { _ in
            .sendAndHold("HTTP/1.1 200 OK\r\n" + String(repeating: "X-Field: value\r\n", count: 5_000))
        }
        let error = try await transport.failure(server.url)
        #expect(error.isSameKind(as: .tooLarge("")))
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly ten b",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhello",
        "",
    ])
    func aResponseThatBreaksOffIsTruncated(_ sent: String) async throws {
        let server = try LoopbackServer { _ in .sendAndClose(sent) }
        let error = try await transport.failure(server.url)
        #expect(error.isSameKind(as: .truncated("")))
        #expect(error.isConnectionFailure)
    }

    @Test(arguments: ["SSH-2.0-server\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/9.9 200 OK\r\n\r\n"])
    func whatIsNoHTTPIsAFailure(_ sent: String) async throws {
        let server = try LoopbackServer { _ in .sendAndClose(sent) }
        let error = try await transport.failure(server.url)
        #expect(error.isSameKind(as: .other("")))
    }

    @Test func theNextRequestTakesTheSameConnection() async throws {
        let server = try LoopbackServer { request in .response(body: "\(request.connection)") }
        for _ in 0..<5 { #expect(try await transport.get(server.url).text == "0") }
        #expect(server.connectionCount == 1)
    }

    @Test func aKeptConnectionThatTheServerClosedIsReplaced() async throws {
        let server = try LoopbackServer { _ in
            .sendAndClose("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        for _ in 0..<3 { #expect(try await transport.get(server.url).text == "ok") }
        #expect(server.connectionCount == 3)
    }

    @Test func fiftyRequestsRunAtOnce() async throws {
        // Nobody gets an answer before all fifty have asked.
        let barrier = Barrier(count: 50)
        let server = try LoopbackServer { request in
            barrier.wait()
            return .response(body: request.target)
        }
        let answers = try await withThrowingTaskGroup(of: String.self) { group in
            for number in 0..<50 {
                group.addTask { try await transport.get("\(server.url)/\(number)").text }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(answers == Set((0..<50).map { "/\($0)" }))
        #expect(server.connectionCount == 50)
    }
}

/// Bodies that come piece by piece.
@Suite(.timeLimit(.minutes(8)))
struct PieceTests {
    let transport = CurlTransport.direct()

    private final class Pieces: Sendable {
        private let state = Mutex<(heads: [HTTPResponse], bytes: [UInt8])>(([], []))

        var heads: [HTTPResponse] { state.withLock { $0.heads } }
        var bytes: [UInt8] { state.withLock { $0.bytes } }

        @Sendable func take(_ head: HTTPResponse, _ piece: [UInt8]) {
            state.withLock { state in
                state.heads.append(head)
                state.bytes += piece
            }
        }
    }

    @Test func theBodyOfASuccessComesInOrder() async throws {
        let text = String(repeating: "0123456789", count: 30_000)
        let server = try LoopbackServer { request in
            request.target == "/old" ? .redirect(302, to: "/new") : .response(200, ["X-Own: 7"], body: text)
        }
        let pieces = Pieces()
        let end = try await transport.send(.patient(url: server.url + "/old"), to: { pieces.take($0, $1) })
        #expect(String(decoding: pieces.bytes, as: UTF8.self) == text)
        #expect(pieces.heads.count > 1)
        let isOurs = pieces.heads.allSatisfy {
            $0.status == 200 && $0.header("X-Own") == "7" && $0.body.isEmpty && $0.url == server.url + "/new"
        }
        #expect(isOurs)
        #expect(end.status == 200 && end.body.isEmpty)
    }

    @Test(arguments: [404, 503]) func theBodyOfAnErrorIsInTheResponse(_ status: Int) async throws {
        let server = try LoopbackServer { _ in .response(status, body: "no") }
        let pieces = Pieces()
        let end = try await transport.send(.patient(url: server.url), to: { pieces.take($0, $1) })
        #expect(end.status == status && end.text == "no")
        #expect(pieces.heads.isEmpty)
    }

    @Test func whatCameBeforeTheConnectionBrokeIsThere() async throws {
        let server = try LoopbackServer { _ in .sendAndClose("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") }
        let pieces = Pieces()
        let error = try #require(
            await #expect(throws: HTTPError.self) {
                try await transport.send(.patient(url: server.url), to: { pieces.take($0, $1) })
            })
        #expect(error.isConnectionFailure)
        #expect(String(decoding: pieces.bytes, as: UTF8.self) == "half")
    }

    @Test func tooMuchIsRefused() async throws {
        let body = String(repeating: "x", count: 5000)
        let server = try LoopbackServer { _ in .sendAndClose("HTTP/1.1 200 OK\r\n\r\n" + body) }
        var request = HTTPRequest.patient(url: server.url)
        request.maximumResponseSize = 4999
        let pieces = Pieces()
        let error = try #require(
            await #expect(throws: HTTPError.self) { try await transport.send(request, to: { pieces.take($0, $1) }) })
        #expect(error.isSameKind(as: .tooLarge("")))
    }

    /// The exchange may last as long as the test: the tasks that open the gate wait for a thread while other tests have them all.
    /// `closings` ends with it, so that nobody waits for one that no longer comes.
    private func receive(
        from url: String, through gate: HTTPBodyGate, ending closings: AsyncStream<Void>.Continuation,
        _ receiver: @escaping HTTPBodyReceiver
    ) async throws -> HTTPResponse {
        defer { closings.finish() }
        return try await transport.send(.patient(url: url, timeout: .seconds(3600)), through: gate, to: receiver)
    }

    /// The gate closes after each of the first pieces, until another exchange on the same thread is over: without a gate,
    /// pieces would come meanwhile.
    @Test func aClosedGateHoldsTheBodyBack() async throws {
        let text = String(repeating: "0123456789", count: 90_000)
        let server = try LoopbackServer { _ in .response(200, body: text) }
        let other = try LoopbackServer { _ in .response(200, body: text) }
        let (gate, pieces) = (HTTPBodyGate(), Pieces())
        let (closings, closed) = AsyncStream.makeStream(of: Void.self)
        let isClosed = Mutex(false)
        let surplus = Mutex(0)
        async let end = receive(from: server.url, through: gate, ending: closed) { head, piece in
            if isClosed.withLock({ $0 }) { surplus.withLock { $0 += 1 } }
            pieces.take(head, piece)
            guard pieces.heads.count <= 5 else { return }
            gate.close()
            isClosed.withLock { $0 = true }
            closed.yield()
        }
        var count = 0
        for await _ in closings {
            #expect(try await transport.get(other.url).body.count == text.utf8.count)
            count += 1
            #expect(pieces.heads.count == count)
            isClosed.withLock { $0 = false }
            gate.open()
        }
        #expect(try await end.status == 200)
        #expect(count == 5)
        #expect(surplus.withLock { $0 } == 0)
        #expect(String(decoding: pieces.bytes, as: UTF8.self) == text)
        #expect(server.connectionCount == 1)
    }

    /// Also where nothing comes any more: it ends, and so does one that is cancelled.
    @Test func aHeldBodyCanBeCancelled() async throws {
        let text = String(repeating: "0123456789", count: 90_000)
        let server = try LoopbackServer { _ in .response(200, body: text) }
        let gate = HTTPBodyGate()
        let (closings, closed) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            try await receive(from: server.url, through: gate, ending: closed) { _, _ in
                gate.close()
                closed.yield()
            }
        }
        for await _ in closings { break }
        task.cancel()
        let error = try #require(await #expect(throws: HTTPError.self) { try await task.value })
        #expect(error.isSameKind(as: .cancelled("")))
        gate.open()
    }

    /// If nobody opens the gate, the time of the request ends it, and what opens the gate later finds nothing to go on with.
    @Test func aHeldBodyRunsOutOfTime() async throws {
        let text = String(repeating: "0123456789", count: 90_000)
        let server = try LoopbackServer { _ in .response(200, body: text) }
        let gate = HTTPBodyGate()
        var request = HTTPRequest(url: server.url)
        request.timeout = .milliseconds(200)
        let error = try #require(
            await #expect(throws: HTTPError.self) {
                try await transport.send(request, through: gate) { _, _ in gate.close() }
            })
        #expect(error.isSameKind(as: .timedOut("")))
        gate.open()
        #expect(try await transport.get(server.url).body.count == text.utf8.count)
    }

    /// The one test that a second of silence passes in.
    @Test func silenceEndsAnExchange() async throws {
        let server = try LoopbackServer { _ in .sendAndHold("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") }
        var request = HTTPRequest.patient(url: server.url)
        request.stallTimeout = .seconds(1)
        let error = try await transport.failure(request)
        #expect(error.isSameKind(as: .timedOut("")))
    }
}
