// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession
@testable import LatchkeyViewingSession

/// No viewing session, no key; and a lost one closes the session.
@Suite("Viewing permit", .timeLimit(.minutes(8)))
struct ViewingPermitTests {
    private static let keyID = KeyID(high: 1, low: 2)

    /// A clock that stands still; the test ticks.
    private final class StoppedClock: Sendable {
        let time = Mutex<Int64>(1_000_000)
        /// Is called once, when the time is asked for next.
        let interruption = Mutex<(@Sendable () -> Void)?>(nil)

        var clock: SessionClock {
            SessionClock(
                now: {
                    self.interrupt()
                    return self.time.withLock { $0 }
                }, sleep: { _ in try await Task.sleep(for: .seconds(86_400)) })
        }

        private func interrupt() {
            let body = interruption.withLock { interruption -> (@Sendable () -> Void)? in
                defer { interruption = nil }
                return interruption
            }
            body?()
        }
    }

    /// A `KeySession` whose session server and loader are the test's.
    private final class World: Sendable {
        final class Script: Sendable {
            /// What the session server answers to setups and heartbeats; it grants what nobody says otherwise.
            let answers = Mutex<[SessionState.Request.Kind: HTTPResponse]>([:])
            /// The token that was there when the loader was asked.
            let loads = Mutex<[SessionToken?]>([])
            /// So many of the next keys are refused.
            let refusals = Mutex(0)
            /// The server has it, and does not answer.
            let unanswered = Mutex<SessionState.Request.Kind?>(nil)
            /// The server answers setups when it says so.
            let setup = Mutex<Signal<Bool>?>(nil)
        }

        let script = Script()
        let transport: FakeTransport
        let session: KeySession
        private let clock = StoppedClock()

        init(
            allowsOffline: Bool = true, _ change: (inout SessionPolicy) -> Void = { _ in }
        ) throws {
            transport = FakeTransport { [script] request, count throws(HTTPError) in
                let kind: SessionState.Request.Kind =
                    request.method == "DELETE" ? .teardown : request.url.hasSuffix("heartbeat") ? .beat : .setup
                if script.unanswered.withLock({ $0 == kind }) {
                    let (never, continuation) = AsyncStream.makeStream(of: Void.self)
                    for await _ in never {}
                    withExtendedLifetime(continuation) {}
                    throw .cancelled(request.url)
                }
                if kind == .setup, let setup = script.setup.withLock({ $0 }) { _ = await setup.wait() }
                return script.answers.withLock { $0[kind] }
                    ?? HTTPResponse(
                        status: 200, headers: [], body: Array(#"{"token":"t\#(count)"}"#.utf8), url: request.url)
            }
            let service = SessionService(url: "https://sessions.example/\(UInt64.random(in: 0 ... .max))")
            var configuration = ViewingConfiguration(ViewingSession.Configuration(service))
            change(&configuration.session.policy)
            configuration.makeSession = { [transport, clock] configuration in
                ViewingSession(
                    configuration, transport: transport, clock: clock.clock, random: SystemRandomNumberGenerator())
            }
            configuration.allowsOffline = allowsOffline
            var keys = KeySessionConfiguration()
            keys.viewing = configuration
            session = KeySession(configuration: keys)
            let key = try #require(ContentKey([UInt8](repeating: 7, count: 16)))
            session.addLoader(
                CallbackLoader(name: "test") { [script, weak session] request in
                    script.loads.withLock { $0.append(session?.viewing?.token) }
                    let isRefused = script.refusals.withLock { refusals in
                        defer { refusals = max(refusals - 1, 0) }
                        return refusals > 0
                    }
                    if isRefused {
                        request.finishLoading(with: .serverStatus("HTTP status 403"))
                    } else {
                        request.finishLoading(with: .key(key))
                    }
                    return true
                })
        }

        func answer(_ kind: SessionState.Request.Kind, _ status: Int, _ body: String) {
            script.answers.withLock {
                $0[kind] = HTTPResponse(status: status, headers: [], body: Array(body.utf8), url: "")
            }
        }

        func demand(retrying generation: UInt64 = 0) {
            session.demand(KeyDemand(keyIDs: [ViewingPermitTests.keyID], retryFailuresUpTo: generation))
        }

        /// Sends the next heartbeat.
        func beat() throws {
            let viewing = try #require(session.viewing?.session)
            let due = try #require(viewing.state.nextAttempt)
            clock.time.withLock { $0 = max($0, due) }
            viewing.handle(.tick)
        }

        /// Has something happen while the session is told of something else.
        func interrupt(with body: @escaping @Sendable () -> Void) { clock.interruption.withLock { $0 = body } }

        /// Lets time pass in which nothing is due.
        func pass(_ milliseconds: Int64) { clock.time.withLock { $0 += milliseconds } }

        /// Answers each heartbeat until then.
        func wait(until end: Int64) async throws {
            let viewing = try #require(session.viewing?.session)
            while let due = viewing.state.deadline, due < end {
                clock.time.withLock { $0 = max($0, due) }
                viewing.tick()
                while viewing.state.pending != nil { await Task.yield() }
            }
            clock.time.withLock { $0 = end }
            viewing.tick()
        }

        var lines: [String] {
            transport.requests.map { "\($0.method) \($0.url.split(separator: "/").last ?? "")" }
        }
    }

    @Test func theSessionComesBeforeTheLicense() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        #expect(world.transport.requests.isEmpty && world.session.viewing?.session == nil)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        #expect(world.session.status(of: Self.keyID).key != nil)
        #expect(world.lines == ["POST sessions"])
        // The loader was asked when the token was there.
        #expect(world.script.loads.withLock { $0 } == [SessionToken("t0")])
        let viewing = try #require(world.session.viewing?.session)
        world.session.close(.sessionClosed("test"))
        await viewing.closed()
        #expect(world.lines.count == 2 && world.lines[1].hasPrefix("DELETE"))
    }

