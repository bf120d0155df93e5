// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestServices
public import LatchkeyKeySystems
public import LatchkeyContainers
public import LatchkeyProtection

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
