// SPDX-License-Identifier: MPL-2.0

import Foundation
import Testing

@testable import LatchkeyHTTP

private typealias Loopback = LatchkeyHTTP.LoopbackServer

/// What a client can use up, and what the process notices of the server.
@Suite(.timeLimit(.minutes(8)))
struct LoopbackLimitTests {
    private func server(_ change: (inout LoopbackLimits) -> Void) throws -> LatchkeyHTTP.LoopbackServer {
        var limits = LoopbackLimits()
        change(&limits)
        return try Loopback(limits: limits) { _ in LoopbackResponse(body: Array("answer".utf8)) }
    }

    private func get(_ server: LatchkeyHTTP.LoopbackServer, _ client: RawClient) throws -> RawClient.Response {
        ask(server, client)
        return try client.response()
    }

    private func ask(_ server: LatchkeyHTTP.LoopbackServer, _ client: RawClient) {
        let host = "127.0.0.1:\(server.port)"
        client.ask(String(server.url("a").dropFirst("http://\(host)".count)), host: host)
    }

    @Test func aSlowRequestIsEnded() async throws {
        try await onOwnThread {
            let server = try server { $0.requestTime = .milliseconds(50) }
            let client = try RawClient(port: server.port)
            client.send("GET / HT")
            #expect(client.isEnded())
            #expect(try get(server, RawClient(port: server.port)).body == "answer")
        }
    }

    @Test func aSilentConnectionIsEnded() async throws {
        try await onOwnThread {
            let strict = try server { $0.idleTime = .milliseconds(50) }
            #expect(try RawClient(port: strict.port).isEnded())
            let server = try server { $0.idleTime = .seconds(2) }
            var client = try RawClient(port: server.port)
            var answer = try? get(server, client)
            // On a busy machine, a client may count as silent before it has sent its request: such a try does not count.
            for _ in 0..<10 where answer == nil {
                client = try RawClient(port: server.port)
                answer = try? get(server, client)
            }
            #expect(answer?.body == "answer")
            #expect(client.isEnded())
        }
    }

