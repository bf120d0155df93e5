// SPDX-License-Identifier: MPL-2.0

import Synchronization
import LatchkeyProtection

/// What changes while the server runs: the faults in force and the log. In memory only; thread-safe.
public final class ServerState: Sendable {
    private struct Content {
        var faults: FaultPlan
        var log = RequestLog()
    }

    private let content: Mutex<Content>

    init(faults: [FaultRule]) { content = Mutex(Content(faults: FaultPlan(rules: faults))) }

    /// The rules that still have an effect.
    public var faults: [FaultRule] { content.withLock { $0.faults.rules } }

    /// Takes the place of all rules.
    public func setFaults(_ rules: [FaultRule]) { content.withLock { $0.faults = FaultPlan(rules: rules) } }

    /// The requests in the order in which they came in.
    public var log: [RequestLog.Entry] { content.withLock { $0.log.entries } }

    /// Forgets the requests so far. Faults and sessions stay.
    public func clearLog() { content.withLock { $0.log.clear() } }

    /// The fault for a request, if there is a rule, which is used up by one.
    func takeFault(forPath path: String) -> Fault? { content.withLock { $0.faults.take(forPath: path) } }

    func begin(method: String, path: String) -> RequestLog.ID {
        content.withLock { $0.log.begin(method: method, path: path) }
    }

    func update(_ id: RequestLog.ID?, _ change: (inout RequestLog.Entry) -> Void) {
        guard let id else { return }
        content.withLock { $0.log.update(id, change) }
    }
}
