// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A way to get keys: what the challenge and the license look like. The raw value is its name in settings.
public enum KeySystem: String, Sendable, CaseIterable {
    /// Keys as JSON Web Keys (W3C Encrypted Media Extensions, 9.1).
    case clearKey = "clearkey"
    /// SPC out, CKC in.
    case fairPlay = "fairplay"
    /// A SOAP challenge out, XMR licenses in.
    case playReady = "playready"

    /// The key system that serves a protection system; nil where Latchkey has no exchange for it.
    public init?(_ system: ProtectionSystem) {
        guard let match = Self.allCases.first(where: { $0.protectionSystems.contains(system) }) else { return nil }
        self = match
    }

    /// The protection systems whose initialization data this key system serves.
    public var protectionSystems: [ProtectionSystem] {
        switch self {
        case .clearKey: [.common, .clearKey]
        case .fairPlay: [.fairPlay]
        case .playReady: [.playReady]
        }
    }
}
