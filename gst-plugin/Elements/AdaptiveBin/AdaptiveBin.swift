// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyContainers
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
        /// An error was posted, of this bin or of an element inside.
        var isErrorTold = false
        /// What an element inside the stock demuxer said last, which may have kept it to itself.
        var errorInside: InsideError?
        /// For what a decryptor inside has told of a wrong key.
        var wrongKey: String?
        /// Renewals of keys that are under way.
        var renewals: Set<UInt64> = []
        var moments = StopMoments()
        /// Keys whose end was told.
        var expired: Set<KeyID> = []
        /// Keys for which qualities are left out, and that was told.
        var leftOut: Set<KeyID> = []
        /// Nil: as configured.
        var partialLicenses: PartialLicenses?
        /// The same.
        var headerOrigins: String?
        /// The upstream thread waits for the answers to requests for keys.
        var isAwaitingAnswers = false
        /// Counts what happens to keys.
        var keyEvents: UInt64 = 0
        var requests = OwnRequests()
        var outputs: [Output] = []
        var audio = AudioChoice()
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
        // Unread messages keep the child when this bin is gone.
        let weak = WeakElement(reference)
        child.onPadAdded { pad in weak.withElement { ($0 as? AdaptiveBin)?.addOutput(pad) } }
        child.onPadRemoved { pad in weak.withElement { ($0 as? AdaptiveBin)?.removeOutput(pad) } }
        expose(sink, as: "sink", template: "sink")
    }

    final func withGuarded<Result>(_ body: (inout Guarded) -> Result) -> Result {
        monitor.withLock { body(&guarded) }
    }

    /// Waits until something happens to keys that is not among the events which were `seen`, or the demuxer stops. The lock is
    /// held.
    final func waitForKeyEvent(after seen: UInt64, microseconds: Int64) {
        guard guarded.keyEvents == seen, !guarded.isStopping else { return }
        monitor.wait(microseconds: microseconds)
    }

    final var currentRun: (any AdaptiveRun)? { withGuarded { $0.run } }

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

    /// The stock demuxer has that new pad.
    func outputDidAppear(_ pad: PadReference) { currentRun?.watch.didAdd(output: pad) }

    /// The stock demuxer has that pad no more.
    func outputDidDisappear(_ pad: PadReference) {}

    /// Why the stock demuxer has stopped, as far as more is known of it than that.
    func causeOfStop() -> PresentationFailure? { nil }

    /// A message of something inside, which this passes on in the end.
    func take(_ message: consuming Message) { passOn(message) }

    /// All of a live presentation that has ended was played, and the stock demuxer waits for more.
    func liveDidEnd() {}

    /// The origin's URL of what the stock demuxer fetched from there or from this process.
    func originURL(_ url: String) -> String {
        currentRun?.segments?.withOriginURLs(url, isForPeople: false) ?? url
    }

    /// Has the stock demuxer choose qualities with frames of at most so many pixels, where it has a choice; nil: any.
    func limitPictures(to pixels: Int?) {}

    /// A stream inside the stock demuxer has a parser, whose sink pad that is.
    func parserDidAppear(_ sink: PadReference) { ClearStart.watch(sink, inside: self) }

    /// What the stock demuxer's parser gets in the place of a stream's first caps, so that it puts a decryptor in front of
    /// its demuxer; nil: the caps as they are.
    func renamed(_ caps: Caps) -> Caps? { nil }

    /// What becomes of an init segment that names encryption, in a stream whose caps were not renamed.
    enum EncryptedInitSegments {
        /// It is not looked at.
        case leftToParser
        /// The parser finds a decryptor for the first one of a stream. For a later one, a decryptor is put in front of what
        /// the parser has chosen.
        case decryptedInFrontOnceClear
        /// A decryptor is put there for the first one, too.
        case decryptedInFront
    }

    var encryptedInitSegments: EncryptedInitSegments { .leftToParser }

    /// Whether streams may have notes, which name the key of what is behind them.
    var hasNotes: Bool { false }

    /// An init segment names encryption, in a stream whose caps were not renamed.
    func encryptionDidAppear() {}

    /// A stream is encrypted, and nothing here can decrypt it.
    func streamIsRefused(_ failure: PresentationFailure) { fail(failure) }

    /// Whether the stock demuxer waits for something that waits for a key.
    var isWaitingForKey: Bool { withGuarded { $0.isAwaitingAnswers } }

    /// Whether something that one of the keys is for is shown at `position`, in seconds, or later, as far as is known.
    func needs(_ keyIDs: [KeyID], of session: KeySession, at position: Double) -> Bool { true }

    // MARK: State

    override func changeState(_ change: StateChange, perform: () -> StateChangeResult) -> StateChangeResult {
        var times = StopTimes(at: MonotonicTime.now)
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
        case .pausedToPlaying: setPlaying(true)
        case .playingToPaused: setPlaying(false)
        case .pausedToReady:
            withGuarded { $0.isStopping = true }
            monitor.broadcast()
            withhold(false)
            currentRun?.watch.end()
            willStop()
            times.didEnd("answers")
            waitUntilChildMayStop()
            times.didEnd("threads of the stock demuxer")
        default: break
        }
        let threads = change == .readyToPaused ? KernelThreads.now : nil
        let result = perform()
        times.didEnd("stock demuxer")
        if let threads {
            let new = KernelThreads.now.since(threads)
            withGuarded { $0.moments.didStart(new, at: MonotonicTime.now) }
        }
        if change == .pausedToReady || (change == .readyToPaused && result == .failure) {
            stop()
            times.didEnd("servers")
        }
        if change == .pausedToReady || change == .readyToNull {
            let (state, line) = (change == .readyToNull ? "NULL" : "READY", times.line)
            StopTimes.log.log(.info, reference, "to \(state): \(line)")
        }
        return result
    }

    private func setPlaying(_ isPlaying: Bool) {
        withGuarded { $0.playback }?.setPlaying(isPlaying)
        currentRun?.setPlaying(isPlaying)
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
        let origins = try headerOrigins(shared)
        let run = try makeRun(shared)
        run.origin.setHeaderOrigins(origins)
        let weak = WeakElement(reference)
        run.observe { event in weak.withElement { ($0 as? AdaptiveBin)?.keyEvent(event) } }
        manifest = ManifestInput()
        let playback = run.session.beginPlayback()
        playback?.setPlaysFile(false)
        playback?.onPauseLimit { weak.map { $0.reference.isAskedToPlay } ?? false }
        withGuarded {
            $0.run = run
            ($0.playback, $0.pipeline) = (playback, pipeline)
            ($0.isStopping, $0.hasFailed, $0.isErrorTold) = (false, false, false)
            ($0.errorInside, $0.wrongKey) = (nil, nil)
            $0.renewals = []
            $0.expired = []
            $0.leftOut = []
            $0.requests = OwnRequests()
            $0.audio = AudioChoice(wanted: $0.audio.wanted)
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
        guard element.factoryName == "parsebin", let sink = element.pad("sink") else { return }
        watch?.didAdd(parser: sink)
        parserDidAppear(sink)
    }

    /// On the thread that posts, which goes on when this returns.
    final override func handle(_ message: consuming Message) {
        let isOfChild = child.map { message.isFrom($0) } ?? false
        let kind = isOfChild ? message.kind : .other
        if kind == .streamCollection { withGuarded { $0.moments.didTellOfStreams(at: MonotonicTime.now) } }
        if kind == .streamsSelected { withGuarded { $0.moments.willTellOfOutputs(at: MonotonicTime.now) } }
        take(message)
        if kind == .streamsSelected {
            let thread = KernelThreads.current
            withGuarded { $0.moments.didTellOfOutputs(on: thread, at: MonotonicTime.now) }
        }
    }

    /// Workaround (GStreamer <1.26): the stock demuxer may abort the process or hang when a seek ends a download, and one
    /// that waits for a key may be long.
    override func send(_ event: consuming Event) -> Bool {
        if event.isSeek, isWaitingForKey { return false }
        return child?.send(event) ?? false
    }

    /// As the stock demuxer answers. urisourcebin asks who buffers: without an answer, it puts queues behind this bin.
    override func answer(_ query: borrowing Query) -> Bool { child?.answer(query) ?? false }

    /// Says what ends the presentation, once. What the stock demuxer complains about later follows from it.
    final func fail(_ failure: PresentationFailure) {
        let isFirst = withGuarded { guarded -> Bool in
            guard guarded.run != nil, !guarded.isStopping, !guarded.hasFailed else { return false }
            guarded.hasFailed = true
            return true
        }
        if isFirst { tell(failure) }
    }

    /// Posts what is wrong. If the session is over, that is why a key fails.
    final func tell(_ failure: PresentationFailure) {
        withGuarded { $0.isErrorTold = true }
        if failure.kind == .key, let reason = currentRun?.session.endReason {
            closeGate(reason)
        } else {
            failure.post(on: reference)
        }
    }
}

