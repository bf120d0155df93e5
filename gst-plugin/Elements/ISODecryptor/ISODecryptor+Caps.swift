// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyContainers
import LatchkeyProtection

extension ISODecryptor {
    /// What the typefinder says of protected files, and a player's caps are renamed to.
    static let pluggedType = "application/x-latchkey-iso"
    static let producedType = "video/quicktime"

    /// What the sink pad takes from whoever links it.
    static let acceptedCaps =
        Caps.permanent("\(pluggedType); \(producedType); audio/x-m4a; video/mj2; application/x-3gp") ?? .any

    /// Fields of `application/x-latchkey-iso` for fragments without a `moov`, as those of Smooth Streaming:
    /// `default-kid=(string)` 32 hexadecimal digits, `cipher-mode=(string)` `cenc` or `cbc1`, `iv-size=(string)` 8 or 16.
    private enum Field {
        static let keyID = "default-kid"
        static let scheme = "cipher-mode"
        static let vectorSize = "iv-size"
    }

    private static let fragmentTypes: Set<String> = [
        producedType, "audio/x-m4a", "video/mp4", "audio/mp4", "application/mp4", "video/x-m4v",
    ]

    /// The caps of ISO media with the type that makes players plug this element; nil for other media. `defaults` are
    /// for fragments without a `moov`.
    static func plugged(_ caps: Caps, defaults: ISOEncryption? = nil) -> Caps? {
        guard caps.count == 1, let type = caps.mediaType(), fragmentTypes.contains(type) else { return nil }
        return caps.map { structure in
            structure.mediaType = pluggedType
            guard let defaults else { return true }
            if let keyID = defaults.keyID { structure.set(Field.keyID, keyID.description) }
            structure.set(Field.scheme, defaults.scheme.rawValue)
            structure.set(Field.vectorSize, String(defaults.initializationVectorSize))
            return true
        }
    }

    static func clearCaps(of caps: Caps) -> Caps {
        caps.map { structure in
            if structure.mediaType == pluggedType { structure.mediaType = producedType }
            for field in [Field.keyID, Field.scheme, Field.vectorSize] { structure.remove(field) }
            return true
        }
    }

    /// How fragments without a `moov` are encrypted; nil where the caps say nothing of such fragments.
    static func defaults(in caps: Caps) -> ISOEncryption? {
        let keyID = caps.string(Field.keyID).flatMap { KeyID(hex: $0) }
        guard keyID != nil || caps.string("variant") == "mss-fragmented" else { return nil }
        let scheme = caps.string(Field.scheme).flatMap { ProtectionScheme(rawValue: $0) } ?? .cenc
        let size = caps.string(Field.vectorSize) == "16" ? 16 : 8
        let inside = caps.mediaType(inside: "media-caps")
        var encryption = ISOEncryption(
            scheme: scheme, initializationVectorSize: size, keyID: keyID,
            media: inside?.hasPrefix("audio/") == true ? .audio : .video)
        encryption.codec = inside.flatMap { SampleCodec(mediaType: $0) }
        return encryption
    }
}
