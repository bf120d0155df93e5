// SPDX-License-Identifier: MPL-2.0

import ElementKit
import KeySystems
import ProtectionModel

/// The four factories of the decryptor. GStreamer's selection finds one system a factory, so each key system has one.
public enum DecryptorFactory {
    public static let all = [fairPlay, playReady, clearKey, anySystem]

    /// The factory that GStreamer plugs for FairPlay-style content.
    public static let fairPlay = make(
        "latchkeyfairplaydec", "FairPlay-style decryptor",
        "Decrypts common encryption (cenc, cbcs) of media with a FairPlay pssh; keys come from keys=, a keys file or "
            + "a resource loader",
        rank: .primary, caps: KeySystem.fairPlay.protectionSystems.map(cencCaps))

    /// The factory that GStreamer plugs for PlayReady-style content.
    public static let playReady = make(
        "latchkeyplayreadydec", "PlayReady-style decryptor",
        "Decrypts common encryption (cenc, cbcs) of media with a PlayReady pssh or ContentProtection; keys come from "
            + "keys=, a keys file or a resource loader",
        rank: .primary, caps: KeySystem.playReady.protectionSystems.map(cencCaps))

    /// The factory that GStreamer plugs for ClearKey content.
    public static let clearKey = make(
        "latchkeyclearkeydec", "ClearKey decryptor",
        "Decrypts common encryption (cenc, cbcs) of media with a common or ClearKey pssh; keys come from a ClearKey "
            + "licence service (license-url), keys=, a keys file or a resource loader",
        rank: .primary, caps: KeySystem.clearKey.protectionSystems.map(cencCaps))

    /// The factory for everything that names no system or one without an exchange here, and to write by hand.
    public static let anySystem = make(
        "latchkeycencdec", "Common encryption decryptor",
        "Decrypts common encryption (cenc, cbcs) of MP4 and WebM with the keys of any system: keys=, a keys file, "
            + "license-url or a resource loader",
        rank: .marginal,
        caps: ["application/x-cenc", "application/x-webm-enc"] + ProtectionSystem.others.map(cencCaps))

    static let sourceTemplate = PadTemplate.source("ANY")

    static func sinkTemplate(of description: ElementDescription) -> PadTemplate {
        description.padTemplates.first { $0.direction == .sink } ?? .sink("application/x-cenc")
    }

    private static func cencCaps(_ system: ProtectionSystem) -> String {
        "application/x-cenc, protection-system=(string)\(system.uuid)"
    }

    private static func make(
        _ factory: String, _ longName: String, _ summary: String, rank: Rank, caps: [String]
    ) -> ElementDescription {
        ElementDescription(
            factory: factory, longName: longName, classification: "Decryptor", summary: summary,
            author: "The Latchkey authors", rank: rank,
            padTemplates: [.sink(caps.joined(separator: "; ")), sourceTemplate],
            properties: DecryptorSettings.properties, signals: [Decryptor.keyResponse],
            implementation: Decryptor.self)
    }
}
