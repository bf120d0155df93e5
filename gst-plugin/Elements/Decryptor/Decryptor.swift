// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Glibc
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyProtection

/// What all decryptors share: the way of buffers and events, the wait for keys, settings and the session.
///
/// Buffers whose key is known go straight through, on the thread that brings them. A buffer whose key is missing goes
/// into a queue, and the source pad's own thread waits for the key: adaptive demuxers feed all their tracks from one
/// thread and stop it before they stop their children, so a wait on that thread could not be ended.
class Decryptor: Element, @unchecked Sendable {
    // SAFETY: `flow` is guarded by `monitor`; `userSettings`, `sources`, `route`, `hold`, `observation` and `counters` by
    // `facts`. `stream` belongs to whichever thread is the stream's at the moment: upstream's, or the source pad's while
    // the queue is in use.

    /// More than this waits upstream. Inside an adaptive demuxer, whose thread serves all tracks, only bytes count.
    static let queueByteLimit = 32 << 20
    /// The same while the demuxer around the element is asked to seek: its thread has to come out.
    private static let queueByteLimitAtSeek = 128 << 20
    static let queueDurationLimit: UInt64 = 30_000_000_000
    private static let queueCountLimit = 20_000

    static let log = DebugCategory("latchkeydecryptor", "Latchkey's decryptors")

    let sinkPad: Pad
    let sourcePad: Pad

    /// Guards the data flow. Never held where a message may be posted.
    let monitor = Monitor()
    /// Guards what properties and signals show. Never held while `monitor` is asked for.
    let facts = Monitor()
    // Each has one owner at a time, as above, and no access lasts while another begins; the run-time check of that
    // would cost more than the rest of a sample's bookkeeping.
    @exclusivity(unchecked) var flow = FlowState()
    @exclusivity(unchecked) var stream = StreamState()
    private var userSettings = DecryptorSettings()
    private var sources: KeySources?
    private var route: PictureRoute?
    private(set) var hold: SinkHold?
    private(set) var observation: KeyObservation?
    @exclusivity(unchecked) private var counters = DecryptorStatistics()
    /// Looks whether playback begins after a wrong key was told. Guarded by `facts`.
    private var startWatch: Task<Void, Never>?

    /// The state of the data flow. Guarded by `monitor`.
    struct FlowState: ~Copyable {
        var isFlushing = true
        /// The source pad is active: its thread may be started.
        var isActive = false
        /// What downstream last said; returned to upstream when the source pad's thread got it.
        var result = FlowResult.ok
        /// An error message has told why `result` is a failure.
        var isFailureReported = false
        var queue = StreamItemQueue()
        /// The source pad's thread has the stream: nothing may overtake it.
        var isTaskActive = false
        var hasEnded = false
        /// What the adaptive demuxer said too early.
        var heldEnd: HeldEnd?
        /// The demuxer around the element was asked to seek; what is in the queue is about to be flushed.
        var isSeekExpected = false
        /// The thread that is downstream with a buffer.
        var pusher: pthread_t?
        /// A thread waits for a key.
        var isAwaitingKey = false
        /// Counts what happened to keys, so that no wake-up is missed.
        var keyEvents: UInt64 = 0
        /// The stream has had caps: clear ones are taken from now on.
        var hasCaps = false
        /// Keys whose end was told.
        var expired: Set<KeyID?> = []
        /// KIDs that this element asked for: their fate is posted.
        var awaited: Set<KeyID?> = []
        /// Messages about their fate that are being posted.
        var settling = 0
    }

