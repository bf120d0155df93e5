// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

/// Waiting without holding up a stop.
extension Decryptor {
    /// How often a waiting thread looks whether a bin around the element is being stopped, in microseconds.
    static let pollInterval: Int64 = 50_000

    /// Waits until something changes, or for a while. False where the stream is being flushed or the element stopped.
    /// The lock is held.
    func waitForChange(microseconds: Int64 = pollInterval) -> Bool {
        monitor.wait(microseconds: microseconds)
        if flow.isFlushing { return false }
        monitor.unlock()
        let isBeingStopped = reference.isBeingStopped
        monitor.lock()
        return !isBeingStopped && !flow.isFlushing
    }

    struct KeyWait {
        let keyID: KeyID?
        let startedAt: UInt64
        var seenEvents: UInt64?
        var hasWarned = false
        var hasLookedLast = false
    }

    enum WaitEnd {
        case flushing
        case failed(DecryptorFailure)
    }

    /// Waits until something happens to keys; nil then. The deadline and a stop end the wait.
    func waitForKeyEvent(_ wait: inout KeyWait) -> WaitEnd? {
        monitor.lock()
        flow.isAwaitingKey = true
        defer {
            flow.isAwaitingKey = false
            monitor.unlock()
        }
        while true {
            if flow.isFlushing { return .flushing }
            // The key may have come between the last look and this: look once more. After the deadline that is the
            // last time, so that a flood of events cannot hold it off.
            if wait.seenEvents != flow.keyEvents, !wait.hasLookedLast {
                wait.seenEvents = flow.keyEvents
                wait.hasLookedLast =
                    stream.keys?.sources.timeout.map { MonotonicTime.now &- wait.startedAt >= $0 } ?? false
                return nil
            }
            let isUntaken = requestIsUntaken(wait.keyID)
            if isUntaken, !wait.hasWarned {
                wait.hasWarned = true
                monitor.unlock()
                warnAboutUntaken(wait.keyID)
                monitor.lock()
                continue
            }
            let waited = MonotonicTime.now &- wait.startedAt
            var pause = Self.pollInterval
            // A request that no loader takes waits for the application a third of the time.
            if let sources = stream.keys?.sources, let limit = sources.timeout.map({ isUntaken ? $0 / 3 : $0 }) {
                if waited >= limit {
                    monitor.unlock()
                    defer { monitor.lock() }
                    return .failed(sources.timeOut(wait.keyID, after: waited, isUntaken: isUntaken))
                }
                pause = min(pause, Int64(clamping: (limit &- waited) / 1000 + 1))
            }
            guard waitForChange(microseconds: pause) else { return .flushing }
        }
    }

    /// Whoever asked: the bin around may have, before this element was there.
    private func requestIsUntaken(_ keyID: KeyID?) -> Bool {
        guard let session = stream.keys?.sources.session, case .pending(let id) = session.status(of: keyID) else {
            return false
        }
        return session.isUntaken(requestID: id)
    }
}