/// What arrived of the manifest.
struct ManifestInput {
    var bytes: [UInt8] = []
    var isTooLarge = false
    /// The `Set-Cookie` fields of the answer that brought it.
    var setCookies: [String] = []
    /// What is made of the manifest is on its way to the stock demuxer.
    var isHandedOn = false
    /// Where it comes from, before redirects.
    var source = ""
    /// It was fetched before playback.
    var isHandedOver = false
    /// Where the stock demuxer is to fetch it again, which asks when it has the first one; nil: where it comes from.
    var laterURL: String?
}

extension AdaptiveBin {
    /// Stands between upstream and the stock demuxer: that gets what `handOn` makes of the manifest.
    private func watchInput(_ sink: PadReference) {
        let weak = WeakElement(reference)
        sink.probeBuffers { buffer in
            let isTaken = weak.map { ($0 as? AdaptiveBin)?.takes(buffer) } ?? false
            if isTaken == true { return nil }
            return buffer
        }
        sink.answerURIQueries { (weak.map { ($0 as? AdaptiveBin)?.manifest.laterURL } ?? nil) ?? nil }
        sink.probeEvents(.downstream) { event in
            let goesOn = weak.map { ($0 as? AdaptiveBin)?.accepts(event) } ?? false
            if goesOn == true { return event }
            return nil
        }
    }

