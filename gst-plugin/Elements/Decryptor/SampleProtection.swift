// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyProtection

/// Reads the protection meta of samples into one `SamplePlan` that is used again and again: no allocation a sample.
struct SampleProtection {
    /// What the meta of one sample says.
    enum Reading: Equatable {
        /// Nothing of the sample is encrypted.
        case clear
        /// `plan` holds how; nil where the media names no KID.
        case encrypted(KeyID?)
        /// The meta contradicts itself.
        case malformed(String)
    }

    /// How to decrypt the sample that was read last.
    private(set) var plan = SamplePlan(scheme: .cenc, initializationVector: InitializationVector(high: 0, low: 0))
    /// Samples without a meta, in front of the first that has one.
    private(set) var unexplainedCount = 0
    /// Whether a sample had a meta.
    private(set) var hasExplained = false
    private let marksClearLeadAsEncrypted: Bool

    init(gstreamerVersion: (major: UInt32, minor: UInt32, micro: UInt32) = Environment.gstreamerVersion) {
        marksClearLeadAsEncrypted = Self.marksClearLeadAsEncrypted(gstreamerVersion)
    }

    /// Workaround (GStreamer <1.22.6): qtdemux marks the clear lead of cbcs video as encrypted. So samples of NAL units that have
    /// a constant IV and no subsamples count as clear, and fragments that have no subsamples at all end playback
    /// (`ClearStart`).
    static func marksClearLeadAsEncrypted(
        _ version: (major: UInt32, minor: UInt32, micro: UInt32) = Environment.gstreamerVersion
    ) -> Bool {
        version.major == 1 && version.minor == 22 && version.micro < 6
    }

    /// The names of the meta's fields, looked up once and kept here: a global would be guarded at each use.
    private struct Fields {
        let encrypted = ProtectionInfo.Field("encrypted")
        let keyID = ProtectionInfo.Field("kid")
        let initializationVector = ProtectionInfo.Field("iv")
        let constantIVSize = ProtectionInfo.Field("constant_iv_size")
        let cryptByteBlock = ProtectionInfo.Field("crypt_byte_block")
        let skipByteBlock = ProtectionInfo.Field("skip_byte_block")
        let cipherMode = ProtectionInfo.Field("cipher-mode")
        let subsampleCount = ProtectionInfo.Field("subsample_count")
        let subsamples = ProtectionInfo.Field("subsamples")
        let piffAlgorithm = ProtectionInfo.Field("piff_algorithm_id")
        static let shared = Fields()
    }

    private let fields = Fields.shared

    /// qtdemux stores PIFF's AlgorithmID shifted by eight bits.
    private static let piffAESCTR: UInt32 = 0x100
    private static let piffAESCBC: UInt32 = 0x200
    private static let piffClear: UInt32 = 0

    mutating func read(_ buffer: borrowing Buffer, format: EncryptedFormat) -> Reading {
        if let reading = buffer.withProtectionInfo({ read($0, format: format) }) {
            hasExplained = true
            return reading
        }
        if !hasExplained { unexplainedCount &+= 1 }
        return .clear
    }

    private mutating func read(_ info: borrowing ProtectionInfo, format: EncryptedFormat) -> Reading {
        if info.boolean(fields.encrypted) == false { return .clear }
        let subsampleCount = info.uint(fields.subsampleCount)
        if marksClearLeadAsEncrypted, format.isNALVideo, subsampleCount == nil, info.has(fields.constantIVSize) {
            return .clear
        }

        if let scheme = info.fourCharacterCode(fields.cipherMode).flatMap(EncryptedFormat.scheme(fourCharacterCode:)) {
            plan.scheme = scheme
        } else if let name = info.string(fields.cipherMode) {
            guard let scheme = EncryptedFormat.scheme(named: name) else {
                return .malformed("the protection scheme “\(name.prefix(16))” is not known")
            }
            plan.scheme = scheme
        } else if let algorithm = info.uint(fields.piffAlgorithm) {
            switch algorithm {
            case Self.piffClear: return .clear
            case Self.piffAESCTR: plan.scheme = .cenc
            case Self.piffAESCBC: plan.scheme = .cbc1
            default: return .malformed("PIFF's algorithm \(algorithm) is not known")
            }
        } else if let scheme = format.scheme {
            plan.scheme = scheme
        } else {
            return .malformed("the protection scheme “\(format.schemeName?.prefix(16) ?? "")” is not known")
        }

        guard let vector = info.shortBytes(fields.initializationVector), vector.count == 8 || vector.count == 16 else {
            return .malformed("the sample has no initialization vector of 8 or 16 bytes")
        }
        plan.initializationVector = InitializationVector(high: vector.high, low: vector.count == 8 ? 0 : vector.low)

        guard let crypt = UInt8(exactly: info.uint(fields.cryptByteBlock) ?? 0),
            let skip = UInt8(exactly: info.uint(fields.skipByteBlock) ?? 0)
        else { return .malformed("the block pattern is out of range") }
        plan.pattern = BlockPattern(crypt: crypt, skip: skip)

        guard readSubsamples(info, count: subsampleCount ?? 0) else {
            return .malformed("the subsample table is shorter than its count")
        }

        guard let identifier = info.shortBytes(fields.keyID) else { return .encrypted(nil) }
        guard identifier.count == 16 else { return .malformed("the KID has \(identifier.count) bytes instead of 16") }
        return .encrypted(KeyID(high: identifier.high, low: identifier.low))
    }

    private mutating func readSubsamples(_ info: borrowing ProtectionInfo, count: UInt32) -> Bool {
        guard count > 0 else {
            plan.subsamples.removeAll(keepingCapacity: true)
            return true
        }
        return info.withBytes(fields.subsamples) { plan.setSubsamples(count: Int(count), table: $0) } ?? false
    }
}

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
        codec = original.flatMap { SampleCodec(mediaType: $0, configuration: caps.bytes("codec_data") ?? []) }
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
