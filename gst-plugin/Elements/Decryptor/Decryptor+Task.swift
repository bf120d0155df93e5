// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

/// The source pad's thread, which has the stream while something is queued, and waits for keys.
extension Decryptor {
    /// Gives the stream to the source pad's thread. The lock is held, and is given up: the pad posts a message when its
    /// thread is made, and an application that answers it at once may call into this element.
    func unlockAndStartTask() {
        monitor.broadcast()
        let isStarting = !flow.isTaskActive
        flow.isTaskActive = true
        monitor.unlock()
        guard isStarting else { return }
        sourcePad.startTask()
        // A stop that came in between found no thread to end. A flush that did has its pause undone: no harm.
        if monitor.withLock({ !flow.isActive }) { sourcePad.stopTask() }
    }

    func loop() {
        monitor.lock()
        guard !flow.isFlushing, let item = flow.queue.popFirst() else {
            flow.isTaskActive = false
            // With the lock held: a start that comes next must not be undone by this pause.
            sourcePad.pauseTask()
            monitor.broadcast()
            monitor.unlock()
            return
        }
        monitor.broadcast()
        monitor.unlock()

        var result = FlowResult.ok
        switch consume item {
        case .event(let event):
            result = pushWhenKeyIsThere(complete(before: event))
            passOrKeep(event)
        case .buffer(let buffer): result = pushWhenKeyIsThere(prepare(buffer))
        }
        // A selector further down may link the stream later, as when the user selects another track.
        if result != .ok, !(result == .notLinked && sourcePad.isLinked) { stopFlow(result) }
    }

    /// A flushing pad does not store the event that it is given, and upstream does not send caps again.
    private func passOrKeep(_ event: consuming Event) {
        guard event.kind != .endOfStream else {
            _ = pass(event)
            deliverHeldEnd()
            return
        }
        guard event.isSticky, event.kind != .segment else {
            _ = pass(event)
            return
        }
        let spare = event.share()
        guard !pass(event) else { return }
        monitor.lock()
        defer { monitor.unlock() }
        if flow.isFlushing { flow.queue.prepend(spare) }
    }

    private func deliverHeldEnd() {
        monitor.lock()
        let heldEnd = flow.isFlushing ? nil : flow.heldEnd
        flow.heldEnd = nil
        monitor.unlock()
        heldEnd?.deliver()
    }

    private func pushWhenKeyIsThere(_ prepared: consuming Prepared) -> FlowResult {
        var wait: KeyWait?
        var next = prepared
        while true {
            switch consume next {
            case .ready(let clear):
                return sourcePad.push(clear)
            case .partly(let clear, let rest):
                let result = sourcePad.push(clear)
                guard result == .ok else { return result }
                next = prepare(rest)
            case .nothing:
                return .ok
            case .failed(let failure):
                return report(failure)
            case .missingKey(let encrypted, let keyID):
                // One buffer may need several keys, one after the other.
                var current = KeyWait(keyID: keyID, startedAt: MonotonicTime.now)
                if let wait, wait.keyID == keyID { current = wait }
                switch waitForKeyEvent(&current) {
                case .flushing: return .flushing
                case .failed(let failure): return report(failure)
                case nil: break
                }
                wait = current
                next = prepare(encrypted)
            }
        }
    }

    /// Downstream, or the wait for a key, ended the flow: nothing that is queued goes any further.
    private func stopFlow(_ result: FlowResult) {
        monitor.lock()
        guard !flow.isFlushing else {
            monitor.unlock()
            return
        }
        flow.result = result
        let hasEnded = flow.hasEnded
        if hasEnded { reportWhatUpstreamWillNot() }
        monitor.broadcast()
        monitor.unlock()
        dropQueue(keepingSticky: true)
        // Upstream has sent everything and will not ask for the result any more.
        guard hasEnded, result != .flushing else { return }
        _ = sourcePad.push(Event.endOfStream())
        deliverHeldEnd()
    }
}
