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
        case playlist
        /// A segment or what goes with it. The URL is the origin's.
        case segment(url: String)

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
        /// Nothing tells which requests are this presentation's: any may be.
        var isAnyOwn = false
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
        /// Looks at which the player had not begun, without a reason.
        var idleLooks = 0
        /// The decryptors behind them.
        var decryptors: [WeakElement] = []

        var isFetchingSegments: Bool {
            requests.values.contains { if case .segment = $0 { true } else { false } }
        }

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
            for answer in own where answer.isFinished { stillness.didComplete() }
        }

        /// Of one look.
        private static let answerLimit = 256

        mutating func note(_ answer: HTTPClientAnswer, _ own: Request?) {
            var request = requests[answer.id] ?? own ?? named(answer.url)
            if isAnyOwn, request != nil, Request.isManifest(type: answer.contentType) {
                request = .playlist
                requests[answer.id] = .playlist
            }
            if answer.isFinished { requests[answer.id] = nil }
            guard case .segment(let url) = request else { return }
            if isAnyOwn {
                if [200, 206].contains(answer.status), answers.count < Self.answerLimit { answers.append(answer) }
                return
            }
            lastURL = answer.url
            guard [200, 206].contains(answer.status) else { return }
            stillness.didFetch(url, at: MonotonicTime.now)
            if answer.isFinished { stillness.didComplete() }
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
                    if let request = request ?? state.requests[id] ?? state.named(url) { state.requests[id] = request }
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

    func didAsk(for playlist: String) {
        state.withLock { $0.stillness.didAsk(for: playlist, at: MonotonicTime.now) }
    }

    func didRead(_ playlist: String, _ refresh: Stillness.Refresh) {
        state.withLock { $0.stillness.didRead(playlist, refresh, at: MonotonicTime.now) }
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
        let isMute = !output.muteOutputs.isEmpty
        let isWaiting = isBehindKey
        return state.withLock { state in
            let hasReason = isExcused || isWaiting || state.isFetchingSegments
            return state.muteLooks.look(
                isMute: isMute && !hasReason, completed: state.stillness.completed, isEnded: isEnded,
                isOpenEnded: state.stillness.isOpenEnded)
        }
    }

    /// Looks, once a second, at a player that has media and does not begin. True if that lasts too long. `isExcused`: there
    /// is a reason that is not seen here.
    func lacksStart(isExcused: Bool) -> Bool {
        let isWaiting = isBehindKey
        return state.withLock { state in
            guard !isExcused, !isWaiting, !state.isFetchingSegments, state.stillness.hasOutput else {
                state.idleLooks = 0
                return false
            }
            state.idleLooks += 1
            return state.idleLooks > MuteLooks.limit
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

    /// `isBusy`: there is a reason for stillness that is not seen here.
    func verdict(isBusy: Bool) -> Stillness.Verdict {
        let hasMoved = output.takeMove()
        let isWaiting = isBehindKey
        let now = MonotonicTime.now
        return state.withLock { state in
            if hasMoved { state.stillness.didMove(at: now) }
            let isHeldUp = isBusy || isWaiting
            let isPlaylistAwaited = !isHeldUp && !state.requests.isEmpty && !state.isFetchingSegments
            return state.stillness.verdict(
                isBusy: isHeldUp || !state.requests.isEmpty, isPlaylistAwaited: isPlaylistAwaited, at: now)
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

/// Counts looks, once a second, at a stream of which nothing came out although segments have come to their ends. A value.
struct MuteLooks {
    /// In looks.
    static let limit = 8

    private var count = 0
    /// The segments that had come to their ends at the last look.
    private var completed = 0

    /// True if it lasts too long: more than `limit` looks in a row; one if all streams have ended. `isMute`: nothing came out
    /// of a stream, without a reason. `isOpenEnded`: a stream may wait for its next segment, and two init segments alone
    /// become nothing. So a look counts only if segments have come to their ends since the last one.
    mutating func look(isMute: Bool, completed: Int, isEnded: Bool, isOpenEnded: Bool) -> Bool {
        // One is not enough: an init segment is one.
        guard isMute, completed >= 2 || isEnded else {
            (count, self.completed) = (0, completed)
            return false
        }
        if isEnded || !isOpenEnded || completed > self.completed { count += 1 }
        self.completed = completed
        // What has just ended may be on its way.
        return count > (isEnded ? 1 : Self.limit)
    }
}

/// Tells whether the stock demuxer has stopped without an error. A value: the caller says what it sees, and when, in
/// nanoseconds of one clock.
struct Stillness {
    enum Verdict {
        case none
        /// All of a live presentation that has ended was fetched and played, and the demuxer waits for more. Told once, until
        /// more is fetched.
        case isAtEnd
        /// Segments were fetched, and nothing comes of them, or nothing more.
        case hasStopped
    }

    /// What a refresh of a playlist says.
    struct Refresh {
        var isEnded = false
        /// The target duration in seconds.
        var target = 0.0
        /// What the master playlist names it for.
        var role: HLSRewriting.Child.Role?
        var urls: Set<String> = []
        /// The last segment and its last part, or the part alone.
        var last: Set<String> = []
        /// The media sequence number of the last segment.
        var lastNumber: UInt64?
        /// It leaves out what earlier refreshes have named.
        var isDelta = false
    }

    private struct Playlist {
        var role: HLSRewriting.Child.Role?
        /// The target duration in nanoseconds, if it is live.
        var target: UInt64?
        /// When it has to be asked for again, unless its stream is not wanted any more.
        var due: UInt64 = 0
        /// It was live and has ended.
        var hasEnded = false
        /// What its last refreshes have named.
        var named: [Set<String>] = []
        /// All that its refreshes have named as the last segment of that number: the end may leave the parts out.
        var last: Set<String> = []
        var lastNumber: UInt64?
        /// What was fetched of it last.
        var fetched: String?

        func names(_ resource: String) -> Bool { named.contains { $0.contains(resource) } }
    }

    /// The refreshes of one playlist that are remembered, and the URLs of delta updates that count as one.
    private static let generations = 3
    private static let deltaLimit = 20_000
    /// How long what comes out of a segment may need, in nanoseconds.
    private static let certainty: UInt64 = 3_000_000_000

    /// How long nothing happens before the demuxer counts as stopped, and the same at the end of a live presentation.
    private let limit: UInt64
    private let limitAtEnd: UInt64

    private var playlists: [String: Playlist] = [:]
    private var hasFetched = false
    /// More is to come, and nothing says when: stillness alone is no stop. Stays so when a later manifest ends the
    /// presentation: the demuxer may read that one much later.
    private(set) var isOpenEnded = false
    private(set) var hasOutput = false
    /// The end was told, and nothing was fetched since.
    private(set) var wasEndTold = false
    private var lastChange: UInt64 = 0
    /// Segments that have come to their end, in all and since something came out.
    private(set) var completed = 0
    private var unplayed = 0
    /// How long nothing has come out of them without a reason, and how long there have been two of them.
    private var muteTime: UInt64 = 0
    private var certainTime: UInt64 = 0
    private var lastLook: UInt64 = 0

    init(limit: UInt64 = 8_000_000_000, limitAtEnd: UInt64 = 2_000_000_000) {
        self.limit = limit
        self.limitAtEnd = limitAtEnd
    }

    mutating func setOpenEnded() { isOpenEnded = true }

    /// The demuxer asks for the playlist.
    mutating func didAsk(for name: String, at now: UInt64) {
        if let target = playlists[name]?.target { playlists[name]?.due = now &+ target &* 3 }
    }

    /// The demuxer gets the playlist.
    mutating func didRead(_ name: String, _ refresh: Refresh, at now: UInt64) {
        var playlist = playlists[name] ?? Playlist()
        playlist.role = refresh.role
        let named = Set(refresh.urls.map(Self.resource))
        if refresh.isDelta, let count = playlist.named.last?.count, count < Self.deltaLimit {
            playlist.named[playlist.named.count - 1].formUnion(named)
        } else {
            playlist.named = playlist.named.suffix(Self.generations - 1) + [named]
        }
        if playlist.lastNumber != refresh.lastNumber { playlist.last = [] }
        playlist.lastNumber = refresh.lastNumber
        playlist.last.formUnion(refresh.last.map(Self.resource))
        if refresh.isEnded {
            if playlist.target != nil { playlist.hasEnded = true }
            playlist.target = nil
            lastChange = now
        } else {
            // A playlist may say anything.
            playlist.target = UInt64(max(1, min(refresh.target, 3600)) * 1e9)
        }
        playlists[name] = playlist
        didAsk(for: name, at: now)
    }

    /// Whether a playlist names the URL.
    func names(_ url: String) -> Bool {
        let resource = Self.resource(url)
        return playlists.values.contains { $0.names(resource) }
    }

    /// Something of the segment comes. `url`: its origin's.
    mutating func didFetch(_ url: String, at now: UInt64) {
        (hasFetched, wasEndTold, lastChange) = (true, false, now)
        let resource = Self.resource(url)
        let roles = Set(playlists.values.filter { $0.names(resource) }.map(\.role))
        for (name, playlist) in playlists where roles.contains(playlist.role) {
            // The demuxer plays one playlist of each role.
            playlists[name]?.fetched = playlist.names(resource) ? resource : nil
        }
    }

    /// A segment has come to its end.
    mutating func didComplete() { (completed, unplayed) = (completed + 1, unplayed + 1) }

    /// Something came out of the demuxer.
    mutating func didMove(at now: UInt64) {
        (hasOutput, lastChange) = (true, now)
        (unplayed, muteTime, certainTime) = (0, 0, 0)
    }

    /// `isBusy`: there is a reason for the stillness. `isPlaylistAwaited`: it is no more than a playlist that is being fetched.
    mutating func verdict(isBusy: Bool, isPlaylistAwaited: Bool = false, at now: UInt64) -> Verdict {
        if isBusy { lastChange = now }
        if isMute(isBusy: isBusy && !isPlaylistAwaited, at: now) { return .hasStopped }
        let stillness = now &- lastChange
        let targets = playlists.values.compactMap(\.target)
        let isLive = playlists.values.contains { $0.target != nil && $0.due > now }
        guard hasFetched, !isOpenEnded, !isLive || !hasOutput else { return .none }
        if hasOutput, hasFetchedAll, !wasEndTold {
            guard stillness >= limitAtEnd else { return .none }
            (wasEndTold, lastChange) = (true, now)
            return .isAtEnd
        }
        return stillness >= max(limit, (targets.max() ?? 0) &* 3) ? .hasStopped : .none
    }

    /// Whether segments come to their ends, and nothing comes out. With a live playlist, more come all the time. One is not
    /// enough: an init segment is one, and what comes out of the last one may come before its end is seen.
    private mutating func isMute(isBusy: Bool, at now: UInt64) -> Bool {
        // Looks that are far apart, as after the machine was asleep, count as two seconds.
        let time = min(now &- lastLook, 2_000_000_000)
        lastLook = now
        guard !isBusy, unplayed >= 1 else { return false }
        muteTime &+= time
        if unplayed >= 2 { certainTime &+= time }
        return muteTime >= limit && certainTime >= Self.certainty
    }

    /// Whether live playlists have ended, and the last segments of them were fetched last.
    private var hasFetchedAll: Bool {
        let ended = Dictionary(grouping: playlists.values.filter(\.hasEnded), by: \.role)
        return !ended.isEmpty
            && ended.values.allSatisfy { $0.contains { $0.fetched.map($0.last.contains) ?? false } }
    }

    /// What a URL has behind its host. GStreamer writes URLs in other ways: percent-encodings are taken out.
    static func resource(_ url: String) -> String {
        var bytes = url.utf8.prefix { $0 != UInt8(ascii: "#") }
        if let colon = bytes.firstIndex(of: UInt8(ascii: ":")), bytes[colon...].starts(with: "://".utf8) {
            bytes = bytes[colon...].dropFirst(3).drop { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        }
        guard bytes.contains(UInt8(ascii: "%")) else { return String(decoding: bytes, as: UTF8.self) }
        var result: [UInt8] = []
        while let byte = bytes.popFirst() {
            if byte == UInt8(ascii: "%"), bytes.count >= 2, let value = UInt8(Substring(bytes.prefix(2)), radix: 16) {
                result.append(value)
                bytes.removeFirst(2)
            } else {
                result.append(byte)
            }
        }
        return String(decoding: result, as: UTF8.self)
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
        switch watch.verdict(isBusy: isDone || isHeldUp || isWaitingForKey) {
        case .none: break
        case .isAtEnd: liveDidEnd()
        case .hasStopped:
            fail(causeOfStop() ?? .stopped(Self.stock.factory, at: originURL(watch.lastURL ?? ""), errorInside))
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
        let what = mute.name.hasPrefix("video") ? "pictures" : "sound"
        return .nothing(of: what, from: Self.stock.factory, at: originURL(url), errorInside)
    }

    /// Why playback cannot begin, or go on after a pause, if a decoder makes nothing of what was decrypted. A decryptor may
    /// have told of a wrong key. Not all media tells: then, a decoder has to have given nothing so far.
    private func lackOfStart(_ watch: StillnessWatch, _ isExcused: Bool) -> PresentationFailure? {
        let told = withGuarded { $0.wrongKey }
        let keys = told.map { [$0] } ?? watch.keysInUse
        let isCause =
            !keys.isEmpty && reference.isChangingState && (told != nil || reference.hasMuteDecoderAround)
        let hasBegun = reference.hasPrerolled
        guard watch.lacksStart(isExcused: isExcused || !isCause), let url = watch.lastURL else { return nil }
        return .noStart(keys.joined(separator: ", "), hasBegun: hasBegun, at: originURL(url))
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

    private var errorInside: String? { withGuarded { $0.errorInside }?.text(at: MonotonicTime.now) }

    /// Notes what a message from inside says. An error gets what was fetched last and what an element inside has said, for
    /// people who read logs. An error for a key does not: the key may be that of an earlier segment.
    final func noted(_ error: consuming Message) -> Message {
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
        let last = watch.lastURL.map { "The last segment came from \(HTTPRequest(url: originURL($0)).printableURL)." }
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

    /// Samples were decrypted with a wrong key, and no decoder takes them. `url`: what was fetched last.
    fileprivate static func noStart(_ key: String, hasBegun: Bool, at url: String) -> PresentationFailure {
        PresentationFailure(
            kind: .unsupported,
            text: "Playback cannot \(hasBegun ? "go on" : "begin"): segments came, the last from "
                + "\(HTTPRequest(url: url).printableURL), but the decoders make nothing of what the key for \(key) decrypts.",
            advice: "Either the key is a wrong one, or the media is encrypted in another way than it says.")
    }

    private static func advice(_ text: String, _ error: String?) -> String {
        error.map { "\(text)\n\(inside($0))" } ?? text
    }

    fileprivate static func inside(_ error: String) -> String { "An element inside the demuxer said: \(error)" }
}
