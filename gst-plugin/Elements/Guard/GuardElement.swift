// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization

/// Stands right in front of a sink and shows what the outputs may show. What the licences of the session's keys want
/// comes from the session, and what the outputs are from a provider.
///
/// It has to be an element: the frame that waits for its time in the sink cannot be taken back but by a flush, and only
/// what stands behind upstream's threads can flush this branch and nothing else.
final class GuardElement: Element, @unchecked Sendable {
    // SAFETY: `stream` belongs to whoever holds the sink pad's stream lock; the rest is atomic, or under a mutex or
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
    let hasFlushStarted = Atomic(false)
    /// Guards the next three, and is told when one of these or of the two above changes.
    let flush = Monitor()
    @exclusivity(unchecked) var upstreamsFlush = UpstreamsFlush.none
    /// The picture was closed while upstream flushed.
    @exclusivity(unchecked) var blanksAfterFlush = false
    /// The source pad's thread may be started.
    @exclusivity(unchecked) var canBlank = false
    private let isActive = Atomic(false)
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
        let result = perform()
        switch change {
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
            currentPost?.keysInUseDidChange()
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
        // In this order, so that keys always have a guard.
        new.begin(replacing: old != nil)
        old?.end()
        // Changed since the post read it.
        if self.settings.withLock({ $0.hdmiMode }) != settings.hdmiMode { hdmiModeDidChange() }
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
    func hdmiModeDidChange() {
        let name = settings.withLock { $0.hdmiMode }
        guard let post = currentPost else { return }
        if let mode = HDMIMode(rawValue: name) { return post.setMode(mode) }
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
