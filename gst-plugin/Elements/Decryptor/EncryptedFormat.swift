// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyContainers
import LatchkeyProtection

/// What the caps of encrypted media say.
struct EncryptedFormat: Sendable {
    /// The scheme for samples whose meta names none; nil where the caps name one that is not known.
    var scheme: ProtectionScheme?
    /// What the caps name.
    var schemeName: String?
    /// Set where the caps name a protection system.
    var system: ProtectionSystem?
    /// H.264 and H.265, whose samples are made of NAL units and always have subsamples.
    var isNALVideo: Bool
    /// What may be inside, where the caps do not say: pictures.
    var media: OutputPolicy.Media
    /// What tells of a wrong key; nil where nothing does.
    var codec: SampleCodec?

    static let encryptedTypes: Set<String> = ["application/x-cenc", "application/x-cbcs", "application/x-webm-enc"]
    private static let protectionFields = [
        "original-media-type", "protection-system", "encryption-algorithm", "encoding-scope", "cipher-mode",
    ]
    /// What a decoder negotiates; gone in the direction from source to sink, so that a change of size stays possible.
    private static let variableFields = [
        "width", "height", "framerate", "pixel-aspect-ratio", "profile", "tier", "level", "codec_data", "rate",
        "channels", "channel-mask", "interlace-mode", "colorimetry", "chroma-format", "bit-depth-luma",
        "bit-depth-chroma",
    ]

    /// Nil for caps of clear media.
    init?(_ caps: Caps) {
        guard let mediaType = caps.mediaType(), Self.encryptedTypes.contains(mediaType) else { return nil }
        schemeName = caps.string("cipher-mode")
        scheme = schemeName.map(Self.scheme(named:)) ?? (mediaType == "application/x-cbcs" ? .cbcs : .cenc)
        system = caps.string("protection-system").flatMap { ProtectionSystem(uuid: $0) }
        let original = caps.string("original-media-type")
        media = original?.hasPrefix("audio/") == true ? .audio : .video
        codec = original.flatMap { SampleCodec(mediaType: $0) }
        // Demuxers name the profile of these kinds alone. Frames of others, such as xHE-AAC, begin in another way.
        if codec == .aac, !["main", "lc", "ssr", "ltp"].contains(caps.string("base-profile")) { codec = nil }
        isNALVideo = original == "video/x-h264" || original == "video/x-h265"
    }

    /// The scheme behind a `cipher-mode`. Matroska says `CTR` for what MP4 calls cenc.
    static func scheme(named name: String) -> ProtectionScheme? {
        name == "CTR" ? .cenc : ProtectionScheme(rawValue: name)
    }

    /// The scheme of a four-character code, as `cipher-mode` has it, read as a big-endian number.
    static func scheme(fourCharacterCode code: UInt32) -> ProtectionScheme? {
        switch code {
        case 0x6365_6E63: .cenc
        case 0x6362_6331: .cbc1
        case 0x6365_6E73: .cens
        case 0x6362_6373: .cbcs
        default: nil
        }
    }

    /// Caps of the media inside: the original type back, the protection fields off, everything else kept.
    static func clearCaps(of caps: Caps) -> Caps {
        caps.map { structure in
            guard encryptedTypes.contains(structure.mediaType) else { return true }
            guard let original = structure.string("original-media-type") else { return false }
            structure.mediaType = original
            for field in protectionFields { structure.remove(field) }
            return true
        }
    }

    /// The encrypted forms, among those of `template`, of media that downstream takes.
    static func encryptedCaps(for caps: Caps, template: Caps) -> Caps {
        if caps.isAny { return template }
        // What decoders take in memory of their own comes encrypted in ordinary memory.
        let caps = caps.merging(caps.inSystemMemory())
        let merged = (0..<template.count).reduce(into: Caps("EMPTY") ?? template) { result, index in
            let system = template.string("protection-system", at: index)
            guard let mediaType = template.mediaType(at: index) else { return }
            result = result.merging(
                caps.map { structure in
                    if structure.mediaType.hasPrefix("application/x-cenc") { return false }
                    structure.set("original-media-type", structure.mediaType)
                    structure.mediaType = mediaType
                    for field in variableFields { structure.remove(field) }
                    if let system { structure.set("protection-system", system) }
                    return true
                })
        }
        return merged
    }
}
