// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// Looks once a second whether the stock demuxer does anything: whether something comes out of it, and whether GStreamer's
/// HTTP client fetches something of this presentation. With an older HTTP library it sees nothing. Thread-safe.
final class StillnessWatch: Sendable {
    /// What a request of this presentation is for.
    enum Request {
        /// Or a manifest. `isRefresh`: the demuxer looks whether there is more, and output does not wait for it.
        case playlist(isRefresh: Bool)
        /// A segment or what goes with it. The URL is the origin's.
        case segment(url: String)

        var isRefresh: Bool { if case .playlist(isRefresh: true) = self { true } else { false } }

        /// Whether an answer with that `Content-Type` is a manifest of DASH or Smooth Streaming.
        static func isManifest(type: String?) -> Bool {
            let type = type?.prefix { $0 != ";" && $0 != " " }.lowercased()
            return type == "application/dash+xml" || type == "application/vnd.ms-sstr+xml"
        }
    }

    private struct State {
        var stillness = Stillness()
        var http: HTTPClientWatch?
        var timer: Task<Void, Never>?
        /// Requests under way, by the HTTP client's IDs.
        var requests: [UInt: Request] = [:]
        /// How often something had come out when they began.
        var begins: [UInt: Int] = [:]
        /// Nothing tells which requests are this presentation's: any may be.
        var isAnyOwn = false
        /// Of the manifest whose segments are there.
        var url = ""
        /// What the manifest's URLs have behind their hosts. These are no segments.
        var manifests: Set<String> = []
        /// If any may be: the answers since the last look.
        var answers: [HTTPClientAnswer] = []
        /// The client's threads that may be this demuxer's.
        var threads = OwnThreads()
        /// The URL of the last answer for a segment.
        var lastURL: String?
        /// The sink pads of the demuxer's parsers.
        var parsers: [WeakPad] = []
        var muteLooks = MuteLooks()
        /// Looks at which the player had not begun, without a reason; each counts as `ProcessorWait.factor`.
        var idleTime = 0
        /// The decryptors behind them.
        var decryptors: [WeakElement] = []

        /// Whether something is on its way that output may wait for.
        var isFetching: Bool { !requests.values.allSatisfy(\.isRefresh) }

        func isManifest(_ url: String) -> Bool { manifests.contains(Stillness.resource(url)) }

        func named(_ url: String) -> Request? {
            if isAnyOwn { return isManifest(url) ? nil : .segment(url: url) }
            return stillness.names(url) ? .segment(url: url) : nil
        }

        /// Takes the answers since the last look as far as they are this presentation's. `hasInput`: something came to the
        /// demuxer's parsers, and so one of the threads is its own.
        mutating func takeAnswers(hasInput: Bool) {
            defer { answers = [] }
            threads.look(Set(answers.map(\.thread)), hasInput: hasInput)
            let own = answers.filter { answer in
                // What is empty does not come to parsers.
                guard let threads = threads.known else { return answer.isFinished && answer.length == 0 }
                return threads.contains(answer.thread) && (hasInput || threads.count == 1)
            }
            if let last = own.last { lastURL = last.url }
            guard hasInput || !own.isEmpty else { return }
            stillness.didFetch(lastURL ?? "", at: MonotonicTime.now)
            for answer in own where answer.isFinished { stillness.didComplete(answer.url, range: answer.range) }
        }

        /// Of one look.
        private static let answerLimit = 256

        mutating func begin(_ id: UInt, _ request: Request) {
            requests[id] = request
            if begins[id] == nil { begins[id] = stillness.moves }
        }

