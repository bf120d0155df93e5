// SPDX-License-Identifier: MPL-2.0

/// Looks at a JSON text (RFC 8259) before Foundation's decoder does, which traps on texts that open more than 512 arrays or
/// objects and do not close them.
public enum JSONNesting {
    /// How deep the texts are that services and media have any use for.
    public static let maximumDepth = 64

    /// Whether a text in UTF-8 nests arrays and objects no deeper than `maximumDepth`. False for other encodings, which the
    /// decoder would also read: they have zero bytes. Says nothing else about the text. Takes one pass.
    public static func isBounded(_ text: some Sequence<UInt8>) -> Bool {
        var depth = 0
        var isInString = false
        var isEscaped = false
        for byte in text {
            switch byte {
            case 0: return false
            case _ where isEscaped: isEscaped = false
            case UInt8(ascii: "\\") where isInString: isEscaped = true
            case UInt8(ascii: "\""): isInString.toggle()
            case _ where isInString: break
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                guard depth <= maximumDepth else { return false }
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            default: break
            }
        }
        return true
    }
}
