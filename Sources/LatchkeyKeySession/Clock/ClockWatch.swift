// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
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
    /// set back, at each look that finds it so: a licence may allow some time. The first leaves it to what asks for its key
    /// again to ask the time service; each one after it asks too, where one is configured, so that a service that did not
    /// answer is not the end of what waits for it.
    func begin(for session: KeySession, withdraw: @escaping @Sendable (KeySession) async -> Void) {
        let id = session.playbackSessionID
        tasks.withLock { tasks in
            guard tasks[id] == nil else { return }
            tasks[id] = Task { [weak session, client, pause] in
                var wasSetBack = false
                while !Task.isCancelled, (try? await pause(Self.interval)) != nil, session != nil {
                    let time = try? await client.trustedTime()
                    // A clock that was set back, and cannot be read any more, is no better.
                    let isSetBack = time.map { $0.trust == .rolledBack } ?? wasSetBack
                    let isNew = isSetBack && !wasSetBack
                    wasSetBack = isSetBack
                    guard isSetBack else { continue }
                    if isNew { session?.tell(ClockNotice()) }
                    if let session { await withdraw(session) }
                    if !isNew { await Self.repair(client) }
                }
            }
        }
    }

    private static func repair(_ client: PlayReadyClient) async {
        guard client.configuration.timeURL != nil else { return }
        do throws(TrustedClockError) {
            try await client.repairClock()
        } catch {
            client.configuration.log("the clock was not repaired: \(error)")
        }
    }

    func end(for session: UInt64) { tasks.withLock { $0.removeValue(forKey: session) }?.cancel() }
}