    /// Has a stored key for the one KID, and asks a server for all others.
    private final class Store: StoredKeyLoader {
        let name = "store"

        func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
            Task {
                do throws(KeyError) {
                    if request.keyIDs != [ViewingPermitTests.keyID] { try await request.establishViewing() }
                    guard let key = ContentKey([UInt8](repeating: 9, count: 16)) else { return }
                    request.finishLoading(with: .key(key))
                } catch {
                    request.finishLoading(with: error)
                }
            }
            return true
        }
    }

    @Test(arguments: [true, false]) func storedContentWithStoredKeysNeedsNoSession(_ allowsOffline: Bool) async throws {
        let world = try World(allowsOffline: allowsOffline)
        let watcher = Watcher(world.session)
        for loader in world.session.core.withLock(\.loaders) { world.session.removeLoader(loader) }
        world.session.addLoader(Store())
        world.answer(.setup, 403, #"{"errorCode":1007,"message":"two are enough"}"#)
        world.session.setContentIsStored(true)
        world.demand()
        guard allowsOffline else {
            #expect(await watcher.next(where: \.isFailed) != nil)
            #expect(world.session.status(of: Self.keyID).key == nil)
            return
        }
        #expect(await watcher.next(where: \.isUsable) != nil)
        #expect(world.session.status(of: Self.keyID).key != nil)
        #expect(world.lines.isEmpty)
        // Another key has to be asked for, and is refused; the first stays usable.
        let other = KeyID(high: 3, low: 4)
        world.session.demand(KeyDemand(keyIDs: [other]))
        #expect(await watcher.next(where: \.isFailed) != nil)
        #expect(world.lines == ["POST sessions"])
        #expect(world.session.status(of: Self.keyID).key != nil)
        // What is missing of the content is fetched from now on.
        world.session.setContentIsStored(false)
        #expect(await watcher.next(where: \.isFailed) != nil)
        #expect(world.session.status(of: Self.keyID).key == nil)
    }

    /// As a decryptor in a pipeline without an agent says it.
    @Test(arguments: [true, false]) func aFileWithStoredKeysNeedsNoSession(_ allowsOffline: Bool) async throws {
        let world = try World(allowsOffline: allowsOffline)
        let watcher = Watcher(world.session)
        for loader in world.session.core.withLock(\.loaders) { world.session.removeLoader(loader) }
        world.session.addLoader(Store())
        world.answer(.setup, 403, #"{"errorCode":1007,"message":"two are enough"}"#)
        // One playback after the other.
        for _ in 0..<2 {
            let uses = [world.session.beginPlayback(), world.session.beginPlayback()]
            for use in uses {
                use?.setPlaysFile(true)
                world.demand()
            }
            guard allowsOffline else {
                #expect(await watcher.next(where: \.isFailed) != nil)
                #expect(world.session.status(of: Self.keyID).key == nil && world.lines == ["POST sessions"])
                return
            }
            while world.session.status(of: Self.keyID).key == nil { await Task.yield() }
            #expect(world.lines.isEmpty)
            for use in uses { use?.end() }
            #expect(world.session.status(of: Self.keyID).isAbsent)
        }
        // Something else is played beside the file.
        let (file, other) = (world.session.beginPlayback(), world.session.beginPlayback())
        file?.setPlaysFile(true)
        other?.setPlaysFile(false)
        world.demand()
        #expect(await watcher.next(where: \.isFailed) != nil)
        #expect(world.session.status(of: Self.keyID).key == nil && world.lines == ["POST sessions"])
        withExtendedLifetime((file, other)) {}
    }

    /// Its keys are not stored, and those that the session has from a server are of no use without a viewing session.
    @Test func aFileWithKeysOfAServerIsAsAnyOtherContent() async throws {
        let world = try World()
        for number in 1...2 {
            let use = world.session.beginPlayback()
            use?.setPlaysFile(true)
            world.demand()
            while world.session.status(of: Self.keyID).key == nil { await Task.yield() }
            #expect(world.lines.count { $0 == "POST sessions" } == number)
            use?.end()
        }
        #expect(world.script.loads.withLock { $0.count } == 1)
    }

    @Test func aRefusedSessionIsAskedForOnceForAFileWithoutStoredKeys() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        world.answer(.setup, 403, #"{"errorCode":1007,"message":"two are enough"}"#)
        let use = world.session.beginPlayback()
        use?.setPlaysFile(true)
        for keyID in [Self.keyID, KeyID(high: 3, low: 4)] {
            world.session.demand(KeyDemand(keyIDs: [keyID]))
            #expect(await watcher.next(where: \.isFailed) != nil)
        }
        #expect(world.lines == ["POST sessions"] && world.script.loads.withLock { $0.isEmpty })
        withExtendedLifetime(use) {}
    }

    @Test func filesAreThoseOfMP4AndPIFF() {
        for url in [
            "file:///a/b.mp4", "FILE:///b.ISMV", "file:///c.mp4?x", "file:///a/v.m4s", "file:///a.3GP",
            "file:///a/b.cmfv",
        ] { #expect(ViewingPermit.isFile(url)) }
        for url in ["http://a/b.mp4", "file:///a.mpd", "file:///a.m3u8", "/a/b.mp4", "file:///a/mp4", ""] {
            #expect(!ViewingPermit.isFile(url))
        }
    }

    @Test func aLoaderWithoutAStoreIsAskedWithASession() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        world.session.setContentIsStored(true)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        #expect(world.lines == ["POST sessions"])
        #expect(world.script.loads.withLock { $0 } == [SessionToken("t0")])
    }

    @Test func withoutASessionNoLoaderIsAsked() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        world.answer(.setup, 403, #"{"errorCode":1007,"message":"two are enough","conflicts":[{"sessionId":"a"}]}"#)
        world.demand()
        let event = await watcher.next(where: \.isFailed)
        guard case .failed(_, [Self.keyID], let error)? = event else {
            Issue.record("another event: \(String(describing: event))")
            return
        }
        #expect(error.isSameKind(as: .denied("")))
        #expect(
            error.reason.contains("403") && error.reason.contains("1007") && error.reason.contains("two are enough"))
        let notice = try #require(
            watcher.events.lazy.compactMap { if case .viewing(let notice) = $0 { notice } else { nil } }.first)
        #expect(notice.kind == .setupError && notice.failure.conflicts.count == 1)
        #expect(notice.claim() && !notice.claim())
        #expect(world.script.loads.withLock { $0.isEmpty } && !world.session.isClosed)
        // Not again by itself, but for who starts anew.
        world.demand()
        #expect(world.lines == ["POST sessions"])
        world.script.answers.withLock { $0 = [:] }
        world.demand(retrying: world.session.generation)
        #expect(await watcher.next(where: \.isUsable) != nil)
        #expect(world.lines == ["POST sessions", "POST sessions"])
    }