    /// Whether the event goes on to the stock demuxer.
    private func accepts(_ event: borrowing Event) -> Bool {
        switch event.kind {
        case .endOfStream:
            guard !withGuarded({ $0.isStopping }) else { return false }
            return manifest.isHandedOn || handOn()
        case .flushStop, .streamStart:
            manifest = ManifestInput()
        default:
            manifest.setCookies += event.httpSetCookies
            if let headers = event.httpRequestHeaders {
                currentRun?.origin.setHeaders(headers.map { HTTPHeader(name: $0.name, value: $0.value) })
            }
        }
        return true
    }

    /// Whether the buffer is a part of the manifest and stays here.
    private func takes(_ buffer: borrowing Buffer) -> Bool {
        guard !manifest.isHandedOn else { return false }
        guard manifest.bytes.count + buffer.size <= Self.manifestLimit else {
            manifest.isTooLarge = true
            return true
        }
        _ = buffer.withBytes { manifest.bytes += $0 }
        return true
    }

    /// Gives the stock demuxer what the subclass makes of the manifest. False where that cannot be used, which is then
    /// said.
    private func handOn() -> Bool {
        guard let run = currentRun, let sink = child?.pad("sink") else { return false }
        let place = sink.peerURI()
        var url = place?.base ?? ""
        manifest.source = place?.uri ?? ""
        // The stock demuxer does not see where one comes from that was handed over.
        if let handed = ManifestHandover.place(of: manifest.source, base: url) {
            (manifest.source, url) = (handed.source, handed.url)
            (manifest.laterURL, manifest.isHandedOver) = (url, place?.base == place?.uri)
        }
        run.origin.manifestDidCome(from: url, source: manifest.source, setCookies: manifest.setCookies)
        withGuarded(\.pipeline)?.note(manifestURL: url, cookies: run.origin.cookies)
        do throws(PresentationFailure) {
            if manifest.isTooLarge {
                throw .format(
                    .tooLarge("\(HTTPRequest(url: url).printableURL): more than \(Self.manifestLimit) bytes"))
            }
            let bytes = try handOn(takeBytes(), from: url)
            manifest.isHandedOn = true
            guard !withGuarded({ $0.isStopping }) else { return false }
            // Limits that are there already are for the first segment too.
            limitQuality()
            willHandOn()
            guard let buffer = Buffer(copying: bytes) else { return false }
            return sink.chain(buffer) == .ok
        } catch {
            manifest.isHandedOn = true
            fail(error)
            return false
        }
    }

