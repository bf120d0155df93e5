// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization

extension GuardElement {
    // MARK: Upstream's threads

    func handle(_ event: consuming Event) -> Bool {
        let kind = event.kind
        switch kind {
        case .caps:
            if let caps = event.caps { setCaps(caps) }
        case .flushStart:
            beginUpstreamsFlush()
        default: break
        }
        let isSerialized = event.isSerialized
        // The pad keeps it only after this.
        let kept = kind == .streamStart || kind == .caps || kind == .segment ? event.share() : nil
        let isTaken = sinkPad.forward(event)
        switch kind {
        case .flushStart: upstreamsFlushDidStart()
        case .flushStop: upstreamsFlushDidEnd()
        case .segment:
            if stream.needsBlank { startBlanking() }
        default: break
        }
        guard isSerialized, isFlushing.load(ordering: .acquiring) else { return isTaken }
        // What is lost in a flush of this element's own is sent again at its end.
        endFlushOnceStarted()
        if let kept { sourcePad.push(kept) }
        return true
    }

    private func setCaps(_ caps: Caps) {
        stream.caps = caps
        stream.media = Self.media(caps.mediaType())
        stream.size = caps.frameSize
        (stream.plain, stream.prepared) = (nil, nil)
        stream.pool = nil
        stream.showsPlainCaps = false
        preparePicture()
        if let media = stream.media { currentPost?.setMedia(media) }
    }

    private func preparePicture() {
        guard stream.media == .video, let picture = picture.withLock({ $0 }) else { return stream.prepared = nil }
        if stream.prepared?.content != .picture(picture) {
            stream.prepared = stream.caps.flatMap { PlainFrame($0, .picture(picture)) }
        }
    }

