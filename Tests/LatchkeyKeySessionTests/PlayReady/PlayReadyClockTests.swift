// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

/// What an application hears of the clock, and what asking for rights does about it.
@Suite("PlayReady and the clock", .timeLimit(.minutes(2)))
struct PlayReadyClockTests {
    /// What a client told, in order.
    private final class Events: Sendable {
        let list = Mutex<[TrustedClock.Event]>([])
        var all: [TrustedClock.Event] { list.withLock { $0 } }
    }

    private func worldSetBack(_ events: Events = Events()) async throws -> PlayReadyWorld {
        let world = try PlayReadyWorld { configuration in
            configuration.onClockEvent = { event in events.list.withLock { $0.append(event) } }
        }
        world.service.setPolicy("enddate:@+3600")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.machine.move(wallBySeconds: -86_400)
        return world
    }

    @Test func rightsAreAskedForWithTheClockRepaired() async throws {
        let world = try await worldSetBack()
        #expect(try await world.rights().kind == .untrustedTime)
        let rights = try await world.client.rightsStatus(for: PlayReadyWorld.data(), repairingClock: true)
        #expect(rights.kind == .valid && rights.ends == date(0).advanced(bySeconds: 3600))
        #expect(world.service.operations.count { $0 == .getTime } == 1)
        #expect(try await world.rights().kind == .valid)
    }

    @Test func withoutTheTimeServiceTheClockStaysUntrusted() async throws {
        let world = try await worldSetBack()
        world.service.setTimeService(false)
        let rights = try await world.client.rightsStatus(for: PlayReadyWorld.data(), repairingClock: true)
        #expect(rights.kind == .untrustedTime)
        #expect(world.log.withLock { $0.contains { $0.hasPrefix("the clock was not repaired: ") } })
    }

