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
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var characters: [UInt8] = []
        characters.reserveCapacity(text.utf8.count + 3)
        var padding = 0
        for character in text.utf8 {
            if character == UInt8(ascii: "=") {
                padding += 1
                continue
            }
            guard padding == 0 else { return nil }
            switch character {
            case UInt8(ascii: "-"): characters.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): characters.append(UInt8(ascii: "/"))
            default: characters.append(character)
            }
        }
        let missing = (4 - characters.count % 4) % 4
        guard missing < 3, padding == 0 || padding == missing else { return nil }
        characters.append(contentsOf: repeatElement(UInt8(ascii: "="), count: missing))
        return Data(base64Encoded: Data(characters)).map { Array($0) }
    }
}
