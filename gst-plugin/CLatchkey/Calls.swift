// SPDX-License-Identifier: MPL-2.0

import CLatchkeyLoader
import Latchkey
import LatchkeyProtection
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

extension LatchkeyErrorCode {
    private static let kinds: [(code: LatchkeyErrorCode, error: @Sendable (String) -> KeyError)] = [
        (LATCHKEY_ERROR_DENIED, KeyError.denied), (LATCHKEY_ERROR_KEY_NOT_FOUND, KeyError.keyNotInResponse),
        (LATCHKEY_ERROR_MALFORMED_RESPONSE, KeyError.malformedResponse),
        (LATCHKEY_ERROR_MALFORMED_REQUEST, KeyError.malformedRequest), (LATCHKEY_ERROR_NETWORK, KeyError.network),
        (LATCHKEY_ERROR_SERVER_STATUS, KeyError.serverStatus), (LATCHKEY_ERROR_TIMED_OUT, KeyError.timedOut),
        (LATCHKEY_ERROR_CANCELLED, KeyError.cancelled), (LATCHKEY_ERROR_SESSION_CLOSED, KeyError.sessionClosed),
        (LATCHKEY_ERROR_INVALID_CONFIGURATION, KeyError.invalidConfiguration),
        (LATCHKEY_ERROR_LEASE_EXPIRED, KeyError.leaseExpired), (LATCHKEY_ERROR_NO_LOADER, KeyError.noLoader),
    ]

    init(_ error: KeyError) {
        self = Self.kinds.first { $0.error("").isSameKind(as: error) }?.code ?? LATCHKEY_ERROR_DENIED
    }

    /// C can pass any number.
    func error(_ text: String) -> KeyError {
        (Self.kinds.first { $0.code == self }?.error ?? KeyError.denied)(text)
    }
}