    /// Nobody is asked where the clock is not what is in the way.
    @Test func aTrustedClockIsLeftAlone() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("enddate:@+60")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.pass(61)
        let rights = try await world.client.rightsStatus(for: PlayReadyWorld.data(), repairingClock: true)
        #expect(rights.kind == .expired)
        #expect(!world.service.operations.contains(.getTime))
    }

    /// Once each time, not again before the clock was repaired. The first look at a clock is news, too.
    @Test func anApplicationHearsOfARollbackOnce() async throws {
        let events = Events()
        let world = try await worldSetBack(events)
        for _ in 0..<3 { _ = try await world.rights() }
        #expect(events.all == [.trusted, .rolledBack])
        try await world.client.repairClock()
        #expect(events.all == [.trusted, .rolledBack, .trusted])
        world.machine.move(wallBySeconds: -86_400)
        _ = try await world.rights()
        #expect(events.all == [.trusted, .rolledBack, .trusted, .rolledBack])
    }

    /// The ticks of a clock watch: each is let go by the test.
    private final class Looks: Sendable {
        private let stream: AsyncStream<Void>
        private let source: AsyncStream<Void>.Continuation
        let waits: AsyncStream<Void>
        private let waiting: AsyncStream<Void>.Continuation

        init() {
            (stream, source) = AsyncStream.makeStream()
            (waits, waiting) = AsyncStream.makeStream()
        }

        func pause() async throws {
            waiting.yield()
            for await _ in stream { return }
            throw CancellationError()
        }

        func lookOnce() { source.yield() }
    }

    /// Plays key 1 under a policy, and sets the clock back. Each look is done when the next is waited for.
    private func whileItPlays(
        _ policy: String, hasSignedTime: Bool = false, hasTimeService: Bool = true,
        _ body: (PlayReadyWorld, KeySession, Watcher, () async -> Void) async throws -> Void
    ) async throws {
        let world = try PlayReadyWorld()
        let looks = Looks()
        let loader = PlayReadyLoader(client: world.client) { _ in try await looks.pause() }
        world.service.setPolicy(policy)
        if hasSignedTime { try await world.client.repairClock() }
        let session = KeySession(loaders: [loader])
        let watcher = Watcher(session)
        #expect(try await world.outcome(in: session) == nil)
        session.didStartPlaying(keyID(1))
        var waits = looks.waits.makeAsyncIterator()
        await waits.next()
        let look = {
            looks.lookOnce()
            await waits.next()
            await session.told()
        }
        await look()
        #expect(!watcher.events.contains { $0.isClockSetBack } && session.status(of: keyID(1)).key != nil)
        world.service.setTimeService(hasTimeService)
        world.machine.move(wallBySeconds: -86_400)
        for _ in 0..<3 { await look() }
        #expect(watcher.events.count { $0.isClockSetBack } == 1)
        try await body(world, session, watcher, look)
    }

    /// Nobody else reads the clock while media plays. The key goes, and comes back where the time service says that it may:
    /// what plays asks again.
    @Test func aRollbackEndsKeysOfLicensesWithDatesWhileTheyPlay() async throws {
        try await whileItPlays("enddate:@+3600") { world, session, watcher, look in
            #expect(session.status(of: keyID(1)).key == nil)
            #expect(session.status(of: keyID(1)).error == nil)
            #expect(watcher.events.count { $0.isExpired } == 1)
            for case .expired(let keyIDs, let error, _) in watcher.events {
                #expect(keyIDs == [keyID(1)] && error.reason.contains("set back"))
            }
            let outcome = try await world.outcome(in: session)
            #expect(outcome == nil)
            #expect(world.service.operations.count { $0 == .getTime } == 1)
            session.didStartPlaying(keyID(1))
            await look()
            #expect(session.status(of: keyID(1)).key != nil)
            world.machine.move(wallBySeconds: -86_400)
            await look()
            #expect(watcher.events.count { $0.isClockSetBack } == 2)
            #expect(session.status(of: keyID(1)).key == nil)
        }
    }

    /// Without it, playback ends by name, until it answers again.
    @Test func withoutTheTimeServiceNothingWithDatesPlays() async throws {
        try await whileItPlays("enddate:@+3600", hasTimeService: false) { world, session, _, _ in
            let error = try await world.outcome(in: session)
            #expect(error?.description.contains("set back") == true)
            // Another license would be of no more use.
            #expect(world.service.operations.count { $0 == .acquireLicense } == 1)
            world.service.setTimeService(true)
            let outcome = try await world.outcome(in: session)
            #expect(outcome == nil)
            #expect(world.service.operations.count { $0 == .acquireLicense } == 1)
        }
    }

    /// One that did not answer is asked again, without a request: what waits for the clock hears that it is trusted.
    @Test func theTimeServiceIsAskedUntilItAnswers() async throws {
        try await whileItPlays("enddate:@+3600", hasTimeService: false) { world, session, _, look in
            #expect(world.service.operations.count { $0 == .getTime } == 2)
            #expect(try await world.client.trustedTime().trust == .rolledBack)
            world.service.setTimeService(true)
            await look()
            #expect(try await world.client.trustedTime().isTrusted)
            for _ in 0..<2 { await look() }
            #expect(world.service.operations.count { $0 == .getTime } == 3)
            let outcome = try await world.outcome(in: session)
            #expect(outcome == nil)
        }
    }

    /// A license without an end is never withdrawn, whether or not a signed time says that it has begun.
    @Test(arguments: [true, false]) func aLicenseWithoutAnEndPlaysOn(hasSignedTime: Bool) async throws {
        try await whileItPlays("begindate:@-60", hasSignedTime: hasSignedTime, hasTimeService: false) {
            _, session, watcher, _ in
            #expect(session.status(of: keyID(1)).key != nil)
            #expect(!watcher.events.contains { $0.isExpired })
        }
    }

    /// One that allows some time with such a clock plays that long.
    @Test func aLicenseWithAGracePeriodPlaysToItsEnd() async throws {
        try await whileItPlays("enddate:@+7200,grace:3600", hasTimeService: false) { world, session, watcher, look in
            #expect(session.status(of: keyID(1)).key != nil)
            world.pass(3601)
            await look()
            #expect(session.status(of: keyID(1)).key == nil)
            #expect(watcher.events.count { $0.isExpired } == 1)
            #expect(watcher.events.count { $0.isClockSetBack } == 1)
        }
    }

    /// Nobody can tell then whether the license still allows it.
    @Test func withoutTheStoreNothingWithAnEndPlays() async throws {
        try await whileItPlays("enddate:@+7200,grace:3600", hasTimeService: false) { world, session, watcher, look in
            #expect(session.status(of: keyID(1)).key != nil)
            try world.folder.alter("DROP TABLE record")
            await look()
            #expect(session.status(of: keyID(1)).key == nil)
            #expect(watcher.events.count { $0.isExpired } == 1)
        }
    }

    /// It is installed, and of no use before the clock is right again.
    @Test func whatIsAcquiredWhileTheClockIsUntrustedCountsLater() async throws {
        let world = try await worldSetBack()
        world.service.setTimeService(false)
        let data = try PlayReadyWorld.data([2])
        try await world.client.acquireLicense(for: data)
        #expect(try await world.client.rightsStatus(for: data, repairingClock: true).kind == .untrustedTime)
        world.service.setTimeService(true)
        let rights = try await world.client.rightsStatus(for: data, repairingClock: true)
        #expect(rights.kind == .valid && rights.ends == date(0).advanced(bySeconds: 3600))
        #expect(world.service.operations.count { $0 == .acquireLicense } == 2)
    }

    /// No license is known to be over then, and each acquisition brings another one.
    @Test func licensesDoNotPileUpWhileTheClockIsUntrusted() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.service.setTimeService(false)
        world.service.setPolicy("enddate:@+3600")
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.machine.move(wallBySeconds: -86_400)
        for _ in 0..<20 { try await world.client.acquireLicense(for: PlayReadyWorld.data()) }
        let store = try await world.client.parts().store
        let records = try await store.records(for: keyID(1), kind: .license)
        #expect(records.count == PlayReadyClient.licensesPerKey)
        // The one that needs no clock stays, and the latest.
        #expect(records.count { $0.ends == nil } == 1 && records.first?.ends != nil)
        #expect(try await world.rights().kind == .valid)
    }
}
