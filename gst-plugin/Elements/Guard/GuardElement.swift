// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization

/// Stands right in front of a sink and shows what the outputs may show. What the licenses of the session's keys want
/// comes from the session, and what the outputs are from a provider.
///
/// It has to be an element: the frame that waits for its time in the sink cannot be taken back but by a flush, and only
/// what stands behind upstream's threads can flush this branch and nothing else.
final class GuardElement: Element, @unchecked Sendable {
    // SAFETY: `stream` belongs to the holder of the sink pad's stream lock; the rest is atomic, or under a mutex or
    // `flush`.
    let sinkPad: Pad
    let sourcePad: Pad
    let settings = Mutex(GuardSettings())
    let order = Mutex(OutputDecision.allow)
    /// The application's own, for the place of the video.
    let picture = Mutex<AlternativePicture?>(nil)
    /// This element flushes what is behind it: what upstream sends meanwhile is refused, and upstream must not know.
    let isFlushing = Atomic(false)
    /// The flush has reached the sink as a whole.
    private let hasFlushStarted = Atomic(false)
    /// Guards the next three, and is told when one of these or of the two above changes.
    let flush = Monitor()
    @exclusivity(unchecked) var upstreamsFlush = UpstreamsFlush.none
    /// The picture was closed while upstream flushed.
    @exclusivity(unchecked) var blanksAfterFlush = false
    /// The source pad's thread may be started.
    @exclusivity(unchecked) var canBlank = false
    private let isActive = Atomic(false)
    private let isPlaying = Atomic(false)
    @exclusivity(unchecked) var stream = StreamState()
    private let post = Mutex<GuardPost?>(nil)
    let counters = Mutex(Counters())

    static let log = DebugCategory("latchkeyguard", "Latchkey's output guard")

    /// How far a flush is that comes from upstream.
    enum UpstreamsFlush {
        case none
        /// Its start is on its way to the sink.
        case starting
        /// The sink has it.
        case started
    }

    struct StreamState {
        var caps: Caps?
        var media: OutputPolicy.Media?
        var size: (width: Int, height: Int)?
        /// What is shown in the place of frames, with its caps where they are others. Made when it is needed.
        var plain: PlainFrame?
        /// The same with the application's picture, made before it is needed: to make it takes a while.
        var prepared: PlainFrame?
        /// Where frames come from that lie in other than plain memory.
        var pool: FramePool?
        /// Frames were left out, and that was said.
        var hasRefused = false
        /// The sink has the caps of the plain frame.
        var showsPlainCaps = false
        /// What passed last, so that its time can be blanked.
        var last: (time: UInt64?, duration: UInt64?)?
        /// What is on the screen is to be blanked before anything else.
        var needsBlank = false
    }