        mutating func note(_ answer: HTTPClientAnswer, _ own: Request?) {
            var request = requests[answer.id] ?? own ?? named(answer.url)
            if isAnyOwn, request != nil, Request.isManifest(type: answer.contentType) {
                request = .playlist(isRefresh: true)
                requests[answer.id] = request
            }
            let begin = begins[answer.id]
            if answer.isFinished { (requests[answer.id], begins[answer.id]) = (nil, nil) }
            guard case .segment(let url) = request else { return }
            let hasMedia = [200, 206].contains(HTTPResponse.plainStatus(answer.status))
            if isAnyOwn {
                if hasMedia, answers.count < Self.answerLimit { answers.append(answer) }
                return
            }
            lastURL = answer.url
            guard hasMedia else { return }
            stillness.didFetch(url, at: MonotonicTime.now)
            if answer.isFinished { stillness.didComplete(url, range: answer.range, since: begin) }
        }
    }

    private let state = Mutex(State())
    let output = PadWatch()
    private let input = PadWatch()

    /// The same if nothing tells which requests are this presentation's. Each request in this process counts as a reason for
    /// stillness, and what comes to the parsers as fetched.
    func begin(look: @escaping @Sendable () -> Void) {
        state.withLock { $0.isAnyOwn = true }
        begin(own: { _ in nil }, onAnswer: { _ in }, look: look)
    }

    /// `own` tells what a URL of the loopback servers is for; nil for any other. `onAnswer` gets every answer in this process.
    /// `look` is called once a second from then on.
    func begin(
        own: @escaping @Sendable (String) -> Request?, onAnswer: @escaping @Sendable (HTTPClientAnswer) -> Void,
        look: @escaping @Sendable () -> Void
    ) {
        let http = HTTPClientWatch(
            { [weak self] answer in
                onAnswer(answer)
                let request = own(answer.url)
                self?.state.withLock { $0.note(answer, request) }
            },
            onStart: { [weak self] id, url in
                let request = own(url)
                self?.state.withLock { state in
                    // A redirect leads to a URL that no playlist or manifest names: the request stays what it was.
                    if let request = request ?? state.requests[id] ?? state.named(url) { state.begin(id, request) }
                }
            })
        guard http != nil else { return }
        let timer = Task {
            while (try? await Task.sleep(for: .seconds(1))) != nil { look() }
        }
        state.withLock { ($0.http, $0.timer) = (http, timer) }
    }

    /// Looks no more.
    func endLooks() { state.withLock { $0.timer }?.cancel() }

    func end() {
        // This goes outside of the lock, which the client's threads take too.
        let old = state.withLock { state in
            defer { state = State() }
            return state
        }
        old.timer?.cancel()
    }

    /// The URLs that the manifest comes from.
    func setManifests(_ urls: [String?]) {
        state.withLock { state in
            state.manifests = Set(urls.compactMap { $0.map(Stillness.resource) })
            // The end of the first answer comes before its URL is known here.
            state.answers = state.answers.filter { !state.isManifest($0.url) }
        }
    }

    /// The demuxer may wait for what is to come, for as long as it takes.
    func setOpenEnded() { state.withLock { $0.stillness.setOpenEnded() } }

    /// The manifest, which is at `url`, names segments that are there.
    func expectStart(of url: String) {
        state.withLock { state in
            state.url = url
            state.stillness.expectStart()
        }
    }

    /// That of the manifest whose segments are there.
    var url: String { state.withLock { $0.url } }

    func didAsk(for playlist: String) {
        state.withLock { $0.stillness.didAsk(for: playlist, at: MonotonicTime.now) }
    }

    func isLive(_ playlist: String) -> Bool { state.withLock { $0.stillness.isLive(playlist) } }

    func didRead(_ playlist: String, _ refresh: Stillness.Refresh) {
        state.withLock { $0.stillness.didRead(playlist, refresh, at: MonotonicTime.now) }
    }

    func didAdd(output pad: PadReference) {
        output.add(pad)
        // Each seek has a segment of its own.
        pad.probeEvents(.downstream) { [weak self] event in
            if event.kind == .segment { self?.state.withLock { $0.stillness.didSeek() } }
            return event
        }
    }

