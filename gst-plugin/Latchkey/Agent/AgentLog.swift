// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization

/// The log of the agents of this process. Every line goes to GStreamer's log (`GST_DEBUG=latchkeyagent:5`) and to the
/// watchers here, as in a view of an application that runs far from any terminal. Thread-safe.
public enum AgentLog {
    static let category = DebugCategory("latchkeyagent", "Latchkey's agent")

    private struct State {
        var watches: [UInt64: (threshold: AgentLogMessage.Level, body: @Sendable (AgentLogMessage) -> Void)] = [:]
        var lastID: UInt64 = 0
    }

    private static let state = Mutex(State())

    /// Gives `body` each line from now on that is not below `threshold`, on the thread that logs; it must not block. Ends
    /// with the last reference to what this returns.
    public static func watch(
        threshold: AgentLogMessage.Level = .debug, _ body: @escaping @Sendable (AgentLogMessage) -> Void
    ) -> AgentLogWatch {
        AgentLogWatch(
            id: state.withLock { state in
                state.lastID += 1
                state.watches[state.lastID] = (threshold, body)
                return state.lastID
            })
    }

    fileprivate static func end(_ id: UInt64) {
        // Its owner goes after the lock.
        let gone = state.withLock { $0.watches.removeValue(forKey: id) }
        withExtendedLifetime(gone) {}
    }

    static func write(_ message: AgentLogMessage) {
        let level: DebugCategory.Level =
            switch message.level {
            case .debug: .debug
            case .info: .info
            case .warning: .warning
            case .error: .error
            }
        category.log(level, nil, message.text)
        for watch in state.withLock({ Array($0.watches.values) }) where message.level >= watch.threshold {
            watch.body(message)
        }
    }
}

/// A reader of the log; see `AgentLog.watch`.
public final class AgentLogWatch: Sendable {
    private let id: UInt64

    fileprivate init(id: UInt64) { self.id = id }

    deinit { AgentLog.end(id) }
}

/// Tells of each request for keys and licenses, with its URL as it may be shown.
struct LoggedTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let log: @Sendable (String) -> Void

    init(_ base: any HTTPTransport, _ log: @escaping @Sendable (String) -> Void) {
        self.base = base
        self.log = log
    }

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        let name = "license request: \(request.method) \(request.printableURL)"
        let start = ContinuousClock.now
        do throws(HTTPError) {
            let response = try await base.send(request)
            log("\(name): HTTP status \(response.status) after \((ContinuousClock.now - start).milliseconds) ms")
            return response
        } catch {
            log("\(name): \(error)")
            throw error
        }
    }
}

/// Tells when the first sample of each key is decrypted for playing. Takes no request.
final class DecryptionLog: StoredKeyLoader {
    let name = "log"
    let keySystems: Set<KeySystem>? = []
    private let log: @Sendable (String) -> Void
    private let seen = Mutex<Set<KeyID?>>([])

    init(_ log: @escaping @Sendable (String) -> Void) { self.log = log }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { false }

    func didStartPlaying(_ keyID: KeyID?, in session: KeySession) {
        guard seen.withLock({ $0.insert(keyID).inserted }) else { return }
        log("decryption begins: \(keyID.map { "KID \($0)" } ?? "a key without a KID")")
    }
}
