// SPDX-License-Identifier: MPL-2.0

import Glibc

/// The time that viewing sessions live by. Tests bring their own.
public struct SessionClock: Sendable {
    /// Milliseconds. Never goes back, and goes on while the machine sleeps.
    public var now: @Sendable () -> Int64
    /// Waits without a thread until that time, and throws when the task is cancelled.
    public var sleep: @Sendable (_ time: Int64) async throws -> Void

    /// Both are called from any thread; `sleep` waits for a time of `now`, not for a duration.
    public init(
        now: @escaping @Sendable () -> Int64, sleep: @escaping @Sendable (_ time: Int64) async throws -> Void
    ) {
        self.now = now
        self.sleep = sleep
    }

    /// `CLOCK_BOOTTIME`, which goes on while the machine sleeps.
    public static let system = SessionClock(
        now: { milliseconds },
        sleep: { time in
            let wait = max(0, time - milliseconds)
            try await Task.sleep(for: .milliseconds(wait), tolerance: .zero, clock: .continuous)
        })

    private static var milliseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) &* 1000 &+ Int64(time.tv_nsec) / 1_000_000
    }
}
