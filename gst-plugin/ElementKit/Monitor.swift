// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Glibc

/// A mutex with a condition, for streaming threads that must wait.
///
/// Control code never waits here. Thread-safe. These are POSIX threads' own and not GLib's, which thread sanitizers
/// cannot see into: under those every access that they guard would look like a race.
public final class Monitor: @unchecked Sendable {
    // SAFETY: mutex and condition are made for use from many threads; the storage is freed only in deinit.
    @usableFromInline let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    /// An open lock, without waiting threads.
    public init() {
        // SAFETY: freshly allocated storage of the right type. None of the calls can fail with these arguments.
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
        condition.deallocate()
    }

    /// Waits for the lock. Not recursive: a thread that holds it must not call this.
    @inlinable public func lock() { pthread_mutex_lock(mutex) }
    /// For the thread that holds the lock.
    @inlinable public func unlock() { pthread_mutex_unlock(mutex) }

    /// Holds the lock for the call.
    @inlinable public func withLock<Result>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }

    /// Wakes every waiter. The lock may be held or not.
    public func broadcast() { pthread_cond_broadcast(condition) }

    /// Gives up the lock and waits for a broadcast, at most `microseconds`. The lock must be held, and is held again
    /// afterwards. Wakes without a broadcast are possible.
    public func wait(microseconds: Int64) {
        var end = timespec()
        clock_gettime(CLOCK_MONOTONIC, &end)
        let (seconds, rest) = max(microseconds, 0).quotientAndRemainder(dividingBy: 1_000_000)
        end.tv_sec &+= Int(clamping: seconds)
        end.tv_nsec &+= Int(rest) &* 1000
        if end.tv_nsec >= 1_000_000_000 {
            end.tv_sec &+= 1
            end.tv_nsec &-= 1_000_000_000
        }
        pthread_cond_timedwait(condition, mutex, &end)
    }
}

/// Time that only goes forward, in nanoseconds.
public enum MonotonicTime {
    /// Nanoseconds of the monotonic clock.
    public static var now: UInt64 { UInt64(ek_monotonic_ns()) }
}
