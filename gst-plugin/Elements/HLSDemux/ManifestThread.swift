// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import Synchronization

/// The thread that gives the stock demuxer the master playlist. Thread-safe.
///
/// Workaround (GStreamer >=1.26 <1.28): that thread then waits for the first media playlist. If the playlist arrives before the
/// thread waits, the thread waits forever. So no playlist is answered until it sleeps.
final class ManifestThread: Sendable {
    /// A thread that has something else to do must not hold playlists up. Shorter than what a stop waits for.
    private static let limit = Duration.milliseconds(500)

    private let thread = Mutex(KernelThreads([]))
    private let isAsleep: @Sendable (KernelThreads) -> Bool
    private let now: @Sendable () -> ContinuousClock.Instant
    private let sleep: @Sendable (Duration) async throws -> Void

    /// `isAsleep` tells whether a thread sleeps, or has ended.
    init(
        isAsleep: @escaping @Sendable (KernelThreads) -> Bool = { $0.areAsleep },
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        (self.isAsleep, self.now, self.sleep) = (isAsleep, now, sleep)
    }

    /// The thread that asks is the one.
    func recordCurrent() { thread.withLock { $0 = .current } }

    /// It waits for no playlist any more.
    func forget() { thread.withLock { $0 = KernelThreads([]) } }

    /// Whether a playlist may be answered, as far as that can be told.
    var mayAnswer: Bool { isAsleep(thread.withLock { $0 }) }

    /// Waits until a playlist may be answered, for half a second at most.
    func wait() async {
        let end = now() + Self.limit
        while !mayAnswer, now() < end {
            guard (try? await sleep(.milliseconds(1))) != nil else { return }
        }
    }
}
