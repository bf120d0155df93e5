// SPDX-License-Identifier: MPL-2.0

public import KeySystems
public import MediaFormats
public import ProtectionModel

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
}
