// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials

/// Base64 text (RFC 4648), in the spellings that manifests and licenses use.
public enum Base64 {
    /// The standard alphabet with padding, in one line.
    public static func encode(_ bytes: some Collection<UInt8>) -> String { Data(bytes).base64EncodedString() }

    /// The URL-safe alphabet without padding, as JSON Web Keys have it (RFC 7515, 2).
    public static func encodeURLSafe(_ bytes: some Collection<UInt8>) -> String {
        var text = ""
        for character in Data(bytes).base64EncodedString() {
            switch character {
            case "+": text.append("-")
            case "/": text.append("_")
            case "=": break
            default: text.append(character)
            }
        }
        return text
    }

    /// The bytes that `text` spells in either alphabet, with or without padding; nil for anything else.
    ///
    /// White space is not skipped.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? { decode(text.utf8) }

    /// The same of characters, of which no copy is made: they may be secret.
    package static func decode(_ characters: some Collection<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(characters.count / 4 * 3 + 3)
        var (bits, count, padding) = (UInt32(0), 0, 0)
        for character in characters {
            if character == UInt8(ascii: "=") {
                padding += 1
                continue
            }
            guard padding == 0, let value = value(of: character) else { return nil }
            bits = bits << 6 | value
            count += 1
            guard count % 4 == 0 else { continue }
            for shift: UInt32 in [16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: bits >> shift)) }
        }
        let missing = (4 - count % 4) % 4
        guard missing < 3, padding == 0 || padding == missing else { return nil }
        bits <<= UInt32(missing * 6)
        for place in 0..<(3 - missing) where missing > 0 {
            bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(16 - 8 * place)))
        }
        return bytes
    }

    private static func value(of character: UInt8) -> UInt32? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+"), UInt8(ascii: "-"): 62
        case UInt8(ascii: "/"), UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