    func didAdd(parser: PadReference) {
        state.withLock { state in
            // A live presentation may have new ones for ever.
            state.parsers.removeAll { $0.pad == nil }
            state.parsers.append(WeakPad(parser))
        }
        if state.withLock({ $0.isAnyOwn }) { input.add(parser) }
    }

    /// To be called at the beginning of each look.
    func beginLook() {
        guard state.withLock({ $0.isAnyOwn }) else { return }
        let hasInput = input.takeMove()
        state.withLock { $0.takeAnswers(hasInput: hasInput) }
    }

    func didAdd(decryptor: ElementReference) {
        state.withLock { state in
            state.decryptors.removeAll { $0.map { _ in true } == nil }
            state.decryptors.append(WeakElement(decryptor))
        }
    }

    var parsers: [PadReference] { state.withLock { $0.parsers }.compactMap(\.pad) }
    /// Streams of which nothing came out.
    var muteOutputs: [PadReference] { output.muteOutputs }

    /// Looks, once a second, at streams of which nothing came out although segments have come to their ends. True where that
    /// lasts too long; not long if `isEnded`. `isExcused`: there is a reason that is not seen here.
    func lacksOutput(isEnded: Bool, isExcused: Bool) -> Bool {
        let isMute = !output.muteOutputs.isEmpty && !isExcused && !isBehindKey
        let isSlow = isMute && ProcessorWait.isLong
        return state.withLock { state in
            state.muteLooks.look(
                isMute: isMute && !state.isFetching, completed: state.stillness.completed, isEnded: isEnded,
                isOpenEnded: state.stillness.isOpenEnded, isSlow: isSlow)
        }
    }

    /// Looks, once a second, at a player that has media and does not begin. True if that lasts too long. `isExcused`: there
    /// is a reason that is not seen here.
    func lacksStart(isExcused: Bool) -> Bool {
        let isIdle = !isExcused && !isBehindKey
        let isSlow = isIdle && ProcessorWait.isLong
        return state.withLock { state in
            guard isIdle, !state.isFetching, state.stillness.hasOutput else {
                state.idleTime = 0
                return false
            }
            state.idleTime += isSlow ? 1 : ProcessorWait.factor
            return state.idleTime > MuteLooks.limit * ProcessorWait.factor
        }
    }

    /// The keys of what was decrypted last, as people know them, at most four.
    var keysInUse: [String] {
        let names = state.withLock { $0.decryptors }.compactMap { $0.map { ($0 as? Decryptor)?.nameOfKeyInUse } ?? nil }
        return Array(Set(names).sorted().prefix(4))
    }

    /// Whether a decryptor waits for a key.
    private var isBehindKey: Bool {
        state.withLock { $0.decryptors }.contains { $0.map { ($0 as? Decryptor)?.isBehind } == true }
    }

    /// The URL of the last answer for a segment. Before the first look, answers that came on one thread count.
    var lastURL: String? {
        state.withLock { state in
            if let url = state.lastURL { return url }
            let thread = state.threads.only(among: Set(state.answers.map(\.thread)))
            return state.answers.last { $0.thread == thread }?.url
        }
    }
    var hasOutput: Bool { state.withLock { $0.stillness.hasOutput } }

    /// Whether the last verdict was that the presentation is at its end, and nothing is fetched since.
    var isStillAtEnd: Bool { state.withLock { $0.stillness.wasEndTold && $0.requests.isEmpty } }

