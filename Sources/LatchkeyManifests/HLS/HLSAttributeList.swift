// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// One `NAME=value` of an attribute list (RFC 8216, 4.2).
public struct HLSAttribute: Hashable, Sendable {
    /// The AttributeName, compared to the letter.
    public var name: String
    /// Without the quotes of a quoted string.
    public var value: String
    /// Whether the playlist has quotes around the value, which is part of the attribute's type (RFC 8216, 4.2).
    public var isQuoted: Bool

    /// Checks nothing: `text` makes an unquoted value with a comma into two attributes.
    public init(name: String, value: String, isQuoted: Bool) {
        self.name = name
        self.value = value
        self.isQuoted = isQuoted
    }

    /// As it stands in a playlist. A quote and a line end, which no value can hold, are percent-encoded.
    public var text: String {
        var value = value
        if isQuoted, value.utf8.contains(where: { "\"\r\n".utf8.contains($0) }) {
            value = value.unicodeScalars.map { scalar in
                switch scalar {
                case "\"": "%22"
                case "\r": "%0D"
                case "\n": "%0A"
                default: String(scalar)
                }
            }.joined()
        }
        return isQuoted ? "\(name)=\"\(value)\"" : "\(name)=\(value)"
    }
}

/// The attribute list of a tag (RFC 8216, 4.2), in the order of the line.
///
/// Read leniently where players are: spaces and tabs around names, values and commas are dropped, a comma too many is
/// stepped over. A quoted string that never ends, a name without a value and an empty name are malformed.
public struct HLSAttributeList: Hashable, Sendable {
    /// The most attributes that are read.
    public static let maximumCount = 512

    /// Repeats included; see `repeatedName`.
    public var attributes: [HLSAttribute]

    /// A list to be written. The order is kept.
    public init(_ attributes: [HLSAttribute]) { self.attributes = attributes }

    /// Reads the text behind the colon of a tag. Throws `malformed` as said above, and `tooLarge` above `maximumCount`.
    public init(parsing text: some StringProtocol) throws(FormatError) {
        attributes = []
        var rest = Substring(text).utf8
        while true {
            rest = Self.skippingSpace(rest)
            guard let first = rest.first else { return }
            if first == Self.comma {
                rest = rest.dropFirst()
                continue
            }
            guard attributes.count < Self.maximumCount else {
                throw .tooLarge("an attribute list of more than \(Self.maximumCount) attributes")
            }
            attributes.append(try Self.nextAttribute(&rest))
        }
    }

    private static let comma = UInt8(ascii: ",")
    private static let quote = UInt8(ascii: "\"")

    private static func nextAttribute(_ rest: inout Substring.UTF8View) throws(FormatError) -> HLSAttribute {
        guard let equals = rest.firstIndex(where: { $0 == UInt8(ascii: "=") || $0 == comma || $0 == quote }),
            rest[equals] == UInt8(ascii: "=")
        else { throw .malformed("an attribute without a value") }
        let name = trimmed(rest[..<equals])
        guard !name.isEmpty else { throw .malformed("an attribute without a name") }
        rest = skippingSpace(rest[rest.index(after: equals)...])
        if rest.first == quote {
            rest = rest.dropFirst()
            guard let end = rest.firstIndex(of: quote) else {
                throw .malformed("the quoted string of \(printable(name)) does not end")
            }
            let value = String(Substring(rest[..<end]))
            rest = skippingSpace(rest[rest.index(after: end)...])
            guard rest.isEmpty || rest.first == comma else {
                throw .malformed("text behind the quoted string of \(printable(name))")
            }
            return HLSAttribute(name: String(Substring(name)), value: value, isQuoted: true)
        }
        let end = rest.firstIndex(of: comma) ?? rest.endIndex
        let value = trimmed(rest[..<end])
        rest = rest[end...]
        guard !value.contains(quote) else { throw .malformed("a quote within the value of \(printable(name))") }
        return HLSAttribute(name: String(Substring(name)), value: String(Substring(value)), isQuoted: false)
    }

    /// Where what follows each `URI=` begins, in a list that cannot be read.
    static func uris(inUnread text: Substring) -> [Substring.Index] {
        var starts: [Substring.Index] = []
        var rest = text.utf8
        while let name = rest.firstRange(of: "URI".utf8) {
            rest = skippingSpace(rest[name.upperBound...])
            if rest.first == UInt8(ascii: "=") { starts.append(rest.index(after: rest.startIndex)) }
        }
        return starts
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    private static func skippingSpace(_ text: Substring.UTF8View) -> Substring.UTF8View {
        text.drop(while: isSpace)
    }

    private static func trimmed(_ text: Substring.UTF8View) -> Substring.UTF8View {
        let start = skippingSpace(text)
        guard let last = start.lastIndex(where: { !isSpace($0) }) else {
            return start[start.startIndex..<start.startIndex]
        }
        return start[...last]
    }

    private static func printable(_ name: Substring.UTF8View) -> String {
        String(decoding: name.prefix(40).map { 0x20..<0x7F ~= $0 ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
    }

    /// The value of the first attribute of this name.
    public subscript(name: String) -> String? { attributes.first { $0.name == name }?.value }

    /// The name of an attribute that stands there more than once, which RFC 8216 forbids.
    public var repeatedName: String? {
        var names: Set<String> = []
        return attributes.first { !names.insert($0.name).inserted }?.name
    }

    /// The list as it stands in a playlist, without the spaces.
    public var text: String { attributes.map(\.text).joined(separator: ",") }
}
