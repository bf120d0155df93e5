// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Reads a JSON text (RFC 8259) with keys in it: in place, so that the texts that it returns are the only copies.
///
/// Values that nobody asks for are skipped, and looked at only as far as that takes. A member that comes twice is given
/// twice. Characters outside ASCII that are escaped are read as “?”.
struct JSONReader {
    struct Malformed: Error {}

    private let text: [UInt8]
    private var position: Int
    private var depth = 0

    /// A mark of the byte order at the start is passed over.
    init(_ text: [UInt8]) {
        self.text = text
        position = text.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
    }

    /// Reads an object. `member` reads the value, or skips it.
    mutating func object(
        _ member: (_ name: [UInt8], _ reader: inout JSONReader) throws(Malformed) -> Void
    ) throws(Malformed) {
        try items(from: "{", to: "}") { reader throws(Malformed) in
            try reader.take("\"")
            let name = try reader.restOfString()
            try reader.take(":")
            try member(name, &reader)
        }
    }

    /// Reads a list. `item` reads a value, or skips it.
    mutating func list(_ item: (_ reader: inout JSONReader) throws(Malformed) -> Void) throws(Malformed) {
        try items(from: "[", to: "]", item)
    }

    /// Reads a text; nil for a value of another kind, which is skipped. The caller wipes it if it is secret.
    mutating func string() throws(Malformed) -> [UInt8]? {
        guard takes("\"") else {
            try skip()
            return nil
        }
        return try restOfString()
    }

    /// Passes over a value.
    mutating func skip() throws(Malformed) {
        switch next {
        case UInt8(ascii: "{"): try object { _, reader throws(Malformed) in try reader.skip() }
        case UInt8(ascii: "["): try list { reader throws(Malformed) in try reader.skip() }
        case UInt8(ascii: "\""):
            position += 1
            position = try endOfString() + 1
        default:
            let word = text[position...].prefix { Self.isOfWord($0) }
            guard let first = word.first else { throw Malformed() }
            let isNumber = first == UInt8(ascii: "-") || 0x30...0x39 ~= first
            guard isNumber || ["true", "false", "null"].contains(where: { word.elementsEqual($0.utf8) }) else {
                throw Malformed()
            }
            position = word.endIndex
        }
    }

    /// Nothing may come after the value.
    mutating func end() throws(Malformed) {
        guard next == nil else { throw Malformed() }
    }

    // MARK: Parts

    private mutating func items(
        from opening: Unicode.Scalar, to closing: Unicode.Scalar, _ item: (inout JSONReader) throws(Malformed) -> Void
    ) throws(Malformed) {
        try take(opening)
        depth += 1
        guard depth <= JSONNesting.maximumDepth else { throw Malformed() }
        if !takes(closing) {
            repeat { try item(&self) } while takes(",")
            try take(closing)
        }
        depth -= 1
    }

    /// What comes after white space.
    private var next: UInt8? {
        mutating get {
            while position < text.count, [0x20, 0x09, 0x0A, 0x0D].contains(text[position]) { position += 1 }
            return position < text.count ? text[position] : nil
        }
    }

    private mutating func takes(_ character: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    private mutating func take(_ character: Unicode.Scalar) throws(Malformed) {
        guard takes(character) else { throw Malformed() }
    }

    private static func isOfWord(_ byte: UInt8) -> Bool {
        0x30...0x39 ~= byte || 0x41...0x5A ~= byte || 0x61...0x7A ~= byte || [0x2B, 0x2D, 0x2E].contains(byte)
    }

    /// Behind the opening quotation mark.
    private mutating func restOfString() throws(Malformed) -> [UInt8] {
        let end = try endOfString()
        var characters: [UInt8] = []
        // It does not grow: that would leave a copy behind.
        characters.reserveCapacity(end - position)
        while position < end {
            let character = text[position]
            position += 1
            characters.append(character == UInt8(ascii: "\\") ? try escapedCharacter() : character)
        }
        position = end + 1
        return characters
    }

    /// Where the closing quotation mark is.
    private func endOfString() throws(Malformed) -> Int {
        var place = position
        while place < text.count {
            switch text[place] {
            case UInt8(ascii: "\""): return place
            case UInt8(ascii: "\\"): place += 2
            default: place += 1
            }
        }
        throw Malformed()
    }

    /// Behind the backslash.
    private mutating func escapedCharacter() throws(Malformed) -> UInt8 {
        guard position < text.count else { throw Malformed() }
        let character = text[position]
        position += 1
        switch character {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return character
        case UInt8(ascii: "b"): return 0x08
        case UInt8(ascii: "f"): return 0x0C
        case UInt8(ascii: "n"): return 0x0A
        case UInt8(ascii: "r"): return 0x0D
        case UInt8(ascii: "t"): return 0x09
        case UInt8(ascii: "u"):
            guard let value = Hex.decode(String(decoding: text[position...].prefix(4), as: UTF8.self)), value.count == 2
            else { throw Malformed() }
            position += 4
            return value[0] == 0 && value[1] < 0x80 ? value[1] : UInt8(ascii: "?")
        default: throw Malformed()
        }
    }
}
