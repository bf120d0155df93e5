// SPDX-License-Identifier: MPL-2.0

import Synchronization
import Testing

@testable import LatchkeyHTTP

/// Bodies that a loopback server sends piece by piece.
@Suite(.timeLimit(.minutes(8)))
struct LoopbackStreamTests {
    /// Gives the pieces one after the other, and then ends or breaks off.
    private static func stream(_ pieces: [String], length: UInt64? = nil, breaks: Bool = false) -> LoopbackStream {
        let left = Mutex(pieces)
        return LoopbackStream(length: length) { () async throws(LoopbackStream.Broken) in
            if let piece = left.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { return Array(piece.utf8) }
            if breaks { throw LoopbackStream.Broken() }
            return nil
        }
    }

    private static func server(
        _ pieces: [String], length: UInt64? = nil, breaks: Bool = false
    ) throws -> LatchkeyHTTP.LoopbackServer {
        // A busy machine takes seconds, and what comes meanwhile is no part of these answers.
        var limits = LoopbackLimits()
        limits.interimTime = .seconds(3600)
        return try LatchkeyHTTP.LoopbackServer(limits: limits) { _ in
            LoopbackResponse(
                status: 200, headers: [HTTPHeader(name: "X-A", value: "b")],
                stream: stream(pieces, length: length, breaks: breaks))
        }
    }

    /// All that comes on a connection of its own, and whether it ended as a broken one.
    private static func raw(
        _ server: LatchkeyHTTP.LoopbackServer, _ method: String = "GET", version: String = "1.1",
        _ field: String = "X: y"
    ) async throws -> (lines: [String], wasReset: Bool) {
        let url = server.url("a")
        return try await onOwnThread {
            let host = "127.0.0.1:\(server.port)"
            let client = try RawClient(port: server.port)
            client.send(
                "\(method) \(url.dropFirst("http://\(host)".count)) HTTP/\(version)\r\nHost: \(host)\r\n\(field)\r\n\r\n"
            )
            let (text, wasReset) = try client.everything()
            return (text.split(separator: "\r\n", omittingEmptySubsequences: false).map(String.init), wasReset)
        }
    }

    @Test func aBodyWithoutALengthGoesOutInChunks() async throws {
        let server = try Self.server(["one", "four", "0123456789abcdef"])
        let (lines, _) = try await Self.raw(server, "GET", "Connection: close")
        #expect(
            lines == [
                "HTTP/1.1 200 OK", "X-A: b", "Connection: close", "transfer-encoding: chunked", "", "3", "one", "4",
                "four", "10", "0123456789abcdef", "0", "", "",
            ])
    }

    /// libcurl's view of it, twice over one connection.
    @Test func aClientReadsItAndAsksAgain() async throws {
        let server = try Self.server(["one", "two"])
        let transport = CurlTransport.direct()
        for _ in 0..<2 {
            let response = try await transport.get(server.url("a"))
            #expect(response.status == 200 && response.text == "onetwo")
            #expect(response.header("Content-Length") == nil)
        }
        #expect(server.connectionCount == 1)
    }

    @Test func anEmptyBodyWithoutALengthIsWhole() async throws {
        let server = try Self.server([])
        #expect(try await CurlTransport.direct().get(server.url("a")).body.isEmpty)
    }

    /// Without the last chunk: the client sees that something is missing.
    @Test(arguments: [nil, 9] as [UInt64?]) func aBodyThatBreaksOffIsNotWhole(_ length: UInt64?) async throws {
        let server = try Self.server(["one", "two"], length: length, breaks: true)
        #expect(try await CurlTransport.direct().failure(server.url("a")).isSameKind(as: .truncated("")))
        let (lines, _) = try await Self.raw(server)
        #expect(!lines.contains("0"))
    }

    /// One with a length that ends too early is no other matter.
    @Test func aBodyThatIsShorterThanItsLengthIsNotWhole() async throws {
        let server = try Self.server(["one", "two"], length: 9)
        #expect(try await CurlTransport.direct().failure(server.url("a")).isSameKind(as: .truncated("")))
    }

    @Test func aBodyThatIsLongerThanItsLengthIsCutOff() async throws {
        let server = try Self.server(["one", "two"], length: 4)
        #expect(try await CurlTransport.direct().get(server.url("a")).text == "onet")
    }

    /// HTTP/1.0 has no chunks: the body ends with the connection, and a broken one with a reset.
    @Test(arguments: [true, false]) func aClientOfHTTP10GetsItWithoutChunks(_ breaks: Bool) async throws {
        let server = try Self.server(["one", "two"], breaks: breaks)
        let (lines, wasReset) = try await Self.raw(server, version: "1.0")
        #expect(lines.first == "HTTP/1.0 200 OK" || breaks)
        #expect(lines.last == "onetwo" || breaks)
        #expect(wasReset == breaks)
        #expect(!lines.contains { $0.lowercased().hasPrefix("transfer-encoding") })
    }

    @Test(arguments: ["1.1", "1.0"]) func headHasNoBody(_ version: String) async throws {
        let server = try Self.server(["one", "two"])
        let (lines, wasReset) = try await Self.raw(server, "HEAD", version: version)
        #expect(lines == ["HTTP/1.0 200 OK", "X-A: b", "Connection: close", "", ""] && !wasReset)
        let other = try Self.server(["one", "two"], length: 6)
        let response = try await CurlTransport.direct().send(.patient(method: "HEAD", url: other.url("a")))
        #expect(response.header("Content-Length") == "6" && response.body.isEmpty)
    }

    /// The next piece is asked for when the client has taken the one before.
    @Test func aClientThatTakesNothingHoldsTheBodyBack() async throws {
        let given = Mutex(0)
        let (calls, call) = AsyncStream.makeStream(of: Void.self)
        let server = try LatchkeyHTTP.LoopbackServer { _ in
            LoopbackResponse(
                status: 200, headers: [],
                stream: LoopbackStream(length: nil) {
                    let count = given.withLock { given in
                        given += 1
                        return given
                    }
                    call.yield()
                    return count <= 512 ? [UInt8](repeating: 7, count: 64 << 10) : nil
                })
        }
        let client = try await onOwnThread {
            let client = try RawClient(port: server.port)
            let host = "127.0.0.1:\(server.port)"
            client.ask(String(server.url("a").dropFirst("http://\(host)".count)), host: host, ["Connection: close"])
            return client
        }
        for await _ in calls { break }
        // 32 MiB wait for a reader; the system's buffers hold some of them.
        let text = try await onOwnThread {
            #expect(given.withLock { $0 } < 500)
            return try client.everything().text
        }
        #expect(text.utf8.filter { $0 == 7 }.count == 32 << 20)
        #expect(given.withLock { $0 } == 513)
    }
}