    /// `isBusy`: there is a reason for stillness that is not seen here. `isHeldUp`: the elements behind take nothing.
    func verdict(isBusy: Bool, isHeldUp: Bool) -> Stillness.Verdict {
        let hasMoved = output.takeMove()
        let isWaiting = isBusy || isBehindKey
        let isExcused = isWaiting || isHeldUp
        let isSlow = !hasMoved && !isExcused && ProcessorWait.isLong
        let now = MonotonicTime.now
        return state.withLock { state in
            if hasMoved { state.stillness.didMove(at: now) }
            let isRefreshAwaited = !isExcused && !state.requests.isEmpty && !state.isFetching
            return state.stillness.verdict(
                isBusy: isExcused || !state.requests.isEmpty, isRefreshAwaited: isRefreshAwaited,
                isHeldUp: isHeldUp && !isWaiting && state.requests.isEmpty, isSlow: isSlow, at: now)
        }
    }
}

/// Tells which threads of the HTTP client are one demuxer's: those with answers each time that something comes to its
/// parsers. A value.
struct OwnThreads {
    /// One that is left is the demuxer's own. Nil before something came.
    private(set) var known: Set<UInt>?
    /// Those with answers in the look before.
    private var previous: Set<UInt> = []

    /// `seen`: the threads with answers since the last look. `hasInput`: something came to the demuxer's parsers since then.
    /// An answer may come in one look, and its bytes to the parsers in the next one.
    mutating func look(_ seen: Set<UInt>, hasInput: Bool) {
        let wide = seen.union(previous)
        previous = seen
        guard hasInput, !wide.isEmpty else { return }
        let both = known?.intersection(wide) ?? wide
        known = both.isEmpty ? wide : both
    }

    /// The only thread that may be the demuxer's; nil: there are several, or none. `seen`: the threads with answers since the
    /// last look.
    func only(among seen: Set<UInt>) -> UInt? {
        let threads = known ?? seen.union(previous)
        return threads.count == 1 ? threads.first : nil
    }
}

/// Sees whether something comes out of the stock demuxer. It looks at a pad's next buffer alone, and `arm` has it look at one
/// more. Thread-safe.
final class PadWatch: Sendable {
    private final class Output: Sendable {
        let pad: WeakPad
        let isArmed = Atomic(false)
        /// Something came out of it, at some time.
        let hasMoved = Atomic(false)

        init(_ pad: PadReference) { self.pad = WeakPad(pad) }
    }

    private let outputs = Mutex<[Output]>([])
    let hasMoved = Atomic(false)
    private let hasFollowed = Atomic(false)

    /// Whether something came out since the last `expect`.
    var hasOutput: Bool { hasFollowed.load(ordering: .relaxed) }

    func add(_ pad: PadReference) {
        outputs.withLock { outputs in
            outputs.removeAll { $0.pad.pad == nil }
            outputs.append(Output(pad))
        }
        arm()
    }

    /// Looks at the next buffer of each pad.
    private func arm() {
        for output in outputs.withLock({ $0 }) {
            guard let pad = output.pad.pad, !output.isArmed.exchange(true, ordering: .relaxed) else { continue }
            pad.probeNextBuffer { [self] in
                output.isArmed.store(false, ordering: .relaxed)
                output.hasMoved.store(true, ordering: .relaxed)
                hasMoved.store(true, ordering: .relaxed)
                hasFollowed.store(true, ordering: .relaxed)
            }
        }
    }

    /// Pictures or sound of which nothing ever came out.
    var muteOutputs: [PadReference] {
        outputs.withLock { $0 }.filter { !$0.hasMoved.load(ordering: .relaxed) }.compactMap(\.pad.pad).filter {
            $0.name.hasPrefix("video") || $0.name.hasPrefix("audio")
        }
    }

    /// `hasOutput` tells of what comes out from now on.
    func expect() {
        hasFollowed.store(false, ordering: .relaxed)
        arm()
    }

    /// Whether something came out since the last call, and looks at the next buffers.
    func takeMove() -> Bool {
        defer { arm() }
        return hasMoved.exchange(false, ordering: .relaxed)
    }
}

