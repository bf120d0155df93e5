// SPDX-License-Identifier: MPL-2.0

import ElementKit
import Synchronization

/// Looks once a second whether the stock demuxer does anything: whether something comes out of it, and whether GStreamer's
/// HTTP client fetches something of this presentation. With an older HTTP library it sees nothing. Thread-safe.
final class StillnessWatch: Sendable {
    /// What a request of this presentation is for.
    enum Request {
        case playlist
        /// A segment or what goes with it. The URL is the origin's.
        case segment(url: String)
    }

    private struct State {
        var stillness = Stillness()
        var http: HTTPClientWatch?
        var timer: Task<Void, Never>?
        /// Requests under way, by the HTTP client's IDs.
        var requests: [UInt: Request] = [:]
        /// The URL of the last answer for a segment.
        var lastURL: String?
        /// The sink pads of the demuxer's parsers.
        var parsers: [WeakPad] = []
        /// The decryptors behind them.
        var decryptors: [WeakElement] = []

        func named(_ url: String) -> Request? { stillness.names(url) ? .segment(url: url) : nil }

        mutating func note(_ answer: HTTPClientAnswer, _ own: Request?) {
            let request = requests[answer.id] ?? own ?? named(answer.url)
            if answer.isFinished { requests[answer.id] = nil }
            guard case .segment(let url) = request else { return }
            lastURL = answer.url
            if [200, 206].contains(answer.status) { stillness.didFetch(url, at: MonotonicTime.now) }
        }
    }

    private let state = Mutex(State())
    private let output: PadWatch

    init(_ output: PadWatch) { self.output = output }

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
                    // A redirect leads to a URL that no playlist names.
                    if let request = request ?? state.named(url) { state.requests[id] = request }
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
    }

    func didAdd(decryptor: ElementReference) {
        state.withLock { state in
            state.decryptors.removeAll { $0.map { _ in true } == nil }
            state.decryptors.append(WeakElement(decryptor))
        }
    }

    var parsers: [PadReference] { state.withLock { $0.parsers }.compactMap(\.pad) }
    var lastURL: String? { state.withLock { $0.lastURL } }
    var hasOutput: Bool { state.withLock { $0.stillness.hasOutput } }

    /// Whether the last verdict was that the presentation is at its end, and nothing is fetched since.
    var isStillAtEnd: Bool { state.withLock { $0.stillness.wasEndTold && $0.requests.isEmpty } }

    /// `isBusy`: there is a reason for stillness that is not seen here.
    func verdict(isBusy: Bool) -> Stillness.Verdict {
        let hasMoved = output.takeMove()
        let isWaiting = state.withLock { $0.decryptors }.contains { $0.map { ($0 as? Decryptor)?.isBehind } == true }
        let now = MonotonicTime.now
        return state.withLock { state in
            if hasMoved { state.stillness.didMove(at: now) }
            return state.stillness.verdict(isBusy: isBusy || isWaiting || !state.requests.isEmpty, at: now)
        }
    }
}
