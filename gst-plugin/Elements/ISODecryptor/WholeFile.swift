// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

/// What elements share that stand in front of the demuxer of a whole file.
///
/// Where the source can be read anywhere, the demuxer reads through this element; else bytes come in order, and go on in
/// order. Where upstream cannot be pulled, the bytes may come from a window (ByteWindow.swift).
class WholeFile: Decryptor, @unchecked Sendable {
    /// The element's own turn in the change to PAUSED has come. Guarded by `monitor`.
    var hasPaused = false
    // SAFETY: guarded by `monitor`.
    @exclusivity(unchecked) var intake = Intake()

    override var isStarved: Bool { monitor.withLock { intake.isAwaited } }

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        super.init(reference, description)
        sinkPad.onPullActivation { _ in true }
        sourcePad.onPullActivation { [unowned self] in self.activatePull($0) }
        sourcePad.onRange { [unowned self] in self.range($0, $1) }
        sourcePad.onEvent { [unowned self] in self.sourceEvent($0) }
        sinkPad.onEvent { [unowned self] in self.sinkEventUnlessTaken($0) }
        sinkPad.onChain { [unowned self] in self.chainIntoWindow($0) }
        sinkPad.onActivation { [unowned self] in
            self.sinkActivation($0)
            self.intakeActivation($0)
        }
    }

    // MARK: What each kind does its own way

    /// Whether a source that pushes may be read anywhere.
    var wantsWindow: Bool { true }

    /// Whether the demuxer is told what upstream says of the stream while it reads through a window.
    class var storesEvents: Bool { true }

    /// Whether the media may turn out to be clear.
    class func maybeClear(_ caps: Caps) -> Bool { false }

    /// The caps that the demuxer gets.
    class func clearCaps(of caps: Caps) -> Caps { caps }

    /// What the demuxer reads, in pull mode.
    func read(_ range: Range<UInt64>) -> PulledRange { encryptedBytes(range.lowerBound, range.count) }

    // MARK: States

    override func changeState(_ change: StateChange, perform: () -> StateChangeResult) -> StateChangeResult {
        if change == .readyToPaused {
            guard startUnlessStarted() else { return .failure }
            monitor.withLock {
                hasPaused = true
                monitor.broadcast()
            }
        }
        let result = super.changeState(change, perform: perform)
        if change == .pausedToReady { monitor.withLock { hasPaused = false } }
        return result
    }

    override func resetStream() {
        super.resetStream()
        monitor.withLock {
            intake.endFetch()
            intake = Intake(isStopped: intake.isStopped, run: intake.run)
        }
    }

    // MARK: Events

    private func sinkEventUnlessTaken(_ event: consuming Event) -> Bool {
        if let isTaken = takeIntoWindow(event) { return isTaken }
        return sinkEventUnlessRead(event)
    }

    /// No demuxer begins to read while an event is on its way in order.
    func sinkEventUnlessRead(_ event: consuming Event) -> Bool {
        guard event.isSerialized else { return sinkEvent(event) }
        monitor.withLock {
            intake.isSendingEvent = true
            if event.kind == .segment { intake.hasSegment = true }
        }
        defer { monitor.withLock { intake.isSendingEvent = false } }
        return sinkEvent(event)
    }

    override func pass(_ event: consuming Event) -> Bool {
        guard let caps = event.caps else { return super.pass(event) }
        return pass(caps)
    }

    /// Players link the demuxer as soon as the caps are known, and that is the moment for it to begin to read.
    private func pass(_ caps: Caps) -> Bool {
        guard let clear = adopt(caps) else { return false }
        monitor.withLock {
            flow.hasCaps = true
            intake.isSendingEvent = false
        }
        let announcement = Event(caps: clear)
        sourcePad.store(announcement.share())
        let isWindowed = monitor.withLock {
            intake.isSendingEvent = true
            return intake.window != nil
        }
        if isWindowed { return true }
        return sourcePad.push(announcement)
    }

    override func adopt(_ caps: Caps) -> Caps? { Self.clearCaps(of: caps) }

    private func sourceEvent(_ event: consuming Event) -> Bool {
        let isWindowed = isWindowed
        let kind = event.kind
        switch kind {
        case .flushStart: beginFlush()
        case .flushStop:
            currentSources?.didFlush()
            if isWindowed { restartWindow() }
            sourceActivation(true)
        default: return sourcePad.forward(event)
        }
        // A flush of what is behind is not upstream's, which pushes.
        if isWindowed { return true }
        return sourcePad.forward(event)
    }

    // MARK: Queries

    override func sinkQuery(_ query: borrowing Query) -> Bool? {
        // The demuxer's thread has the lock that would have to be waited for.
        query.isSerialized && isWindowed ? false : nil
    }

    override func sourceQuery(_ query: borrowing Query) -> Bool? {
        switch query.kind {
        case .caps:
            query.answer(caps: sourcePad.currentCaps ?? sourcePad.templateCaps)
            return true
        case .scheduling:
            // Places and sizes stay: what upstream can do, this can.
            let isAnswered = sinkPad.askPeer(query)
            if !query.offersPullAnywhere, windowSize != nil {
                query.offerPullAnywhere()
                return true
            }
            return isAnswered
        case .acceptCaps, .allocation, .uri, .other:
            return nil
        }
    }

    // MARK: Pull mode

    private func activatePull(_ isActive: Bool) -> Bool {
        guard isActive else {
            beginFlush()
            if closeWindow() { return true }
            monitor.withLock { intake.isPulled = false }
            return sinkPad.activatePull(false)
        }
        guard startUnlessStarted() else { return false }
        if let size = windowSize {
            guard openWindow(size) else { return false }
        } else {
            guard sinkPad.activatePull(true) else { return false }
            monitor.withLock { intake.isPulled = true }
        }
        sourceActivation(true)
        return true
    }

    private func range(_ offset: UInt64, _ size: Int) -> PulledRange {
        guard size > 0 else { return encryptedBytes(offset, size) }
        let (end, overflow) = offset.addingReportingOverflow(UInt64(size))
        guard !overflow else { return .failed(.endOfStream) }
        if let flow = keepEndBack(offset..<end) { return .failed(flow) }
        return read(offset..<end)
    }

    func fail(_ failure: DecryptorFailure) -> PulledRange { .failed(report(failure)) }
}
