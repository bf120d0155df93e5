// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyHTTP
import Synchronization

/// Runs the jobs of one store, one after the other, on a thread of its own.
///
/// SQLite and the disk may make this thread wait, and no other. The thread starts with the first job and ends with the
/// executor.
package final class StorageExecutor: SerialExecutor {
    private let queue = JobQueue()

    /// Starts nothing yet.
    package init() {}

    deinit { queue.stop() }

    package func enqueue(_ job: consuming ExecutorJob) {
        // The entry keeps the executor until the job has run.
        queue.add(JobQueue.Entry(job: UnownedJob(job), executor: self))
    }
}

/// What the thread and the executor share. The thread keeps this, not the executor.
private final class JobQueue: @unchecked Sendable {
    // SAFETY: `entries`, `isStarted` and `isStopped` are read and written under `lock` alone.
    struct Entry {
        let job: UnownedJob
        let executor: StorageExecutor
    }

    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var entries: [Entry] = []
    private var isStarted = false
    private var isStopped = false

    init() {
        pthread_mutex_init(lock, nil)
        pthread_cond_init(changed, nil)
    }

    deinit {
        pthread_cond_destroy(changed)
        pthread_mutex_destroy(lock)
        changed.deallocate()
        lock.deallocate()
    }

    func add(_ entry: Entry) {
        pthread_mutex_lock(lock)
        entries.append(entry)
        let startsThread = !isStarted
        isStarted = true
        pthread_cond_signal(changed)
        pthread_mutex_unlock(lock)
        if startsThread, !startThread() {
            // Without a thread, the caller's has to do: a job that never runs would hang its task for good.
            pthread_mutex_lock(lock)
            isStarted = false
            let waiting = entries
            entries = []
            pthread_mutex_unlock(lock)
            for entry in waiting { entry.job.runSynchronously(on: entry.executor.asUnownedSerialExecutor()) }
        }
    }

    func stop() {
        pthread_mutex_lock(lock)
        isStopped = true
        pthread_cond_signal(changed)
        pthread_mutex_unlock(lock)
    }

    private func startThread() -> Bool {
        // SAFETY: retained here, released by the thread, or below where there is no thread.
        let start = Unmanaged.passRetained(self)
        var thread = pthread_t()
        guard withSignalsBlocked({ pthread_create(&thread, nil, runJobs, start.toOpaque()) }) == 0 else {
            start.release()
            return false
        }
        pthread_detach(thread)
        return true
    }

    fileprivate func run() {
        while let entry = next() {
            // What is being written when the process exits is written to its end.
            ExitGate.pass { entry.job.runSynchronously(on: entry.executor.asUnownedSerialExecutor()) }
        }
    }

    /// Waits for a job. Nil when the executor is gone: then none is left, for each job keeps it.
    private func next() -> Entry? {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        while entries.isEmpty {
            if isStopped { return nil }
            pthread_cond_wait(changed, lock)
        }
        return entries.removeFirst()
    }
}

private func runJobs(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    // SAFETY: the pointer that `startThread` retained for this thread.
    Unmanaged<JobQueue>.fromOpaque(argument).takeRetainedValue().run()
    return nil
}
