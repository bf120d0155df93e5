// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyHTTP

/// The product's loopback server; `LoopbackServer` alone is the test's own.
private typealias Loopback = LatchkeyHTTP.LoopbackServer

private func echo(_ request: LoopbackRequest) -> LoopbackResponse {
    let text = "\(request.method) \(request.path) \(request.query ?? "-") \(request.header("X-Test") ?? "-")"
    return LoopbackResponse(headers: [HTTPHeader(name: "X-Answer", value: "yes")], body: Array(text.utf8))
}

extension LatchkeyHTTP.LoopbackServer {
    fileprivate var host: String { "127.0.0.1:\(port)" }
    /// The target of a path under the token, as the request line has it.
    fileprivate func target(_ path: String) -> String { String(url(path).dropFirst("http://\(host)".count)) }
    fileprivate func client() throws -> RawClient { try RawClient(port: port) }
}

@Suite(.timeLimit(.minutes(8)))
struct LoopbackServerTests {
    @Test func answersWhoKnowsThePath() async throws {
        try await onOwnThread {
            let server = try Loopback { echo($0) }
            let client = try server.client()
            let first = try client.get(server.target("a/b.m3u8?_HLS_msn=3"), host: server.host, ["X-Test: one"])
            #expect(first.status == 200)
            #expect(first.body == "GET a/b.m3u8 _HLS_msn=3 one")
            #expect(first.value("x-answer") == "yes")
            // The connection stays open.
            let second = try client.get(server.target("c"), method: "HEAD", host: server.host)
            #expect(second.status == 200)
            #expect(second.value("content-length") == "10")
            #expect(try client.get(server.target(""), host: server.host).body == "GET  - -")
        }
    }

    @Test func aKeyIsSentWhole() async throws {
        try await onOwnThread {
            let key = try #require(ContentKey(Array("0123456789abcdef".utf8)))
            let server = try Loopback { _ in LoopbackResponse(key: key, contentType: "application/octet-stream") }
            let client = try server.client()
            // The second answer is as the first: what is wiped is a copy.
            for _ in 0..<2 {
                let answer = try client.get(server.target("k"), host: server.host, ["Range: bytes=0-3"])
                #expect(answer.status == 200)
                #expect(answer.body == "0123456789abcdef")
                #expect(answer.value("content-type") == "application/octet-stream")
            }
            let head = try client.get(server.target("k"), method: "HEAD", host: server.host)
            #expect(head.value("content-length") == "16")
            #expect("\(LoopbackResponse(key: key, contentType: "a/b"))" == "200, 16 bytes")
        }
    }

    @Test func aServerMayWaitForTheNetworkItself() async throws {
        try await onOwnThread {
            let server = try Loopback { echo($0) }
            #expect(!Loopback.waitsForNetwork(at: server.url("a")))
            server.setWaitsForNetwork()
            #expect(Loopback.waitsForNetwork(at: server.url("a")))
            #expect(!Loopback.waitsForNetwork(at: "http://127.0.0.1/a"))
            server.close()
            #expect(!Loopback.waitsForNetwork(at: server.url("a")))
        }
    }

    @Test func whatIsAtHandNeedsNoHandler() async throws {
        try await onOwnThread {
            let handled = Mutex(0)
            let asked = Mutex(0)
            let server = try Loopback(quick: { request in
                asked.withLock { $0 += 1 }
                return request.path == "quick" ? LoopbackResponse(body: Array("0123456789".utf8)) : nil
            }) { request in
                handled.withLock { $0 += 1 }
                return echo(request)
            }
            let client = try server.client()
            #expect(try client.get(server.target("quick"), host: server.host).body == "0123456789")
            let head = try client.get(server.target("quick"), method: "HEAD", host: server.host)
            #expect(head.value("content-length") == "10")
            let part = try client.get(server.target("quick"), host: server.host, ["Range: bytes=2-4"])
            #expect(part.status == 206)
            #expect(part.body == "234")
            #expect(handled.withLock { $0 } == 0)
            #expect(try client.get(server.target("slow"), host: server.host).body == "GET slow - -")
            #expect(handled.withLock { $0 } == 1)
            // Strangers and other methods are turned away before anybody is asked.
            let count = asked.withLock { $0 }
            #expect(try server.client().get("/x/quick", host: server.host).status == 404)
            #expect(try server.client().get(server.target("quick"), method: "PUT", host: server.host).status == 405)
            #expect(asked.withLock { $0 } == count)
        }
    }