    /// Nothing else keeps them: what is made of them takes enough memory.
    private func takeBytes() -> [UInt8] {
        defer { manifest.bytes = [] }
        return manifest.bytes
    }
}

extension AdaptiveBin {
    private func addOutput(_ inner: PadReference) {
        // The template has the number as a pattern: video_00 is of video_%02u.
        let kind = inner.name.prefix { $0 != "_" }
        guard let outer = expose(inner, as: inner.name, template: "\(kind)_%02u") else { return }
        dropUselessEnd(of: outer)
        withGuarded { guarded in
            let barrier = guarded.closedBecause.flatMap { _ in outer.entrance?.dropBuffers() }
            let hold = guarded.isWithheld ? outer.holdBuffers() : nil
            guarded.outputs.append(Output(inner: inner, outer: outer, barrier: barrier, hold: hold))
        }
        outputDidAppear(inner)
        limitQuality()
    }

    private func removeOutput(_ inner: PadReference) {
        let outer = withGuarded { guarded -> PadReference? in
            guard let index = guarded.outputs.firstIndex(where: { $0.inner.isSame(as: inner) }) else { return nil }
            return guarded.outputs.remove(at: index).outer
        }
        if let outer { withdraw(outer) }
        outputDidDisappear(inner)
    }

    // MARK: The gate

    /// Lets nothing pass any more, says why, and takes what is on its way downstream out of it, the latter not while
    /// the pipeline changes its state. While the gate is open nothing here looks at what passes.
    func closeGate(_ reason: KeyError) {
        let isClosed = withGuarded { guarded in
            guard guarded.closedBecause == nil, guarded.run != nil, !guarded.isStopping else { return false }
            guarded.closedBecause = reason
            for index in guarded.outputs.indices {
                guarded.outputs[index].barrier = guarded.outputs[index].outer.entrance?.dropBuffers()
            }
            return true
        }
        guard isClosed else { return }
        withhold(false)
        DecryptorFailure.postEnd(because: reason, on: reference)
        reference.whileStateStays { [weak self] in self?.flushOutputs() }
    }

    /// Unless the gate is open again, or the element stops.
    private func flushOutputs() {
        let outputs = withGuarded { guarded in
            guarded.closedBecause != nil && guarded.run != nil && !guarded.isStopping ? guarded.outputs : []
        }
        for output in outputs {
            let outer = output.outer
            outer.push(.startOfFlush())
            // What passed the barrier just before it was there is thrown away too.
            outer.entrance?.whileIdle {
                outer.push(.endOfFlush(resetTime: false))
                if let segment = output.inner.segmentEvent { outer.push(segment) }
            }
        }
    }

    /// Lets media pass again. What comes next is of use after a flushing seek.
    func openGate() {
        let barriers = withGuarded { guarded -> [PadProbe] in
            guarded.closedBecause = nil
            return guarded.outputs.indices.compactMap { index in
                defer { guarded.outputs[index].barrier = nil }
                return guarded.outputs[index].barrier
            }
        }
        for barrier in barriers { barrier.remove() }
    }

