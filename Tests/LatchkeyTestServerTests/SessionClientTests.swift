// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import HTTPTypes
import NIOCore
import LatchkeyProtection
import Synchronization
import LatchkeyTestSupport
import Testing

@testable import LatchkeyTestServer
@testable import LatchkeyViewingSession

/// The client and the reference server, whole, in both shapes. One clock for both, which goes on when a test says so, and
/// nobody who waits for an answer has another: nothing here depends on how busy the machine is.
@Suite("Session client and server", .timeLimit(.minutes(8)))
struct SessionClientTests {
    enum Shape: String, CaseIterable, Sendable {
        case latchkey, terminate

        var adapter: SessionAdapter { self == .latchkey ? .latchkey : .terminate }
        var path: String { self == .latchkey ? "" : "/terminate" }
    }

    /// Every answer comes, however late.
    private struct ServerTransport: HTTPTransport {
        let client: TestClient
        let origin: String

        func send(_ request: LatchkeyHTTP.HTTPRequest) async throws(HTTPError) -> LatchkeyHTTP.HTTPResponse {
            do {
                var fields = HTTPFields()
                for header in request.headers {
                    if let name = HTTPField.Name(header.name) { fields[name] = header.value }
                }
                let method = try #require(HTTPTypes.HTTPRequest.Method(request.method))
                let answer = try await client.execute(
                    uri: String(request.url.dropFirst(origin.count)), method: method, headers: fields,
                    body: ByteBuffer(bytes: request.body))
                return LatchkeyHTTP.HTTPResponse(
                    status: Int(answer.status.code),
                    headers: answer.headers.map { HTTPHeader(name: $0.name.rawName, value: $0.value) },
                    body: answer.bytes, url: request.url)
            } catch {
                throw .cancelled(request.url)
            }
        }
    }

    private final class World: Sendable {
        let clock: TestClock
        let shape: Shape
        let transport: ServerTransport
        let folder = FileManager.default.temporaryDirectory.appending(path: "latchkey-sessions-\(UUID())").path
        private let seed = Mutex<UInt64>(0)

        init(_ shape: Shape, _ clock: TestClock, _ client: TestClient) {
            (self.shape, self.clock) = (shape, clock)
            transport = ServerTransport(client: client, origin: "http://server-\(UInt64.random(in: 0 ... .max))")
        }

        deinit { try? FileManager.default.removeItem(atPath: folder) }

        /// Those of one account; `device` is what other sessions hear of it.
        func session(
            _ device: String, process: ProcessIdentity = .current,
            _ change: (inout ViewingSession.Configuration) -> Void = { _ in }
        ) throws -> ViewingSession {
            let service = SessionService(
                shape.adapter, url: transport.origin + shape.path, credential: "geheim",
                parameters: ["account": "anna", "provider": "idp", "device": device])
            var configuration = ViewingSession.Configuration(service)
            configuration.records = try SessionRecords(folder: folder, process: process)
            change(&configuration)
            let seed = seed.withLock { seed in
                seed += 1
                return seed
            }
            let clock = clock
            return ViewingSession(
                configuration, transport: transport,
                clock: SessionClock(now: { clock.now }, sleep: { time in try await clock.sleep(until: time) }),
                random: SeededGenerator(seed: seed))
        }

        /// Goes on to the next beat, and returns when its answer has come.
        func beat(of session: ViewingSession) async throws {
            // Time goes by for all sessions: a beat of this one may be under way.
            await session.wait { $0.pending == nil }
            guard let time = session.state.nextAttempt else { return #expect(!session.state.isLive) }
            clock.advance(to: time)
            await session.wait { ($0.acceptedAt >= time && $0.pending == nil) || !$0.isLive }
        }

        func end(_ session: ViewingSession) async {
            session.stop()
            await session.closed()
        }

        /// What the server counts under this name.
        func count(_ name: String) async throws -> Int {
            let answer = try await transport.client.execute(uri: "/session-metrics", method: .get)
            let line = answer.text.split(separator: "\n").first { $0.hasPrefix("\(name) ") }
            return try #require(line.flatMap { Int($0.dropFirst(name.utf8.count + 1)) })
        }
    }

    private func test(
        _ shape: Shape, _ change: (inout SessionSettings) -> Void = { _ in },
        _ body: @escaping @Sendable (World) async throws -> Void
    ) async throws {
        let clock = TestClock()
        var settings = ServerSettings()
        settings.sessions.perAccount = 1
        change(&settings.sessions)
        let made = ServerApplication(
            settings: settings.patient, pause: { _ in }, sessionTime: { .milliseconds(clock.now) })
        let server = try #require(made)
        try await withTestClient(of: server) { try await body(World(shape, clock, $0)) }
    }

