// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP

/// Where upstream pushes, but can go on at any byte, as over HTTP: the demuxer reads anywhere all the same, through a
/// window over what comes.
///
/// The demuxer's thread waits until the bytes are there, or sends upstream to them. Upstream's thread waits while it is
/// far enough ahead. Neither waits for a lock that the other has: in this mode upstream's thread never sends the demuxer
/// anything in order; events are stored, and the demuxer's thread takes them along.
///
/// If a player made the HTTP source, the first bytes come from it, and then it is held here: the rest comes through a
/// `FileFetch`, which waits for outages.
extension WholeFile {
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
        var failure: DecryptorFailure?
        /// What the demuxer asked for so far, in bytes.
        var readSize: UInt64 = 0
        /// The demuxer waits for bytes that have not come.
        var isAwaited = false
        /// The end was kept back, which is done once.
        var hasKeptEndBack = false
        /// Takes upstream's place; nil: the bytes come from upstream.
        var fetch: FileFetch?
        /// Becomes `fetch` if the file turns out to be protected: a clear one stays with its source.
        var laterFetch: FileFetch?
        /// The fetch has begun: upstream's thread stays in here, and nothing that it brings counts.
        var isFetching = false
        /// The run of the fetch that counts.
        var run: UInt64 = 0
        /// Upstream's thread stays in here, and goes on at this byte when it comes out.
        var heldPlace: UInt64?
        /// The fetch was refused, and upstream stays in here until the demuxer sends it elsewhere.
        var isReturning = false

        /// From where the window is. False if there is no fetch.
        mutating func beginFetch() -> Bool {
            guard let fetch, let place = window?.position else { return false }
            run &+= 1
            isFetching = true
            fetch.begin(at: place, run: run)
            return true
        }

        mutating func endFetch() {
            fetch?.end()
            fetch = nil
            laterFetch = nil
            isFetching = false
            isReturning = false
            heldPlace = nil
        }

        /// Nothing came of the fetch. Upstream goes on where it was: a server may give a file only once. If the demuxer has
        /// been elsewhere meanwhile, it sends upstream to where it waits.
        mutating func giveBack() {
            let isThere = heldPlace != nil && heldPlace == window?.position
            endFetch()
            guard !isThere else { return }
            window?.interrupt()
            (isFetching, isReturning) = (true, true)
        }

        /// What upstream brings until its next segment is not what the window waits for.
        mutating func upstreamMoves() {
            heldPlace = nil
            if !isFetching { window?.interrupt() }
        }