    /// What belongs to the stream's thread.
    struct StreamState {
        var keys: KeyRing?
        let output = OutputMemory()
        var doubt = SampleDoubt()
    }

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        sinkPad = Pad(DecryptorFactory.template(.sink, of: description), of: reference)
        sourcePad = Pad(DecryptorFactory.template(.source, of: description), of: reference)
        super.init(reference, description)
        sinkPad.onChain { [unowned self] in self.chain($0) }
        sinkPad.onEvent { [unowned self] in self.sinkEvent($0) }
        sinkPad.onQuery { [unowned self] in self.sinkQuery($0) }
        sinkPad.onActivation { [unowned self] in self.sinkActivation($0) }
        sourcePad.onQuery { [unowned self] in self.sourceQuery($0) }
        sourcePad.onActivation { [unowned self] in self.sourceActivation($0) }
        sourcePad.onTask { [unowned self] in self.loop() }
        add(sinkPad)
        add(sourcePad)
    }

    var settings: DecryptorSettings { facts.withLock { userSettings } }
    func changeSettings(_ body: (inout DecryptorSettings) -> Void) { facts.withLock { body(&userSettings) } }
    var statistics: DecryptorStatistics { facts.withLock { counters } }
    func count<T>(_ body: (inout DecryptorStatistics) -> T) -> T { facts.withLock { body(&counters) } }

    var currentSources: KeySources? { facts.withLock { sources } }
    var currentSession: KeySession? { currentSources?.session }

    // MARK: What each kind does its own way, on the stream's thread

    /// What became of a buffer.
    enum Prepared: ~Copyable {
        case ready(Buffer)
        /// The first goes on, and then what comes of the second.
        case partly(Buffer, rest: Buffer)
        /// More is needed before anything can go on.
        case nothing
        /// The buffer is to be prepared again when the key is there.
        case missingKey(Buffer, KeyID?)
        case failed(DecryptorFailure)
    }

    /// Decrypts what is encrypted.
    func prepare(_ buffer: consuming Buffer) -> Prepared { .ready(buffer) }

    /// Completes what is held back, in front of this event.
    func complete(before event: borrowing Event) -> Prepared { .nothing }

    /// Takes new caps into use. Returns those of the clear media; nil where there are none.
    func adopt(_ caps: Caps) -> Caps? { caps }

    /// Passes an event on when its turn has come.
    func pass(_ event: consuming Event) -> Bool {
        guard let caps = event.caps else {
            if event.kind == .endOfStream {
                logTimes()
                stream.doubt.end().forEach { tellWrongKey($0) }
            }
            return sourcePad.push(event)
        }
        guard let clear = adopt(caps) else { return false }
        monitor.withLock { flow.hasCaps = true }
        return sourcePad.push(Event(caps: clear))
    }

    /// Keeps a sticky event that a flush took out of the queue.
    func keep(_ event: consuming Event) {
        guard let caps = event.caps else { return sourcePad.store(event) }
        guard let clear = adopt(caps) else { return }
        monitor.withLock { flow.hasCaps = true }
        sourcePad.store(Event(caps: clear))
    }

    /// The bytes that are held back do not belong to what comes next.
    func flushStream() {}

    /// A start or a stop.
    func resetStream() { stream = StreamState() }

    func sinkQuery(_ query: borrowing Query) -> Bool? { nil }
    func sourceQuery(_ query: borrowing Query) -> Bool? { nil }

    /// Whether something waits in here, as for a key.
    var isBehind: Bool { monitor.withLock { flow.isTaskActive } }

    /// Whether the source has nothing to give at the moment, as on a slow network.
    var isStarved: Bool { false }

    /// Whether the stream has had caps.
    var hasStarted: Bool { monitor.withLock { flow.hasCaps } }

    // MARK: States

    override func changeState(_ change: StateChange, perform: () -> StateChangeResult) -> StateChangeResult {
        switch change {
        case .readyToPaused:
            guard startUnlessStarted() else { return .failure }
        case .pausedToPlaying:
            currentSources?.setPlaying(true)
        case .playingToPaused:
            currentSources?.setPlaying(false)
        case .pausedToReady:
            beginFlush()
            // The stream's thread may wait for room behind this element, as long as a sink gets nothing.
            facts.withLock { hold }?.forget()
        default: break
        }
        let result = perform()
        if change == .pausedToReady || (change == .readyToPaused && result == .failure) { stop() }
        return result
    }

    /// In pull mode, what is behind starts this element, before its own state changes.
    func startUnlessStarted() -> Bool {
        guard currentSources == nil else { return true }
        do throws(KeyError) {
            try start()
            return true
        } catch {
            DecryptorFailure.configuration(error).post(on: reference)
            return false
        }
    }

    private func start() throws(KeyError) {
        let settings = settings
        let shared = try SharedSession.obtain(for: reference)
        UntoldNotices.tell(on: reference)
        shared.session.reportTeardown(on: reference)
        try GuardElement.joinAll(around: reference, shared.session)
        let weak = WeakElement(reference)
        let observation = shared.session.observe { event in
            weak.withElement { ($0 as? Decryptor)?.keyEvent(event) }
        }
        let source = PadReference(sharing: sourcePad.pointer)
        let route = PictureRoute(from: source, session: shared.session) { keyID, error in
            weak.withElement { ($0 as? Decryptor)?.end(keyID, because: error) }
        }
        let sources: KeySources
        do {
            sources = try KeySources(
                settings: settings, shared: shared, playback: shared.playback(around: reference),
                observer: observation.id,
                streamURL: {
                    weak.map { $0.reference.pad("sink")?.peerURI()?.base } ?? nil
                },
                openRoute: { [weak route] in route?.refusal(of: $0) },
                isAskedToPlay: { weak.map { $0.reference.isAskedToPlay } ?? false }
            ) { keyID in
                weak.withElement { ($0 as? Decryptor)?.tellWrongKey(keyID, because: DecryptorFailure.otherChecksum) }
            }
        } catch {
            observation.cancel()
            throw error
        }
        resetStream()
        stream.keys = KeyRing(sources)
        monitor.withLock { flow.hasCaps = false }
        facts.withLock {
            self.sources = sources
            self.route = route
            hold = SinkHold(behind: source)
            self.observation = observation
            counters = DecryptorStatistics()
        }
    }

    private func stop() {
        endStartWatch()
        logTimes()
        monitor.withLock {
            flow.queue.removeAll()
            flow.awaited.removeAll()
            flow.expired.removeAll()
        }
        let (observation, sources, route) = facts.withLock { () -> (KeyObservation?, KeySources?, PictureRoute?) in
            defer {
                self.observation = nil
                self.sources = nil
                self.route = nil
            }
            return (self.observation, self.sources, self.route)
        }
        route?.forget()
        facts.withLock { hold.take() }?.forget()
        sources?.waitForPlayNotes()
        sources?.end()
        observation?.cancel()
        resetStream()
    }
}