    @Test func tellsNothingToOthers() async throws {
        try await onOwnThread {
            let calls = Mutex(0)
            let server = try Loopback { request in
                calls.withLock { $0 += 1 }
                return echo(request)
            }
            let other = try Loopback { echo($0) }
            let target = server.target("a")
            let token = String(target.split(separator: "/")[0])
            var changed = Array(token)
            changed[31] = changed[31] == "0" ? "1" : "0"
            let targets = [
                "/", "/a", "//a", "/\(token)", "/\(token)a/a", "/\(token.dropLast())/a", "/\(String(changed))/a",
                "/\(token.uppercased())x/a", "//\(token)/a", "/x/../\(token)/a", "*", server.url("a"),
                other.target("a"), "/%\(token)/a",
            ]
            var answers: [RawClient.Response] = []
            for target in targets { answers.append(try server.client().get(target, host: server.host)) }
            answers.append(try server.client().get(target, host: "localhost:\(server.port)"))
            answers.append(try server.client().get(target, host: "example.com"))
            answers.append(try server.client().get("/a", method: "POST", host: server.host))
            answers.append(try server.client().get("/a", method: "OPTIONS", host: server.host))
            for answer in answers {
                #expect(
                    answer
                        == RawClient.Response(
                            status: 404, fields: ["connection: close", "content-length: 0"], body: ""))
            }
            #expect(calls.withLock { $0 } == 0)
            #expect(try server.client().get(target, host: server.host).status == 200)
        }
    }

    @Test func answersGetAndHeadOnly() async throws {
        try await onOwnThread {
            let server = try Loopback { echo($0) }
            for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
                let answer = try server.client().get(server.target("a"), method: method, host: server.host)
                #expect(answer.status == 405)
                #expect(answer.body == "")
            }
            let withBody = try server.client().get(
                server.target("a"), host: server.host, ["Content-Length: 2", "", "xx"])
            #expect(withBody.status == 404)
        }
    }

    @Test func listensOnOneAddressOnly() async throws {
        try await onOwnThread {
            let server = try Loopback { echo($0) }
            #expect(throws: RawClient.Failure.refused) { try RawClient(port: server.port, address: "127.0.0.2") }
            for address in Host.current().addresses where address.contains(".") && !address.hasPrefix("127.") {
                #expect(throws: RawClient.Failure.refused) { try RawClient(port: server.port, address: address) }
            }
            let listening = try String(contentsOfFile: "/proc/net/tcp6", encoding: .ascii)
            #expect(!listening.contains(String(format: ":%04X 0000", server.port)))
        }
    }

    @Test func closesThePortAndEveryConnection() async throws {
        let (started, begun) = AsyncStream.makeStream(of: Void.self)
        let (cancelled, ended) = AsyncStream.makeStream(of: Void.self)
        let server = try Loopback { request in
            guard request.path == "slow" else { return echo(request) }
            begun.yield()
            let (never, _) = AsyncStream.makeStream(of: Void.self)
            for await _ in never {}
            ended.yield()
            return .notFound
        }
        let clients = try await onOwnThread {
            let clients = try (0..<3).map { _ in try server.client() }
            _ = try clients[0].get(server.target("a"), host: server.host)
            clients[1].send("GET \(server.target("slow")) HTTP/1.1\r\nHost: \(server.host)\r\n\r\n")
            return clients
        }
        for await _ in started { break }
        server.close()
        try await onOwnThread {
            #expect(throws: RawClient.Failure.refused) { try server.client() }
            for client in clients { #expect(client.isEnded()) }
        }
        for await _ in cancelled { break }
        server.close()
    }

    @Test func noChildProcessKeepsThePortOpen() async throws {
        try await onOwnThread {
            let server = try Loopback { echo($0) }
            let client = try server.client()
            #expect(try client.get(server.target("a"), host: server.host).status == 200)
            // Not Foundation's Process, which closes what a child should not have.
            var child = pid_t()
            let arguments = [strdup("sleep"), strdup("60"), nil]
            defer { for argument in arguments { free(argument) } }
            try #require(posix_spawn(&child, "/bin/sleep", nil, nil, arguments, environ) == 0)
            defer {
                kill(child, SIGKILL)
                waitpid(child, nil, 0)
            }
            server.close()
            #expect(throws: RawClient.Failure.refused) { try server.client() }
            #expect(client.isEnded())
        }
    }

    /// As a child process has them that is being started.
    @Test func copiesOfTheSocketsKeepNothingOpen() async throws {
        try await onOwnThread {
            let server = try Loopback { echo($0) }
            let client = try server.client()
            #expect(try client.get(server.target("a"), host: server.host).status == 200)
            let copies = (Int32(3)..<4096).filter { Self.localPort(of: $0) == server.port }.map { dup($0) }
            defer { for copy in copies { Glibc.close(copy) } }
            #expect(copies.count >= 2)
            server.close()
            #expect(throws: RawClient.Failure.refused) { try server.client() }
            #expect(client.isEnded())
        }
    }

    private static func localPort(of descriptor: Int32) -> UInt16? {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
        }
        return result == 0 && address.sin_family == sa_family_t(AF_INET) ? UInt16(bigEndian: address.sin_port) : nil
    }

    @Test func theEndOfTheServerClosesThePort() async throws {
        try await onOwnThread {
            var server: Loopback? = try Loopback { echo($0) }
            let port = try #require(server).port
            server = nil
            #expect(throws: RawClient.Failure.refused) { try RawClient(port: port) }
        }
    }

    @Test func cutsRangesOut() async throws {
        try await onOwnThread {
            let server = try Loopback { _ in LoopbackResponse(body: Array("0123456789".utf8)) }
            let client = try server.client()
            func get(_ range: String) throws -> RawClient.Response {
                try client.get(server.target("a"), host: server.host, ["Range: \(range)"])
            }
            let part = try get("bytes=2-4")
            #expect(part.status == 206)
            #expect(part.body == "234")
            #expect(part.value("content-range") == "bytes 2-4/10")
            #expect(try get("bytes=7-").body == "789")
            #expect(try get("bytes=-2").body == "89")
            #expect(try get("bytes=8-99").value("content-range") == "bytes 8-9/10")
            #expect(try get("bytes=10-").status == 416)
            #expect(try get("bytes=10-").value("content-range") == "bytes */10")
            for malformed in ["bytes=4-2", "bytes=1-2,4-5", "bytes=-", "bytes=+1-2", "lines=1-2", "bytes=1"] {
                #expect(try get(malformed).status == 200)
            }
        }
    }

    @Test func sendsNoFieldThatIsMalformedOrItsOwn() async throws {
        try await onOwnThread {
            let server = try Loopback { _ in
                LoopbackResponse(
                    status: 1000,
                    headers: [
                        HTTPHeader(name: "X-A", value: "1\r\nX-B: 2"), HTTPHeader(name: "content-length", value: "99"),
                        HTTPHeader(name: "Set-Cookie", value: "a=b"), HTTPHeader(name: "Set-Cookie", value: "c=d"),
                    ])
            }
            let answer = try server.client().get(server.target("a"), host: server.host)
            #expect(answer.status == 500)
            #expect(answer.fields == ["content-length: 0", "set-cookie: a=b", "set-cookie: c=d"])
        }
    }

    @Test func printsNoToken() async throws {
        try await onOwnThread {
            let server = try Loopback { echo($0) }
            let token = String(server.target("").split(separator: "/")[0])
            #expect(token.count == 32)
            for text in [
                "\(server)", String(reflecting: server), "\(LoopbackToken())", "\(LoopbackRequest(path: token))",
            ] {
                #expect(!text.contains(token))
            }
            var dumped = ""
            dump(server, to: &dumped)
            #expect(!dumped.contains(token))
            #expect(server.isOwn(server.url("x")))
            #expect(!server.isOwn("http://127.0.0.1:\(server.port)/"))
        }
    }

    @Test func tokensAreRandom() {
        let tokens = (0..<200).map { _ in LoopbackToken().text }
        #expect(Set(tokens).count == 200)
        // Each of the 128 bits is a coin: none is the same in 200 throws.
        let values = tokens.compactMap { UInt64($0.prefix(16), radix: 16) } + []
        let rest = tokens.compactMap { UInt64($0.suffix(16), radix: 16) }
        #expect(values.count == 200 && rest.count == 200)
        for half in [values, rest] {
            #expect(half.reduce(0, |) == .max)
            #expect(half.reduce(.max, &) == 0)
        }
    }
}
