// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

/// Flushes and activation: where the data flow begins and ends.
extension Decryptor {
    func beginFlush() {
        monitor.withLock {
            flow.isFlushing = true
            flow.result = .flushing
            monitor.broadcast()
        }
    }

    private func beginFlow() {
        monitor.withLock {
            flow.isFlushing = false
            flow.result = .ok
            flow.isFailureReported = false
            flow.hasEnded = false
            flow.heldEnd = nil
            flow.isSeekExpected = false
            flow.isTaskActive = false
        }
    }

    /// Drops what is queued. Caps, tags and the like that were on their way must not be lost with it.
    func dropQueue(keepingSticky: Bool) {
        monitor.lock()
        var kept: [UnsafeMutablePointer<GstEvent>] = []
        while let item = flow.queue.popFirst() {
            if case .event(let event) = item, keepingSticky, event.isSticky, event.kind != .endOfStream,
                event.kind != .segment
            {
                kept.append(event.release())
            }
        }
        monitor.unlock()
        for event in kept { keep(Event(owning: event)) }
    }

    func flushStart(_ event: consuming Event) -> Bool {
        // First: a push that downstream refuses from now on is no failure.
        beginFlush()
        let result = sourcePad.push(event)
        sourcePad.pauseTask()
        return result
    }

    func flushStop(_ event: consuming Event) -> Bool {
        let result = sourcePad.push(event)
        dropQueue(keepingSticky: true)
        flushStream()
        beginFlow()
        return result
    }

    func sinkActivation(_ isActive: Bool) {
        if !isActive { beginFlush() }
    }

    func sourceActivation(_ isActive: Bool) {
        monitor.withLock { flow.isActive = isActive }
        if isActive {
            beginFlow()
        } else {
            beginFlush()
            sourcePad.stopTask()
            dropQueue(keepingSticky: false)
            monitor.withLock { flow.isTaskActive = false }
        }
    }
}
