// SPDX-License-Identifier: MPL-2.0

import ElementKit
import Synchronization

/// Looks once a second whether the stock demuxer does anything: whether something comes out of it, and whether GStreamer's
/// HTTP client fetches something. Nothing is seen where that has an older HTTP library. Thread-safe.
final class StillnessWatch: Sendable {
    private struct State {
        var stillness = Stillness()
        var http: HTTPClientWatch?
        var timer: Task<Void, Never>?
        /// What was fetched last.
        var lastURL: String?
        /// The sink pads of the demuxer's parsers.
        var parsers: [PadReference] = []
        /// The decryptors behind them.
        var decryptors: [WeakElement] = []
    }

    private let state = Mutex(State())
    private let hasMoved = Atomic(false)

    /// `isSegment` tells segments from playlists, by URL. `look` is called once a second from then on.
    func begin(isSegment: @escaping @Sendable (String) -> Bool, look: @escaping @Sendable () -> Void) {
        let http = HTTPClientWatch { [weak self] answer in
            guard isSegment(answer.url) else { return }
            self?.state.withLock {
                $0.stillness.didFetch(at: MonotonicTime.now)
                $0.lastURL = answer.url
            }
        }
        guard http != nil else { return }
        let timer = Task {
            while (try? await Task.sleep(for: .seconds(1))) != nil { look() }
        }
        state.withLock { ($0.http, $0.timer) = (http, timer) }
    }

    func end() {
        // What goes, goes behind the lock, which the client's threads take too.
        let old = state.withLock { state in
            defer { state = State() }
            return state
        }
        old.timer?.cancel()
    }

    func didAsk(for playlist: String) {
        state.withLock { $0.stillness.didAsk(for: playlist, at: MonotonicTime.now) }
    }

    func didRead(_ playlist: String, isEnded: Bool, target: Double) {
        state.withLock { $0.stillness.didRead(playlist, isEnded: isEnded, target: target, at: MonotonicTime.now) }
    }

    func watchOutput(_ pad: PadReference) {
        pad.probeBuffers { [self] buffer in
            if !hasMoved.load(ordering: .relaxed) { hasMoved.store(true, ordering: .relaxed) }
            return buffer
        }
    }

    func didAdd(parser: PadReference) { state.withLock { $0.parsers.append(parser) } }

    func didAdd(decryptor: ElementReference) {
        let decryptor = WeakElement(decryptor)
        state.withLock { $0.decryptors.append(decryptor) }
    }

    var parsers: [PadReference] { state.withLock { $0.parsers } }
    var lastURL: String? { state.withLock { $0.lastURL } }
    var hasOutput: Bool { state.withLock { $0.stillness.hasOutput } }

    /// `isBusy`: there is a reason for stillness that is not seen here.
    func verdict(isBusy: Bool) -> Stillness.Verdict {
        let moved = hasMoved.exchange(false, ordering: .relaxed)
        let isWaiting = state.withLock { $0.decryptors }.contains { $0.map { ($0 as? Decryptor)?.isBehind } == true }
        let isBusy = isBusy || isWaiting || HTTPClientWatch.isFetching
        let now = MonotonicTime.now
        return state.withLock { state in
            if moved { state.stillness.didMove(at: now) }
            return state.stillness.verdict(isBusy: isBusy, at: now)
        }
    }
}