    /// What is shown in the place of the video.
    private func content(_ decision: OutputDecision) -> PlainContent {
        guard decision.showsAlternative else { return .black }
        return stream.prepared?.content ?? .white
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
        preparePicture()
        // Only where there may be no other way to a black frame.
        if stream.caps?.isInSystemMemory == false, stream.pool?.isOrigin(of: buffer) != true {
            stream.pool = FramePool(of: buffer)
        }
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
        return pushPlain(at: buffer.presentationTime, buffer.duration, content(decision))
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

    private func pushPlain(at time: UInt64?, _ duration: UInt64?, _ content: PlainContent) -> FlowResult {
        counters.withLock { $0.blocked += 1 }
        guard let frame = plainFrame(at: time, duration, content) else { return refuse(at: time, duration) }
        let wasNeeded = stream.needsBlank
        stream.needsBlank = false
        let result = sourcePad.push(frame)
        // A flush of upstream's has taken it before it was shown.
        if result == .flushing { stream.needsBlank = wasNeeded }
        return result
    }

    /// In plain memory where the sink takes that, else in the memory that it has now. The sink has its caps then.
    private func plainFrame(at time: UInt64?, _ duration: UInt64?, _ content: PlainContent) -> Buffer? {
        if stream.plain?.content != content {
            let isPrepared = stream.prepared?.content == content
            stream.plain = isPrepared ? stream.prepared : stream.caps.flatMap { PlainFrame($0, content) }
        }
        if let plain = stream.plain {
            if !plain.hasOwnCaps || stream.showsPlainCaps { return plain.frame(at: time, duration: duration) }
            if sourcePad.peerAccepts(plain.caps), sourcePad.push(Event(caps: plain.caps)) {
                stream.showsPlainCaps = true
                return plain.frame(at: time, duration: duration)
            }
        }
        guard let caps = stream.caps else { return nil }
        return stream.pool?.plainFrame(
            caps, isWhite: content != .black, presentationTime: time, duration: duration)
    }

    /// Nothing may be shown and nothing else can be: the frame is left out.
    private func refuse(at time: UInt64?, _ duration: UInt64?) -> FlowResult {
        if isFlushing.load(ordering: .acquiring) { return .flushing }
        if !stream.hasRefused {
            stream.hasRefused = true
            reference.postWarning(
                GST_STREAM_ERROR_FORMAT,
                "The picture may not be shown, and no other can take its place: frames are left out, and the screen keeps "
                    + "what it shows.",
                debug: "\(order.withLock { $0.reasons.joined(separator: "; ") }). The sink takes no frames in plain "
                    + "memory, and those that it takes cannot be written: put a converter between guard and sink.")
        }
        if let time { sourcePad.push(Event.gap(at: time, duration: duration)) }
        return .ok
    }

    // MARK: Closing and opening

    /// What may be shown from now on. When this returns, nothing is shown any more that may not be. Called on any
    /// thread but those of the sink behind; one call at a time.
    func obey(_ decision: OutputDecision) {
        if apply(decision) { blankSoon() }
    }

    /// The same, but what is on the screen is blanked only by `blankSoon`, which is wanted where this returns true.
    func apply(_ decision: OutputDecision) -> Bool {
        let media = currentPost?.media
        let isStricter = order.withLock { order in
            defer { order = decision }
            return order.stricter(decision).restriction(of: media) != order.restriction(of: media)
        }
        return isStricter && canFlush && close()
    }

    /// The sink may hold a frame until the pipeline plays: the source pad's thread waits for that, and no other.
    /// Nothing may be held here: a new thread is told on the bus.
    func blankSoon() {
        startBlanking()
        // The pads may have stopped in between, and with them those who would have stopped the thread.
        if !flush.withLock({ canBlank }) { sourcePad.stopTask() }
    }

    private func startBlanking() {
        if flush.withLock({ canBlank }) { sourcePad.startTask() }
    }

    /// Takes what is in the sink back: the frame that is shown or waits for its time. Whether the screen is to be blanked.
    private func close() -> Bool {
        counters.withLock { $0.closings += 1 }
        let isUpstreams = flush.withLock { () -> Bool in
            while upstreamsFlush == .starting { flush.wait(microseconds: 100_000) }
            if upstreamsFlush == .none {
                isFlushing.store(true, ordering: .releasing)
                return false
            }
            // Whoever seeks has taken the frames back, and would not expect an end of the flush in the middle of it.
            blanksAfterFlush = true
            return true
        }
        if isUpstreams { return false }
        sourcePad.pushStartOfFlushKeepingState()
        flush.withLock { hasFlushStarted.store(true, ordering: .releasing) }
        flush.broadcast()
        // Upstream's thread, which is on its way out of the sink, or this one: whoever has the lock.
        while isFlushing.load(ordering: .acquiring), !sinkPad.ifIdle({ endFlush() }) {
            flush.withLock { if isFlushing.load(ordering: .acquiring) { flush.wait(microseconds: 1000) } }
        }
        return true
    }

    // MARK: Flushes of upstream's, such as those of a seek

    /// A flush of this element's own ends first, so that the sink hears of one at a time.
    private func beginUpstreamsFlush() {
        flush.withLock {
            while isFlushing.load(ordering: .acquiring) { flush.wait(microseconds: 100_000) }
            upstreamsFlush = .starting
        }
    }

    private func upstreamsFlushDidStart() {
        flush.withLock { upstreamsFlush = .started }
        flush.broadcast()
    }

    /// On a thread that has the sink pad's lock. What is on the screen is from before the flush: nothing else may blank
    /// it for a long time, such as a seek that waits for the network.
    private func upstreamsFlushDidEnd() {
        let blanks = flush.withLock {
            defer { (upstreamsFlush, blanksAfterFlush) = (.none, false) }
            return blanksAfterFlush
        }
        stream.needsBlank = stream.last != nil && (blanks || stream.needsBlank || isRestricted)
    }

    /// No thread is inside: a flush that was not ended never will be.
    func forgetUpstreamsFlush() {
        flush.withLock { (upstreamsFlush, blanksAfterFlush) = (.none, false) }
        flush.broadcast()
    }

    /// Whether the picture or sound may not pass as it is.
    private var isRestricted: Bool {
        let decision = order.withLock { $0 }
        if stream.media == .audio { return decision.isAudioBlocked }
        let size = stream.size ?? (0, 0)
        return decision.treatment(width: size.width, height: size.height) != .pass
    }

    // MARK: The element's own flush

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
            // Whoever wants another one has to come to the lock first.
            defer { sourcePad.pauseTask() }
            // After a flush of upstream's, the segment starts this thread once more.
            guard let last = stream.last, PadReference(sharing: sinkPad.pointer).segmentEvent != nil else { return }
            if stream.needsBlank, isRestricted {
                if stream.media == .audio {
                    _ = pushSilence(at: last.time, last.duration)
                } else {
                    // Without a time: a sink would drop it where its time is over.
                    _ = pushPlain(at: nil, nil, content(order.withLock { $0 }))
                }
            }
            if sinkPad.hasEnded { sourcePad.push(.endOfStream()) }
        }
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
