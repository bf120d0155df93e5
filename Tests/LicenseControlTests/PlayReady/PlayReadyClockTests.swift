// SPDX-License-Identifier: MPL-2.0

import KeySystems
import LicenseControl
import ProtectionModel
import Synchronization
import Testing

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
}
