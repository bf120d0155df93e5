// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization

/// Answers in the making. Thread-safe.
///
/// Workaround (GStreamer >=1.22): the stock demuxer gives a request up after 10 s without a byte. Before 1.26, it may use
/// freed memory then. So every request gets an answer in time: where it is not ready, one that makes the demuxer ask
/// again. The work goes on meanwhile, and the next request for the same finds it.
///
/// An answer may take longer for the playlists that playback begins with, of which the largest take their time on a busy
/// machine, and for all with a relay, which tries on while the network fails: the loopback server's interim responses keep the
/// request alive.
final class HLSAnswers: Sendable {
    /// How long a request waits.
    static let patience: Duration = .seconds(8)
    /// Answers that were not fetched yet. Beyond this number, the oldest goes for which no request waits.
    private static let limit = 16

    /// How long an answer that was prepared counts as one of now.
    static let freshness: Duration = .seconds(3)

    /// Gives nil where it came to nothing and was made before a request came.
    private typealias Work = Task<LoopbackResponse?, Never>

    private struct Entry {
        let name: String
        let id: UInt64
        let work: Work
        /// Set for what was prepared.
        var end: ContinuousClock.Instant?
        /// What the work gave.
        var answer: LoopbackResponse?
        /// The requests that wait for it.
        var waiting = 0
    }

    private struct State {
        var entries: [Entry] = []
        /// The requests that wait, to be told of the end.
        var waits: [UInt64: AsyncStream<Outcome>.Continuation] = [:]
        var lastID: UInt64 = 0
        var hasEnded = false

        /// The entry of that name, unless it was prepared too long ago, when it goes.
        mutating func index(_ name: String, at now: ContinuousClock.Instant) -> Int? {
            guard let index = entries.firstIndex(where: { $0.name == name }) else { return nil }
            guard let end = entries[index].end, end <= now else { return index }
            entries.remove(at: index)
            return nil
        }
    }

    private let state = Mutex(State())
    private let patience: Duration
    private let now: @Sendable () -> ContinuousClock.Instant

    init(patience: Duration = HLSAnswers.patience, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.patience = patience
        self.now = now
    }

    /// What `make` answers under that name; 503 where it is not ready in time, 404 after the end. `isAskedOnce`: the
    /// answer may take its time, since no request would come again.
    func answer(
        _ name: String, isAskedOnce: Bool = false, _ make: @escaping @Sendable () async -> LoopbackResponse
    ) async -> LoopbackResponse {
        while true {
            guard let (id, work) = begin(name, isPrepared: false, make) else { return .notFound }
            switch await outcome(of: work, within: isAskedOnce ? nil : patience) {
            case .answer(let answer):
                forget(id)
                return answer
            case .nothing:
                // What was prepared came to nothing: now it is made for a request.
                forget(id)
            case .late:
                leave(id)
                return LoopbackResponse(status: 503)
            case .gone:
                return .notFound
            }
        }
    }

    /// Begins to make the answer that will be asked for next. Where `make` gives nil, that is forgotten.
    func prepare(_ name: String, _ make: @escaping @Sendable () async -> LoopbackResponse?) {
        _ = begin(name, isPrepared: true, make)
    }

    /// Waits for what is made under that name, and leaves it there.
    func wait(for name: String) async {
        let work = state.withLock { state in state.entries.first { $0.name == name }?.work }
        _ = await work?.value
    }

    /// The answer under that name, where it was prepared and is ready. It is handed out once.
    func takeReady(_ name: String) -> LoopbackResponse? {
        let now = now()
        return state.withLock { state in
            guard let index = state.index(name, at: now), let answer = state.entries[index].answer else { return nil }
            state.entries.remove(at: index)
            return answer
        }
    }

    /// The work under that name, which begins unless it is under way. Nil after the end.
    private func begin(
        _ name: String, isPrepared: Bool, _ make: @escaping @Sendable () async -> LoopbackResponse?
    ) -> (UInt64, Work)? {
        let now = now()
        let (begun, surplus) = state.withLock { state -> ((UInt64, Work)?, Work?) in
            guard !state.hasEnded else { return (nil, nil) }
            if let index = state.index(name, at: now) {
                if !isPrepared {
                    state.entries[index].end = nil
                    state.entries[index].waiting += 1
                }
                return ((state.entries[index].id, state.entries[index].work), nil)
            }
            let oldest = state.entries.count >= Self.limit ? state.entries.firstIndex { $0.waiting == 0 } : nil
            let surplus = oldest.map { state.entries.remove(at: $0).work }
            state.lastID += 1
            let id = state.lastID
            let work = Work { [weak self] in
                let answer = await make()
                if isPrepared { self?.keep(answer, of: id) }
                return answer
            }
            let end = isPrepared ? now + Self.freshness : nil
            state.entries.append(Entry(name: name, id: id, work: work, end: end, waiting: isPrepared ? 0 : 1))
            return ((id, work), surplus)
        }
        surplus?.cancel()
        return begun
    }

    private func keep(_ answer: LoopbackResponse?, of id: UInt64) {
        state.withLock { state in
            guard let index = state.entries.firstIndex(where: { $0.id == id }) else { return }
            if let answer {
                state.entries[index].answer = answer
            } else {
                state.entries.remove(at: index)
            }
        }
    }

    /// Whether nothing is answered any more.
    var hasEnded: Bool { state.withLock { $0.hasEnded } }

    /// A request waits no more.
    private func leave(_ id: UInt64) {
        state.withLock { state in
            if let index = state.entries.firstIndex(where: { $0.id == id }) { state.entries[index].waiting -= 1 }
        }
    }

    private func forget(_ id: UInt64) { state.withLock { $0.entries.removeAll { $0.id == id } } }

    /// Ends all work: each request that waits gets an answer at once, also if the work goes on for a while, as that on a large
    /// playlist. Later requests get one, too.
    func end() {
        let (works, waits) = state.withLock { state -> ([Work], [AsyncStream<Outcome>.Continuation]) in
            state.hasEnded = true
            defer { (state.entries, state.waits) = ([], [:]) }
            return (state.entries.map(\.work), Array(state.waits.values))
        }
        for wait in waits { wait.yield(.gone) }
        for work in works { work.cancel() }
    }

    private enum Outcome: Sendable {
        case answer(LoopbackResponse)
        case nothing
        case late
        /// The end came first.
        case gone

        init(_ answer: LoopbackResponse?) { self = answer.map { .answer($0) } ?? .nothing }
    }

    /// `patience` nil: as long as it takes.
    private func outcome(of work: Work, within patience: Duration?) async -> Outcome {
        let (outcomes, first) = AsyncStream.makeStream(of: Outcome.self)
        let id = state.withLock { state -> UInt64? in
            guard !state.hasEnded else { return nil }
            state.lastID += 1
            state.waits[state.lastID] = first
            return state.lastID
        }
        guard let id else { return .gone }
        let waiter = Task { first.yield(Outcome(await work.value)) }
        defer {
            waiter.cancel()
            state.withLock { $0.waits[id] = nil }
        }
        // In a task of its own: one that is asked for once is waited for, also if the request is cancelled.
        guard let patience else { return await Task { await Self.first(of: outcomes) }.value }
        let alarm = Task {
            try? await Task.sleep(for: patience)
            first.yield(.late)
        }
        defer { alarm.cancel() }
        return await Self.first(of: outcomes)
    }

    private static func first(of outcomes: AsyncStream<Outcome>) async -> Outcome {
        for await outcome in outcomes { return outcome }
        return .late
    }
}