/// Ends playback with an error if the stock demuxer does nothing any more and does not say so. Each version stops without
/// an error at some of what is no media.
extension AdaptiveBin {
    /// For `StillnessWatch.begin`.
    final func look() -> @Sendable () -> Void {
        let weak = WeakElement(reference)
        return { weak.withElement { ($0 as? AdaptiveBin)?.lookForStillness() } }
    }

    private func lookForStillness() {
        guard mayFail, let watch = currentRun?.watch else { return }
        watch.beginLook()
        let outputs = withGuarded { $0.outputs }
        let isExcused = isWaitingForKey || withGuarded { $0.isWithheld }
        if let lack = lackOfOutput(outputs, watch, isExcused) ?? lackOfStart(watch, isExcused) { return fail(lack) }
        // Streams that have ended, or that are not selected, have no more output.
        let isDone = outputs.isEmpty ? watch.hasOutput : outputs.allSatisfy { $0.inner.hasEnded }
        // What is played later waits for the elements behind this bin.
        let isHeldUp = outputs.contains { $0.outer.entrance?.waitUntilIdle(milliseconds: 0) == false }
        switch watch.verdict(isBusy: isDone || isWaitingForKey, isHeldUp: isHeldUp) {
        case .none: break
        case .isAtEnd: liveDidEnd()
        case .hasStopped:
            fail(causeOfStop() ?? .stopped(Self.stock.factory, at: originURL(watch.lastURL ?? ""), errorInside))
        case .hasNotBegun: fail(.notBegun(Self.stock.factory, watch.url, errorInside))
        case .isRepeating:
            fail(.repeating(Self.stock.factory, at: originURL(watch.lastURL ?? ""), errorInside))
        }
    }

    /// Whether it neither stops nor has told why playback ends.
    final var mayFail: Bool {
        withGuarded { $0.run != nil && !$0.isStopping && !$0.hasFailed && $0.closedBecause == nil }
    }

    /// Why playback cannot begin if nothing comes of one stream: the player holds the others up until it has all of them,
    /// or all have ended. The stock demuxer keeps to itself what its parsers say of such media.
    private func lackOfOutput(
        _ outputs: [Output], _ watch: StillnessWatch, _ isExcused: Bool
    ) -> PresentationFailure? {
        let isEnded = !outputs.isEmpty && outputs.allSatisfy { $0.inner.hasEnded }
        guard isEnded || !reference.hasPrerolled, watch.lacksOutput(isEnded: isEnded, isExcused: isExcused),
            let mute = watch.muteOutputs.first, let url = watch.lastURL
        else { return nil }
        if let key = withGuarded({ $0.wrongKey }) {
            return .noStart(key, hasBegun: reference.hasPrerolled, at: originURL(url), errorInside)
        }
        let what = mute.name.hasPrefix("video") ? "pictures" : "sound"
        return .nothing(of: what, from: Self.stock.factory, at: originURL(url), errorInside)
    }

    /// Why playback cannot begin, or go on after a pause, if a decoder makes nothing of what was decrypted, or of what should
    /// have been: the manifest says that it is encrypted, and the init segments do not. A decryptor may have told of a wrong
    /// key. Not all media tells: then, a decoder has to have given nothing so far.
    private func lackOfStart(_ watch: StillnessWatch, _ isExcused: Bool) -> PresentationFailure? {
        let told = withGuarded { $0.wrongKey }
        let keys = told.map { [$0] } ?? watch.keysInUse
        let isChanging = reference.isChangingState
        let unknown = isChanging ? unknownFormat : nil
        let mayBeEncrypted = !keys.isEmpty || currentRun?.mayBeProtected == true
        let isCause =
            unknown != nil || mayBeEncrypted && isChanging && (told != nil || reference.hasMuteDecoderAround)
        let hasBegun = reference.hasPrerolled
        guard watch.lacksStart(isExcused: isExcused || !isCause), let url = watch.lastURL else { return nil }
        if let unknown { return .unknown(unknown, hasBegun: hasBegun, at: originURL(url)) }
        if keys.isEmpty { return .notDecrypted(hasBegun: hasBegun, at: originURL(url)) }
        return .noStart(keys.joined(separator: ", "), hasBegun: hasBegun, at: originURL(url), errorInside)
    }

