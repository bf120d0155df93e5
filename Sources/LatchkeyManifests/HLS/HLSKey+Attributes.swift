// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

extension HLSKey {
    /// Reads the attribute list of `EXT-X-KEY` or `EXT-X-SESSION-KEY`: the text behind the colon.
    ///
    /// The URI is kept as it is written. Throws `malformed` where METHOD or URI is missing or empty, where an attribute
    /// stands there twice, and where a value cannot be read. Unknown methods and formats are read: whoever chooses a key
    /// refuses them.
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
