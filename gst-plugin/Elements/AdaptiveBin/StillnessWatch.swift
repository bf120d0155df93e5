// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
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
