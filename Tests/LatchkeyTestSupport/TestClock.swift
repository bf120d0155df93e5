// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// A clock that goes on when it is told to. In milliseconds. Thread-safe.
public final class TestClock: Sendable {
    private struct Sleeper {
        let id: Int
        let time: Int64
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct Core {
        var now: Int64 = 1_000_000
        var sleepers: [Sleeper] = []
        var lastID = 0
        var cancelled: Set<Int> = []
    }

    private let core = Mutex(Core())

    public init() {}

    /// Since some time that nobody asks for.
    public var now: Int64 { core.withLock(\.now) }

    /// Whether somebody waits for this time.
    public func isAwaited(_ time: Int64) -> Bool {
        core.withLock { core in core.sleepers.contains { $0.time == time } }
    }

    public func advance(by milliseconds: Int64) {
        let due = core.withLock { core in
            core.now += milliseconds
            let due = core.sleepers.filter { $0.time <= core.now }
            core.sleepers.removeAll { $0.time <= core.now }
            return due
        }
        for sleeper in due { sleeper.continuation.resume() }
    }

    /// Never back.
    public func advance(to time: Int64) { advance(by: max(0, time - now)) }

    /// Waits for a time of `now`. Throws when the task is cancelled.
    public func sleep(until time: Int64) async throws {
        let id = core.withLock { core in
            core.lastID += 1
            return core.lastID
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let outcome: Result<Void, any Error>? = core.withLock { core in
                    if core.cancelled.remove(id) != nil { return .failure(CancellationError()) }
                    if time <= core.now { return .success(()) }
                    core.sleepers.append(Sleeper(id: id, time: time, continuation: continuation))
                    return nil
                }
                if let outcome { continuation.resume(with: outcome) }
            }
        } onCancel: {
            let sleeper = core.withLock { core in
                guard let index = core.sleepers.firstIndex(where: { $0.id == id }) else {
                    core.cancelled.insert(id)
                    return Sleeper?.none
                }
                return core.sleepers.remove(at: index)
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
    }
}