    /// Keeps what was decrypted before from going on, or lets it: a viewing session is not there for a while. What left this
    /// bin already is shown: with players, less than a second.
    private func withhold(_ isWithheld: Bool) {
        let ended = withGuarded { guarded -> [PadProbe] in
            guard guarded.isWithheld != isWithheld, guarded.run != nil else { return [] }
            if isWithheld, guarded.isStopping || guarded.closedBecause != nil { return [] }
            guarded.isWithheld = isWithheld
            return guarded.outputs.indices.compactMap { index in
                let old = guarded.outputs[index].hold
                guarded.outputs[index].hold = isWithheld ? guarded.outputs[index].outer.holdBuffers() : nil
                return old
            }
        }
        for hold in ended { hold.remove() }
    }

    // MARK: The session

    func keyEvent(_ event: KeyEvent) {
        defer {
            withGuarded { $0.keyEvents &+= 1 }
            monitor.broadcast()
        }
        switch event {
        case .requested(let request, let origin):
            if request.isRenewal { withGuarded { _ = $0.renewals.insert(request.id) } }
            guard let run = currentRun, origin == run.observerID else { return }
            withGuarded { $0.requests.insert(request.id, for: request.keyIDs) }
            reference.post(keyRequest: request, licenseURL: run.printableLicenseURL)
        case .usable(let id, let keyIDs, let elapsed):
            if let id, withGuarded({ $0.requests.areUsable(keyIDs, of: id) }) {
                reference.post(
                    "latchkey-key-usable", Self.fields(id, keyIDs) + [("elapsed", .uint64(elapsed.nanoseconds))])
            }
            // What was decrypted under the lease before may be in the queues still: for that, the key is in use. A lease
            // may also begin with the first play.
            let isRenewal = withGuarded { guarded in
                guarded.expired.subtract(keyIDs)
                return id.flatMap { guarded.renewals.remove($0) } != nil
            }
            if let run = currentRun, isRenewal || run.hasUsed(keyIDs), isShown(keyIDs) {
                for keyID in keyIDs { _ = run.session.status(of: keyID) }
            }
        case .renewalFailed(let id, _, _):
            withGuarded { _ = $0.renewals.remove(id) }
        case .withheld(let isWithheld):
            withhold(isWithheld)
        case .closed(let reason):
            closeGate(reason)
        case .expired(let keyIDs, let reason, wasInUse: true):
            // Not for a key that the stream rotated away since.
            guard isShown(keyIDs) else { return }
            tellEnd(of: keyIDs) {
                reference.post(
                    "latchkey-key-expired",
                    [("key-ids", .strings(keyIDs.map(\.description))), ("reason", .string(reason.description))])
            }
            closeGate(currentRun?.session.endReason ?? reason)
        case .failed(let requestID, let keyIDs, let error):
            currentRun?.keysDidFail()
            tellFailure(of: requestID, keyIDs, error)
        case .notStored(let request, let error, let origin):
            if let run = currentRun, origin == run.observerID { reference.post(notStored: request, error) }
        case .viewing(let notice): reference.post(notice)
        case .clockSetBack(let notice): reference.post(notice)
        case .untaken, .expired: break
        }
    }

    /// Says that a request of this element ended without these keys. Decryptors that wait for the same keys tell of that too.
    private func tellFailure(of requestID: UInt64, _ keyIDs: [KeyID], _ error: KeyError) {
        let (isMine, pipeline) = withGuarded { ($0.requests.didFail(requestID), $0.pipeline) }
        guard isMine else { return }
        let post = {
            self.reference.post(
                "latchkey-key-failed", Self.fields(requestID, keyIDs) + [("reason", .string(error.description))])
        }
        guard let pipeline else { return post() }
        pipeline.tellOnce(.failedRequest(requestID), with: post)
    }

    private static func fields(_ requestID: UInt64, _ keyIDs: [KeyID]) -> [(String, FieldValue)] {
        [("request-id", .uint64(requestID)), ("key-ids", .strings(keyIDs.map(\.description)))]
    }