    @Test(arguments: Shape.allCases) func aSessionIsSetUpKeptAndEnded(shape: Shape) async throws {
        try await test(shape) { world in
            let session = try world.session("TV")
            session.start()
            try await session.established()
            #expect(try await world.count("latchkey_sessions_active") == 1)
            var tokens: Set<String?> = [session.token?.text]
            for _ in 0..<20 {
                try await world.beat(of: session)
                #expect(session.isOpen)
                tokens.insert(session.token?.text)
            }
            #expect(tokens.count == (shape == .latchkey ? 21 : 1))
            #expect(try await world.count("latchkey_session_heartbeats_total") == 20)
            #expect(try await world.count("latchkey_session_heartbeats_late_total") == 0)
            await world.end(session)
            #expect(!session.isOpen)
            #expect(try await world.count("latchkey_sessions_active") == 0)
            #expect(try await world.count(#"latchkey_sessions_ended_total{reason="teardown"}"#) == 1)
            #expect(try SessionRecords(folder: world.folder).all().isEmpty)
        }
    }

    @Test(arguments: Shape.allCases) func atTheLimitTheSecondIsRefusedWithWhatIsInItsWay(shape: Shape) async throws {
        try await test(shape) { world in
            let first = try world.session("TV")
            first.start()
            try await first.established()
            let second = try world.session("phone")
            second.start()
            await #expect(throws: SessionFailure.self) { try await second.established() }
            let failure = try #require(second.failure)
            #expect(failure.kind == .limit && failure.status == (shape == .latchkey ? 403 : 409))
            let conflict = try #require(failure.conflicts.first)
            #expect(conflict.label == "TV" && conflict.terminationCode != nil)
            // Nothing happened to the first.
            try await world.beat(of: first)
            #expect(first.isOpen)
            await world.end(second)

            // The user decides for the second.
            let third = try world.session("phone")
            third.start(terminating: conflict)
            try await third.established()
            try await world.beat(of: first)
            #expect(first.state.phase == .lost && !first.isOpen)
            #expect(first.failure?.kind == .ended)
            #expect(try await world.count(#"latchkey_sessions_ended_total{reason="terminated"}"#) == 1)
            await world.end(first)
            await world.end(third)
            #expect(try await world.count("latchkey_sessions_active") == 0)
        }
    }

    @Test(arguments: Shape.allCases) func theOldestIsStoppedWhereThatIsWanted(shape: Shape) async throws {
        try await test(shape, { $0.perAccount = 2 }) { world in
            let first = try world.session("TV")
            first.start()
            try await first.established()
            world.clock.advance(by: 1000)
            let second = try world.session("tablet")
            second.start()
            try await second.established()
            world.clock.advance(by: 1000)
            let third = try world.session("phone") { $0.stopsOldest = true }
            third.start()
            try await third.established()
            for session in [first, second] { try await world.beat(of: session) }
            #expect(first.state.phase == .lost && second.isOpen && third.isOpen)
            for session in [first, second, third] { await world.end(session) }
            #expect(try await world.count("latchkey_sessions_active") == 0)
        }
    }

    @Test(arguments: Shape.allCases) func whatTheAdministratorEndsIsLost(shape: Shape) async throws {
        try await test(shape) { world in
            let session = try world.session("TV")
            session.start()
            try await session.established()
            _ = try await world.transport.client.execute(uri: "/session-end?account=anna", method: .post)
            try await world.beat(of: session)
            #expect(session.state.phase == .lost && !session.isOpen)
            #expect(session.failure?.message.contains("administrator") == true)
            await world.end(session)
        }
    }

    /// Both sides count the same silence: the place is free when the picture is gone.
    @Test(arguments: Shape.allCases) func whoIsSilentLosesItsPlaceAndItsPicture(shape: Shape) async throws {
        try await test(shape) { world in
            let session = try world.session("TV")
            session.start()
            try await session.established()
            world.clock.advance(by: 181_000)
            #expect(!session.isOpen)
            await session.wait { $0.phase == .lost }
            let other = try world.session("phone")
            other.start()
            try await other.established()
            #expect(try await world.count("latchkey_sessions_active") == 1)
            await world.end(session)
            await world.end(other)
        }
    }

    @Test(arguments: Shape.allCases) func whatACrashLeftIsEndedByTheNext(shape: Shape) async throws {
        try await test(shape) { world in
            let dead = ProcessIdentity(pid: .max, start: 1, bootID: ProcessIdentity.current.bootID)
            let crashed = try world.session("TV", process: dead)
            crashed.start()
            try await crashed.established()
            let session = try world.session("TV")
            session.start()
            try await session.established()
            #expect(try await world.count("latchkey_sessions_active") == 1)
            #expect(try await world.count(#"latchkey_sessions_ended_total{reason="teardown"}"#) == 1)
            await world.end(session)
            #expect(try SessionRecords(folder: world.folder).all().isEmpty)
        }
    }

    @Test(arguments: Shape.allCases) func aCredentialIsRefreshedOnce(shape: Shape) async throws {
        try await test(shape, { $0.credential = "neu" }) { world in
            let refused = try world.session("TV")
            refused.start()
            await #expect(throws: SessionFailure.self) { try await refused.established() }
            #expect(refused.failure?.status == 401)
            await world.end(refused)
            let session = try world.session("TV") { $0.newCredential = { "neu" } }
            session.start()
            try await session.established()
            try await world.beat(of: session)
            #expect(session.isOpen)
            await world.end(session)
            #expect(try await world.count("latchkey_sessions_active") == 0)
        }
    }
}
