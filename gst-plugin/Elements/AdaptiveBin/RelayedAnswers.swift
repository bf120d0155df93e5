// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization

/// Answers that come as they arrive from elsewhere, each for one request alone. Thread-safe.
final class RelayedAnswers: Sendable {
    private typealias Work = Task<LoopbackResponse, Never>

    private struct State {
        var works: [UInt64: Work] = [:]
        var lastID: UInt64 = 0
        var hasEnded = false
    }

    private let state = Mutex(State())

    /// What `make` answers, however long it takes: it is cancelled with the task that waits. 404 after the end.
    func answer(_ make: @escaping @Sendable () async -> LoopbackResponse) async -> LoopbackResponse {
        let begun = state.withLock { state -> (UInt64, Work)? in
            guard !state.hasEnded else { return nil }
            state.lastID += 1
            let work = Work { await make() }
            state.works[state.lastID] = work
            return (state.lastID, work)
        }
        guard let (id, work) = begun else { return .notFound }
        defer { state.withLock { $0.works[id] = nil } }
        return await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
    }

    /// Ends all work: who waits gets an answer at once, and so does who comes later.
    func end() {
        let works = state.withLock { state in
            state.hasEnded = true
            return state.works.values
        }
        for work in works { work.cancel() }
    }
}