    /// Passes messages on. Of those about the end of a key, which each decryptor posts, the first that is of use.
    func passOn(_ message: consuming Message) {
        guard let names = message.strings("key-ids", of: "latchkey-key-expired") else { return forward(message) }
        let keyIDs = names.compactMap { KeyID(hex: $0) }
        guard isShown(keyIDs), !withGuarded({ $0.expired.isSuperset(of: keyIDs) }) else { return }
        forward(message)
        withGuarded { $0.expired.formUnion(keyIDs) }
    }

    /// Posts before it notes that: an error that follows must not overtake the message.
    private func tellEnd(of keyIDs: [KeyID], post: () -> Void) {
        guard keyIDs.isEmpty || !withGuarded({ $0.expired.isSuperset(of: keyIDs) }) else { return }
        post()
        withGuarded { $0.expired.formUnion(keyIDs) }
    }

    /// Whether media of one of these keys is on the screen, or will come there out of the queues. Yes where that cannot
    /// be known.
    private func isShown(_ keyIDs: [KeyID]) -> Bool {
        guard !keyIDs.isEmpty, let run = currentRun, let position = reference.shownPosition() else { return true }
        return needs(keyIDs, of: run.session, at: Double(position) / 1e9)
    }
}

extension AdaptiveBin {
    /// Those of the stock demuxers that applications and playbin3 set, passed on to them.
    static let stockProperties =
        rateProperties + [
            stock("min-bitrate", "Lowest bitrate of a variant in bits/s", 0...UInt32.max),
            stockTime("max-buffering-time", "Upper limit of what is buffered, in ns", 30_000_000_000),
            stockTime("high-watermark-time", "Buffered time above which nothing is fetched, in ns", 30_000_000_000),
            stockTime("low-watermark-time", "Buffered time below which fetching goes on, in ns; 0: automatic", 0),
        ]

    /// Of the stock demuxer of HLS alone.
    static let startBitrate = stock(
        "start-bitrate", "Bitrate of the first variant in bits/s; 0: automatic", 0...UInt32.max)

    private static func stock(_ name: String, _ blurb: String, _ range: ClosedRange<UInt32>) -> Property {
        Property(
            name, nick: name, blurb: blurb, kind: .uint(default: 0, range: range), mutability: .playing,
            get: { ($0 as? AdaptiveBin)?.child?.pointer.property(name) ?? .none },
            set: { ($0 as? AdaptiveBin)?.child?.pointer.setProperty(name, $1) })
    }

    private static func stockTime(_ name: String, _ blurb: String, _ initial: UInt64) -> Property {
        Property(
            name, nick: name, blurb: blurb, kind: .uint64(default: initial, range: 0...UInt64.max),
            mutability: .playing, get: { ($0 as? AdaptiveBin)?.child?.pointer.property(name) ?? .none },
            set: { ($0 as? AdaptiveBin)?.child?.pointer.setProperty(name, $1) })
    }
}

/// What the stock demuxer would fetch itself may come through this process (`SegmentRelay`).
extension AdaptiveBin {
    /// How long playback waits where the network fails.
    static let outageLimit = Property(
        "outage-limit", nick: "Outage limit",
        blurb:
            "How long, in milliseconds, playback waits where the network fails or sends something else; media segments "
            + "come through this element then, and latchkey-fetch messages tell of them. 0: GStreamer's demuxer decides; "
            + "set it before the demuxer starts",
        kind: .uint(default: 0, range: 0...UInt32.max),
        get: { .uint(($0 as? AdaptiveBin)?.withGuarded { $0.outageMilliseconds } ?? 0) },
        set: { element, value in
            if case .uint(let limit) = value {
                (element as? AdaptiveBin)?.withGuarded { $0.outageMilliseconds = limit }
            }
        })

    /// A relay of the origin's segments, which tells what it does on the bus. Nil where no outage is waited for.
    final func makeRelay(_ origin: PresentationOrigin) -> SegmentRelay? {
        let milliseconds = withGuarded { $0.outageMilliseconds }
        guard milliseconds > 0 else { return nil }
        let (weak, giveUp) = (WeakElement(reference), giveUp)
        return SegmentRelay(origin, limit: .milliseconds(Int64(milliseconds))) { notice in
            weak.withElement { notice.post(on: $0.reference) }
            if case .lost(let failure) = notice { giveUp(failure) }
        }
    }

