// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// The variables of a playlist (`EXT-X-DEFINE`; draft-pantos-hls-rfc8216bis, 4.3 and 4.4.2.3).
struct HLSVariables: Sendable {
    /// In bytes, of all names and values.
    static let maximumSize = 256 * 1024
    /// In bytes, of all the lines that values were filled into: no more than a playlist may have without.
    static let maximumResultSize = HLSPlaylist.maximumSize

    private(set) var values: [String: String] = [:]
    /// Whether the playlist has a definition. `{$` means nothing without one.
    private(set) var areUsed = false
    private var size = 0
    private var resultSize = 0
    private let imported: [String: String]
    private let query: String?

    /// `imported` are the variables of the master playlist; `url` is that of this playlist.
    init(imported: [String: String], url: URIReference) {
        self.imported = imported
        query = url.query
    }

    /// Takes one definition: the attribute list of an `EXT-X-DEFINE`.
    mutating func define(_ list: HLSAttributeList) throws(FormatError) {
        areUsed = true
        let name: String
        let value: String
        if let defined = list["NAME"] {
            guard let text = list["VALUE"] else { throw .malformed("a variable without a VALUE") }
            (name, value) = (defined, text)
        } else if let wanted = list["IMPORT"] {
            guard let text = imported[wanted] else {
                throw .malformed("variable \(wanted.prefix(64)), which the master playlist does not define")
            }
            (name, value) = (wanted, text)
        } else if let wanted = list["QUERYPARAM"] {
            guard let text = parameter(wanted) else {
                throw .malformed("variable \(wanted.prefix(64)), which the URL of the playlist does not have")
            }
            (name, value) = (wanted, text)
        } else {
            throw .malformed("a definition without NAME, IMPORT and QUERYPARAM")
        }
        guard !name.isEmpty, name.utf8.allSatisfy(Self.isNameCharacter) else {
            throw .malformed("the name of a variable")
        }
        guard values[name] == nil else { throw .malformed("variable \(name.prefix(64)) is defined twice") }
        guard !value.utf8.contains(where: { $0 < 0x20 || $0 == UInt8(ascii: "\"") }) else {
            throw .malformed("variable \(name.prefix(64)) has characters that no playlist may hold")
        }
        size += name.utf8.count + value.utf8.count
        guard size <= Self.maximumSize else { throw .tooLarge("variables of more than \(Self.maximumSize) bytes") }
        values[name] = value
    }

    /// `text` with the values for `{$name}`.
    ///
    /// Throws `malformed` for a name that no line before defined. The values are not looked into again.
    mutating func substituting(_ text: Substring) throws(FormatError) -> Substring {
        guard areUsed, text.utf8.contains(UInt8(ascii: "{")) else { return text }
        var result: [UInt8] = []
        var rest = text.utf8
        while let brace = rest.firstIndex(of: UInt8(ascii: "{")) {
            result += rest[..<brace]
            rest = rest[brace...]
            let body = rest.dropFirst(2)
            guard rest.dropFirst().first == UInt8(ascii: "$"),
                let end = body.firstIndex(where: { !Self.isNameCharacter($0) }), end > body.startIndex,
                body[end] == UInt8(ascii: "}")
            else {
                result.append(UInt8(ascii: "{"))
                rest = rest.dropFirst()
                continue
            }
            let name = String(Substring(body[..<end]))
            guard let value = values[name] else {
                throw .malformed("variable \(name.prefix(64)), which no line before defines")
            }
            result += value.utf8
            rest = body[body.index(after: end)...]
            guard resultSize + result.count <= Self.maximumResultSize else {
                throw .tooLarge("more than \(Self.maximumResultSize) bytes with the variables filled in")
            }
        }
        result += rest
        resultSize += result.count
        return Substring(String(decoding: result, as: UTF8.self))
    }

    private static func isNameCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"): true
        default: false
        }
    }

    /// The first value of a query parameter, percent-decoded.
    private func parameter(_ name: String) -> String? {
        for pair in (query ?? "").utf8.split(separator: UInt8(ascii: "&")) {
            guard let equals = pair.firstIndex(of: UInt8(ascii: "=")) else { continue }
            guard Self.percentDecoded(pair[..<equals]) == name else { continue }
            let value = Self.percentDecoded(pair[pair.index(after: equals)...])
            return value?.isEmpty == true ? nil : value
        }
        return nil
    }

    private static func percentDecoded(_ text: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        var rest = text
        while let first = rest.popFirst() {
            guard first == UInt8(ascii: "%") else {
                bytes.append(first)
                continue
            }
            let digits = rest.prefix(2)
            guard digits.count == 2, let byte = Hex.decode(Substring(digits)) else { return nil }
            bytes += byte
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
