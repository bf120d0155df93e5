// SPDX-License-Identifier: MPL-2.0

/// One line of a playlist (RFC 8216, 4.1). A value that shares its text with the playlist.
public struct HLSLine: Hashable, Sendable {
    /// What a line is (RFC 8216, 4.1).
    public enum Content: Hashable, Sendable {
        /// Nothing, or white space only.
        case blank
        /// A line that starts with `#` and not with `#EXT`.
        case comment
        /// `#NAME` or `#NAME:VALUE`, without the number sign.
        case tag(name: Substring, value: Substring?)
        /// A URI line, without the white space around it.
        case uri(Substring)
    }

    /// The number of the line in the playlist, from 1.
    public var number: Int
    /// Without the line end. A carriage return ends the line here too, because it does for the stock demuxer.
    public var text: Substring
    /// What stands between `text` and the next line: `\n`, `\r\n`, or nothing at the end of the playlist.
    public var ending: Substring

    /// Found anew at each call, from `text` alone. The value of a tag is not looked into.
    public var content: Content {
        guard let first = text.utf8.first else { return .blank }
        guard first == UInt8(ascii: "#") else {
            let trimmed = Self.trimmed(text)
            return trimmed.isEmpty ? .blank : .uri(trimmed)
        }
        guard text.utf8.starts(with: "#EXT".utf8) else { return .comment }
        let body = text.utf8.dropFirst()
        guard let colon = body.firstIndex(of: UInt8(ascii: ":")) else {
            return .tag(name: Self.trimmed(Substring(body)), value: nil)
        }
        return .tag(name: Substring(body[..<colon]), value: Substring(body[body.index(after: colon)...]))
    }

    private static func trimmed(_ text: Substring) -> Substring {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
        let start = text.utf8.drop(while: isSpace)
        guard let last = start.lastIndex(where: { !isSpace($0) }) else { return "" }
        return Substring(start[...last])
    }
}