    /// That of a stream whose codec the stock demuxer does not know. There is no decoder for it, and players may wait for one.
    private var unknownFormat: String? {
        withGuarded { $0.outputs }.lazy.compactMap { $0.inner.currentCaps?.mediaType() }.first {
            $0.hasPrefix("video/x-gst-fourcc-") || $0.hasPrefix("audio/x-gst-fourcc-")
        }
    }

    // MARK: Messages from inside

    /// Notes the errors that elements inside the stock demuxer post, which that may keep to itself.
    final func watchErrors(inside child: ElementReference) {
        let weak = WeakElement(reference)
        child.observeErrorsInside { source, text in
            let error = InsideError(text: "\(source): \(text)", time: MonotonicTime.now)
            weak.withElement { ($0 as? AdaptiveBin)?.withGuarded { $0.errorInside = error } }
        }
    }

    /// The URL of the segment that was fetched last, without secrets.
    final var lastSegment: String? {
        currentRun?.watch.lastURL.map { HTTPRequest(url: originURL($0)).printableURL }
    }

    private var errorInside: String? { withGuarded { $0.errorInside }?.text(at: MonotonicTime.now) }

    /// Notes what a message from inside says. An error gets what was fetched last and what an element inside has said, for
    /// people who read logs. An error for a key does not: the key may be that of an earlier segment.
    final func noted(_ error: consuming Message) -> Message {
        if let child, error.isFrom(child) { noteAudio(error) }
        if let keyIDs = error.strings("key-ids", of: "latchkey-wrong-key") {
            let keyID = keyIDs.first.flatMap { KeyID(hex: $0) }
            let name = keyID.map { currentRun?.session.name(of: $0) ?? DecryptorFailure.name($0) }
            withGuarded { $0.wrongKey = name ?? DecryptorFailure.name(nil) }
        }
        guard error.kind == .error, let watch = currentRun?.watch else { return error }
        withGuarded { $0.isErrorTold = true }
        // The application has the reason of the end.
        watch.endLooks()
        guard !error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY) else { return error }
        let last = lastSegment.map { "The last segment came from \($0)." }
        var inside: String?
        if let child, error.isFrom(child) { inside = errorInside.map { PresentationFailure.inside($0) } }
        return error.addingErrorDetails([last, inside].compactMap(\.self).joined(separator: "\n"))
    }

    /// Workaround (GStreamer <1.26): decodebin3 crashes now and then when it is stopped if one stream has ended before its first
    /// buffer and another one has gone on, as if the key of one track is refused. When the application has an error, nothing
    /// needs such an end.
    final func dropUselessEnd(of outer: PadReference) {
        let weak = WeakElement(reference)
        outer.gateEndBeforeBuffers {
            let isErrorTold = weak.map { ($0 as? AdaptiveBin)?.withGuarded { $0.isErrorTold } } ?? nil
            return isErrorTold != true
        }
    }
}

/// What an element inside the stock demuxer has said, and when, in nanoseconds of one clock. A value.
struct InsideError {
    /// For longer, what is said has another cause: the demuxer has gone on. In nanoseconds.
    private static let lifetime: UInt64 = 15_000_000_000

    let text: String
    let time: UInt64

    /// Nil if it is too old to be the cause of what is said now.
    func text(at now: UInt64) -> String? { now &- time < Self.lifetime ? text : nil }
}

extension PresentationFailure {
    /// The stock demuxer does nothing any more, and does not say why. `url`: what it fetched last. `error`: what an element
    /// inside has said.
    fileprivate static func stopped(_ demuxer: String, at url: String, _ error: String?) -> PresentationFailure {
        PresentationFailure(
            kind: .format,
            text: "GStreamer's demuxer has stopped without an error. It fetched "
                + "\(HTTPRequest(url: url).printableURL) last, and gives nothing more.",
            advice: advice(
                "Check that GStreamer plays such media. GST_DEBUG=\(demuxer):4,adaptivedemux2:4 shows more.", error))
    }

