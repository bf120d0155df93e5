// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

/// Where upstream pushes, but can go on at any byte, as over HTTP: the demuxer reads anywhere all the same, through a
/// window over what comes.
///
/// The demuxer's thread waits until the bytes are there, or sends upstream to them. Upstream's thread waits while it is
/// far enough ahead. Neither waits for a lock that the other has: in this mode upstream's thread never sends the demuxer
/// anything in order; events are stored, and the demuxer's thread takes them along.
extension ISODecryptor {
    /// The way in from upstream. Guarded by `monitor`.
    struct Intake {
        /// Nil in the other modes.
        var window: ByteWindow?
        /// Upstream is being sent elsewhere.
        var isFlushing = false
        var isStopped = false
        /// Upstream is read anywhere.
        var isPulled = false
        /// Bytes come from here on: too late for another mode.
        var hasSegment = false
        /// Upstream's thread is sending an event in order, and must not meet a demuxer that reads.
        var isSendingEvent = false
        var failure: String?
        /// What the demuxer asked for so far, in bytes.
        var readSize: UInt64 = 0
        /// The demuxer waits for bytes that have not come.
        var isAwaited = false
        /// The end was kept back, which is done once.
        var hasKeptEndBack = false

        /// Whether the demuxer comes to the end of the media. That may be a little in front of the file's, and an index
        /// there is read before most of the media.
        mutating func comesToEnd(_ range: Range<UInt64>) -> Bool {
            guard let size = window?.size, !hasKeptEndBack else { return false }
            let (sum, isMore) = readSize.addingReportingOverflow(range.upperBound - range.lowerBound)
            readSize = isMore ? .max : sum
            return (range.lowerBound >= size || readSize >= size - size / 4)
                && range.upperBound >= size - min(size, UInt64(ByteWindow.pageSize))
        }
    }

    /// How long the end is kept back at most, in nanoseconds: what is too short to be shown without it has to end.
    private static let endPatience: UInt64 = 2_000_000_000

    var isWindowed: Bool { monitor.withLock { intake.window != nil } }

    /// The size of the file where upstream pushes it, takes orders to go elsewhere, and nothing has come yet; nil
    /// otherwise.
    var windowSize: UInt64? {
        let isEarly = monitor.withLock {
            hasPaused && !intake.hasSegment && !intake.isSendingEvent && !intake.isStopped
        }
        guard isEarly, !reference.isInsideAdaptiveDemuxer, !sinkPad.canPullAnywhere, sinkPad.canSeekBytes,
            sinkPad.serverTakesRanges ?? true
        else { return nil }
        return sinkPad.peerByteSize
    }

    /// False where something has come meanwhile.
    func openWindow(_ size: UInt64) -> Bool {
        monitor.withLock {
            guard !intake.hasSegment, !intake.isSendingEvent, !intake.isStopped else { return false }
            intake.window = ByteWindow(size: size)
            return true
        }
    }

    /// False where there was none.
    func closeWindow() -> Bool {
        monitor.withLock {
            defer {
                intake.window = nil
                monitor.broadcast()
            }
            return intake.window != nil
        }
    }

    func intakeActivation(_ isActive: Bool) {
        monitor.withLock {
            intake.isStopped = !isActive
            monitor.broadcast()
        }
    }

    // MARK: Upstream's thread

    func chainIntoWindow(_ buffer: consuming Buffer) -> FlowResult {
        guard isWindowed else { return chain(buffer) }
        if buffer.size == 0 { return .ok }
        return buffer.withBytes { take($0) } ?? report(.notMappable)
    }

    private func take(_ bytes: UnsafeRawBufferPointer) -> FlowResult {
        var done = 0
        monitor.lock()
        defer { monitor.unlock() }
        while true {
            guard !intake.isFlushing, !intake.isStopped,
                // SAFETY: `done` is at most the number of bytes.
                let count = intake.window?.take(UnsafeRawBufferPointer(rebasing: bytes[done...]))
            else { return .flushing }
            done += count
            if count > 0 { monitor.broadcast() }
            // The last bytes are not given back before the element stops: upstream would end the stream, and that is
            // the demuxer's to decide, which may have looked at the end of the file first.
            if done == bytes.count, intake.window?.isAtEnd != true { return .ok }
            guard waitForWindow() else { return .flushing }
        }
    }

    /// Like `waitForChange`, for upstream's thread: a flush of what is behind this element does not concern it.
    private func waitForWindow() -> Bool {
        monitor.wait(microseconds: Self.pollInterval)
        if intake.isFlushing || intake.isStopped { return false }
        monitor.unlock()
        defer { monitor.lock() }
        return !reference.isBeingStopped
    }

