// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection

/// The factories of the decryptors. GStreamer's selection finds one system a factory, so each key system has one.
public enum DecryptorFactory {
    /// All of them, in the order in which they are registered.
    public static let all = [fairPlay, playReady, clearKey, anySystem, transportStream, isoMedia, webM]

    /// The factory that GStreamer plugs for FairPlay-style content.
    public static let fairPlay = make(
        "latchkeyfairplaydec", "FairPlay-style decryptor",
        "Decrypts common encryption (cenc, cens, cbc1, cbcs) of media with a FairPlay pssh; keys come from keys=, a "
            + "keys file, a key server (license-url and the configuration's [fairplay]) or a resource loader",
        rank: .primary, caps: KeySystem.fairPlay.protectionSystems.map(cencCaps))

    /// The factory that GStreamer plugs for PlayReady-style content.
    public static let playReady = make(
        "latchkeyplayreadydec", "PlayReady-style decryptor",
        "Decrypts common encryption (cenc, cens, cbc1, cbcs) of media with a PlayReady pssh or ContentProtection; "
            + "keys come from a license service (license-url), keys=, a keys file or a resource loader",
        rank: .primary, caps: KeySystem.playReady.protectionSystems.map(cencCaps))

    /// The factory that GStreamer plugs for ClearKey content.
    public static let clearKey = make(
        "latchkeyclearkeydec", "ClearKey decryptor",
        "Decrypts common encryption (cenc, cens, cbc1, cbcs) of media with a common or ClearKey pssh; keys come from "
            + "a ClearKey license service (license-url), keys=, a keys file or a resource loader",
        rank: .primary, caps: KeySystem.clearKey.protectionSystems.map(cencCaps))

    /// The factory for everything that names no system or one without an exchange here, and to write by hand.
    public static let anySystem = make(
        "latchkeycencdec", "Common encryption decryptor",
        "Decrypts common encryption (cenc, cens, cbc1, cbcs) of MP4 and WebM with the keys of any system: "
            + "keys=, a keys file, license-url or a resource loader",
        rank: .marginal,
        caps: ["application/x-cenc", "application/x-webm-enc"] + ProtectionSystem.others.map(cencCaps))

    /// The factory for SAMPLE-AES outside ISO media. Its template names what players plug it for; by hand it takes clear
    /// types too (`TSDecryptor.acceptedCaps`), which must not be in the template: it would be plugged for clear media.
    public static let transportStream = ElementDescription(
        factory: "latchkeytsdec", longName: "SAMPLE-AES decryptor", classification: "Decryptor",
        summary: "Decrypts HLS SAMPLE-AES in MPEG transport streams and packed audio (H.264, AAC, AC-3, E-AC-3); keys "
            + "come from keys=, a keys file or a resource loader",
        author: "The Latchkey authors", rank: .primary,
        padTemplates: [.sink(TSDecryptor.pluggedType), .source(TSDecryptor.producedTypes)],
        properties: DecryptorSettings.properties + [DecryptorSettings.keyURI],
        signals: [Decryptor.keyResponse, Decryptor.sessionEvent],
        implementation: TSDecryptor.self)

    /// The factory for whole ISO media. By hand it takes clear types too (`ISODecryptor.acceptedCaps`); see above.
    public static let isoMedia = ElementDescription(
        factory: "latchkeyisodec", longName: "ISO media decryptor", classification: "Decryptor",
        summary: "Decrypts protected MP4 and PIFF files in place, in front of the demuxer: cenc, cens, cbc1, cbcs; "
            + "keys come from keys=, a keys file or a resource loader",
        author: "The Latchkey authors", rank: .primary,
        padTemplates: [.sink(ISODecryptor.pluggedType), .source(ISODecryptor.producedType)],
        properties: DecryptorSettings.properties + [DecryptorSettings.outageLimit],
        signals: [Decryptor.keyResponse, Decryptor.sessionEvent],
        implementation: ISODecryptor.self)

    /// What makes players plug it: protected files have a type of their own.
    public static let isoMediaType = isoMediaFinder(ISODecryptor.pluggedType, caps: ISODecryptor.pluggedType) {
        source in
        ISORecognition.isProtectedFile { source.bytes(at: $0, count: $1) }
    }

    /// The same for files that come in order and begin with their media: whether they are protected stands behind it.
    public static let isoMediaFirstType = isoMediaFinder(
        "latchkey-iso-media-first", caps: ISODecryptor.mediaFirstType
    ) { source in
        ISORecognition.isMediaFirst(size: source.size) { source.bytes(at: $0, count: $1) }
    }

    /// The factory for whole protected WebM over HTTP, whose samples others decrypt.
    public static let webM = ElementDescription(
        factory: "latchkeywebmrelay", longName: "Protected WebM relay", classification: "Decryptor",
        summary:
            "Waits for outages of the network while a player fetches a protected WebM file over HTTP; changes nothing",
        author: "The Latchkey authors", rank: .primary,
        padTemplates: [.sink(WebMRelay.pluggedType), .source(WebMRelay.producedType)],
        properties: [DecryptorSettings.outageLimit],
        implementation: WebMRelay.self)

    /// What makes players plug it: protected files of which more is to come than there is, as over HTTP.
    public static let webMType = TypeFinder(
        name: WebMRelay.pluggedType, rank: finderRank, extensions: ["webm", "mkv", "mka", "mk3d"],
        caps: WebMRelay.pluggedType
    ) { source in
        WebMRecognition.isProtectedFile(size: source.size) { source.bytes(at: $0, count: $1) }
    }

    /// All that make players plug these elements.
    public static let types = [isoMediaType, isoMediaFirstType, webMType]

    /// In front of GStreamer's own finders; their extensions are these finders' too, or they would be asked first.
    private static let finderRank = Rank(Rank.primary.value + 10)

    private static func isoMediaFinder(
        _ name: String, caps: String, recognizes: @escaping @Sendable (borrowing TypeFindSource) -> Bool
    ) -> TypeFinder {
        TypeFinder(
            name: name, rank: finderRank,
            extensions: ["ismv", "isma", "mp4", "mov", "m4v", "m4a", "m4s", "3gp", "qt"], caps: caps,
            recognizes: recognizes)
    }

    private static let sourceTemplate = PadTemplate.source("ANY")

    static func template(_ direction: PadTemplate.Direction, of description: ElementDescription) -> PadTemplate {
        description.padTemplates.first { $0.direction == direction }
            ?? (direction == .sink ? .sink("ANY") : .source("ANY"))
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
            properties: DecryptorSettings.properties, signals: [Decryptor.keyResponse, Decryptor.sessionEvent],
            implementation: SampleDecryptor.self)
    }
}
