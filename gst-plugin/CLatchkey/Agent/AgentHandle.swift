// SPDX-License-Identifier: MPL-2.0

import CLatchkeyAgent
import Latchkey
import Synchronization

/// A `LatchkeyAgent`: an agent with what C began on it, which ends with the last reference.
final class AgentHandle: OpaqueReference, Sendable {
    let agent: Agent
    private let calls = Mutex<(ids: Set<UInt64>, areOver: Bool)>(([], false))
    private let listeners = Listeners()

    init(_ agent: Agent) { self.agent = agent }

    deinit { cancelCalls() }

    /// Ends the agent. Its listeners end with its events.
    func close() {
        cancelCalls()
        agent.close()
    }

    // MARK: Calls

    private func cancelCalls() {
        let ids = calls.withLock { calls in
            // A delegate that hears of it may begin others.
            calls.areOver = true
            return calls.ids
        }
        for id in ids { _ = Calls.cancel(id) }
    }

    /// Asks the agent, and gives `finish` what comes. The call's number. Behind `close`, it is cancelled at once.
    func begin<Value: Sendable>(
        _ userData: UserData, _ body: @escaping @Sendable (Agent) async throws(AgentError) -> Value,
        _ finish: @escaping @Sendable (Value?, AgentErrorHandle?) -> Void
    ) -> UInt64 {
        let id = Calls.begin(userData, { [agent] () throws(AgentError) in try await body(agent) }, finish)
        let isOver = calls.withLock { calls in
            // What has ended is not kept.
            calls.ids = calls.ids.filter(Calls.isUnderWay)
            calls.ids.insert(id)
            return calls.areOver
        }
        if isOver { _ = Calls.cancel(id) }
        return id
    }

    // MARK: Listeners

    func addListener(_ listener: @escaping @Sendable (AgentEventHandle) -> Void, _ userData: UserData) -> UInt64 {
        // Before this returns: no event is missed.
        listeners.add(to: agent.events, userData) { listener(AgentEventHandle($0)) }
    }

    func removeListener(_ id: UInt64) -> Bool { listeners.remove(id) }
}
