// SPDX-License-Identifier: MPL-2.0

import CGStreamer

/// A mutex with a condition, for streaming threads that must wait: GLib's `GMutex` and `GCond`.
///
/// Control code never waits here. Thread-safe.
public final class Monitor: @unchecked Sendable {
    // SAFETY: GMutex and GCond are made for use from many threads; the storage is freed only in deinit.
    @usableFromInline let mutex = UnsafeMutablePointer<GMutex>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<GCond>.allocate(capacity: 1)

    public init() {
        // SAFETY: freshly allocated storage of the right type.
        g_mutex_init(mutex)
        g_cond_init(condition)
    }

    deinit {
        g_mutex_clear(mutex)
        g_cond_clear(condition)
        mutex.deallocate()
        condition.deallocate()
    }

    @inlinable public func lock() { g_mutex_lock(mutex) }
    @inlinable public func unlock() { g_mutex_unlock(mutex) }

    @inlinable public func withLock<Result>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }

    /// Wakes every waiter. The lock may be held or not.
    public func broadcast() { g_cond_broadcast(condition) }

    /// Gives up the lock and waits for a broadcast, at most `microseconds`. The lock must be held, and is held again
    /// afterwards. Wakes without a broadcast are possible.
    public func wait(microseconds: Int64) {
        _ = g_cond_wait_until(condition, mutex, g_get_monotonic_time() &+ gint64(microseconds))
    }
}

/// Time that only goes forward, in nanoseconds.
public enum MonotonicTime {
    @inlinable public static var now: UInt64 { UInt64(ek_monotonic_ns()) }
}
