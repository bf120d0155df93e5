// SPDX-License-Identifier: MPL-2.0

import Glibc
import Testing

@testable import Latchkey

/// How long a sleep of the machine is delayed. `31-sessions standstill/sleep` has a logind.
@Suite("Sleep watch", .timeLimit(.minutes(8)))
struct SleepWatchTests {
    /// A delay inhibitor, with the end that logind watches.
    private final class Inhibitor {
        let delay: SleepDelay
        private let watched: Int32

        init() throws {
            var ends: [Int32] = [-1, -1]
            try #require(pipe(&ends) == 0)
            (watched, delay) = (ends[0], SleepDelay(owning: ends[1]))
        }

        deinit { close(watched) }

        var isReleased: Bool {
            var state = pollfd(fd: watched, events: 0, revents: 0)
            return poll(&state, 1, 0) == 1
        }
    }

    /// Something that the test lets happen.
    private struct Moment: Sendable {
        private let stream: AsyncStream<Void>
        private let continuation: AsyncStream<Void>.Continuation

        init() { (stream, continuation) = AsyncStream.makeStream() }

        func come() { continuation.finish() }
        func wait() async { for await _ in stream {} }
    }

    /// What has to be done before the sleep has come to its end, or is given up.
    @Test(arguments: [true, false]) func theSleepIsDelayedUntilAllIsDoneOrTheLimit(isDone: Bool) async throws {
        let inhibitor = try Inhibitor()
        let (begun, done, limit) = (Moment(), Moment(), Moment())
        let changes = SleepChanges(untilLimit: { await limit.wait() }) { isAboutToSleep in
            #expect(isAboutToSleep)
            begun.come()
            await done.wait()
        }
        changes.tell(true, until: inhibitor.delay)
        await begun.wait()
        #expect(!inhibitor.isReleased)
        (isDone ? done : limit).come()
        while !inhibitor.isReleased { await Task.yield() }
        (isDone ? limit : done).come()
    }
}