        /// Whether the demuxer comes to the end of the media. That may be a little in front of the file's, and an index
        /// there is read before most of the media.
        mutating func comesToEnd(_ range: Range<UInt64>) -> Bool {
            guard let size = window?.size, !hasKeptEndBack else { return false }
            // `matroskademux` asks for more than there is when it reads an index at the end.
            let part = range.clamped(to: 0..<size)
            let (sum, isMore) = readSize.addingReportingOverflow(part.upperBound - part.lowerBound)
            readSize = isMore ? .max : sum
            return (range.lowerBound >= size || readSize >= size - size / 4)
                && range.upperBound >= size - min(size, UInt64(ByteWindow.pageSize))
        }
    }

    /// How long the end is kept back at most, in nanoseconds: what is too short to be shown without it has to end.
    private static let endPatience: UInt64 = 2_000_000_000

    /// GStreamer's demuxer reads clear files up to this size in one go, in bytes: no request is added to that.
    private static let oneGoLimit: UInt64 = 4 << 20

    var isWindowed: Bool { monitor.withLock { intake.window != nil } }

    /// The size of the file where upstream pushes it, takes orders to go elsewhere, and nothing has come yet; nil
    /// otherwise.
    var windowSize: UInt64? {
        let isEarly = monitor.withLock {
            hasPaused && !intake.hasSegment && !intake.isSendingEvent && !intake.isStopped
        }
        guard isEarly, wantsWindow, !reference.isInsideAdaptiveDemuxer, !sinkPad.canPullAnywhere, sinkPad.canSeekBytes,
            sinkPad.serverTakesRanges ?? true
        else { return nil }
        return sinkPad.peerByteSize
    }

    /// False where something has come meanwhile.
    func openWindow(_ size: UInt64) -> Bool {
        let fetch = makeFetch(size)
        let maybeClear = Self.maybeClear(sinkPad.currentCaps ?? sinkPad.peerCaps())
        return monitor.withLock {
            guard !intake.hasSegment, !intake.isSendingEvent, !intake.isStopped else { return false }
            intake.window = ByteWindow(size: size, isReadInOneGo: maybeClear && size <= Self.oneGoLimit)
            (intake.fetch, intake.laterFetch) = maybeClear ? (nil, fetch) : (fetch, nil)
            return true
        }
    }

    /// Nil in pipelines whose application made the source.
    private func makeFetch(_ size: UInt64) -> FileFetch? {
        guard reference.hasPlayersSource, let url = reference.pad("sink")?.peerURI()?.uri else { return nil }
        let weak = WeakElement(reference)
        return FileFetch(url, size: size, limit: .milliseconds(Int64(settings.outageLimit))) { notice in
            weak.withElement { element in
                notice.post(on: element.reference)
                guard case .lost(let failure) = notice else { return }
                (element as? WholeFile)?.change { if $0.isFetching { $0.failure = .lost(failure) } }
            }
        } receive: { run, event in
            weak.map { ($0 as? WholeFile)?.receive(event, of: run) } ?? nil
        }
    }

    /// False where there was none.
    func closeWindow() -> Bool {
        monitor.withLock {
            defer {
                intake.window = nil
                intake.endFetch()
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
        if let fetch = monitor.withLock({ intake.isFetching ? nil : intake.fetch }) {
            setHeaders(of: fetch)
        }
        return buffer.withBytes { take($0) } ?? report(.notMappable)
    }

    private func take(_ bytes: UnsafeRawBufferPointer) -> FlowResult {
        var done = 0
        monitor.lock()
        defer { monitor.unlock() }
        while true {
            guard !intake.isFlushing, !intake.isStopped, intake.window != nil else { return .flushing }
            if !intake.isFetching {
                // SAFETY: `done` is at most the number of bytes.
                let count = intake.window?.take(UnsafeRawBufferPointer(rebasing: bytes[done...])) ?? 0
                done += count
                if count > 0 { monitor.broadcast() }
                // The last bytes are not given back before the element stops: upstream would end the stream, and that is
                // the demuxer's to decide, which may have looked at the end of the file first.
                if done == bytes.count, intake.window?.isAtEnd != true {
                    guard intake.beginFetch() else { return .ok }
                    intake.heldPlace = intake.window?.position
                }
            }
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
                $0.upstreamMoves()
            }
        case .flushStop:
            // An end that was on its way when the flush began is over now.
            change {
                $0.isFlushing = false
                $0.upstreamMoves()
            }
        case .segment:
            let start = event.byteSegmentStart
            change {
                guard !$0.isFetching else { return }
                if start == nil { $0.failure = .source("it counts in time, not in bytes") }
                guard let start, $0.window?.begin(at: start) == false else { return }
                $0.failure = .source("it goes on at byte \(start), and not where it was sent")
            }
        case .endOfStream:
            change { if !$0.isFlushing, !$0.isFetching { $0.window?.end() } }
        case .protection:
            if let protection = event.protection { prefetchKeys(protection) }
        case .caps:
            if let caps = event.caps { sourcePad.store(Event(caps: Self.clearCaps(of: caps))) }
        case .streamStart, .gap, .other:
            if !event.isSerialized { return sourcePad.push(event.share()) }
            if event.isSticky, Self.storesEvents { sourcePad.store(event.share()) }
        }
        return true
    }

    private func change(_ body: (inout Intake) -> Void) {
        monitor.withLock {
            body(&intake)
            monitor.broadcast()
        }
    }

    // MARK: The fetch

    private func setHeaders(of fetch: FileFetch) {
        fetch.setHeaders((sinkPad.httpRequestHeaders ?? []).map { HTTPHeader(name: $0.name, value: $0.value) })
        let cookies = sinkPad.httpSetCookies
        if !cookies.isEmpty { fetch.take(cookies: cookies, from: reference.pad("sink")?.peerURI()?.base ?? "") }
    }

    /// The file is protected: its source is no longer needed. For the demuxer's thread.
    func fetchFromHere() {
        guard let fetch = monitor.withLock({ intake.laterFetch }) else { return }
        setHeaders(of: fetch)
        monitor.withLock {
            if let later = intake.laterFetch.take() { intake.fetch = later }
        }
    }

    /// How many bytes were taken; nil if no more are wanted of this run.
    private func receive(_ event: FileFetch.Event, of run: UInt64) -> Int? {
        monitor.withLock {
            guard intake.isFetching, intake.run == run, !intake.isStopped else { return nil }
            defer { monitor.broadcast() }
            switch event {
            case .bytes(let bytes): return bytes.withUnsafeBytes { intake.window?.take($0) }
            case .end: intake.window?.end()
            case .failure(let failure): intake.failure = .lost(failure)
            case .refused: intake.giveBack()
            }
            return nil
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
            if let failure = intake.failure { return .failure(failure) }
            // SAFETY: `done` is at most the number of bytes.
            let rest = UnsafeMutableRawBufferPointer(rebasing: target[done...])
            done += intake.window?.read(at: offset + UInt64(done), into: rest) ?? 0
            let place = offset + UInt64(done)
            let step = done < target.count ? intake.window?.step(towards: place) : nil
            monitor.broadcast()
            if intake.isFetching { intake.fetch?.wake() }
            switch step {
            case nil: return .success(done)
            case .wait where intake.isReturning:
                (intake.isFetching, intake.isReturning) = (false, false)
                if let failure = send(to: place, for: place) { return .failure(failure) }
            case .wait:
                intake.isAwaited = true
                defer { intake.isAwaited = false }
                guard waitForChange() else { return .success(nil) }
            case .seek(let start):
                if let failure = send(to: start, for: place) { return .failure(failure) }
            case .ended:
                monitor.unlock()
                let size = sinkPad.peerByteSize
                monitor.lock()
                return endOfWindow(done, at: place, size)
            }
        }
        return .success(nil)
    }

    /// Has the bytes go on at `start`, for the one at `place`. Nil, or why they do not. The lock is held.
    private func send(to start: UInt64, for place: UInt64) -> DecryptorFailure? {
        intake.window?.jump(for: place)
        if intake.fetch != nil {
            _ = intake.window?.begin(at: start)
            _ = intake.beginFetch()
            return nil
        }
        monitor.unlock()
        let isTaken = sinkPad.seekBytes(to: start)
        monitor.lock()
        return isTaken || flow.isFlushing ? nil : .source("it does not go on at byte \(start)")
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

/// Bytes of a file that come in order, from a source that can be sent elsewhere, for a reader that jumps.
///
/// What came is kept in pages, of which those that were not used for longest go first: a reader that takes turns at two
/// places finds both. The source may be ahead of the reader by `readAhead`; who is further behind it or ahead of it than
/// is worth waiting for sends it elsewhere. A value for one owner at a time; no offset or count traps.
struct ByteWindow {
    /// In bytes. A page holds one run of bytes without a gap.
    static let pageSize = 64 << 10
    /// How far the source may be ahead of the reader. What is further ahead is better kept in front of this window,
    /// where a queue's level says how much there is.
    static let readAhead: UInt64 = 512 << 10
    /// The most that is waited for instead of a jump, once the reader has gone through as much without one.
    private static let largestPatience: UInt64 = 4 << 20

    /// What has to happen for a byte to come.
    enum Step: Hashable {
        /// It is on its way.
        case wait
        /// The source has to be sent to this place; `jump(for:)` comes first.
        case seek(UInt64)
        /// The source has ended in front of it.
        case ended
    }

    private struct Page {
        var bytes: [UInt8]
        var valid: Range<Int>
        var lastUse: UInt64

        /// `source` ends within the page.
        mutating func write(_ source: UnsafeRawBufferPointer, at offset: Int, use: UInt64) {
            let end = offset + source.count
            bytes.withUnsafeMutableBytes {
                UnsafeMutableRawBufferPointer(rebasing: $0[offset..<end]).copyMemory(from: source)
            }
            let touches = offset <= valid.upperBound && end >= valid.lowerBound
            valid = touches ? min(offset, valid.lowerBound)..<max(end, valid.upperBound) : offset..<end
            lastUse = use
        }
    }

    /// Of the file, in bytes. The source is not asked for more.
    private(set) var size: UInt64
    /// Of the next byte from the source; nil while it is on its way to another place.
    private(set) var position: UInt64?
    private(set) var hasEnded = false
    /// No byte is too far ahead to be waited for.
    private let isReadInOneGo: Bool
    private let pageLimit: Int
    private var pages: [UInt64: Page] = [:]
    private var useCount: UInt64 = 0
    /// The source may be ahead of this: the furthest that was read or waited for since it came to where it is.
    private var front: UInt64 = 0
    /// Where the source was sent.
    private var target: UInt64?
    /// Until something came, the source may not be ready to be sent elsewhere.
    private var hasBegun = false
    /// So much was read since the reader was last sent elsewhere itself.
    private var readCount: UInt64 = 0

    /// - Parameters:
    ///   - size: of the file, in bytes.
    ///   - capacity: the most that is kept, in bytes.
    ///   - isReadInOneGo: the source is sent only backwards.
    init(size: UInt64, capacity: Int = 16 << 20, isReadInOneGo: Bool = false) {
        self.size = size
        self.isReadInOneGo = isReadInOneGo
        pageLimit = max(capacity / Self.pageSize, 16)
    }

    // MARK: The source

    /// The source goes on here. False where it went past the place that it was sent to.
    mutating func begin(at start: UInt64) -> Bool {
        hasEnded = false
        position = start
        front = start
        guard let sent = target, start > sent else { return true }
        target = nil
        return false
    }

    /// The source is being sent elsewhere; what it brings until `begin` is dropped.
    mutating func interrupt() {
        position = nil
        hasEnded = false
    }

    /// The source has nothing more.
    mutating func end() { hasEnded = true }

    /// The file ends where the source did. False where that is not known.
    mutating func shrinkToEnd() -> Bool {
        guard hasEnded, let position, position < size else { return false }
        size = position
        return true
    }

    /// Everything up to the end of the file has come.
    var isAtEnd: Bool { position.map { $0 >= size } ?? false }

    /// How many bytes may come now.
    private var room: Int {
        guard let position else { return 0 }
        let (limit, overflow) = max(front, target ?? 0).addingReportingOverflow(Self.readAhead)
        let end = min(size, overflow ? .max : limit)
        return end > position ? Int(clamping: end - position) : 0
    }

    /// Takes as many of the next bytes as there is room for, and tells how many. All, where they are dropped.
    mutating func take(_ bytes: UnsafeRawBufferPointer) -> Int {
        hasBegun = true
        guard let start = position else { return bytes.count }
        let count = min(bytes.count, room)
        var done = 0
        while done < count {
            let place = start + UInt64(done)
            let offset = Int(place % UInt64(Self.pageSize))
            let part = min(count - done, Self.pageSize - offset)
            // SAFETY: `done + part` is at most `count`, which is within `bytes`.
            write(UnsafeRawBufferPointer(rebasing: bytes[done..<done + part]), place / UInt64(Self.pageSize), offset)
            done += part
        }
        let end = start + UInt64(count)
        position = end
        if let sent = target, end > sent { target = nil }
        return count
    }

    private mutating func write(_ bytes: UnsafeRawBufferPointer, _ index: UInt64, _ offset: Int) {
        useCount += 1
        if pages[index] == nil { pages[index] = Page(bytes: storage(), valid: offset..<offset, lastUse: 0) }
        pages[index]?.write(bytes, at: offset, use: useCount)
    }

    /// A page's bytes, those of the page that is given up where there are enough.
    private mutating func storage() -> [UInt8] {
        guard pages.count >= pageLimit, let oldest = pages.min(by: { $0.value.lastUse < $1.value.lastUse }) else {
            return [UInt8](repeating: 0, count: Self.pageSize)
        }
        return pages.removeValue(forKey: oldest.key)?.bytes ?? [UInt8](repeating: 0, count: Self.pageSize)
    }

    // MARK: The reader

    /// Copies what is there of the bytes from `offset` on, without a gap, and tells how many.
    mutating func read(at offset: UInt64, into target: UnsafeMutableRawBufferPointer) -> Int {
        var done = 0
        while done < target.count {
            let (place, overflow) = offset.addingReportingOverflow(UInt64(done))
            let index = place / UInt64(Self.pageSize)
            let start = Int(place % UInt64(Self.pageSize))
            guard !overflow, let valid = pages[index]?.valid, valid.contains(start) else { break }
            let part = min(target.count - done, valid.upperBound - start)
            useCount += 1
            pages[index]?.lastUse = useCount
            pages[index]?.bytes.withUnsafeBytes {
                // SAFETY: `part` is within what is left of the target, and within the valid bytes of the page.
                UnsafeMutableRawBufferPointer(rebasing: target[done..<done + part])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<start + part]))
            }
            done += part
        }
        readCount &+= UInt64(done)
        // What is read from pages that the source has not come to yet says nothing of how far it may go.
        let (end, overflow) = offset.addingReportingOverflow(UInt64(done))
        if !overflow, let position, end <= position { front = max(front, end) }
        return done
    }

    /// The reader waits for the byte at `offset`, which is not there and in front of `size`: what has to happen.
    mutating func step(towards offset: UInt64) -> Step {
        guard let position else { return hasEnded ? .ended : .wait }
        guard hasBegun || hasEnded else { return .wait }
        guard offset >= position else { return .seek(start(for: offset)) }
        if hasEnded { return .ended }
        // Where the source starts in front of the place that it was sent to, sending it again is no use.
        let patience = isReadInOneGo ? size : min(max(readCount, Self.readAhead), Self.largestPatience)
        guard offset - position <= patience || target.map({ offset <= $0 }) ?? false else {
            return .seek(start(for: offset))
        }
        front = max(front, offset)
        return .wait
    }

    /// Indices stand at the end of a file, and are read from their own end on.
    private func start(for offset: UInt64) -> UInt64 {
        let tail = size - min(size, UInt64(Self.pageSize))
        return offset > tail && !(position.map { (tail...offset).contains($0) } ?? false) ? tail : offset
    }

    /// The source is about to be sent to the place that a step named, for the byte at `offset`.
    mutating func jump(for offset: UInt64) {
        target = offset
        interrupt()
    }

    /// The reader was sent elsewhere: what lies between is not worth waiting for.
    mutating func forgetPace() { readCount = 0 }
}
