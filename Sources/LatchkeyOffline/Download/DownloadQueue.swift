// SPDX-License-Identifier: MPL-2.0

/// Lets so many downloads run at once; the others wait for their turn, first come, first served.
actor DownloadQueue {
    private let limit: Int
    private var running = 0
    private var waiting: [(id: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
    private var lastID: UInt64 = 0

    init(limit: Int) { self.limit = max(1, limit) }

    /// Waits for a place. `leave` gives it back. Throws `cancelled` with the task, and then there is no place to give back.
    func enter() async throws(CacheError) {
        if running < limit, waiting.isEmpty {
            running += 1
            return
        }
        lastID += 1
        let id = lastID
        let hasPlace = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                waiting.append((id, continuation))
            }
        } onCancel: {
            Task { await self.cancel(id) }
        }
        guard hasPlace else { throw CacheError(.cancelled, "the download was paused") }
    }

    func leave() {
        // Whoever waits takes the place over.
        if waiting.isEmpty { running -= 1 } else { waiting.removeFirst().continuation.resume(returning: true) }
    }

    private func cancel(_ id: UInt64) {
        if let index = waiting.firstIndex(where: { $0.id == id }) {
            waiting.remove(at: index).continuation.resume(returning: false)
        }
    }
}
