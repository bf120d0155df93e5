// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import OutputControl
import ProtectionModel
import Synchronization

extension GuardElement {
    // MARK: Upstream's threads

    func handle(_ event: consuming Event) -> Bool {
        switch event.kind {
        case .caps:
            if let caps = event.caps { setCaps(caps) }
        case .flushStop:
            stream.needsBlank = false
        default: break
        }
        let isSerialized = event.isSerialized
        let isTaken = sinkPad.forward(event)
        guard isSerialized, isFlushing.load(ordering: .acquiring) else { return isTaken }
        // What is lost in a flush of this element's own is sent again at its end.
        endFlushOnceStarted()
        return true
    }

    private func setCaps(_ caps: Caps) {
        stream.caps = caps
        stream.media = Self.media(caps.mediaType())
        stream.size = caps.frameSize
        stream.plain = nil
        stream.showsPlainCaps = false
        currentPost?.setMedia(stream.media)
    }

    func chain(_ buffer: consuming Buffer) -> FlowResult {
        stream.last = (buffer.presentationTime, buffer.duration)
        let result = show(buffer)
        guard isFlushing.load(ordering: .acquiring) else { return result }
        // Nobody else may come to the lock that this thread has: upstream would run on and on, with nothing to wait for.
        endFlushOnceStarted()
        return result == .flushing ? .ok : result
    }

    private func show(_ buffer: consuming Buffer) -> FlowResult {
        let decision = order.withLock { $0 }
        if stream.media == .audio {
            guard decision.isAudioBlocked else { return pass(buffer) }
            return pushSilence(at: buffer.presentationTime, buffer.duration)
        }
        let size = stream.size ?? (0, 0)
        switch decision.treatment(width: size.width, height: size.height) {
        case .pass: return pass(buffer)
        case .constrict(let pixels):
            if let caps = stream.caps, let small = buffer.constricted(caps, pixels: pixels) {
                counters.withLock { $0.constricted += 1 }
                return send(small)
            }
        case .block: break
        }
        return pushPlain(at: buffer.presentationTime, buffer.duration, isWhite: decision.showsAlternative)
    }

    private func pass(_ buffer: consuming Buffer) -> FlowResult {
        counters.withLock { $0.passed += 1 }
        return send(buffer)
    }

    private func send(_ buffer: consuming Buffer) -> FlowResult {
        if stream.showsPlainCaps, let caps = stream.caps {
            stream.showsPlainCaps = false
            sourcePad.push(Event(caps: caps))
        }
        stream.needsBlank = false
        return sourcePad.push(buffer)
    }

    // MARK: In the place of media

    private func pushSilence(at time: UInt64?, _ duration: UInt64?) -> FlowResult {
        stream.needsBlank = false
        counters.withLock { $0.blocked += 1 }
        if let time { sourcePad.push(Event.gap(at: time, duration: duration)) }
        return .ok
    }

    private func pushPlain(at time: UInt64?, _ duration: UInt64?, isWhite: Bool) -> FlowResult {
        counters.withLock { $0.blocked += 1 }
        if stream.plain?.isWhite != isWhite { stream.plain = stream.caps.flatMap { PlainFrame($0, isWhite: isWhite) } }
        guard let plain = stream.plain else { return refuse() }
        if plain.hasOwnCaps, !stream.showsPlainCaps {
            guard sourcePad.push(Event(caps: plain.caps)) else { return refuse() }
            stream.showsPlainCaps = true
        }
        guard let frame = plain.frame(at: time, duration: duration) else { return refuse() }
        stream.needsBlank = false
        return sourcePad.push(frame)
    }

    /// Nothing may be shown and nothing else can be.
    private func refuse() -> FlowResult {
        if isFlushing.load(ordering: .acquiring) { return .flushing }
        reference.postError(
            GST_STREAM_ERROR_FORMAT, "The picture may not be shown, and no other can take its place.",
            debug: "\(order.withLock { $0.reasons.joined(separator: "; ") }). The sink does not take frames in plain "
                + "memory: put a converter between guard and sink.")
        return .error
    }

    // MARK: Closing and opening

    /// What may be shown from now on. When this returns, nothing is shown any more that may not be. Called on any
    /// thread but those of the sink behind; one call at a time.
    func obey(_ decision: OutputDecision) {
        let media = currentPost?.media
        let isStricter = order.withLock { order in
            defer { order = decision }
            return order.stricter(decision).restriction(of: media) != order.restriction(of: media)
        }
        if isStricter, canFlush { close() }
    }

    /// Takes what is in the sink back: the frame that is shown or waits for its time.
    private func close() {
        counters.withLock { $0.closings += 1 }
        isFlushing.store(true, ordering: .releasing)
        sourcePad.pushStartOfFlushKeepingState()
        flush.withLock { hasFlushStarted.store(true, ordering: .releasing) }
        flush.broadcast()
        // Upstream's thread, which is on its way out of the sink, or this one: whoever has the lock.
        while isFlushing.load(ordering: .acquiring), !sinkPad.ifIdle({ endFlush() }) {
            flush.withLock { if isFlushing.load(ordering: .acquiring) { flush.wait(microseconds: 1000) } }
        }
        // The sink may hold a frame until the pipeline plays; the caller is not to wait for that.
        sourcePad.startTask()
    }

    /// For upstream's threads. The sink is not to hear of the end while it still takes the start in.
    private func endFlushOnceStarted() {
        flush.withLock {
            while isFlushing.load(ordering: .acquiring), !hasFlushStarted.load(ordering: .acquiring) {
                flush.wait(microseconds: 100_000)
            }
        }
        endFlush()
    }

    /// For whoever has the sink pad's lock, when the flush has started.
    private func endFlush() {
        guard isFlushing.load(ordering: .acquiring) else { return }
        sourcePad.push(.endOfFlush(resetTime: false))
        if stream.caps != nil {
            sinkPad.resendStickyEvents(to: sourcePad)
            if stream.showsPlainCaps, let plain = stream.plain { sourcePad.push(Event(caps: plain.caps)) }
            stream.needsBlank = stream.last != nil
        }
        flush.withLock {
            hasFlushStarted.store(false, ordering: .releasing)
            isFlushing.store(false, ordering: .releasing)
        }
        flush.broadcast()
    }

    /// The source pad's thread: blanks the screen unless upstream has brought a frame to do it with.
    func blank() {
        sinkPad.whileIdle {
            guard let last = stream.last else { return }
            if stream.needsBlank {
                let decision = order.withLock { $0 }
                let size = stream.size ?? (0, 0)
                if stream.media == .audio {
                    _ = pushSilence(at: last.time, last.duration)
                } else if decision.treatment(width: size.width, height: size.height) != .pass {
                    // Without a time: a sink would drop it where its time is over.
                    _ = pushPlain(at: nil, nil, isWhite: decision.showsAlternative)
                }
            }
            if sinkPad.hasEnded { sourcePad.push(.endOfStream()) }
        }
        sourcePad.pauseTask()
    }
}

extension OutputDecision {
    /// The part that decides what is shown of a medium; nil: of any.
    fileprivate func restriction(of media: OutputPolicy.Media?) -> OutputDecision {
        var part = self
        part.reasons = []
        part.request = .unprotected
        switch media {
        case .audio:
            part = OutputDecision()
            part.isAudioBlocked = isAudioBlocked
        case .video: part.isAudioBlocked = false
        case nil: break
        }
        return part
    }
}
