// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization
import LatchkeyTestSupport
import Testing

@testable import LatchkeyLoopbackSupport
@testable import LatchkeyViewingSession

/// A session over real connections to a server that does what servers and networks do at their worst.
@Suite("Sessions, faults of the network", .timeLimit(.minutes(8)))
struct SessionFaultTests {
    private static let granted = ScriptedServer.Reply.response(201, body: #"{"token":"t"}"#)

    /// What the server does with heartbeats, by name.
    private static let faults: [String: ScriptedServer.Reply] = [
        "no answer": .sendAndHold(""), "end": .sendAndClose(""), "reset": .reset,
        "half-close": .sendAndHalfClose("HTTP/1.1 200 OK\r\nContent-Le"),
        "half a head": .sendAndHold("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n"),
        "half a body": .sendAndClose("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"tok"),
        "JSON cut off": .response(body: #"{"token":"#), "no JSON": .response(body: "<html>"),
        "empty": .response(body: ""), "bad gateway": .response(502, body: "<html>Bad gateway</html>"),
        "HTML of a proxy": .response(403, body: "<html>Log in</html>"),
        "busy": .response(429, ["Retry-After: 3"], body: "{}"), "no HTTP": .sendAndClose("\u{0}\u{1}\u{2}\n\n"),
        "endless": .response(body: String(repeating: "x", count: 200_000)),
        "redirect away": .redirect(307, to: "http://127.0.0.1:1/"),
    ]

    private final class Server: Sendable {
        let fault = Mutex<ScriptedServer.Reply?>(nil)
    }

    private static func tick(_ session: ViewingSession, _ time: borrowing Mutex<Int64>) async throws {
        let before = session.state
        let due = try #require(before.nextAttempt)
        time.withLock { $0 = max($0, due) }
        session.handle(.tick)
        await session.wait { $0.lastNumber > before.lastNumber && $0.pending == nil }
    }

    /// Each request has as much time as `limit` says, and no less on a busy machine.
    private struct Network: HTTPTransport {
        let transport = CurlTransport()
        let limit: @Sendable () -> Duration

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            var request = request
            (request.timeout, request.connectTimeout) = (limit(), .seconds(60))
            return try await transport.send(request)
        }
    }

    private final class Time: Sendable {
        let time = Mutex<Int64>(1_000_000)
        var clock: SessionClock {
            SessionClock(
                now: { self.time.withLock { $0 } }, sleep: { _ in try await Task.sleep(for: .seconds(86_400)) })
        }
    }

    @Test(arguments: faults.keys.sorted()) func aBeatThatFailsLeavesThePicture(name: String) async throws {
        let state = Server()
        let server = try ScriptedServer { request in
            if request.target.hasSuffix("/heartbeat"), let fault = state.fault.withLock({ $0 }) { return fault }
            return request.method == "DELETE" ? .response(204) : Self.granted
        }
        var configuration = ViewingSession.Configuration(SessionService(url: server.url, credential: "c"))
        configuration.service.parameters = ["account": "anna"]
        // What hangs is given up soon: nothing else waits here.
        let hangs = name.hasPrefix("no answer") || name.hasPrefix("half a head")
        let network = Network { hangs && state.fault.withLock { $0 != nil } ? .seconds(2) : .seconds(60) }
        let time = Time()
        let session = ViewingSession(
            configuration, transport: network, clock: time.clock, random: SystemRandomNumberGenerator())
        session.handle(.start)
        try await session.established()
        state.fault.withLock { $0 = Self.faults[name] }
        for _ in 0..<2 {
            try await Self.tick(session, time.time)
            #expect(session.state.phase == .grace && session.isOpen)
            #expect(session.state.failure?.kind == .unknown)
        }
        state.fault.withLock { $0 = nil }
        try await Self.tick(session, time.time)
        #expect(session.state.phase == .active && session.isOpen)
        session.stop()
        await session.closed()
        // A beat each. Where a kept connection ends without a word, libcurl itself sends the request over a new one.
        let beats = server.requests.count { $0.target.hasSuffix("/heartbeat") }
        #expect((["end", "reset"].contains(name) ? 3...4 : 3...3).contains(beats))
    }

    @Test func anAnswerThatComesTwiceCountsOnce() async throws {
        let server = try ScriptedServer { request in
            if request.method == "DELETE" { return .response(204) }
            guard case .send(let text) = Self.granted, request.target.hasSuffix("/heartbeat") else {
                return Self.granted
            }
            return .send(text + text)
        }
        var configuration = ViewingSession.Configuration(SessionService(url: server.url, credential: "c"))
        configuration.service.parameters = ["account": "anna"]
        let time = Time()
        let session = ViewingSession(
            configuration, transport: Network { .seconds(60) }, clock: time.clock,
            random: SystemRandomNumberGenerator())
        session.handle(.start)
        try await session.established()
        for _ in 0..<4 {
            try await Self.tick(session, time.time)
            #expect(session.state.phase == .active && session.isOpen)
        }
        session.stop()
        await session.closed()
    }

    @Test func theWallClockIsNotAsked() {
        // Milliseconds since the machine started, not since 1970.
        #expect(SessionClock.system.now() < 1_000_000_000_000)
    }
}
