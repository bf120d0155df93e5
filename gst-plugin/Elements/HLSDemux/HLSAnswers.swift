// SPDX-License-Identifier: MPL-2.0

import HTTP
import Synchronization

/// Answers in the making. Thread-safe.
///
/// The stock demuxer gives a request up after 10 s without a byte, and GStreamer 1.22 to 1.28 may then use freed memory,
/// as whenever a connection fails before an answer. So every request gets an answer in time: where it is not ready, one
/// that makes the demuxer ask again. The work goes on meanwhile, and the next request for the same finds it.
///
/// The demuxer does not ask again for a key. The loopback server's interim responses keep that request alive.
final class HLSAnswers: Sendable {
    /// How long a request waits.
    static let patience: Duration = .seconds(8)
    /// Answers that nobody has fetched yet.
    private static let limit = 16

    private typealias Work = Task<LoopbackResponse, Never>

    private struct State {
        var works: [(name: String, work: Work)] = []
        var hasEnded = false
    }

    private let state = Mutex(State())
    private let patience: Duration

    init(patience: Duration = HLSAnswers.patience) { self.patience = patience }

    /// What `make` answers under that name; 503 where it is not ready in time, 404 after the end. `isAskedOnce`: the
    /// answer may take its time, since nobody would ask again.
    func answer(
        _ name: String, isAskedOnce: Bool = false, _ make: @escaping @Sendable () async -> LoopbackResponse
    ) async -> LoopbackResponse {
        let (work, surplus) = state.withLock { state -> (Work?, Work?) in
            guard !state.hasEnded else { return (nil, nil) }
            if let known = state.works.first(where: { $0.name == name }) { return (known.work, nil) }
            let surplus = state.works.count >= Self.limit ? state.works.removeFirst().work : nil
            let work = Work { await make() }
            state.works.append((name, work))
            return (work, surplus)
        }
        surplus?.cancel()
        guard let work else { return .notFound }
        let answer = isAskedOnce ? await work.value : await Self.value(of: work, within: patience)
        guard let answer else { return LoopbackResponse(status: 503) }
        state.withLock { $0.works.removeAll { $0.name == name && $0.work == work } }
        return answer
    }

    /// Ends all work: who waits gets an answer at once, and so does who comes later.
    func end() {
        let works = state.withLock { state in
            state.hasEnded = true
            defer { state.works = [] }
            return state.works
        }
        for (_, work) in works { work.cancel() }
    }

    private static func value(of work: Work, within patience: Duration) async -> LoopbackResponse? {
        let (answers, first) = AsyncStream.makeStream(of: LoopbackResponse?.self)
        let waiter = Task { first.yield(await work.value) }
        let alarm = Task {
            try? await Task.sleep(for: patience)
            first.yield(nil)
        }
        defer {
            waiter.cancel()
            alarm.cancel()
        }
        for await answer in answers { return answer }
        return nil
    }
}
