// SPDX-License-Identifier: MPL-2.0

import CLatchkeyAgent
import Latchkey
import Synchronization

/// A `LatchkeyAgent`: an agent with what C began on it, which ends with the last reference.
final class AgentHandle: OpaqueReference, Sendable {
    let agent: Agent
    private let calls = Mutex<Set<UInt64>>([])
    private let listeners = Mutex<(tasks: [UInt64: Task<Void, Never>], last: UInt64)>(([:], 0))

    init(_ agent: Agent) { self.agent = agent }

    deinit {
        for id in calls.withLock(\.self) { _ = Calls.cancel(id) }
        for task in listeners.withLock({ Array($0.tasks.values) }) { task.cancel() }
    }

    // MARK: Calls

    /// Asks the agent, and gives `finish` what comes. The call's number.
    func begin<Value: Sendable>(
        _ userData: UserData, _ body: @escaping @Sendable (Agent) async throws(AgentError) -> Value,
        _ finish: @escaping @Sendable (Value?, AgentErrorHandle?) -> Void
    ) -> UInt64 {
        let id = Calls.begin(userData) { [agent] in
            do throws(AgentError) {
                let value = try await body(agent)
                return { finish(value, nil) }
            } catch {
                let error = AgentErrorHandle(error, isCancelled: Task.isCancelled)
                return { finish(nil, error) }
            }
        }
        calls.withLock { calls in
            // What has ended is not kept.
            calls = calls.filter(Calls.isUnderWay)
            calls.insert(id)
        }
        return id
    }

    // MARK: Listeners

    func addListener(_ listener: @escaping @Sendable (AgentEventHandle) -> Void, _ userData: UserData) -> UInt64 {
        // Before this returns: no event is missed.
        let events = agent.events
        return listeners.withLock { listeners in
            listeners.last &+= 1
            listeners.tasks[listeners.last] = Task {
                for await event in events {
                    if Task.isCancelled { break }
                    listener(AgentEventHandle(event))
                }
                userData.end()
            }
            return listeners.last
        }
    }

    func removeListener(_ id: UInt64) -> Bool {
        guard let task = listeners.withLock({ $0.tasks.removeValue(forKey: id) }) else { return false }
        task.cancel()
        return true
    }
}
