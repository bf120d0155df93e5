// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import LatchkeyProtection
import Synchronization
import LatchkeyTestSupport
import Testing

@testable import LatchkeyViewingSession

@Suite("Viewing sessions", .timeLimit(.minutes(8)))
struct ViewingSessionTests {
    /// A session, its server and its clock, and a folder of records where one is wanted.
    final class World: Sendable {
        let clock = TestClock()
        let transport = TestTransport()
        let folder: String
        let events = Mutex<[ViewingSession.Event]>([])

        init() {
            folder = FileManager.default.temporaryDirectory.appending(path: "latchkey-sessions-\(UUID())").path
        }

        deinit { try? FileManager.default.removeItem(atPath: folder) }

        func records(_ process: ProcessIdentity = .current) throws -> SessionRecords {
            try SessionRecords(folder: folder, process: process)
        }

        func session(
            _ adapter: SessionAdapter = .latchkey, process: ProcessIdentity = .current, seed: UInt64 = 1,
            _ change: (inout ViewingSession.Configuration) -> Void = { _ in }
        ) throws -> ViewingSession {
            let service = SessionService(
                adapter, url: transport.url, credential: "own-secret",
                parameters: ["account": "anna", "provider": "p"])
            var configuration = ViewingSession.Configuration(service)
            configuration.records = try records(process)
            change(&configuration)
            let session = ViewingSession(
                configuration, transport: transport, clock: clock.clock, random: SeededGenerator(seed: seed))
            session.observe { event in self.events.withLock { $0.append(event) } }
            return session
        }

        /// A session that is there.
        func established(_ session: ViewingSession) async throws {
            session.start()
            await transport.next().respond(201, #"{"token":"t1"}"#)
            try await session.established()
        }

        /// The next heartbeat.
        func beat(of session: ViewingSession) async throws -> TestTransport.Exchange {
            clock.advance(to: try #require(session.state.nextAttempt))
            return await transport.next()
        }
    }

    @Test func aFolderOfRecordsThatCannotBeIsNamed() throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "latchkey-file-\(UUID())").path
        try #require(FileManager.default.createFile(atPath: file, contents: nil))
        defer { try? FileManager.default.removeItem(atPath: file) }
        for (folder, reason) in [
            (file, "\(file) for session records: Not a directory"),
            (file + "/a/b", "\(file)/a for session records: Not a directory"),
            ("/proc/latchkey/a", "/proc/latchkey for session records: No such file or directory"),
        ] {
            let error = #expect(throws: KeyError.self) { _ = try SessionRecords(folder: folder) }
            #expect(error?.description == "invalid configuration: the folder \(reason)")
        }
    }