extension Decryptor {
    func sinkEvent(_ event: consuming Event) -> Bool {
        switch event.kind {
        case .flushStart: return flushStart(event)
        case .flushStop: return flushStop(event)
        case .protection:
            // Asked for at once, before the samples that need the key: they may wait in the queue.
            if let protection = event.protection { prefetchKeys(protection) }
            return true
        default:
            return event.isSerialized ? sendInOrder(event) : sourcePad.push(event)
        }
    }
}

extension Decryptor {
    /// What the sink pad of an element that decrypts a whole container says to queries. Nil: GStreamer's own answer.
    func answerForContainer(_ query: borrowing Query, accepting caps: Caps) -> Bool? {
        switch query.kind {
        case .acceptCaps:
            guard let offered = query.capsToAccept else { return nil }
            query.answerAcceptCaps(offered.isSubset(of: caps))
            return true
        case .caps:
            query.answer(caps: caps)
            return true
        case .allocation:
            // What upstream fills is encrypted, and read once.
            return false
        case .scheduling, .uri, .other:
            return nil
        }
    }
}

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

    /// Drops what is queued. Caps, tags and the like that were on their way must not be lost with it. Returns whether the end of
    /// the stream was dropped, without a new stream behind it.
    @discardableResult
    private func dropQueue(keepingSticky: Bool) -> Bool {
        monitor.lock()
        var kept: [UnsafeMutablePointer<GstEvent>] = []
        var hasDroppedEnd = false
        while let item = flow.queue.popFirst() {
            if case .event(let event) = item {
                let (kind, isEnd) = (event.kind, event.kind == .endOfStream)
                if isEnd || kind == .streamStart { hasDroppedEnd = isEnd }
                if keepingSticky, event.isSticky, !isEnd, kind != .segment { kept.append(event.release()) }
            }
        }
        monitor.unlock()
        for event in kept { keep(Event(owning: event)) }
        return hasDroppedEnd
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
        currentSources?.didFlush()
        logTimes()
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
                return push(clear)
            case .partly(let clear, let rest):
                let result = push(clear)
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
                return reportUnlessStopped(failure)
            }
        }
    }

    /// A parser may refuse the first sample of a wrong key, and end the stream.
    private func push(_ clear: consuming Buffer) -> FlowResult {
        monitor.lock()
        // What ends playback may have come while the buffer was decrypted.
        guard flow.result == .ok else {
            defer { monitor.unlock() }
            return flow.result
        }
        flow.pusher = pthread_self()
        monitor.unlock()
        let result = sourcePad.push(clear)
        monitor.lock()
        flow.pusher = nil
        if flow.result != .ok { monitor.broadcast() }
        monitor.unlock()
        if result == .error { stream.doubt.refuse().forEach { tellWrongKey($0) } }
        return result
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
    private func sendInOrder(_ event: consuming Event) -> Bool {
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
    private func reportWhatUpstreamWillNot() {
        let result = flow.result
        guard result.isFatal, !flow.isFailureReported else { return }
        flow.isFailureReported = true
        monitor.unlock()
        DecryptorFailure.downstream(result).post(on: reference)
        monitor.lock()
    }
}

/// The source pad's thread, which has the stream while something is queued, and waits for keys.
extension Decryptor {
    /// Gives the stream to the source pad's thread. The lock is held, and is given up: the pad posts a message when its
    /// thread is made, and an application that answers it at once may call into this element.
    private func unlockAndStartTask() {
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
                return push(clear)
            case .partly(let clear, let rest):
                let result = push(clear)
                guard result == .ok else { return result }
                next = prepare(rest)
            case .nothing:
                return .ok
            case .failed(let failure):
                return reportUnlessStopped(failure)
            case .missingKey(let encrypted, let keyID):
                // One buffer may need several keys, one after the other.
                var current = KeyWait(keyID: keyID, startedAt: MonotonicTime.now)
                if let wait, wait.keyID == keyID { current = wait }
                switch waitForKeyEvent(&current) {
                case .flushing: return .flushing
                case .failed(let failure): return reportUnlessStopped(failure)
                case nil: wait = current
                }
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
        // What ended playback stays.
        if flow.result != .error { flow.result = result }
        // Upstream has sent everything and will not ask for the result any more.
        if flow.hasEnded { reportWhatUpstreamWillNot() }
        monitor.broadcast()
        monitor.unlock()
        // The end may have come since. One that comes from here on is queued, and passes on in its turn.
        guard dropQueue(keepingSticky: true), result != .flushing, !reference.isBeingStopped else { return }
        _ = sourcePad.push(Event.endOfStream())
        deliverHeldEnd()
    }
}

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
        var startedAt: UInt64
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
            // The viewing session was ended for a pause: there is no key before that is over, however long it lasts.
            if stream.keys?.sources.isReleased == true { wait.startedAt = MonotonicTime.now }
            let waited = MonotonicTime.now &- wait.startedAt
            var pause = Self.pollInterval
            if let sources = stream.keys?.sources, let limit = isUntaken ? sources.untakenTimeout : sources.timeout {
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

/// Ends playback that cannot begin, or go on after a pause, because of a wrong key. If a decoder makes nothing of one track,
/// the player waits for it, and the queues of the others hold up the demuxer.
extension Decryptor {
    /// To be called if a wrong key was told. Inside an adaptive demuxer, the bin around that one looks.
    func watchStart(of keyID: KeyID?) {
        guard !reference.isInsideAdaptiveDemuxer else { return }
        let weak = WeakElement(reference)
        let watch = Task {
            var looks = IdleLooks()
            while (try? await Task.sleep(for: .seconds(1))) != nil {
                guard weak.map({ ($0 as? Decryptor)?.isStartAwaited(of: keyID, &looks) ?? false }) ?? false else {
                    return
                }
            }
        }
        facts.withLock {
            startWatch?.cancel()
            startWatch = watch
        }
    }

    private func endStartWatch() {
        facts.withLock { startWatch.take() }?.cancel()
    }

    /// One look. False if no more are needed.
    private func isStartAwaited(of keyID: KeyID?, _ looks: inout IdleLooks) -> Bool {
        guard currentSources != nil else { return false }
        let isWaiting = monitor.withLock { flow.isFlushing || flow.isFailureReported || flow.isAwaitingKey }
        let isExcused = isWaiting || isBehind || isStarved || !reference.isChangingState
        guard looks.look(decrypted: statistics.bytesDecrypted, isExcused: isExcused) else { return true }
        monitor.withLock { flow.isFailureReported = true }
        reference.postError(
            GST_STREAM_ERROR_DECRYPT,
            "Playback cannot \(reference.hasPrerolled ? "go on" : "begin"): the decoders make nothing of what the key for "
                + "\(name(of: keyID)) decrypts.",
            debug: "Either the key is a wrong one, or the media is encrypted in another way than it says.")
        return false
    }
}