    /// The stock demuxer fetches no segment of the live presentation at `url`.
    fileprivate static func notBegun(_ demuxer: String, _ url: String, _ error: String?) -> PresentationFailure {
        PresentationFailure(
            kind: .format,
            text: "Playback cannot begin: GStreamer's \(demuxer) fetches nothing of the live presentation "
                + "\(HTTPRequest(url: url).printableURL).",
            advice: advice(
                "It does not start live Smooth Streaming as a rule. Ask for the presentation as HLS or DASH, if there is one.",
                error))
    }

    /// The stock demuxer fetches the same again and again. `url`: what it fetched last.
    fileprivate static func repeating(_ demuxer: String, at url: String, _ error: String?) -> PresentationFailure {
        PresentationFailure(
            kind: .format,
            text: "GStreamer's \(demuxer) fetches the same segments again and again, the last time "
                + "\(HTTPRequest(url: url).printableURL), and does not come to an end.",
            advice: advice("The media is damaged, or its times are not those of the manifest or playlist.", error))
    }

    /// Segments came to their end, and nothing could be made of the `what` in them. `url`: what was fetched last.
    fileprivate static func nothing(
        of what: String, from demuxer: String, at url: String, _ error: String?
    ) -> PresentationFailure {
        PresentationFailure(
            kind: .format,
            text: "Segments came, the last from \(HTTPRequest(url: url).printableURL), "
                + "but GStreamer's \(demuxer) made no \(what) of them.",
            advice: advice(
                "The media is damaged, or encrypted in another way than the manifest or playlist says.", error))
    }

    /// Samples were decrypted with a wrong key, and no parser or decoder takes them. `url`: what was fetched last.
    fileprivate static func noStart(
        _ key: String, hasBegun: Bool, at url: String, _ error: String?
    ) -> PresentationFailure {
        PresentationFailure(
            kind: .unsupported,
            text: "Playback cannot \(hasBegun ? "go on" : "begin"): segments came, the last from "
                + "\(HTTPRequest(url: url).printableURL), but the decoders make nothing of what the key for \(key) decrypts.",
            advice: advice(
                "Either the key is a wrong one, or the media is encrypted in another way than it says.", error))
    }

    /// Nothing was decrypted though the manifest marks the media, and no decoder takes it. `url`: what was fetched last.
    fileprivate static func notDecrypted(hasBegun: Bool, at url: String) -> PresentationFailure {
        PresentationFailure(
            kind: .unsupported,
            text: "Playback cannot \(hasBegun ? "go on" : "begin"): segments came, the last from "
                + "\(HTTPRequest(url: url).printableURL), but the decoders make nothing of them, and no init segment says "
                + "that they are encrypted.",
            advice: "The manifest says that they are, or it cannot be read. Check the init segments.")
    }

    /// A stream has a codec that GStreamer does not know. `url`: what was fetched last.
    fileprivate static func unknown(_ format: String, hasBegun: Bool, at url: String) -> PresentationFailure {
        PresentationFailure(
            kind: .unsupported,
            text: "Playback cannot \(hasBegun ? "go on" : "begin"): segments came, the last from "
                + "\(HTTPRequest(url: url).printableURL), but GStreamer does not know the codec of a stream (\(format)).",
            advice: "The init segment is damaged, or the media needs a decoder that GStreamer does not have.")
    }

    private static func advice(_ text: String, _ error: String?) -> String {
        error.map { "\(text)\n\(inside($0))" } ?? text
    }

    fileprivate static func inside(_ error: String) -> String { "An element inside the demuxer said: \(error)" }
}