    /// Who waits for an answer hears from time to time that it will come.
    @Test func aSlowAnswerIsAnnounced() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        var limits = LoopbackLimits()
        limits.interimTime = .milliseconds(20)
        let server = try Loopback(limits: limits) { request in
            if request.path == "a" { for await _ in gate { break } }
            return LoopbackResponse(body: Array("answer".utf8))
        }
        try await onOwnThread {
            let client = try RawClient(port: server.port)
            ask(server, client)
            for _ in 0..<2 {
                #expect(try client.nextResponse() == RawClient.Response(status: 102, fields: [], body: ""))
            }
            open.yield()
            let last = try client.response()
            #expect(last.status == 200)
            #expect(last.body == "answer")
            // The connection goes on.
            let host = "127.0.0.1:\(server.port)"
            let other = String(server.url("b").dropFirst("http://\(host)".count))
            for _ in 0..<20 {
                let next = try client.get(other, host: host)
                #expect(next.status == 200)
                #expect(next.body == "answer")
            }
        }
    }

    @Test func onlyHTTP11KnowsInterimResponses() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        var limits = LoopbackLimits()
        limits.interimTime = .milliseconds(5)
        let server = try Loopback(limits: limits) { request in
            if request.path == "a" {
                for await _ in gate { break }
            } else {
                open.yield()
            }
            return LoopbackResponse(body: Array("answer".utf8))
        }
        try await onOwnThread {
            let host = "127.0.0.1:\(server.port)"
            let old = try RawClient(port: server.port)
            let target = server.url("a").dropFirst("http://\(host)".count)
            old.send("GET \(target) HTTP/1.0\r\nHost: \(host)\r\n\r\n")
            // Another client sees a few of them meanwhile, from the same thread of the server.
            let other = try RawClient(port: server.port)
            ask(server, other)
            #expect(try other.nextResponse().status == 102)
            #expect(try other.nextResponse().status == 102)
            // And lets both have their answers.
            let last = String(server.url("b").dropFirst("http://\(host)".count))
            _ = try RawClient(port: server.port).get(last, host: host)
            _ = try RawClient(port: server.port).get(last, host: host)
            #expect(try old.response().status == 200)
        }
    }

    @Test func anAnswerThatNobodyTakesIsEnded() async throws {
        try await onOwnThread {
            var limits = LoopbackLimits()
            limits.answerTime = .milliseconds(50)
            let server = try Loopback(limits: limits) { _ in
                LoopbackResponse(body: [UInt8](repeating: 0, count: 64 << 20))
            }
            let client = try RawClient(port: server.port)
            let host = "127.0.0.1:\(server.port)"
            let target = server.url("a").dropFirst("http://\(host)".count)
            client.send("GET \(target) HTTP/1.1\r\nHost: \(host)\r\n\r\n")
            for _ in 0..<1000 where server.connectionCount == 0 { usleep(10_000) }
            // More than the system's buffers hold is lost: the connection ends before the whole answer is there.
            for _ in 0..<6000 where server.connectionCount > 0 { usleep(10_000) }
            #expect(throws: RawClient.Failure.ended) { try client.response() }
        }
    }

    @Test func aLargeRequestIsEnded() async throws {
        try await onOwnThread {
            let server = try server { $0.requestSize = 4096 }
            for text in [
                "GET /\(String(repeating: "a", count: 8192))",
                "GET / HTTP/1.1\r\nX-A: \(String(repeating: "a", count: 8192))",
                String(repeating: "G", count: 8192),
                "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n\(String(repeating: "a", count: 0x2000))",
            ] {
                let client = try RawClient(port: server.port)
                client.send(text)
                #expect(client.isEnded())
            }
            #expect(try get(server, RawClient(port: server.port)).body == "answer")
        }
    }

    @Test func strangersCannotTakeAllConnections() async throws {
        try await onOwnThread {
            let server = try server { $0.connections = 4 }
            let known = try RawClient(port: server.port)
            #expect(try get(server, known).body == "answer")
            let strangers = try (0..<8).map { _ in try RawClient(port: server.port) }
            let late = try RawClient(port: server.port)
            #expect(try get(server, late).body == "answer")
            #expect(try get(server, known).body == "answer")
            #expect(strangers[0].isEnded())
        }
    }

    @Test func connectionsAreBounded() async throws {
        try await onOwnThread {
            let server = try server { $0.connections = 2 }
            let known = try (0..<2).map { _ in try RawClient(port: server.port) }
            for client in known { #expect(try get(server, client).body == "answer") }
            #expect(try RawClient(port: server.port).isEnded())
            for client in known { #expect(try get(server, client).body == "answer") }
        }
    }

    @Test func noSignalChangesAndTheThreadEnds() async {
        await #expect(processExitsWith: .success) {
            func disposition(_ signal: Int32) -> UInt {
                var action = sigaction()
                sigaction(signal, nil, &action)
                return unsafeBitCast(action.__sigaction_handler.sa_handler, to: UInt.self)
            }
            func threads() -> [String] {
                let folder = "/proc/self/task"
                let tasks = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
                return tasks.compactMap { try? String(contentsOfFile: "\(folder)/\($0)/comm", encoding: .utf8) }
                    .filter { $0.hasPrefix("NIO") }
            }
            let signals = (1..<32).filter { $0 != SIGKILL && $0 != SIGSTOP }
            let before = signals.map { disposition(Int32($0)) }
            try #require(threads().isEmpty)
            let first = try Loopback { _ in .notFound }
            let second = try Loopback { _ in LoopbackResponse(body: [UInt8](repeating: 0, count: 8 << 20)) }
            #expect(threads().count == 1)
            // A client that goes while it is written to raises no signal, which would end this process.
            let host = "127.0.0.1:\(second.port)"
            let target = second.url("a").dropFirst("http://\(host)".count)
            for _ in 0..<20 {
                let client = try RawClient(port: second.port)
                client.send("GET \(target) HTTP/1.1\r\nHost: \(host)\r\n\r\n")
            }
            #expect(try RawClient(port: second.port).get(String(target), host: host).status == 200)
            #expect(signals.map { disposition(Int32($0)) } == before)
            first.close()
            #expect(threads().count == 1)
            second.close()
            for _ in 0..<6000 where !threads().isEmpty { usleep(10_000) }
            #expect(threads().isEmpty)
            let third = try Loopback { _ in .notFound }
            #expect(try RawClient(port: third.port).get("/", host: "127.0.0.1:\(third.port)").status == 404)
        }
    }
}
