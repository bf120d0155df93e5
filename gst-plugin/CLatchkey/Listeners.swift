// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// The listeners that C has added to one object, by the numbers that C has of them. They end with this. Thread-safe.
final class Listeners: Sendable {
    private let state = Mutex<(tasks: [UInt64: Task<Void, Never>], last: UInt64)>(([:], 0))

    deinit { for task in state.withLock({ Array($0.tasks.values) }) { task.cancel() } }

    /// Calls `listener` with each element, and gives `userData` back behind the last.
    func add<Element: Sendable>(
        to stream: AsyncStream<Element>, _ userData: UserData, _ listener: @escaping @Sendable (Element) -> Void
    ) -> UInt64 {
        state.withLock { state in
            state.last &+= 1
            state.tasks[state.last] = Task {
                for await element in stream {
                    if Task.isCancelled { break }
                    Callbacks.call { listener(element) }
                }
                userData.end()
            }
            return state.last
        }
    }

    /// False where there is none.
    func remove(_ id: UInt64) -> Bool {
        guard let task = state.withLock({ $0.tasks.removeValue(forKey: id) }) else { return false }
        task.cancel()
        return true
    }
}