    /// Nil in the other modes.
    func takeIntoWindow(_ event: borrowing Event) -> Bool? {
        guard isWindowed else { return nil }
        switch event.kind {
        case .flushStart:
            change {
                $0.isFlushing = true
                $0.window?.interrupt()
            }
        case .flushStop:
            // An end that was on its way when the flush began is over now.
            change {
                $0.isFlushing = false
                $0.window?.interrupt()
            }
        case .segment:
            let start = event.byteSegmentStart
            change {
                if start == nil { $0.failure = "it counts in time, not in bytes" }
                guard let start, $0.window?.begin(at: start) == false else { return }
                $0.failure = "it goes on at byte \(start), and not where it was sent"
            }
        case .endOfStream:
            change { if !$0.isFlushing { $0.window?.end() } }
        case .protection:
            if let protection = event.protection { prefetchKeys(protection) }
        case .caps:
            if let caps = event.caps { sourcePad.store(Event(caps: Self.clearCaps(of: caps))) }
        case .streamStart, .gap, .other:
            if !event.isSerialized { return sourcePad.push(event.share()) }
            if event.isSticky { sourcePad.store(event.share()) }
        }
        return true
    }

    private func change(_ body: (inout Intake) -> Void) {
        monitor.withLock {
            body(&intake)
            monitor.broadcast()
        }
    }

    // MARK: The demuxer's thread

    /// The encrypted bytes of the file, from wherever they come.
    func encryptedBytes(_ offset: UInt64, _ count: Int) -> PulledRange {
        let (isFlushing, size, isPulled) = monitor.withLock { (flow.isFlushing, intake.window?.size, intake.isPulled) }
        guard !isFlushing else { return .failed(.flushing) }
        guard let size else {
            // The window is closed by a stop, and this thread may come a moment later: upstream pushes.
            return isPulled ? sinkPad.pull(offset, count) : .failed(.flushing)
        }
        guard count > 0, offset < size else { return .failed(.endOfStream) }
        guard let buffer = Buffer(size: Int(clamping: min(UInt64(count), size - offset))) else {
            return fail(.outOfMemory)
        }
        let filled = buffer.withMutableBytes { fill($0, from: offset) } ?? .failure(.notMappable)
        switch filled {
        case .success(nil): return .failed(.flushing)
        case .success(0): return .failed(.endOfStream)
        case .success(let count?):
            buffer.keep(count, from: 0)
            buffer.setOffset(offset)
            return .buffer(buffer)
        case .failure(let failure): return fail(failure)
        }
    }

    /// How many bytes there are; nil where a flush, a stop or the end of playback came first.
    private func fill(_ target: UnsafeMutableRawBufferPointer, from offset: UInt64) -> Result<Int?, DecryptorFailure> {
        var done = 0
        monitor.lock()
        defer { monitor.unlock() }
        // A result that is not ok is the end of the right to play.
        while !flow.isFlushing, flow.result == .ok, intake.window != nil {
            if let reason = intake.failure { return .failure(.source(reason)) }
            // SAFETY: `done` is at most the number of bytes.
            let rest = UnsafeMutableRawBufferPointer(rebasing: target[done...])
            done += intake.window?.read(at: offset + UInt64(done), into: rest) ?? 0
            let place = offset + UInt64(done)
            let step = done < target.count ? intake.window?.step(towards: place) : nil
            monitor.broadcast()
            switch step {
            case nil: return .success(done)
            case .wait:
                intake.isAwaited = true
                defer { intake.isAwaited = false }
                guard waitForChange() else { return .success(nil) }
            case .seek(let start):
                intake.window?.jump(for: place)
                monitor.unlock()
                let isTaken = sinkPad.seekBytes(to: start)
                monitor.lock()
                if !isTaken, !flow.isFlushing { return .failure(.source("it does not go on at byte \(start)")) }
            case .ended:
                monitor.unlock()
                let size = sinkPad.peerByteSize
                monitor.lock()
                return endOfWindow(done, at: place, size)
            }
        }
        return .success(nil)
    }

    /// Upstream ended in front of what it said. Where it knows better now, that is the end of the file.
    private func endOfWindow(_ done: Int, at place: UInt64, _ size: UInt64?) -> Result<Int?, DecryptorFailure> {
        guard !flow.isFlushing, let window = intake.window else { return .success(nil) }
        if let end = window.position, size == end, intake.window?.shrinkToEnd() == true { return .success(done) }
        return .failure(.source("it ends at byte \(window.position ?? place) of \(window.size)"))
    }

    /// The demuxer goes elsewhere.
    func restartWindow() { change { $0.window?.forgetPace() } }

    /// Keeps the end back until the player shows something, or for a while; nil then. A short file is read in less time
    /// than a decoder is made. What comes before the demuxer has streams is no end: it looks for boxes then.
    ///
    /// Workaround (GStreamer <1.26): if a stream ends before decodebin3 goes on with the next one, it never ends behind
    /// decodebin3.
    func keepEndBack(_ range: Range<UInt64>) -> FlowResult? {
        guard monitor.withLock({ intake.comesToEnd(range) }), sourcePad.peerHasOutputs else { return nil }
        let start = MonotonicTime.now
        monitor.lock()
        defer { monitor.unlock() }
        intake.hasKeptEndBack = true
        while true {
            if flow.isFlushing { return .flushing }
            monitor.unlock()
            let isShown = reference.hasPrerolled
            monitor.lock()
            if isShown || MonotonicTime.now - start >= Self.endPatience { return nil }
            guard waitForChange(microseconds: 10_000) else { return .flushing }
        }
    }
}