    @Test func aLostSessionClosesTheKeys() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let revision = world.session.revision
        world.answer(.beat, 410, #"{"errorCode":1007,"message":"the session is over"}"#)
        try world.beat()
        let event = await watcher.next { if case .closed = $0 { true } else { false } }
        guard case .closed(let reason)? = event else { return }
        #expect(reason.description.contains("the viewing session is lost") && reason.description.contains("410"))
        #expect(world.session.isClosed && world.session.revision != revision)
        #expect(world.session.status(of: Self.keyID).error?.isSameKind(as: .sessionClosed("")) == true)
        let summaries = watcher.summaries
        #expect(summaries.contains("viewing heartbeatError(isFinal: true)"), "\(summaries)")
    }

    /// A decryptor may want its key in the moment at which the session is known to be lost, and the keys are not closed yet.
    @Test func aDemandInTheMomentOfTheLossBringsAboutNoOtherSession() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        let use = try #require(world.session.beginPlayback())
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let viewing = try #require(world.session.viewing?.session)
        let limit = try #require(viewing.state.awaySince) + SessionPolicy().pauseLimit
        try await world.wait(until: limit)
        #expect(await watcher.next(where: { if case .withheld(true) = $0 { true } else { false } }) != nil)
        await viewing.settled()
        // Another device has taken the place meanwhile.
        world.answer(.setup, 403, #"{"errorCode":1007,"message":"two are enough"}"#)
        let demand = world.session.observe { [weak world] event in
            if case .viewing = event { world?.demand() }
        }
        use.setPlaying(true)
        let event = await watcher.next { event in
            switch event {
            case .failed, .closed: true
            default: false
            }
        }
        guard case .closed(let reason)? = event else {
            Issue.record("another event: \(String(describing: event))")
            return
        }
        #expect(reason.reason.contains("the viewing session is lost") && reason.reason.contains("two are enough"))
        #expect(world.session.status(of: Self.keyID).error == reason && world.session.endReason == reason)
        #expect(world.lines.count { $0 == "POST sessions" } == 2)
        withExtendedLifetime((demand, use)) {}
    }

