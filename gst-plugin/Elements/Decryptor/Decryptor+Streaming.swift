// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import LicenseControl
import ProtectionModel

extension Decryptor {
    /// How often a waiting thread looks whether a bin around the element is being stopped, in microseconds.
    static let pollInterval: Int64 = 50_000

    // MARK: The upstream thread

    func chain(_ buffer: consuming Buffer) -> FlowResult {
        monitor.lock()
        if flow.isFlushing {
            monitor.unlock()
            return .flushing
        }
        if flow.result != .ok {
            defer { monitor.unlock() }
            return flow.result
        }
        guard flow.queue.isEmpty, !flow.isTaskActive else {
            let result = enqueueWhenThereIsRoom(buffer)
            monitor.unlock()
            return result
        }
        monitor.unlock()

        return pushOrQueue(prepare(buffer))
    }

    /// Pushes what is ready. What waits for a key goes into the queue, which is empty.
    private func pushOrQueue(_ prepared: consuming Prepared) -> FlowResult {
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
            case .missingKey(let encrypted, _):
                monitor.lock()
                defer { monitor.unlock() }
                guard !flow.isFlushing else { return .flushing }
                flow.queue.append(encrypted)
                startTask()
                return .ok
            case .failed(let failure):
                return report(failure)
            }
        }
    }

    /// The lock is held.
    private func enqueueWhenThereIsRoom(_ buffer: consuming Buffer) -> FlowResult {
        var seekWatch: SeekWatch?
        while isQueueFull {
            monitor.unlock()
            let isInside = reference.isInsideAdaptiveDemuxer
            let isBeingStopped = reference.isBeingStopped
            monitor.lock()
            if flow.isFlushing || isBeingStopped { return .flushing }
            if flow.result != .ok { return flow.result }
            if isInside {
                if hasRoomInsideAdaptiveDemuxer { break }
                monitor.unlock()
                seekWatch = seekWatch ?? SeekWatch(self)
                seekWatch?.update()
                monitor.lock()
                if hasRoomInsideAdaptiveDemuxer { continue }
            }
            if isQueueFull, !flow.isFlushing { monitor.wait(microseconds: Self.pollInterval) }
        }
        if flow.isFlushing { return .flushing }
        if flow.result != .ok { return flow.result }
        flow.queue.append(buffer)
        startTask()
        return .ok
    }

    /// The lock is held.
    private var isQueueFull: Bool {
        flow.queue.byteCount >= Self.queueByteLimit || flow.queue.duration >= Self.queueDurationLimit
            || flow.queue.count >= Self.queueCountLimit
    }

    /// The lock is held.
    private var hasRoomInsideAdaptiveDemuxer: Bool {
        let limit = flow.isSeekExpected ? Self.queueByteLimitAtSeek : Self.queueByteLimit
        return flow.queue.byteCount < limit && flow.queue.count < Self.queueCountLimit
    }

    /// Gives the stream to the source pad's thread. The lock is held.
    private func startTask() {
        monitor.broadcast()
        guard !flow.isTaskActive else { return }
        flow.isTaskActive = true
        sourcePad.startTask()
    }

    /// Passes an event on in its place among the buffers.
    func sendInOrder(_ event: consuming Event) -> Bool {
        monitor.lock()
        if flow.isFlushing {
            monitor.unlock()
            return false
        }
        if event.kind == .endOfStream {
            flow.hasEnded = true
            reportWhatUpstreamWillNot()
        }
        if event.kind == .streamStart {
            flow.hasEnded = false
            if flow.result == .endOfStream { flow.result = .ok }
        }
        let isEnd = event.kind == .endOfStream
        if flow.queue.isEmpty, !flow.isTaskActive {
            monitor.unlock()
            let result = pushOrQueue(complete(before: event))
            monitor.lock()
            if flow.queue.isEmpty, !flow.isTaskActive {
                if isEnd, flow.result == .ok, result.isFatal {
                    flow.result = result
                    reportWhatUpstreamWillNot()
                }
                monitor.unlock()
                return pass(event)
            }
        }
        guard isEnd, reference.isInsideAdaptiveDemuxer else {
            flow.queue.append(event)
            startTask()
            monitor.unlock()
            return true
        }
        // Before the end can be delivered.
        monitor.unlock()
        let heldEnd = sourcePad.holdAdaptiveDemuxersOwnEnd()
        monitor.lock()
        guard !flow.isFlushing else {
            monitor.unlock()
            return false
        }
        flow.heldEnd = heldEnd
        flow.queue.append(event)
        startTask()
        monitor.unlock()
        if heldEnd == nil { waitUntilDelivered() }
        return true
    }

    /// For an adaptive demuxer whose own end cannot be held: it ends the stream as soon as the end was taken here, and
    /// what still waits for a key would be lost.
    private func waitUntilDelivered() {
        monitor.lock()
        defer { monitor.unlock() }
        while flow.isTaskActive, flow.result == .ok, !flow.isFlushing, waitForChange() {}
    }

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

    // MARK: The source pad's thread

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

    /// Downstream's failures are upstream's to report, with the flow result that it gets; but not when it has sent the
    /// end already and asks no more. The lock is held.
    private func reportWhatUpstreamWillNot() {
        let result = flow.result
        guard result.isFatal, !flow.isFailureReported else { return }
        flow.isFailureReported = true
        monitor.unlock()
        DecryptorFailure.downstream(result).post(on: reference)
        monitor.lock()
    }

    // MARK: Waiting for a key

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
        defer { monitor.unlock() }
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

    // MARK: Flushing and activation

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
    private func dropQueue(keepingSticky: Bool) {
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
