// SPDX-License-Identifier: MPL-2.0

import Latchkey
import Synchronization

/// The calls of C that are under way, by the numbers that C has of them. Thread-safe.
enum Calls {
    private static let state = Mutex<(tasks: [UInt64: Task<Void, Never>], last: UInt64)>(([:], 0))

    /// Runs `body` and what it returns, which calls back: the call has ended then. Gives `userData` back behind it.
    /// Returns the call's number.
    static func begin(
        _ userData: UserData, _ body: @escaping @Sendable () async -> (@Sendable () -> Void)
    ) -> UInt64 {
        state.withLock { state in
            state.last &+= 1
            let id = state.last
            state.tasks[id] = Task {
                let callBack = await body()
                _ = Self.state.withLock { $0.tasks.removeValue(forKey: id) }
                Callbacks.call(callBack)
                userData.end()
            }
            return id
        }
    }

    /// The same for what may fail: `finish` gets the one or the other, which last until it returns.
    static func begin<Value: Sendable>(
        _ userData: UserData, _ body: @escaping @Sendable () async throws(AgentError) -> Value,
        _ finish: @escaping @Sendable (Value?, AgentErrorHandle?) -> Void
    ) -> UInt64 {
        begin(userData) {
            do throws(AgentError) {
                let value = try await body()
                return { finish(value, nil) }
            } catch {
                let error = AgentErrorHandle(error, isCancelled: Task.isCancelled)
                return {
                    finish(nil, error)
                    withExtendedLifetime(error) {}
                }
            }
        }
    }

    /// False where there is no such call any more. Its task ends soon, not here.
    static func cancel(_ id: UInt64) -> Bool {
        // Cancelling calls an application's delegate: never under the lock.
        guard let task = state.withLock({ $0.tasks[id] }) else { return false }
        task.cancel()
        return true
    }

    static func isUnderWay(_ id: UInt64) -> Bool { state.withLock { $0.tasks[id] != nil } }
}
