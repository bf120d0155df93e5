// SPDX-License-Identifier: MPL-2.0

import Synchronization

@testable import LatchkeyKeySession

/// A clock that goes on when a test says so.
final class ManualClock: ClockSource {
    private struct Sleeper {
        let deadline: ContinuousClock.Instant
        let wake: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var elapsed = Duration.zero
        /// What the system clock was set by.
        var wallOffset: Int64 = 0
        var sleepers: [Int: Sleeper] = [:]
        var cancelled: Set<Int> = []
        var lastID = 0
    }

    let start = ContinuousClock.now
    /// 2026-01-01 00:00 UTC.
    static let date: Int64 = 1_767_225_600
    private let state = Mutex(State())

    var elapsed: Duration { state.withLock(\.elapsed) }

    /// How many wait.
    var sleepers: Int { state.withLock { $0.sleepers.count } }

    var clock: KeySessionClock {
        KeySessionClock(
            now: { [self] in start + elapsed },
            date: { [self] in state.withLock { Self.date + $0.elapsed.components.seconds + $0.wallOffset } },
            sleep: { [self] in try await sleep(until: $0) })
    }

    /// Seconds by which the system clock is set.
    func set(by seconds: Int64) { state.withLock { $0.wallOffset += seconds } }

    func reading() -> ClockReading {
        state.withLock { state in
            let elapsed = state.elapsed.components.seconds
            return ClockReading(
                wall: (Self.date + elapsed + state.wallOffset) * 1000, sinceBoot: 1000 + elapsed * 1000, bootID: "boot")
        }
    }

    /// Wakes those whose time has come.
    func advance(by duration: Duration) {
        let woken = state.withLock { state -> [Sleeper] in
            state.elapsed += duration
            let now = start + state.elapsed
            let due = state.sleepers.filter { $0.value.deadline <= now }
            for id in due.keys { state.sleepers[id] = nil }
            return Array(due.values)
        }
        for sleeper in woken { sleeper.wake.resume() }
    }

    private func sleep(until deadline: ContinuousClock.Instant) async throws {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (wake: CheckedContinuation<Void, any Error>) in
                let result = state.withLock { state -> Result<Void, any Error>? in
                    if state.cancelled.remove(id) != nil { return .failure(CancellationError()) }
                    if deadline <= start + state.elapsed { return .success(()) }
                    state.sleepers[id] = Sleeper(deadline: deadline, wake: wake)
                    return nil
                }
                if let result { wake.resume(with: result) }
            }
        } onCancel: {
            let sleeper = state.withLock { state -> Sleeper? in
                if let sleeper = state.sleepers.removeValue(forKey: id) { return sleeper }
                state.cancelled.insert(id)
                return nil
            }
            sleeper?.wake.resume(throwing: CancellationError())
        }
    }
}