    struct Counters {
        var passed: UInt64 = 0
        var blocked: UInt64 = 0
        var constricted: UInt64 = 0
        var closings: UInt64 = 0
    }

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        sinkPad = Pad(GuardFactory.sink, of: reference)
        sourcePad = Pad(GuardFactory.source, of: reference)
        super.init(reference, description)
        sinkPad.onChain { [unowned self] in chain($0) }
        sinkPad.onEvent { [unowned self] in handle($0) }
        sinkPad.onActivation { [unowned self] in
            isActive.store($0, ordering: .releasing)
            forgetUpstreamsFlush()
        }
        sourcePad.onTask { [unowned self] in blank() }
        sourcePad.onActivation { [unowned self] isActive in
            flush.withLock { canBlank = isActive }
            if !isActive { sourcePad.stopTask() }
        }
        sinkPad.proxyQueries()
        sourcePad.proxyQueries()
        add(sinkPad)
        add(sourcePad)
    }

    // MARK: The session

    override func changeState(_ change: StateChange, perform: () -> StateChangeResult) -> StateChangeResult {
        if change == .nullToReady, !joinSession() { return .failure }
        // The pads are not active: no thread is inside.
        if change == .readyToPaused {
            stream = StreamState()
            currentPost?.didEnterPipeline(reference)
        }
        if change == .pausedToPlaying { setPlaying(true) }
        let result = perform()
        switch change {
        case .playingToPaused: setPlaying(false)
        case .pausedToReady:
            // Upstream's last event may have started it once more.
            sourcePad.stopTask()
            sinkPad.whileIdle { stream = StreamState() }
            currentPost?.didStop()
        case .readyToNull: leaveSession()
        default: break
        }
        return result
    }

    override func contextDidChange(_ context: Context) {
        // Another session than the one that is guarded, such as the application's. The bin that passes the context on
        // holds its lock: nothing may be asked or posted.
        guard context.type == SharedSession.contextType, let old = currentPost,
            let session = SharedSession.carried(by: context)
        else { return }
        do {
            try join(session, media: old.media)
        } catch {
            Self.log.log(.error, reference, "the output guard stays with its old session: \(error)")
        }
    }

    private func setPlaying(_ isPlaying: Bool) {
        self.isPlaying.store(isPlaying, ordering: .releasing)
        currentPost?.setPlaying(isPlaying)
    }

    var currentPost: GuardPost? { post.withLock { $0 } }

    /// Whether nothing passes here that this session's keys do not allow: one that has joined no session yet does so before
    /// it starts.
    func guards(for session: KeySession) -> Bool { currentPost.map { $0.session === session } ?? true }

    /// Has the guards join that stand, or will stand, in front of the sinks of the pipeline around `element`. Players put
    /// their sinks into the pipeline when the first media is decoded: too late for the key that this needs.
    /// Throws why one cannot: it may have no pipeline yet where it could say so itself.
    static func joinAll(around element: ElementReference, _ session: KeySession) throws(KeyError) {
        var failure: KeyError?
        element.forEachAround(madeBy: GuardFactory.name) { found in
            guard let outputGuard = found as? GuardElement, outputGuard.currentPost == nil else { return }
            do throws(OutputSettingError) {
                try outputGuard.join(session, media: outputGuard.expectedMedia(around: element))
            } catch {
                failure = .invalidConfiguration("the output guard \(outputGuard.reference.name) cannot start: \(error)")
            }
        }
        if let failure { throw failure }
    }

    private func joinSession() -> Bool {
        do {
            try join(SharedSession.obtain(for: reference).session, media: expectedMedia(around: reference))
            // What is decrypted already may come as soon as the pads are active.
            currentPost?.didJoin()
            return true
        } catch {
            reference.postError(
                GST_RESOURCE_ERROR_SETTINGS, "The output guard cannot start: \(error).",
                debug: "The properties outputs, hdmi-mode and minimum-hdcp, and the configuration, have to be right.")
            return false
        }
    }

    private func join(_ session: KeySession, media: OutputPolicy.Media?) throws(OutputSettingError) {
        let settings = settings.withLock { $0 }
        if let post = currentPost, post.session === session, post.hasSettings(settings) {
            if let media { post.setMedia(media) }
            return
        }
        let new = try GuardPost(session, settings: settings, element: reference)
        new.setMedia(media)
        let old = post.withLock { old in
            defer { old = new }
            return old
        }
        // A change from here on comes to the new one. One at this moment may come in front of what was read.
        var told: Bool
        repeat {
            told = isPlaying.load(ordering: .acquiring)
            new.setPlaying(told)
        } while told != isPlaying.load(ordering: .acquiring)
        // In this order, so that keys always have a guard.
        new.begin(replacing: old != nil)
        old?.end()
        // Changed since the post read it.
        if self.settings.withLock({ $0.hdmiMode }) != settings.hdmiMode { hdmiModeDidChange(isJoining: true) }
    }

    /// The application tells the outputs, also before anything plays. False where others tell them.
    func set(_ facts: OutputFacts) -> Bool {
        let counts = settings.withLock { settings in
            if settings.outputs == "application" { settings.told = facts }
            return settings.outputs == "application"
        }
        return counts && currentPost?.set(facts) ?? true
    }

    /// The application wants another mode, as it plays or before.
    func hdmiModeDidChange(isJoining: Bool = false) {
        let name = settings.withLock { $0.hdmiMode }
        guard let post = currentPost else { return }
        if let mode = HDMIMode(rawValue: name) { return post.setMode(mode, isJoining: isJoining) }
        reference.postWarning(
            GST_RESOURCE_ERROR_SETTINGS, "hdmi-mode=\(name) is no mode: the one before stays.",
            debug: "It is one of " + HDMIMode.allCases.map(\.rawValue).joined(separator: ", "))
    }

    func setPicture(file path: String?) {
        do throws(PipelineError) {
            let new = try path.map { path throws(PipelineError) in try AlternativePicture(file: path) }
            picture.withLock { $0 = new }
        } catch {
            reference.postWarning(
                GST_RESOURCE_ERROR_SETTINGS, "The alternative-image cannot be used: \(error).",
                debug: "A white picture is shown in its place.")
            picture.withLock { $0 = nil }
        }
    }

    private func leaveSession() {
        let old = post.withLock { post in
            defer { post = nil }
            return post
        }
        old?.end()
        order.withLock { $0 = .allow }
    }

    /// What the sink behind takes, or what comes from what is linked in front; else what the player around `element` will
    /// send here. Nil: not known before the first media. It proves nothing of pictures: `PictureRoute` does.
    private func expectedMedia(around element: ElementReference) -> OutputPolicy.Media? {
        if let media = Self.media(in: sourcePad.peerCaps()) ?? Self.media(in: sinkPad.peerCaps()) { return media }
        if ["video-sink", "video-filter"].contains(where: { element.hasAround($0, reference) }) { return .video }
        return ["audio-sink", "audio-filter"].contains { element.hasAround($0, reference) } ? .audio : nil
    }

    /// Where the caps are of only one medium.
    private static func media(in caps: Caps) -> OutputPolicy.Media? {
        guard !caps.isAny else { return nil }
        let kinds = Set((0..<caps.count).map { media(caps.mediaType(at: $0)) })
        return kinds.count == 1 ? kinds.first ?? nil : nil
    }

    static func media(_ type: String?) -> OutputPolicy.Media? {
        guard let type else { return nil }
        return type.hasPrefix("audio/") ? .audio : type.hasPrefix("video/") ? .video : nil
    }

    var canFlush: Bool { isActive.load(ordering: .acquiring) }
}

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
        // Upstream's thread, which is on its way out of the sink, or this one: the holder of the lock.
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
    private func forgetUpstreamsFlush() {
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

    /// For the holder of the sink pad's lock, when the flush has started.
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

/// The factory of the output guard.
public enum GuardFactory {
    /// To be put in front of sinks by hand or by players.
    public static let outputGuard = ElementDescription(
        factory: name, longName: "Output guard", classification: "Filter/Video/Audio",
        summary: "Shows protected media only on outputs that its license allows; the last element in front of the sink",
        author: "The Latchkey authors", padTemplates: [sink, source], properties: GuardSettings.properties,
        signals: [GuardSettings.setOutputs], implementation: GuardElement.self)

    static let name = "latchkeyguard"
    static let sink = PadTemplate.sink(types)
    static let source = PadTemplate.source(types)
    private static let types = "video/x-raw(ANY); audio/x-raw(ANY)"
}
