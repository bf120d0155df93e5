// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyKeySystems
public import LatchkeyProtection
import LatchkeyTestAuthorities
import Synchronization

/// What the reference server needs to know before it starts.
public struct ServerSettings: Sendable {
    /// The address to listen on: a host name or an IP address.
    public var host: String
    /// 0 takes a free port.
    public var port: Int
    /// The keys that `/clearkey` hands out.
    public var keys: [KeyID: ContentKey]
    /// The keys that `/fairplay/` hands out, by content identifier.
    public var keysFileEntries: [KeysFile.Entry]
    /// Whose SPCs `/fairplay/` answers; empty for no such service.
    public var fairPlayAuthorities: [FairPlayTestAuthority]
    /// The folder below `/media/`; nil serves no media.
    public var mediaFolder: String?
    /// Who signs what `/playready/` answers; nil for no such service.
    public var playReadyAuthority: PlayReadyTestAuthority?
    /// How `/sessions` counts viewing sessions.
    public var sessions = SessionSettings()
    /// The faults that hold from the start.
    public var faults: [FaultRule]
    /// A connection on which nothing of a request came for so long is closed, also one with half a request.
    public var idleTimeout: Duration = .seconds(10)
    /// A connection without a whole request, head and body, is closed after so long, however its bytes come: from its start,
    /// and from the end of each answer on.
    public var requestTimeout: Duration = .seconds(10)

    /// Without arguments: a free port of the loopback address, no keys, no media, and neither of the two services with
    /// an authority.
    public init(
        host: String = "127.0.0.1", port: Int = 0, keys: [KeyID: ContentKey] = [:],
        keysFileEntries: [KeysFile.Entry] = [], fairPlayAuthorities: [FairPlayTestAuthority] = [],
        mediaFolder: String? = nil, playReadyAuthority: PlayReadyTestAuthority? = nil, faults: [FaultRule] = []
    ) {
        self.host = host
        self.port = port
        self.keys = keys
        self.keysFileEntries = keysFileEntries
        self.fairPlayAuthorities = fairPlayAuthorities
        self.mediaFolder = mediaFolder
        self.playReadyAuthority = playReadyAuthority
        self.faults = faults
    }

    /// Whether only processes on this machine reach the address, as far as its text says it.
    public static func isLoopback(_ host: String) -> Bool {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return host == "localhost" || host == "::1"
            || parts.count == 4 && parts.first == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}

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
