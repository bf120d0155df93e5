// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection

/// What the bins around GStreamer's own adaptive demuxers share.
///
/// The manifest stops here first and goes on as the subclass says. Keys are asked for as soon as it names them. What
/// comes out passes a gate, so that media that is decrypted already stops when the right to it ends.
class AdaptiveBin: Bin, @unchecked Sendable {
    // SAFETY: `guarded` is guarded by `monitor`; `manifest` belongs to the upstream thread; `child` is set in `init`.

    let monitor = Monitor()
    private var guarded = Guarded()
    private(set) final var child: ElementReference?
    /// What arrived of the manifest.
    final var manifest = ManifestInput()

    /// What several threads use. Guarded by `monitor`.
    struct Guarded {
        var run: (any AdaptiveRun)?
        /// Nil where no session server counts what is played.
        var playback: PlaybackUse?
        /// Kept for the elements inside, which come and go.
        var pipeline: KeyPlayback?
        /// The demuxer is on its way down: what the stock one complains about then is of no interest.
        var isStopping = false
        /// A failure was told that ends the presentation: what follows from it is no news.
        var hasFailed = false
        /// What an element inside the stock demuxer said last, which may have kept it to itself.
        var errorInside: InsideError?
        /// For what a decryptor inside has told of a wrong key.
        var wrongKey: String?
        /// Renewals of keys that are under way.
        var renewals: Set<UInt64> = []
        /// When the stock demuxer started its threads, in nanoseconds of the monotonic clock.
        var childStart: UInt64 = 0
        /// Keys whose end was told.
        var expired: Set<KeyID> = []
        /// Requests for keys that this element started.
        var requests: Set<UInt64> = []
        var outputs: [Output] = []
        var rates = RateLimits()
        /// What the stock demuxer has of them.
        var appliedRates = RateLimits()
        var rateLimiting = SerialWork()
        var pictureLimiting = SerialWork()
        /// How long an outage of the network may last; zero: the stock demuxer decides.
        var outageMilliseconds: UInt32 = 0
        /// Why nothing may pass; nil: the gate is open.
        var closedBecause: KeyError?
        /// What was decrypted waits for its viewing session.
        var isWithheld = false
    }

    /// A pad of the stock demuxer and ours in front of it.
    struct Output {
        let inner: PadReference
        let outer: PadReference
        /// There while the gate is closed.
        var barrier: PadProbe?
        /// There while media is withheld.
        var hold: PadProbe?
    }

