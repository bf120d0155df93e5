// SPDX-License-Identifier: MPL-2.0

import Glibc

/// The time that a session lives by. Tests bring their own.
struct KeySessionClock: Sendable {
    /// Goes on while the system sleeps, and never back.
    var now: @Sendable () -> ContinuousClock.Instant
    /// In seconds since 1970-01-01 00:00 UTC, as the system has it.
    var date: @Sendable () -> Int64
    /// Waits without a thread, and throws when the task is cancelled.
    var sleep: @Sendable (_ deadline: ContinuousClock.Instant) async throws -> Void

    static let system = KeySessionClock(
        now: { ContinuousClock.now },
        date: { Int64(time(nil)) },
        sleep: { try await Task.sleep(until: $0, tolerance: .zero, clock: .continuous) })
}
