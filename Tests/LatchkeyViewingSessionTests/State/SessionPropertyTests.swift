// SPDX-License-Identifier: MPL-2.0

import LatchkeyViewingSession
import LatchkeyTestSupport
import Testing

/// Sessions under random events: a server that answers, refuses, is late, answers twice or not at all; a user who pauses,
/// leaves and comes back; a machine that sleeps; a process that stands still.
@Suite("Session state, random events")
struct SessionPropertyTests {
    private static let eventsPerRun = 400

    @Test(arguments: 0..<8) func promisesHoldForRandomEvents(batch: Int) throws {
        var ends = (closed: 0, teardowns: 0, records: 0, established: 0, events: 0)
        var seed = UInt64(batch * 100_000)
        // More than a million in all batches.
        while ends.events < 130_000 {
            seed += 1
            do {
                try Self.run(seed: seed, &ends)
            } catch {
                Issue.record("seed \(seed): \(error)")
                return
            }
        }
        // The random walk has to get somewhere.
        #expect(ends.closed > 100 && ends.teardowns > 100 && ends.records > 10 && ends.established > 300)
    }

    private static func policy(_ random: inout SeededGenerator) -> SessionPolicy {
        var policy = SessionPolicy()
        policy.interval = [5_000, 10_000, 60_000, 300_000].randomElement(using: &random) ?? 60_000
        policy.missedBeats = .random(in: 2...4, using: &random)
        policy.replacesEndedSession = .random(using: &random)
        policy.replacesSessionAfterAbsence = .random(using: &random)
        policy.endsBeforeSleep = .random(using: &random)
        policy.endsUnconfirmed = .random(using: &random)
        policy.pauseLimit = .random(in: 20_000...600_000, using: &random)
        policy.retryReserve = .random(in: 0...12, using: &random)
        return policy
    }

    private static func run(
        seed: UInt64, _ ends: inout (closed: Int, teardowns: Int, records: Int, established: Int, events: Int)
    ) throws {
        var random = SeededGenerator(seed: seed)
        let policy = policy(&random)
        var world = SessionWorld(policy: policy, seed: seed &+ 77)
        var wasOver = false
        for _ in 0..<eventsPerRun {
            try step(&world, &random)
            try checkLease(world, policy)
            if world.state.isOver {
                wasOver = true
                break
            }
        }
        if !wasOver {
            if world.underWay?.kind == .setup { try world.answer(.failed(.init(.limit))) }
            try world.handle(.stop)
            // The server does not say a word any more: the window ends it.
            try world.advance(to: world.now + 3_600_000)
        }
        try world.check(world.state.isOver, "a session that is stopped comes to an end: \(world.state)")
        try world.check(!world.isGateOpen, "nothing plays after the end")
        let forgotten = world.held.subtracting(world.left)
        try world.check(forgotten.isEmpty, "the server holds \(forgotten), and nobody knows")
        ends.closed += 1
        ends.teardowns += world.sent.count { $0.kind == .teardown }
        ends.records += world.records.count
        ends.established += world.established
        ends.events += world.events
    }

    /// The outside knows when the last accepted request was sent, and how long the server waits.
    private static func checkLease(_ world: SessionWorld, _ policy: SessionPolicy) throws {
        guard world.isGateOpen else { return }
        let end = world.acceptedAt + world.state.interval * world.state.missedBeats - policy.safety
        try world.check(world.now < end, "it plays at \(world.now), past \(end)")
    }

    private static func step(_ world: inout SessionWorld, _ random: inout SeededGenerator) throws {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<40:
            guard world.underWay != nil else { fallthrough }
            try answer(&world, &random)
        case 40..<55:
            // Up to the next deadline and no further, as timers do.
            if let deadline = world.state.deadline { try world.advance(to: deadline) }
        case 55..<70: try world.advance(to: world.now + .random(in: 0...5_000, using: &random))
        case 70..<75: try world.handle(.start)
        case 75: try world.handle(.stop)
        case 76..<79: try world.handle(.pause)
        case 79..<82: try world.handle(.play)
        case 82..<84: try world.handle(.background)
        case 84..<86: try world.handle(.foreground)
        case 86..<88:
            // Asleep: no timer runs.
            try world.handle(.suspend)
            world.now += .random(in: 0...1_000_000, using: &random)
            try world.handle(.resume)
        case 88: try world.handle(.suspend)
        case 89: try world.handle(.resume)
        case 90:
            // Stopped by a debugger, or the machine slept without a word. Nothing is shown while nothing runs.
            world.now += .random(in: 0...1_000_000, using: &random)
            try world.handle(.tick)
        case 91..<93: try world.handle(.credential(isNew: .random(using: &random)))
        case 93..<97:
            // An answer that comes again, or late.
            guard let request = world.sent.dropLast().randomElement(using: &random) else { return }
            let grant = SessionGrant(token: SessionToken("old"), reference: "old")
            try world.handle(
                .reply(to: request, .random(using: &random) ? .granted(grant) : .failed(.init(.ended))))
        case 97:
            // A tick that nobody asked for.
            try world.handle(.tick)
        case 98: try world.handle(.awaitPlay)
        default: try world.handle(.check)
        }
        if world.lastAction.wantsCredential, .random(using: &random) {
            try world.handle(.credential(isNew: .random(using: &random)))
        }
    }

    private static func answer(_ world: inout SessionWorld, _ random: inout SeededGenerator) throws {
        guard let request = world.underWay else { return }
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<12: try world.answer()
        case 12..<15:
            let retryAfter: Int64? = .random(using: &random) ? .random(in: 0...400_000, using: &random) : nil
            // The server may have taken the request and lost the answer.
            if .random(using: &random) {
                if request.kind == .setup { world.held.insert(request.generation) }
                if request.kind == .teardown { world.held.remove(request.generation) }
                // Without the client's number, nobody can end what nobody was told of: the server's clock does.
                if request.kind == .setup, !world.state.policy.endsUnconfirmed { world.held.remove(request.generation) }
            }
            try world.handle(.reply(to: request, .failed(.init(.unknown, status: 503, retryAfter: retryAfter))))
        case 15: try refuse(.credential, request, &world)
        case 16:
            world.held.remove(request.generation)
            try refuse(.ended, request, &world)
        case 17:
            world.held.remove(request.generation)
            try refuse(.limit, request, &world)
        case 18: try refuse(.refused, request, &world)
        default:
            // The same answer twice.
            try world.answer()
            if world.underWay != request {
                let grant = SessionGrant(token: SessionToken("twice"), reference: "session \(request.generation)")
                try world.handle(.reply(to: request, .granted(grant)))
            }
        }
    }

    private static func refuse(
        _ kind: SessionFailure.Kind, _ request: SessionState.Request, _ world: inout SessionWorld
    ) throws {
        try world.handle(.reply(to: request, .failed(.init(kind, status: 400))))
    }
}
