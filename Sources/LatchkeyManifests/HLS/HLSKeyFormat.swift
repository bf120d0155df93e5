// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A KEYFORMAT that a player can use, and the versions of it (RFC 8216, 4.3.2.4).
public struct HLSKeyFormat: Hashable, Sendable {
    /// As a playlist has it; compared to the letter.
    public var name: String
    /// The KEYFORMATVERSIONS that can be used.
    public var versions: Set<Int>

    /// Version 1 is what a tag without KEYFORMATVERSIONS means.
    public init(_ name: String, versions: Set<Int> = [1]) {
        self.name = name
        self.versions = versions
    }

    /// The key itself is the resource at the URI.
    public static let identity = HLSKeyFormat("identity")
    /// The URI (`skd://…`) names the key to a key server that takes an SPC.
    public static let fairPlay = HLSKeyFormat("com.apple.streamingkeydelivery")
    /// The URI is as a rule a `data:` URI with a PlayReady object.
    public static let playReady = HLSKeyFormat("com.microsoft.playready")
    /// The URI is as a rule a `data:` URI with a `pssh` box. The UUID is that of the DASH-IF registry.
    public static let widevine = HLSKeyFormat("urn:uuid:edef8ba9-79d6-4ace-a3c8-27dcd51d21ed")

    /// The protection system whose `pssh` boxes stand for keys of this format. The common system, which ClearKey
    /// content carries, stands for `identity` and for formats that name no system.
    public var protectionSystem: ProtectionSystem {
        switch name {
        case Self.fairPlay.name: .fairPlay
        case Self.playReady.name: .playReady
        default: ProtectionSystem(uuid: name) ?? .common
        }
    }
}
