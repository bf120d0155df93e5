// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
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

extension HLSKey {
    /// Reads the attribute list of `EXT-X-KEY` or `EXT-X-SESSION-KEY`: the text behind the colon.
    ///
    /// The URI is kept as it is written. Throws `malformed` if METHOD or URI is missing or empty, if an attribute stands
    /// there twice, and if a value cannot be read. Unknown methods and formats are read: the code that chooses a key refuses
    /// them.
    public init(attributeList: some StringProtocol) throws(FormatError) {
        try self.init(try HLSAttributeList(parsing: attributeList))
    }

    init(_ list: HLSAttributeList) throws(FormatError) {
        if let name = list.repeatedName { throw .malformed("\(name.prefix(40)) stands there twice") }
        guard let name = list["METHOD"], !name.isEmpty else { throw .malformed("no METHOD") }
        method = Method(name: name)
        keyFormat = list["KEYFORMAT"] ?? HLSKeyFormat.identity.name
        keyFormatVersions = [1]
        guard method != .none else {
            // RFC 8216 forbids other attributes here, and they would mean nothing.
            self = .none
            return
        }
        guard let uri = list["URI"] else { throw .malformed("no URI") }
        guard !Self.namesNothing(uri) else { throw .malformed("an empty URI") }
        guard !(uri + keyFormat).utf8.contains(where: { $0 < 0x20 }) else {
            throw .malformed("a control character in URI or KEYFORMAT")
        }
        self.uri = uri
        if let versions = list["KEYFORMATVERSIONS"] { keyFormatVersions = try Self.versions(versions) }
        if let digits = list["IV"] {
            initializationVector = try Self.hexadecimal(digits, name: "IV")
            if method == .aes256GCM { throw .malformed("an IV, which \(method.name) forbids") }
        }
        if let digits = list["KEYID"] {
            keyID = KeyID(try Self.hexadecimal(digits, name: "KEYID").bytes)
        }
        // The IV of each sample stands in the media. Packagers that write one here mean nothing by it.
        if method == .sampleAESCTR { initializationVector = nil }
    }

    /// The key as an attribute list that this type reads again: METHOD, URI, KEYID, IV, KEYFORMATVERSIONS, KEYFORMAT.
    public var attributeList: String {
        guard method != .none else { return "METHOD=NONE" }
        var attributes = [HLSAttribute(name: "METHOD", value: method.name, isQuoted: false)]
        if let uri { attributes.append(HLSAttribute(name: "URI", value: uri, isQuoted: true)) }
        if let keyID { attributes.append(HLSAttribute(name: "KEYID", value: "0x\(keyID)", isQuoted: false)) }
        if let vector = initializationVector {
            attributes.append(HLSAttribute(name: "IV", value: "0x\(Hex.encode(vector.bytes))", isQuoted: false))
        }
        let isPlain = keyFormat == HLSKeyFormat.identity.name && keyFormatVersions == [1]
        if !isPlain {
            let versions = keyFormatVersions.map(String.init).joined(separator: "/")
            attributes.append(HLSAttribute(name: "KEYFORMATVERSIONS", value: versions, isQuoted: true))
            attributes.append(HLSAttribute(name: "KEYFORMAT", value: keyFormat, isQuoted: true))
        }
        return HLSAttributeList(attributes).text
    }

    /// "skd://" names no asset, and an empty reference would be the playlist itself.
    private static func namesNothing(_ uri: String) -> Bool {
        let reference = URIReference(uri)
        return reference.path.isEmpty && reference.query == nil && (reference.authority ?? "").isEmpty
    }

    /// `1/2/5`.
    private static func versions(_ text: String) throws(FormatError) -> [Int] {
        var versions: [Int] = []
        for part in text.split(separator: "/", maxSplits: 64, omittingEmptySubsequences: false) {
            guard let version = hlsInteger(part).flatMap({ Int(exactly: $0) }) else {
                throw .malformed("KEYFORMATVERSIONS is no list of numbers")
            }
            versions.append(version)
        }
        return versions
    }

    /// A hexadecimal-sequence of up to 128 bits. It is a number: fewer digits mean zeros in front.
    private static func hexadecimal(_ text: String, name: String) throws(FormatError) -> InitializationVector {
        let digits = text.dropFirst(2)
        guard text.hasPrefix("0x") || text.hasPrefix("0X"), 1...32 ~= digits.utf8.count,
            let bytes = Hex.decode(String(repeating: "0", count: 32 - digits.utf8.count) + digits),
            let number = InitializationVector(bytes)
        else { throw .malformed("\(name) is not 0x and up to 32 hexadecimal digits") }
        return number
    }
}

extension HLSKey {
    /// The initialization data that names this key to a key session, as a box to put in media.
    ///
    /// Version 1: the protection system of the KEYFORMAT, `keyID` as the only KID, and the attribute list as text for
    /// Data. The URI should be absolute.
    public func initializationData(keyID: KeyID) -> PSSHBox {
        PSSHBox(
            system: HLSKeyFormat(keyFormat).protectionSystem, keyIDs: [keyID], data: Array(attributeList.utf8))
    }

    /// The key that a box of `initializationData(keyID:)` names; nil for any other box.
    public static func key(in box: PSSHBox) -> HLSKey? {
        guard box.data.starts(with: "METHOD=".utf8), let text = String(validating: box.data, as: UTF8.self),
            let key = try? HLSKey(attributeList: text), key.method != .none,
            HLSKeyFormat(key.keyFormat).protectionSystem == box.system
        else { return nil }
        return key
    }
}

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
