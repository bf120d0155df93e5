// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyKeySystems
import LatchkeyTestAuthorities
import NIOCore
import NIOPosix
import Testing

@testable import LatchkeyTestServer

/// Requests that do not come as a whole.
@Suite(.timeLimit(.minutes(8))) struct RequestLimitTests {
    /// Sends `text`, and reads until the server closes the connection, or `isEnough` holds.
    private func answer(
        to text: String, _ client: TestClient, isEnough: (String) -> Bool = { _ in false }
    ) async throws -> String {
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: "127.0.0.1", port: client.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await channel.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(string: text))
            var answer = ""
            for try await bytes in inbound {
                answer += String(buffer: bytes)
                if isEnough(answer) { break }
            }
            return answer
        }
    }

    @Test(arguments: [
        "", "POST /clearkey HTTP/1.1\r\nHost: a", "POST /clearkey HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{",
    ])
    func halfARequestIsClosed(text: String) async throws {
        let server = try TestServer(idleTimeout: .milliseconds(50))
        try await server.test { client in
            // Comes to an end at all.
            do {
                let answer = try await answer(to: text, client)
                #expect(!answer.contains("200 OK"))
            } catch is ChannelError {
                // Closed before it was written, or before the client closed it.
            } catch let error as IOError where [ECONNRESET, EPIPE].contains(error.errnoCode) {
                // Closed while some of the half was not read yet.
            }
        }
    }

    /// A byte at a time, each in time, of what never ends: a head, a body with a length, and one in chunks; and a head behind
    /// a request that is answered.
    @Test(arguments: [
        ("POST /clearkey HTTP/1.1\r\nX: ", "a"), ("POST /clearkey HTTP/1.1\r\nContent-Length: 9999\r\n\r\n", "a"),
        (
            "POST /clearkey HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1\r\na\r\n"
        ),
        ("GET /health HTTP/1.1\r\nHost: a\r\n\r\nPOST /clearkey HTTP/1.1\r\nX: ", "a"),
    ])
    func slowBytesDoNotKeepAConnection(beginning: String, piece: String) async throws {
        let server = try TestServer(requestTimeout: .milliseconds(300))
        try await server.test { client in
            // Before the server's time begins.
            let start = ContinuousClock.now
            let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
                .connect(host: "127.0.0.1", port: client.port) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                    }
                }
            try? await channel.executeThenClose { inbound, outbound in
                try await outbound.write(ByteBuffer(string: beginning))
                // Without the deadline, the test's time limit ends this.
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        while !Task.isCancelled {
                            try await outbound.write(ByteBuffer(string: piece))
                            try await Task.sleep(for: .milliseconds(20))
                        }
                    }
                    group.addTask { for try await _ in inbound {} }
                    defer { group.cancelAll() }
                    try await group.next()
                }
            }
            #expect(ContinuousClock.now - start >= .milliseconds(300))
        }
    }

    /// What is slow, and is still whole in time, is answered, as are later requests of the same connection.
    @Test func theTimeCountsForEachRequest() async throws {
        let server = try TestServer(requestTimeout: .seconds(60))
        try await server.test { client in
            let request = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
            let answer = try await answer(to: request + request, client) { $0.split(separator: "200 OK").count == 3 }
            #expect(answer.split(separator: "200 OK").count == 3)
        }
    }

    /// The time runs from the last answer on, not from the start of the connection.
    @Test func aConnectionThatIsInUseStaysOpen() async throws {
        let limit = Duration.seconds(1)
        let server = try TestServer(requestTimeout: limit)
        try await server.test { client in
            // A client that was late itself, as on a busy machine, says nothing of the server.
            while try await !isKeptInUse(client, for: limit * 1.5, limit) {}
        }
    }

    /// Sends requests one after the other. False if the connection is closed and one of them was sent after the limit.
    private func isKeptInUse(_ client: TestClient, for duration: Duration, _ limit: Duration) async throws -> Bool {
        // Before the server's time begins.
        let start = ContinuousClock.now
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: "127.0.0.1", port: client.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await channel.executeThenClose { inbound, outbound in
            var answers = inbound.makeAsyncIterator()
            var answered = start
            while ContinuousClock.now - start < duration {
                let sent = ContinuousClock.now
                do {
                    try await outbound.write(ByteBuffer(string: "HEAD /health HTTP/1.1\r\nHost: a\r\n\r\n"))
                    var answer = ""
                    while !answer.hasSuffix("\r\n\r\n"), let bytes = try await answers.next() {
                        answer += String(buffer: bytes)
                    }
                    guard answer.hasSuffix("\r\n\r\n") else { throw ChannelError.eof }
                    #expect(answer.hasPrefix("HTTP/1.1 200 "))
                } catch {
                    guard ContinuousClock.now - answered >= limit else { throw error }
                    return false
                }
                answered = sent
            }
            return true
        }
    }

    /// With the type that the search for session tokens reads, and without it, at each address that takes a long body.
    @Test(
        arguments: ["application/json", "text/plain"],
        [
            "POST /clearkey", "POST /fairplay/license", "POST /token/rights", "POST /playready/rightsmanager.asmx",
            "PUT /faults",
        ])
    func aBodyThatIsTooLargeIsRefusedBeforeItComes(type: String, place: String) async throws {
        let server = try TestServer(
            playReadyAuthority: Self.playReady.get(), fairPlayAuthorities: [Self.fairPlay.get()])
        try await server.test { client in
            let head = "\(place) HTTP/1.1\r\nContent-Type: \(type)\r\nContent-Length: 99999999\r\n\r\n"
            let answer = try await answer(to: head, client) { $0.contains("}") }
            #expect(answer.hasPrefix("HTTP/1.1 413 "))
        }
    }

    /// A body in chunks says no length: it is refused when it is over the limit, and not collected to its end.
    @Test(arguments: ["application/json", "text/plain"])
    func chunksAreRefusedAtTheLimit(type: String) async throws {
        let server = try TestServer()
        try await server.test { client in
            let chunk = String(repeating: "a", count: ClearKey.maximumSize + 1)
            let text =
                "POST /clearkey HTTP/1.1\r\nContent-Type: \(type)\r\nTransfer-Encoding: chunked\r\n\r\n"
                + String(chunk.utf8.count, radix: 16) + "\r\n" + chunk + "\r\n"
            let answer = try await answer(to: text, client) { $0.contains("}") }
            #expect(answer.hasPrefix("HTTP/1.1 413 "))
        }
    }

    private static let playReady = Result { try PlayReadyTestAuthority.generate() }
    private static let fairPlay = Result { try FairPlayTestAuthority.generate(.v1) }

    @Test func theDefaultTimesAreTenSeconds() {
        #expect(ServerSettings().requestTimeout == .seconds(10) && ServerSettings().idleTimeout == .seconds(10))
    }

    @Test func theDefaultHostIsTheLoopback() {
        #expect(ServerSettings().host == "127.0.0.1")
        #expect(ServerSettings.isLoopback("127.0.0.1"))
        #expect(ServerSettings.isLoopback("127.1.2.3"))
        #expect(ServerSettings.isLoopback("::1"))
        #expect(ServerSettings.isLoopback("localhost"))
        for host in ["0.0.0.0", "::", "192.168.0.1", "127.0.0.1.example", "example", ""] {
            #expect(!ServerSettings.isLoopback(host), "\(host)")
        }
    }
}