    /// A key server may know of the end of the session before the client does.
    @Test func aKeyThatIsRefusedInTheMomentOfTheLossFailsForThat() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        for loader in world.session.core.withLock(\.loaders) { world.session.removeLoader(loader) }
        let taken = Signal<KeyLoadingRequest>()
        world.session.addLoader(
            CallbackLoader(name: "slow") { request in
                taken.send(request)
                return true
            })
        let other = KeyID(high: 3, low: 4)
        world.session.demand(KeyDemand(keyIDs: [other]))
        let request = try #require(await taken.wait())
        let refusal = world.session.observe { event in
            if case .viewing = event { request.finishLoading(with: .denied("the session is not known")) }
        }
        world.answer(.beat, 410, #"{"errorCode":1007,"message":"the session is over"}"#)
        #expect(world.session.endReason == nil)
        try world.beat()
        let event = await watcher.next(where: \.isFailed)
        guard case .failed(_, [other], let error)? = event else {
            Issue.record("another event: \(String(describing: event))")
            return
        }
        #expect(error.reason.contains("the viewing session is lost") && error.reason.contains("410"))
        #expect(world.session.status(of: other).error == error && world.session.status(of: Self.keyID).error == error)
        withExtendedLifetime(refusal) {}
    }

    /// The key server has heard of the end of the session, and the client has not: the next heartbeat is seconds away.
    @Test func aRefusedKeyIsReasonToAskForTheSession() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        world.pass(SessionPolicy.confirmedFor)
        world.script.refusals.withLock { $0 = 1 }
        world.answer(.beat, 410, #"{"errorCode":1007,"message":"the session is over"}"#)
        let other = KeyID(high: 3, low: 4)
        world.session.demand(KeyDemand(keyIDs: [other]))
        let event = await watcher.next(where: \.isFailed)
        guard case .failed(_, [other], let error)? = event else {
            Issue.record("another event: \(String(describing: event))")
            return
        }
        #expect(error.reason.contains("the viewing session is lost") && error.reason.contains("410"))
        #expect(world.session.isClosed && world.lines == ["POST sessions", "POST heartbeat"])
    }

