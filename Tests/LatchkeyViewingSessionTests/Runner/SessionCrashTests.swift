// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import Synchronization
import Testing

@testable import LatchkeyLoopbackSupport
@testable import LatchkeyViewingSession

/// Clients that end with SIGKILL wherever they are: the next start ends what they left at the server.
@Suite("Sessions, killed", .timeLimit(.minutes(5)))
struct SessionCrashTests {
    enum Moment: String, CaseIterable, Sendable {
        /// The server has granted the session; the client does not know.
        case settingUp
        case active
        /// The server has taken the heartbeat; the client does not know.
        case beating
        /// The server has the teardown and has not done it.
        case tearingDown
        /// The server has ended the session; the client does not know.
        case tornDown
    }

    /// Counts sessions as a server does, and keeps an answer to itself at the moment that the test is about.
    private final class Server: Sendable {
        private struct Setup: Decodable { var sessionId: String }

        private let moment: Moment
        let held = Mutex<Set<String>>([])
        let isHolding = Mutex(true)
        /// Something worth killing the client for has happened.
        let reached: AsyncStream<Void>
        private let reach: AsyncStream<Void>.Continuation

        init(_ moment: Moment) {
            self.moment = moment
            (reached, reach) = AsyncStream.makeStream()
        }

        func answer(_ request: ScriptedServer.Request) -> ScriptedServer.Reply {
            let name = String(request.target.split(separator: "/").dropFirst().first ?? "")
            let grant = ScriptedServer.Reply.response(
                201, body: #"{"token":"t","heartbeatInterval":5,"missedHeartbeats":1000}"#)
            switch (request.method, request.target) {
            case ("POST", "/sessions"):
                let setup = try? JSONDecoder().decode(Setup.self, from: Data(request.body))
                held.withLock { _ = $0.insert(setup?.sessionId ?? "") }
                return keeps(.settingUp) ? .sendAndHold("") : grant
            case ("POST", _): return keeps(.beating) ? .sendAndHold("") : grant
            default:
                if keeps(.tearingDown) { return .sendAndHold("") }
                let isKept = keeps(.tornDown)
                let isKnown = held.withLock { $0.remove(name) != nil }
                return isKept ? .sendAndHold("") : .response(isKnown ? 204 : 404, body: "{}")
            }
        }

        private func keeps(_ moment: Moment) -> Bool {
            guard moment == self.moment, isHolding.withLock({ $0 }) else { return false }
            reach.yield()
            return true
        }
    }

    @Test(arguments: Moment.allCases) func nothingIsLeaked(moment: Moment) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "latchkey-crash-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let state = Server(moment)
        let server = try ScriptedServer { state.answer($0) }

        let holder = Process()
        let (input, output) = (Pipe(), Pipe())
        holder.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
            .appending(path: "latchkey-session-holder")
        holder.arguments = [server.url, folder]
        (holder.standardInput, holder.standardOutput) = (input, output)
        let (exits, exit) = AsyncStream<Void>.makeStream()
        holder.terminationHandler = { _ in exit.finish() }
        try holder.run()
        defer { if holder.isRunning { kill(holder.processIdentifier, SIGKILL) } }
        if moment != .settingUp {
            let (texts, text) = AsyncStream<Data>.makeStream()
            let handle = output.fileHandleForReading
            Thread.detachNewThread { text.yield(handle.availableData) }
            for await text in texts {
                #expect(text == Data("established\n".utf8))
                break
            }
        }
        if moment == .tearingDown || moment == .tornDown { try input.fileHandleForWriting.close() }
        if moment != .active { for await _ in state.reached { break } }
        kill(holder.processIdentifier, SIGKILL)
        for await _ in exits {}
        state.isHolding.withLock { $0 = false }
        #expect(state.held.withLock { $0.count } == (moment == .tornDown ? 0 : 1))

        let records = try SessionRecords(folder: folder)
        #expect(records.orphans(of: server.url).count == 1)
        var configuration = ViewingSession.Configuration(SessionService(url: server.url, credential: "c"))
        configuration.service.parameters = ["account": "anna"]
        configuration.records = records
        // A busy machine takes longer over a request than a service does.
        configuration.policy.requestTimeout = 60_000
        configuration.policy.setupWindow = 60_000
        configuration.policy.teardownWindow = 60_000
        let next = ViewingSession(configuration)
        await next.endOrphans()
        #expect(state.held.withLock { $0.isEmpty } && records.all().isEmpty)
        next.start()
        try await next.established()
        #expect(state.held.withLock { $0.count } == 1 && records.all().map(\.owner) == [.current])
        next.stop()
        await next.closed()
        #expect(state.held.withLock { $0.isEmpty } && records.all().isEmpty)
    }
}