    /// The factory of the stock demuxer, and that of the one before it, which takes over under old players.
    class var stock: (factory: String, older: String) { ("", "") }

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        super.init(reference, description)
        child = ElementReference.make(Self.stock.factory)
        declareStreamsAware()
        guard let child, add(child), let sink = child.pad("sink") else {
            expose(nil, as: "sink", template: "sink")
            return
        }
        watchInput(sink)
        watchErrors(inside: child)
        // Messages that nobody read yet keep the child when this bin is gone.
        let weak = WeakElement(reference)
        child.onPadAdded { pad in weak.withElement { ($0 as? AdaptiveBin)?.addOutput(pad) } }
        child.onPadRemoved { pad in weak.withElement { ($0 as? AdaptiveBin)?.removeOutput(pad) } }
        expose(sink, as: "sink", template: "sink")
    }

    final func withGuarded<Result>(_ body: (inout Guarded) -> Result) -> Result {
        monitor.withLock { body(&guarded) }
    }

    final var currentRun: (any AdaptiveRun)? { withGuarded { $0.run } }

    /// How long stopping waits for the upstream thread, in milliseconds. Where every answer is at hand that takes one or
    /// two; more only where something else is in the way of them, such as a proxy.
    private static let patience = 1000

    /// How much longer it waits if the stock demuxer asks again for what it does not get.
    private static let patienceWhenAskedAgain = 20

    /// How long the stock demuxer's threads may need to start, in nanoseconds.
    private static let startTime: UInt64 = 100_000_000

    // MARK: For subclasses

    /// The largest manifest that is taken, in bytes.
    class var manifestLimit: Int { XMLLimits.manifest.size }

    /// Whether the stock demuxer is known to have downloaded something.
    var hasDownloaded: Bool { currentRun?.segments?.wasReached ?? false }

    /// What the demuxer has from now to its next stop.
    func makeRun(_ shared: SharedSession) throws(AdaptiveStartFailure) -> any AdaptiveRun {
        preconditionFailure("a subclass makes its run")
    }

    /// Comes before the stock demuxer stops, which may wait for an answer on the thread that it stops first.
    func willStop() { currentRun?.segments?.end() }

    /// Whether the stock demuxer asks again, since `willStop`, for what it was refused.
    var isAskedAgain: Bool { false }

    /// What the stock demuxer gets in place of the manifest that came from `url`.
    func handOn(_ manifest: [UInt8], from url: String) throws(PresentationFailure) -> [UInt8] { manifest }

    /// The manifest goes to the stock demuxer now, which asks for the first thing at once.
    func willHandOn() {}

    /// The fields of the request that brought the manifest.
    func requestHeadersDidCome(_ headers: [HTTPHeader]) {}

    /// The stock demuxer has that new pad.
    func outputDidAppear(_ pad: PadReference) { currentRun?.watch.output.add(pad) }

    /// Why the stock demuxer has stopped, as far as more is known of it than that.
    func causeOfStop() -> PresentationFailure? { nil }

    /// All of a live presentation that has ended was played, and the stock demuxer waits for more.
    func liveDidEnd() {}

    /// The origin's URL of what the stock demuxer fetched from there or from this process.
    func originURL(_ url: String) -> String {
        currentRun?.segments?.withOriginURLs(url, isForPeople: false) ?? url
    }

    /// Has the stock demuxer choose qualities with frames of at most so many pixels, where it has a choice; nil: any.
    func limitPictures(to pixels: Int?) {}

    /// Whether the stock demuxer waits for something that waits for a key.
    var isWaitingForKey: Bool { false }

    /// Whether something that one of the keys is for is shown at `position`, in seconds, or later, as far as is known.
    func needs(_ keyIDs: [KeyID], of session: KeySession, at position: Double) -> Bool { true }

    // MARK: State

    override func changeState(_ change: StateChange, perform: () -> StateChangeResult) -> StateChangeResult {
        switch change {
        case .nullToReady:
            guard mayStart() else { return .failure }
        case .readyToPaused:
            do {
                try start()
            } catch {
                error.post(on: reference)
                return .failure
            }
        case .pausedToPlaying: withGuarded { $0.playback }?.setPlaying(true)
        case .playingToPaused: withGuarded { $0.playback }?.setPlaying(false)
        case .pausedToReady:
            withGuarded { $0.isStopping = true }
            withhold(false)
            currentRun?.watch.end()
            willStop()
            waitForUpstream()
            waitUntilChildRuns()
        default: break
        }
        let result = perform()
        if change == .readyToPaused { withGuarded { $0.childStart = MonotonicTime.now } }
        if change == .pausedToReady || (change == .readyToPaused && result == .failure) { stop() }
        return result
    }

    /// Workaround (GStreamer <1.28): if the stock demuxer is stopped while it waits for an answer on the upstream thread, it
    /// crashes (1.22) or hangs (1.26). It has its answers now, and gets no manifest any more. From 1.26 on, it asks again
    /// and again while that thread waits, until it is stopped.
    private func waitForUpstream() {
        guard let sink = child?.pad("sink") else { return }
        for _ in 0..<Self.patience where !isAskedAgain {
            if sink.waitUntilIdle(milliseconds: 1) { return }
        }
        _ = sink.waitUntilIdle(milliseconds: Self.patienceWhenAskedAgain)
    }

    /// Workaround (GStreamer >=1.22): the stock demuxer hangs if it is stopped before its thread for downloads has begun to
    /// listen. Nothing shows that before the first download, so it gets some time.
    private func waitUntilChildRuns() {
        guard !hasDownloaded else { return }
        let age = MonotonicTime.now &- withGuarded { $0.childStart }
        if age < Self.startTime { g_usleep(gulong((Self.startTime - age) / 1000)) }
    }

    private func start() throws(AdaptiveStartFailure) {
        let shared: SharedSession
        do throws(KeyError) {
            shared = try SharedSession.obtain(for: reference)
            // Who chooses variants asks what the outputs have, long before a decryptor needs a guard.
            try GuardElement.joinAll(around: reference, shared.session)
        } catch {
            throw .configuration(error)
        }
        UntoldNotices.tell(on: reference)
        shared.session.reportTeardown(on: reference)
        // Before the run asks for anything.
        let pipeline = shared.playback(around: reference)
        let run = try makeRun(shared)
        let weak = WeakElement(reference)
        run.observe { event in weak.withElement { ($0 as? AdaptiveBin)?.keyEvent(event) } }
        manifest = ManifestInput()
        withGuarded {
            $0.run = run
            $0.playback = run.session.beginPlayback()
            $0.pipeline = pipeline
            $0.isStopping = false
            $0.hasFailed = false
            $0.errorInside = nil
            $0.wrongKey = nil
            $0.renewals = []
            $0.expired = []
            $0.requests = []
            $0.closedBecause = nil
            $0.isWithheld = false
        }
    }

    private func stop() {
        let (run, playback) = withGuarded { guarded -> ((any AdaptiveRun)?, PlaybackUse?) in
            defer { (guarded.run, guarded.playback, guarded.pipeline) = (nil, nil, nil) }
            return (guarded.run, guarded.playback)
        }
        playback?.end()
        run?.watch.end()
        run?.end()
    }

    private func mayStart() -> Bool {
        let (factory, older) = Self.stock
        guard child != nil else {
            reference.post(
                "missing-plugin",
                [
                    ("type", .string("element")), ("detail", .string(factory)),
                    ("name", .string("GStreamer element \(factory)")),
                ])
            reference.postError(
                GST_CORE_ERROR_MISSING_PLUGIN, "GStreamer's element \(factory) is missing.",
                debug: "Install GStreamer's good plug-ins: gstreamer1.0-plugins-good (1.22 or later).")
            return false
        }
        // decodebin falls through to the older demuxer then.
        guard isParentStreamsAware else {
            reference.postError(
                GST_CORE_ERROR_STATE_CHANGE, "\(description.factory) needs a player that handles streams.",
                debug: "Use playbin3, uridecodebin3 or urisourcebin. The older decodebin and playbin take GStreamer's "
                    + "own \(older) in its place.")
            return false
        }
        return true
    }

    // MARK: Inside

    override func elementDidAppear(_ element: ElementReference) {
        let watch = currentRun?.watch
        if Element.implementation(of: element.pointer) is Decryptor { watch?.didAdd(decryptor: element) }
        if element.factoryName == "parsebin", let sink = element.pad("sink") { watch?.didAdd(parser: sink) }
    }

    override func handle(_ message: consuming Message) { passOn(message) }

    /// Workaround (GStreamer <1.26): the stock demuxer may abort the process or hang when a seek ends a download, and one
    /// that waits for a key may be long.
    override func send(_ event: consuming Event) -> Bool {
        if event.isSeek, isWaitingForKey { return false }
        return child?.send(event) ?? false
    }

    /// As the stock demuxer answers. urisourcebin asks who buffers: where nobody says so, it puts queues behind this bin.
    override func answer(_ query: borrowing Query) -> Bool { child?.answer(query) ?? false }

    /// Says what ends the presentation, once. What the stock demuxer complains about later follows from it.
    final func fail(_ failure: PresentationFailure) {
        let isFirst = withGuarded { guarded -> Bool in
            guard guarded.run != nil, !guarded.isStopping, !guarded.hasFailed else { return false }
            guarded.hasFailed = true
            return true
        }
        if isFirst { failure.post(on: reference) }
    }
}

/// Why the demuxer cannot start.
enum AdaptiveStartFailure: Error {
    case configuration(KeyError)
    case loopback(HTTPError)

    func post(on element: ElementReference) {
        switch self {
        case .configuration(let error): element.postError(GST_RESOURCE_ERROR_SETTINGS, "\(error).", debug: "")
        case .loopback(let error): element.postError(GST_RESOURCE_ERROR_OPEN_READ, "\(error).", debug: "")
        }
    }
}
