// SPDX-License-Identifier: MPL-2.0

import ProtectionModel
import Synchronization

/// Looks at the trusted clock while sessions play what depends on the date: nothing else reads it then. Thread-safe.
final class ClockWatch: Sendable {
    static let interval = Duration.seconds(5)

    private let client: PlayReadyClient
    private let pause: @Sendable (Duration) async throws -> Void
    private let tasks = Mutex<[UInt64: Task<Void, Never>]>([:])

    init(_ client: PlayReadyClient, pause: @escaping @Sendable (Duration) async throws -> Void) {
        self.client = client
        self.pause = pause
    }

    /// From now until the session's end; again does nothing. `withdraw` takes away what may not be used with a clock that was
    /// set back, at each look that finds it so: a licence may allow some time.
    func begin(for session: KeySession, withdraw: @escaping @Sendable (KeySession) async -> Void) {
        let id = session.playbackSessionID
        tasks.withLock { tasks in
            guard tasks[id] == nil else { return }
            tasks[id] = Task { [weak session, client, pause] in
                var wasSetBack = false
                while !Task.isCancelled, (try? await pause(Self.interval)) != nil, session != nil {
                    guard let time = try? await client.trustedTime() else { continue }
                    let isSetBack = time.trust == .rolledBack
                    if isSetBack, !wasSetBack { session?.tell(ClockNotice()) }
                    if isSetBack, let session { await withdraw(session) }
                    wasSetBack = isSetBack
                }
            }
        }
    }

    func end(for session: UInt64) { tasks.withLock { $0.removeValue(forKey: session) }?.cancel() }
}