    /// Others could have this user end sessions at servers of their choice.
    @Test func aFolderOfRecordsThatOthersMayWriteIsRefused() throws {
        let world = World()
        _ = try world.records()
        try #require(chmod(world.folder, 0o777) == 0)
        let error = #expect(throws: KeyError.self) { _ = try world.records() }
        #expect(
            error?.reason
                == "the folder for session records \(world.folder): others may write to it; run chmod go-w on it")
    }

    @Test func aSessionIsSetUpKeptAndEnded() async throws {
        let world = World()
        let session = try world.session()
        session.start()
        let setup = await world.transport.next()
        #expect(setup.line == "POST /sessions")
        #expect(setup.body.contains(session.identifier(1)))
        let record = try #require(try world.records().record(session.identifier(1)))
        #expect(record.owner == .current && record.token == nil, "it is written down before the server hears of it")
        #expect(!session.isOpen)
        setup.respond(201, #"{"token":"t1","heartbeatInterval":60}"#)
        try await session.established()
        #expect(session.isOpen && session.token?.text == "t1")
        for number in 2..<5 {
            let beat = try await world.beat(of: session)
            #expect(beat.line == "POST /sessions/\(session.identifier(1))/heartbeat")
            #expect(beat.body == #"{"token":"t\#(number - 1)"}"#)
            beat.respond(200, #"{"token":"t\#(number)"}"#)
            await session.wait { $0.token?.text == "t\(number)" }
        }
        session.stop()
        #expect(!session.isOpen)
        let teardown = await world.transport.next()
        #expect(teardown.line == "DELETE /sessions/\(session.identifier(1))")
        teardown.respond(204)
        await session.closed()
        #expect(try world.records().all().isEmpty)
        #expect(
            world.events.withLock { $0 } == [
                .gate(isOpen: true), .notice(.established), .gate(isOpen: false), .notice(.closed),
            ])
    }

    /// What happened before somebody began to wait says nothing of what was waited for.
    @Test func aWaitForTheTeardownOutlastsWhatWasWantedBefore() async throws {
        let world = World()
        let session = try world.session { $0.policy.endsBeforeSleep = true }
        let waiting = Mutex<Task<Void, Never>?>(nil)
        session.observe { event in
            guard event == .notice(.established) else { return }
            // Both are done when this returns, one after the other.
            session.pause()
            session.suspend()
            waiting.withLock { $0 = Task { await session.settled() } }
            while !session.core.withLock({ core in core.waiters.contains { $0.since == core.lastAction } }) {
                sched_yield()
            }
        }
        session.start()
        await world.transport.next().respond(201, #"{"token":"t1"}"#)
        let teardown = await world.transport.next()
        #expect(teardown.line == "DELETE /sessions/\(session.identifier(1))")
        #expect(session.core.withLock(\.waiters).count == 1)
        teardown.respond(204)
        await waiting.withLock(\.self)?.value
        #expect(session.state.phase == .dormant)
    }

    /// The clock goes on between the look at the limit and what follows.
    @Test func aStartIsNoPauseIfTheLimitIsOverAMomentLater() async throws {
        let world = World()
        let step = Mutex<Int64>(0)
        let clock = SessionClock(
            now: {
                defer { world.clock.advance(by: step.withLock { $0 }) }
                return world.clock.now
            }, sleep: { _ in try await Task.sleep(for: .seconds(86_400)) })
        var configuration = ViewingSession.Configuration(SessionService(url: world.transport.url))
        configuration.policy.pauseLimit = 1_000
        let session = ViewingSession(
            configuration, transport: world.transport, clock: clock, random: SeededGenerator(seed: 1))
        session.onPauseLimit { true }
        session.pause()
        try await world.established(session)
        let paused = try #require(session.state.awaySince)
        world.clock.advance(to: paused + 999)
        step.withLock { $0 = 1 }
        session.tick()
        step.withLock { $0 = 0 }
        #expect(session.state.phase == .active)
        session.stop()
        await world.transport.next().respond(204)
        await session.closed()
    }

    @Test func whatAPauseHasEndedIsThereAgainForWhatIsAboutToPlay() async throws {
        let world = World()
        let session = try world.session { $0.policy.pauseLimit = 1_000 }
        let isAskedToPlay = Mutex(false)
        let (asked, ask) = AsyncStream.makeStream(of: Void.self)
        session.onPauseLimit {
            ask.yield()
            return isAskedToPlay.withLock { $0 }
        }
        var looks = asked.makeAsyncIterator()
        session.pause()
        try await world.established(session)
        let paused = try #require(session.state.awaySince)
        world.clock.advance(by: 1_000)
        await world.transport.next().respond(204)
        await session.settled()
        _ = await looks.next()
        session.startAgainWhenAskedToPlay()
        session.startAgainWhenAskedToPlay()
        _ = await looks.next()
        #expect(session.state.phase == .dormant)
        isAskedToPlay.withLock { $0 = true }
        world.clock.advance(by: ViewingSession.lookInterval)
        let setup = await world.transport.next()
        #expect(setup.line == "POST /sessions")
        #expect((session.state.awaySince ?? 0) > paused)
        setup.respond(201, #"{"token":"t2"}"#)
        try await session.established()
        session.stop()
        await world.transport.next().respond(204)
        await session.closed()
    }

    @Test(arguments: [true, false]) func aCheckWaitsForTheAnswer(isAnswered: Bool) async throws {
        let world = World()
        let session = try world.session()
        try await world.established(session)
        world.clock.advance(by: SessionPolicy.confirmedFor)
        #expect(session.canBeChecked)
        let check = Task { await session.check() }
        let beat = await world.transport.next()
        #expect(beat.line == "POST /sessions/\(session.identifier(1))/heartbeat")
        if isAnswered {
            beat.respond(410, #"{"errorCode":1007,"message":"the session is over"}"#)
            await check.value
            #expect(session.state.phase == .lost)
            let told = world.events.withLock { $0.last }
            #expect(told == session.failure.map { .notice(.heartbeatError($0, isFinal: true)) })
        } else {
            // No longer than its patience, and the heartbeat has its time.
            let end = world.clock.now + SessionPolicy.checkPatience
            while !world.clock.isAwaited(end) { await Task.yield() }
            world.clock.advance(to: end)
            await check.value
            #expect(session.state.pending?.kind == .beat && session.isOpen)
            beat.respond(200, #"{"token":"t2"}"#)
            await session.wait { $0.token?.text == "t2" }
            session.stop()
            await world.transport.next().respond(204)
        }
    }

    @Test func theServersWordsReachTheApplication() async throws {
        let world = World()
        let session = try world.session()
        session.start()
        let body = #"{"errorCode":1007,"message":"two screens","conflicts":[{"sessionId":"s","deviceId":"TV"}]}"#
        await world.transport.next().respond(403, body)
        await #expect(throws: SessionFailure.self) { try await session.established() }
        let failure = try #require(session.failure)
        #expect(failure.kind == .limit && failure.status == 403 && failure.code == "1007")
        #expect(failure.message == "two screens" && failure.conflicts.first?.label == "TV")
        #expect(world.events.withLock { $0 } == [.notice(.setupError(failure))])
        session.stop()
        await session.closed()
    }

    @Test func theServersWordsRepeatNoSecret() async throws {
        let world = World()
        let session = try world.session { $0.service.headers = [HTTPHeader(name: "X-Key", value: "key-of-app")] }
        session.start()
        await world.transport.next().respond(201, #"{"token":"token-one"}"#)
        try await session.established()
        let body = #"{"errorCode":"own-secret","message":"token-one: Bearer own-secret, or key-of-app, is wrong"}"#
        try await world.beat(of: session).respond(400, body)
        // A session that is refused may still be there.
        await world.transport.next().respond(204)
        await session.wait { $0.phase == .lost }
        let failure = try #require(session.failure)
        #expect(failure.kind == .refused && failure.code == "[…]")
        #expect(failure.message == "[…]: […], or […], is wrong")
        session.stop()
        await session.closed()
    }

    @Test func theOldestIsStoppedOnceWhereThatIsWanted() async throws {
        let world = World()
        let session = try world.session { $0.stopsOldest = true }
        session.start()
        let body = #"{"errorCode":1007,"conflicts":[{"sessionId":"s","terminationCode":"end"}]}"#
        await world.transport.next().respond(403, body)
        let again = await world.transport.next()
        #expect(again.body.contains(#""terminate":"end""#))
        again.respond(403, body)
        await session.wait { $0.phase == .denied && $0.generation == 2 }
        #expect(world.transport.lines.count == 2)
        session.stop()
        await session.closed()
    }

    /// Without an answer to the first setup, the server may hold a session that is ended before.
    @Test func theSessionInPlaceOfTheOldestIsWaitedFor() async throws {
        let world = World()
        let session = try world.session { $0.stopsOldest = true }
        let waiting = Task { try await session.established() }
        session.start()
        await world.transport.next().respond(500)
        await session.wait { $0.nextAttempt != nil }
        world.clock.advance(to: try #require(session.state.nextAttempt))
        let second = await world.transport.next()
        while session.core.withLock(\.waiters).isEmpty { await Task.yield() }
        second.respond(403, #"{"errorCode":1007,"conflicts":[{"sessionId":"s","terminationCode":"end"}]}"#)
        let teardown = await world.transport.next()
        #expect(teardown.line == "DELETE /sessions/\(session.identifier(1))")
        await session.wait { $0.startsAgain }
        teardown.respond(204)
        let third = await world.transport.next()
        #expect(third.body.contains(#""terminate":"end""#))
        third.respond(201, #"{"token":"t1"}"#)
        try await waiting.value
        #expect(session.isOpen)
        session.stop()
        await world.transport.next().respond(204)
        await session.closed()
    }

    @Test func aCredentialIsBroughtByTheApplication() async throws {
        let world = World()
        let session = try world.session { $0.newCredential = { "c2" } }
        session.start()
        await world.transport.next().respond(401, "{}")
        let again = await world.transport.next()
        #expect(again.request.headers.contains(HTTPHeader(name: "Authorization", value: "Bearer c2")))
        again.respond(201, #"{"token":"t"}"#)
        try await session.established()
        session.stop()
        await world.transport.next().respond(204)
        await session.closed()
    }

    @Test func whatTheServerEndsClosesTheGate() async throws {
        let world = World()
        let session = try world.session()
        try await world.established(session)
        try await world.beat(of: session).respond(410, #"{"errorCode":1007,"message":"ended by the administrator"}"#)
        await session.wait { $0.phase == .lost }
        #expect(!session.isOpen)
        let last = try #require(world.events.withLock { $0.last })
        guard case .notice(.heartbeatError(let failure, isFinal: true)) = last else {
            Issue.record("\(last)")
            return
        }
        #expect(failure.message == "ended by the administrator" && failure.status == 410)
        session.stop()
        await session.closed()
        #expect(try world.records().all().isEmpty)
    }

    @Test func theGateIsClosedAtTheEndOfTheLeaseAlsoWhereTheTimerIsLate() async throws {
        let world = World()
        let session = try world.session()
        try await world.established(session)
        world.clock.advance(by: 178_000)
        // Whatever ran or did not run since: nobody gets an answer that is out of date.
        #expect(!session.isOpen)
        await world.transport.next().respond(204)
        await session.wait { $0.phase == .lost }
        session.stop()
        await session.closed()
    }

    // MARK: Crashes

    /// A process number that nobody has.
    private static let dead = ProcessIdentity(pid: .max, start: 1, bootID: ProcessIdentity.current.bootID)

    @Test func whatACrashLeftIsEndedBeforeTheNextSetup() async throws {
        let world = World()
        let crashed = try world.session(process: Self.dead)
        try await world.established(crashed)
        let session = try world.session(seed: 2)
        session.start()
        let teardown = await world.transport.next()
        #expect(teardown.line == "DELETE /sessions/\(crashed.identifier(1))")
        teardown.respond(204)
        let setup = await world.transport.next()
        #expect(setup.body.contains(session.identifier(1)))
        setup.respond(201, #"{"token":"t"}"#)
        try await session.established()
        #expect(try world.records().all().map(\.session) == [session.identifier(1)])
        session.stop()
        await world.transport.next().respond(204)
        await session.closed()
    }

    @Test func anOldSessionHoldsUpANewOneForASecondAtMost() async throws {
        let world = World()
        let crashed = try world.session(process: Self.dead)
        try await world.established(crashed)
        let session = try world.session(seed: 2)
        session.start()
        let teardown = await world.transport.next()
        world.clock.advance(by: ViewingSession.turn)
        let setup = await world.transport.next()
        #expect(setup.line == "POST /sessions")
        teardown.respond(204)
        setup.respond(201, #"{"token":"t"}"#)
        try await session.established()
        session.stop()
        await world.transport.next().respond(204)
        await session.closed()
    }

    @Test func aTeardownThatFailsIsTriedAtTheNextStartsAndThenGivenUp() async throws {
        let world = World()
        let first = try world.session()
        try await world.established(first)
        first.stop()
        await world.transport.next().respond(403, #"{"errorCode":1001}"#)
        await first.closed()
        #expect(try world.records().all().map(\.owner) == [nil])
        for attempt in 1...SessionRecords.maximumAttempts {
            let ending = Task { await first.endOrphans() }
            await world.transport.next().respond(500, "")
            await ending.value
            #expect(try world.records().all().count == (attempt < SessionRecords.maximumAttempts ? 1 : 0))
        }
    }

    @Test func theSessionOfARunningProcessIsLeftAlone() async throws {
        let world = World()
        let running = try world.session()
        try await world.established(running)
        let session = try world.session(seed: 2)
        await session.endOrphans()
        #expect(world.transport.lines == ["POST /sessions"])
        running.stop()
        await world.transport.next().respond(204)
        await running.closed()
    }

    @Test func aNewSessionWaitsForTheEndOfTheOneBefore() async throws {
        let world = World()
        let first = try world.session()
        try await world.established(first)
        first.stop()
        let teardown = await world.transport.next()
        let second = try world.session(seed: 2)
        second.start()
        teardown.respond(204)
        let setup = await world.transport.next()
        #expect(setup.body.contains(second.identifier(1)))
        #expect(
            world.transport.lines == [
                "POST /sessions", "DELETE /sessions/\(first.identifier(1))", "POST /sessions",
            ])
        await first.closed()
        second.stop()
        setup.respond(201, #"{"token":"t"}"#)
        await world.transport.next().respond(204)
        await second.closed()
    }

    // MARK: Records

    /// Whoever can write into the folder could hold up the next start with it.
    @Test func aPipeAmongTheRecordsHoldsNothingUp() async throws {
        let world = World()
        let records = try world.records()
        let record = SessionRecord(url: world.transport.url, session: "mine", owner: .current)
        #expect(records.write(record))
        #expect(mkfifo(world.folder + "/pipe.session", 0o600) == 0)
        #expect(records.all() == [record])
        #expect(records.record("pipe") == nil)
    }

    @Test func recordsAreForTheirOwnerAlone() async throws {
        let world = World()
        let session = try world.session()
        session.start()
        await world.transport.next().respond(201, #"{"token":"first-token"}"#)
        try await session.established()
        let names = try FileManager.default.contentsOfDirectory(atPath: world.folder)
        let name = try #require(names.first)
        #expect(names.count == 1)
        let attributes = try FileManager.default.attributesOfItem(atPath: "\(world.folder)/\(name)")
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let text = try String(contentsOfFile: "\(world.folder)/\(name)", encoding: .utf8)
        #expect(!text.contains("first-token") && !text.contains("own-secret"), "no secret")
        session.stop()
        await world.transport.next().respond(204)
        await session.closed()
    }

    @Test func aTokenIsWrittenDownOnlyWhereEndingTakesIt() async throws {
        let world = World()
        var adapter = SessionAdapter.latchkey
        adapter.teardown.headers["X-Token"] = "{token}"
        let session = try world.session(adapter)
        try await world.established(session)
        #expect(try world.records().record(session.identifier(1))?.token?.text == "t1")
        session.stop()
        let teardown = await world.transport.next()
        #expect(teardown.request.headers.contains(HTTPHeader(name: "X-Token", value: "t1")))
        teardown.respond(204)
        await session.closed()
    }

    @Test func recordsReadWhatTheyWriteAndNothingElse() throws {
        let record = SessionRecord(
            url: "https://a.example/ü?b=\n", session: "s/1", reference: "/x", token: SessionToken("t%"),
            owner: .current, attempts: 3)
        #expect(SessionRecord(text: record.text) == record)
        var random = SeededGenerator(seed: 3)
        for _ in 0..<5_000 {
            let bytes = random.mutate(record.text)
            if let read = SessionRecord(text: bytes) { #expect(SessionRecord(text: read.text) == read) }
        }
        let world = World()
        let records = try world.records()
        records.write(record)
        try Data("LKSS 1".utf8).write(to: URL(filePath: "\(world.folder)/broken.session"))
        try Data(record.text).write(to: URL(filePath: "\(world.folder)/other.session"))
        #expect(records.all() == [record])
        #expect(ProcessIdentity.current.isRunning && !Self.dead.isRunning)
    }
}
