// SPDX-License-Identifier: MPL-2.0

import LatchkeyOffline
import Synchronization

/// Stops the downloads of this process before the machine sleeps, and goes on with them after. Thread-safe.
enum SleepingDownloads {
    private struct WeakCache: Sendable {
        weak let cache: ContentCache?
    }

    private struct State {
        var watch: SleepWatch?
        var caches: [WeakCache] = []
    }

    private static let state = Mutex(State())

    /// From now on, and as long as there is this cache.
    static func include(_ cache: ContentCache) {
        state.withLock { state in
            state.caches.removeAll { $0.cache == nil }
            if !state.caches.contains(where: { $0.cache === cache }) { state.caches.append(WeakCache(cache: cache)) }
            if state.watch == nil { state.watch = SleepWatch { tell($0) } }
        }
    }

    private static func tell(_ sleeps: Bool) {
        for cache in state.withLock({ $0.caches.compactMap(\.cache) }) {
            if sleeps { cache.suspendDownloads() } else { cache.resumeDownloads() }
        }
    }
}
