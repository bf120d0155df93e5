// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// How a playlist says that segments are encrypted: an `EXT-X-KEY` or `EXT-X-SESSION-KEY` tag (RFC 8216, 4.3.2.4).
///
/// Names a key and never holds one, unless its URI is a `data:` URI: `description` leaves the URI's query and data out.
public struct HLSKey: Hashable, Sendable {
    /// What is encrypted, and how.
    public enum Method: Hashable, Sendable {
        /// What follows is clear; no other attribute counts.
        case none
        /// Whole segments, AES-128 in CBC mode with PKCS#7 padding.
        case aes128
        /// Samples: `cbcs` in fragmented MP4, Apple's sample encryption in transport streams and packed audio.
        case sampleAES
        /// Samples of fragmented MP4, `cenc`.
        case sampleAESCTR
        /// Whole segments, AES-256 in GCM mode.
        case aes256GCM
        /// A method that this library does not know, as the tag spells it.
        case other(String)
    }

    /// The METHOD, known or not.
    public var method: Method
    /// Nil with the method NONE alone.
    public var uri: String?
    /// Nil where the tag has none. What stands for it then depends on the KEYFORMAT.
    public var initializationVector: InitializationVector?
    /// `identity` where the tag has none.
    public var keyFormat: String
    /// `[1]` where the tag has none.
    public var keyFormatVersions: [Int]
    /// The KID that the tag names (`KEYID=0x…`), which is no part of RFC 8216 and which packagers write.
    public var keyID: KeyID?

    /// Checks nothing. The defaults are those of RFC 8216 for attributes that are missing.
    public init(
        method: Method, uri: String?, initializationVector: InitializationVector? = nil,
        keyFormat: String = HLSKeyFormat.identity.name, keyFormatVersions: [Int] = [1], keyID: KeyID? = nil
    ) {
        self.method = method
        self.uri = uri
        self.initializationVector = initializationVector
        self.keyFormat = keyFormat
        self.keyFormatVersions = keyFormatVersions
        self.keyID = keyID
    }

    /// METHOD=NONE: what follows is clear.
    public static let none = HLSKey(method: .none, uri: nil)

    /// The same key with its URI as seen from `base`. A URI with a scheme stays as it is.
    public func resolved(against base: URIReference) -> HLSKey {
        var key = self
        key.uri = uri.map { URIReference.resolve($0, against: base) }
        return key
    }

    /// The IV of a segment under this key. Nil where the key's exchange brings the IV (FairPlay).
    ///
    /// `sequence` is the media sequence number, which stands for the IV of an `identity` key without an IV attribute.
    public func initializationVector(forSegment sequence: UInt64) -> InitializationVector? {
        if let initializationVector { return initializationVector }
        guard keyFormat == HLSKeyFormat.identity.name else { return nil }
        return InitializationVector(high: 0, low: sequence)
    }
}

extension HLSKey.Method {
    /// The METHOD as a playlist has it.
    public var name: String {
        switch self {
        case .none: "NONE"
        case .aes128: "AES-128"
        case .sampleAES: "SAMPLE-AES"
        case .sampleAESCTR: "SAMPLE-AES-CTR"
        case .aes256GCM: "AES-256-GCM"
        case .other(let name): name
        }
    }

    /// Reads a METHOD; case matters. `SAMPLE-AES-CENC` and `ISO-23001-7` are older names of `SAMPLE-AES-CTR`.
    public init(name: String) {
        switch name {
        case "NONE": self = .none
        case "AES-128": self = .aes128
        case "SAMPLE-AES": self = .sampleAES
        case "SAMPLE-AES-CTR", "SAMPLE-AES-CENC", "ISO-23001-7": self = .sampleAESCTR
        case "AES-256-GCM": self = .aes256GCM
        default: self = .other(name)
        }
    }

    /// Whether samples are encrypted, and not the whole segment.
    public var encryptsSamples: Bool { self == .sampleAES || self == .sampleAESCTR }

    /// The scheme of fragmented MP4 that the method stands for; nil for whole segments.
    public var scheme: ProtectionScheme? {
        switch self {
        case .sampleAES: .cbcs
        case .sampleAESCTR: .cenc
        default: nil
        }
    }
}

extension HLSKey: CustomStringConvertible {
    /// Method, KEYFORMAT and the URI without query, fragment and data, so that it can stand in a log.
    public var description: String {
        let place = uri.map { " \(URIReference($0).printable)" } ?? ""
        return "\(method.name.prefix(40))\(place) (\(keyFormat.prefix(64)))"
    }
}
