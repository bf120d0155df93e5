// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

/// The upstream thread, which never waits for a key.
extension Decryptor {
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
            let result = waitForRoom()
            guard result == .ok else {
                monitor.unlock()
                return result
            }
            flow.queue.append(buffer)
            unlockAndStartTask()
            return .ok
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
                guard !flow.isFlushing else {
                    monitor.unlock()
                    return .flushing
                }
                flow.queue.append(encrypted)
                unlockAndStartTask()
                return .ok
            case .failed(let failure):
                return report(failure)
            }
        }
    }

    /// Waits until another buffer may be queued, or says why none may. The lock is held.
    private func waitForRoom() -> FlowResult {
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
        return flow.isFlushing ? .flushing : flow.result
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
            unlockAndStartTask()
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
        unlockAndStartTask()
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

    /// Downstream's failures are upstream's to report, with the flow result that it gets; but not when it has sent the
    /// end already and asks no more. The lock is held.
    func reportWhatUpstreamWillNot() {
        let result = flow.result
        guard result.isFatal, !flow.isFailureReported else { return }
        flow.isFailureReported = true
        monitor.unlock()
        DecryptorFailure.downstream(result).post(on: reference)
        monitor.lock()
    }
}