    /// The session is there, or the server says nothing of it: then the refusal is what there is to tell.
    @Test(arguments: [200, 502]) func aRefusedKeyOfASessionThatIsThereIsTold(status: Int) async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        if status != 200 { world.answer(.beat, status, "<html>") }
        let keyIDs = [KeyID(high: 3, low: 4), KeyID(high: 5, low: 6)]
        for (number, keyID) in keyIDs.enumerated() {
            // In the first second the server need not be asked.
            if number == 1 { world.pass(SessionPolicy.confirmedFor) }
            world.script.refusals.withLock { $0 = 1 }
            world.session.demand(KeyDemand(keyIDs: [keyID]))
            let event = await watcher.next(where: \.isFailed)
            guard case .failed(_, [keyID], .serverStatus("HTTP status 403"))? = event else {
                Issue.record("another event: \(String(describing: event))")
                return
            }
            #expect(world.lines.count { $0 == "POST heartbeat" } == number)
        }
        #expect(world.session.status(of: Self.keyID).key != nil && !world.session.isClosed)
    }

    @Test func aRefusedKeyIsAskedForAgainInTheSessionThatReplacesTheLostOne() async throws {
        let world = try World { $0.replacesEndedSession = true }
        let watcher = Watcher(world.session)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        world.pass(SessionPolicy.confirmedFor)
        world.script.refusals.withLock { $0 = 1 }
        world.answer(.beat, 410, #"{"errorCode":1007,"message":"the session is over"}"#)
        let other = KeyID(high: 3, low: 4)
        world.session.demand(KeyDemand(keyIDs: [other]))
        #expect(await watcher.next(where: { $0.isUsable || $0.isFailed })?.isUsable == true)
        #expect(world.session.status(of: other).key != nil)
        #expect(world.lines == ["POST sessions", "POST heartbeat", "POST sessions"])
        #expect(world.script.loads.withLock { $0.map { $0?.text } } == ["t0", "t0", "t2"])
    }

    /// Between the end of the session and the end of its keys, all keys fail for the former, whatever became of them before.
    @Test func aGateOfALostSessionCountsForEveryKey() {
        let (loss, refusal) = (KeyError.sessionClosed("lost"), KeyError.denied("403"))
        let lost = ViewingGate.refused(loss, generation: .max)
        for status in [KeyStatus.absent, .pending(requestID: 1), .failed(refusal, generation: 1)] {
            #expect(lost.hold(status).error == loss)
            #expect(ViewingGate.refused(refusal, generation: 1).hold(status).error != loss)
        }
        #expect(!lost.begins(retryFailuresUpTo: .max - 1))
    }

    @Test func aFailedHeartbeatAloneChangesNothing() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        world.answer(.beat, 502, "<html>")
        try world.beat()
        let notice = await watcher.next { if case .viewing = $0 { true } else { false } }
        #expect(notice?.summary == "viewing heartbeatError(isFinal: false)")
        #expect(world.session.status(of: Self.keyID).key != nil)
    }

    @Test func theLastPlayerEndsTheSessionAndTheNextOneBeginsAnother() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        let (first, second) = (world.session.beginPlayback(), world.session.beginPlayback())
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let viewing = try #require(world.session.viewing?.session)
        first?.end()
        first?.end()
        #expect(viewing.state.phase == .active && world.session.status(of: Self.keyID).key != nil)
        second?.end()
        await viewing.closed()
        // The key is there, and of no use without a session.
        #expect(world.session.status(of: Self.keyID).isAbsent)
        let third = world.session.beginPlayback()
        let setup = Signal<Bool>()
        world.script.setup.withLock { $0 = setup }
        world.demand()
        #expect(world.session.status(of: Self.keyID).isPending)
        setup.send(true)
        #expect(await watcher.next(where: \.isUsable) != nil)
        #expect(world.session.status(of: Self.keyID).key != nil)
        #expect(world.lines.count { $0 == "POST sessions" } == 2)
        #expect(world.script.loads.withLock { $0.count } == 1)
        withExtendedLifetime(third) {}
    }

    /// As a lease that runs on behind the end of playback, and what a loader was asked for before.
    @Test func nothingUnderWayBringsASessionBackBehindTheLastPlayer() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        let use = world.session.beginPlayback()
        world.demand()
        let asked = await watcher.next { $0.request != nil }
        let request = try #require(asked?.request)
        #expect(await watcher.next(where: \.isUsable) != nil)
        let viewing = try #require(world.session.viewing?.session)
        use?.end()
        await viewing.closed()
        #expect(world.session.renewExpiringResponseData(for: request))
        let event = await watcher.next { $0.isUsable || $0.summary.hasPrefix("renewal failed") }
        #expect(event?.summary == "renewal failed 1: session closed")
        await #expect(throws: KeyError.self) { try await request.establishViewing() }
        #expect(world.lines.count { $0 == "POST sessions" } == 1 && world.session.viewing?.session == nil)
        // The next playback has its own.
        let next = world.session.beginPlayback()
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        #expect(world.session.renewExpiringResponseData(for: request))
        #expect(await watcher.next(where: \.isUsable) != nil)
        #expect(world.lines.count { $0 == "POST sessions" } == 2)
        withExtendedLifetime(next) {}
    }

    @Test func pausesAreTold() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        let use = try #require(world.session.beginPlayback())
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let viewing = try #require(world.session.viewing?.session)
        #expect(viewing.state.awaySince != nil)
        use.setPlaying(true)
        #expect(viewing.state.awaySince == nil)
        use.setPlaying(false)
        #expect(viewing.state.awaySince != nil)
        use.setPlaying(true)
        world.session.viewing?.enterBackground()
        #expect(viewing.state.awaySince == nil)
        world.session.viewing?.enterForeground()
        #expect(viewing.state.awaySince == nil)
    }

    /// Two threads at once: the second user's change reaches the session before the first one's.
    @Test func theLastChangeOfSeveralUsersCounts() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        let (first, second) = (
            try #require(world.session.beginPlayback()), try #require(world.session.beginPlayback())
        )
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let viewing = try #require(world.session.viewing?.session)
        // No task looks at the clock any more.
        await viewing.settled()
        world.interrupt { first.setPlaying(false) }
        first.setPlaying(true)
        #expect(viewing.state.awaySince != nil)
        first.setPlaying(true)
        world.interrupt { first.setPlaying(true) }
        first.setPlaying(false)
        #expect(viewing.state.awaySince == nil)
        // The one that plays goes, and the other one begins to play.
        world.interrupt { second.setPlaying(true) }
        first.end()
        #expect(viewing.state.awaySince == nil)
        second.setPlaying(false)
        #expect(viewing.state.awaySince != nil)
    }

    /// Whether the application wants to play.
    private final class Wish: Sendable {
        let wantsToPlay = Mutex(true)
    }

    /// Nothing could be shown any more if the session ended for it: playback begins with pictures, and these need the session.
    @Test func aStartThatTakesLongIsNoPause() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        let (use, wish) = (try #require(world.session.beginPlayback()), Wish())
        use.onPauseLimit { wish.wantsToPlay.withLock { $0 } }
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let viewing = try #require(world.session.viewing?.session)
        let (start, limit) = (try #require(viewing.state.awaySince), SessionPolicy().pauseLimit)
        try await world.wait(until: start + limit)
        while viewing.state.pending != nil { await Task.yield() }
        #expect(viewing.state.phase == .active && viewing.state.awaySince == start + limit)
        #expect(world.session.status(of: Self.keyID).key != nil)
        // The application pauses before there is anything to show.
        wish.wantsToPlay.withLock { $0 = false }
        try await world.wait(until: start + 2 * limit)
        #expect(await watcher.next(where: { if case .withheld(true) = $0 { true } else { false } }) != nil)
        #expect(world.lines.count { $0 == "POST sessions" } == 1)
        withExtendedLifetime(use) {}
    }

    /// A pipeline that was paused before its first picture, or that was sought in since, needs a key before it plays.
    @Test func whoWantsAKeyAndIsAboutToPlayBringsTheSessionBack() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        let (use, wish) = (try #require(world.session.beginPlayback()), Wish())
        wish.wantsToPlay.withLock { $0 = false }
        use.onPauseLimit { wish.wantsToPlay.withLock { $0 } }
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let viewing = try #require(world.session.viewing?.session)
        let limit = try #require(viewing.state.awaySince) + SessionPolicy().pauseLimit
        try await world.wait(until: limit)
        #expect(await watcher.next(where: { if case .withheld(true) = $0 { true } else { false } }) != nil)
        await viewing.settled()
        #expect(world.session.viewing?.isReleased == true)
        wish.wantsToPlay.withLock { $0 = true }
        world.demand()
        #expect(await watcher.next(where: { if case .withheld(false) = $0 { true } else { false } }) != nil)
        #expect(world.session.status(of: Self.keyID).key != nil && viewing.state.awaySince == limit)
        #expect(world.session.viewing?.isReleased == false)
        #expect(world.lines.count { $0 == "POST sessions" } == 2)
        withExtendedLifetime(use) {}
    }

    @Test func theEndOfThePlaybackThatPlayedIsAPauseForTheOthers() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        let (playing, paused) = (try #require(world.session.beginPlayback()), world.session.beginPlayback())
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let viewing = try #require(world.session.viewing?.session)
        playing.setPlaying(true)
        #expect(viewing.state.awaySince == nil)
        playing.end()
        #expect(viewing.state.awaySince != nil && viewing.state.phase == .active)
        withExtendedLifetime(paused) {}
    }

    /// Who wants a key while something plays brings a session back that was ended for a pause.
    @Test func whatWasDecryptedIsWithheldWhileTheSessionIsReleased() async throws {
        let world = try World()
        let watcher = Watcher(world.session)
        let use = try #require(world.session.beginPlayback())
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let viewing = try #require(world.session.viewing?.session)
        let limit = try #require(viewing.state.awaySince) + SessionPolicy().pauseLimit
        try await world.wait(until: limit)
        #expect(await watcher.next(where: { if case .withheld(true) = $0 { true } else { false } }) != nil)
        #expect(world.session.status(of: Self.keyID).key == nil)
        use.setPlaying(true)
        world.demand()
        #expect(await watcher.next(where: { if case .withheld(false) = $0 { true } else { false } }) != nil)
        #expect(world.session.status(of: Self.keyID).key != nil)
        #expect(world.lines.count { $0 == "POST sessions" } == 2)
    }

    @Test func aTeardownThatFailsIsToldToWhoHasGone() async throws {
        let world = try World()
        let told = Signal<ViewingNotice>()
        let use = world.session.beginPlayback()
        let watcher = Watcher(world.session)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        world.session.viewing?.onTeardownError { told.send($0) }
        watcher.cancel()
        world.answer(.teardown, 400, #"{"errorCode":1011,"message":"no"}"#)
        use?.end()
        let notice = try #require(await told.wait())
        #expect(notice.kind == .teardownError && notice.failure.status == 400)
    }

    /// An application that gives its agent up as the answer comes waits for what follows from that.
    @Test func aSessionIsBeingEndedUntilItsFailureIsTold() async throws {
        let world = try World()
        let told = Signal<Bool>()
        let use = world.session.beginPlayback()
        let watcher = Watcher(world.session)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let permit = try #require(world.session.viewing)
        permit.onTeardownError { [weak permit] _ in told.send(permit?.isEnding == true) }
        world.answer(.teardown, 400, #"{"errorCode":1011,"message":"no"}"#)
        use?.end()
        #expect(await told.wait() == true)
        await permit.ended()
        #expect(!permit.isEnding)
    }

    /// Whoever waits for the end of a session, as an application that keeps its bus watched, waits no longer than that.
    @Test func aTeardownWithoutAnAnswerIsToldWhenItsTimeIsOver() async throws {
        let world = try World { $0.teardownWindow = 300 }
        let told = Signal<ViewingNotice>()
        let use = world.session.beginPlayback()
        let watcher = Watcher(world.session)
        world.demand()
        #expect(await watcher.next(where: \.isUsable) != nil)
        let permit = try #require(world.session.viewing)
        let viewing = try #require(permit.session)
        permit.onTeardownError { told.send($0) }
        world.script.unanswered.withLock { $0 = .teardown }
        use?.end()
        let ended = Task { await permit.ended() }
        world.pass(299)
        viewing.handle(.tick)
        #expect(permit.isEnding && viewing.state.phase == .tearingDown)
        world.pass(1)
        viewing.handle(.tick)
        let notice = try #require(await told.wait())
        #expect(notice.kind == .teardownError && notice.failure.kind == .unknown && notice.failure.status == nil)
        await ended.value
        #expect(!permit.isEnding)
    }

    @Test func withoutASessionServerNothingChanges() throws {
        let session = KeySession()
        #expect(session.viewing == nil && session.beginPlayback() == nil)
        session.install([Self.keyID: try #require(ContentKey([UInt8](repeating: 1, count: 16)))])
        #expect(session.status(of: Self.keyID).key != nil)
    }
}
