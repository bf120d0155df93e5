// SPDX-License-Identifier: MPL-2.0

import LatchkeyViewingSession
import LatchkeyTestSupport

/// How the server fails.
enum Outage {
    /// At once, with an error.
    case refused
    /// Not a word, until the client gives up.
    case silent
    /// At once, with the wish to be asked again after 30 s.
    case retryAfter

    static let time: Range<Int64> = 600_000..<690_000
}

/// Clients that a server treats alike. They do not wait for each other, so each one's time line is played in turn.
struct Crowd: Sendable {
    let count: Int
    let policy: SessionPolicy
    let outage: Outage

    private static let chunks = 64
    /// A round trip.
    private static let latency: Int64 = 50

    func run() async -> Load {
        await withTaskGroup(of: Load.self) { group in
            for chunk in 0..<Self.chunks {
                let (first, end) = (count * chunk / Self.chunks, count * (chunk + 1) / Self.chunks)
                group.addTask { load(of: first..<end) }
            }
            var sum = Load(clients: count)
            for await load in group { sum.add(load) }
            return sum
        }
    }

    private func load(of clients: Range<Int>) -> Load {
        var load = Load(clients: clients.count)
        var random = SeededGenerator(seed: UInt64(clients.lowerBound))
        for state in SessionState.sessions(clients.count, policy: policy) { play(state, &load, &random) }
        return load
    }

    private func play(_ client: SessionState, _ load: inout Load, _ random: inout SeededGenerator) {
        var state = client
        var now = Int64.random(in: 0..<Load.joining, using: &random)
        var heard = now
        var action = state.handle(.start, at: now, random: &random)
        load.events += 1
        while now < Load.end {
            if let request = action.send {
                if request.kind != .setup { load.count(requestAt: now) }
                guard request.kind != .teardown else { break }
                // The state machine's own clock ends the wait for a server that says nothing.
                if let (reply, delay) = answer(to: request, at: now, heard: &heard) {
                    now += delay
                    action = state.handle(.reply(to: request, reply), at: now, random: &random)
                    load.events += 1
                    continue
                }
            }
            guard let deadline = state.deadline else { break }
            now = max(now, deadline)
            action = state.handle(.tick, at: now, random: &random)
            load.events += 1
        }
        if state.phase != .active && state.phase != .grace { load.lost += 1 }
    }

    private func answer(
        to request: SessionState.Request, at now: Int64, heard: inout Int64
    ) -> (SessionState.Reply, Int64)? {
        if Outage.time.contains(now) {
            switch outage {
            case .refused: return (.failed(SessionFailure(.unknown)), 0)
            case .silent: return nil
            case .retryAfter: return (.failed(SessionFailure(.unknown, status: 503, retryAfter: 30_000)), 0)
            }
        }
        if request.kind == .beat, now - heard > policy.interval * policy.missedBeats {
            return (.failed(SessionFailure(.ended, status: 410)), Self.latency)
        }
        heard = now
        return (.granted(SessionGrant(token: nil)), Self.latency)
    }
}