    /// Ends playback.
    final var giveUp: @Sendable (PresentationFailure) -> Void {
        { [element = WeakElement(reference)] why in element.withElement { ($0 as? AdaptiveBin)?.fail(why) } }
    }

    /// The same with a server of its own, for manifests whose media is led to that. Nil also where the stock demuxer could
    /// not reach it: what plays without it must go on to do so.
    final func makeSegmentServer(_ origin: PresentationOrigin) throws(AdaptiveStartFailure) -> SegmentServer? {
        guard let relay = makeRelay(origin) else { return nil }
        guard LoopbackReach.isDirect(Environment.variable) else {
            reference.postWarning(
                GST_RESOURCE_ERROR_SETTINGS, "Outages of the network are not waited for.",
                debug: "\(Self.stock.factory) would send even local requests to the HTTP proxy that is configured. "
                    + LoopbackReach.advice)
            return nil
        }
        do throws(HTTPError) {
            let server = SegmentServer(origin, relay: relay, giveUp: giveUp)
            try server.open()
            return server
        } catch {
            throw .loopback(error)
        }
    }

    /// The message of the stock demuxer with the origin's URLs in place of this process's, and an error with more details.
    final func withOriginURLs(_ message: consuming Message) -> Message {
        let message = noted(message)
        guard let segments = currentRun?.segments else { return message }
        let isForPeople = message.kind != .element
        return message.mapTexts { segments.withOriginURLs($0, isForPeople: isForPeople) }
    }

    /// Whether the stock demuxer was sent to this process and did not come. Says so then, in the place of its error, unless
    /// that is one about the manifest.
    final func tellUnreached(_ error: borrowing Message) -> Bool {
        for code in [GST_STREAM_ERROR_DEMUX, GST_STREAM_ERROR_DECODE, GST_STREAM_ERROR_FORMAT]
        where error.isStreamError(code) {
            return false
        }
        guard let segments = currentRun?.segments, segments.isUsed, !segments.wasReached else { return false }
        postUnreached("segments", error)
        return true
    }

    /// Nobody but a proxy stands between the stock demuxer and this process. What it says itself is in the details.
    final func postUnreached(_ what: String, _ error: borrowing Message) {
        // What the stock demuxer says of it later is no news.
        let isFirst = withGuarded { guarded -> Bool in
            defer { guarded.hasFailed = true }
            return !guarded.hasFailed
        }
        guard isFirst else { return }
        let proxy = LoopbackReach.proxy(Environment.variable).map { " \(HTTPRequest(url: $0).printableURL)" } ?? ""
        reference.postError(
            GST_RESOURCE_ERROR_OPEN_READ,
            "GStreamer's demuxer asks the HTTP proxy\(proxy) for the \(what) that it is given on 127.0.0.1, and does not get "
                + "them.",
            debug: "Its HTTP library sends even local requests to the proxy that is configured. " + LoopbackReach.advice
                + "\n" + (error.errorDetails() ?? ""))
    }
}

/// The factories of demuxers with keys.
public enum AdaptiveDemuxerFactory {
    /// All of them, in the order in which they are registered.
    public static let all = [HLSDemuxer.factory, DASHDemuxer.factory, SmoothDemuxer.factory]

    /// Whether players plug them and not GStreamer's own.
    static var areRankedFirst: Bool {
        let types: [AdaptiveBin.Type] = [HLSDemuxer.self, DASHDemuxer.self, SmoothDemuxer.self]
        return zip(all, types).allSatisfy { own, type in
            ElementReference.rank(ofFactory: own.factory) > ElementReference.rank(ofFactory: type.stock.factory)
        }
    }

    /// What makes players plug them where GStreamer does not know the manifest.
    public static let types = [DASHDemuxer.manifestType, HLSDemuxer.playlistType]
}
