// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyContainers

/// A playlist as its lines (RFC 8216, 4), with nothing lost: `serialized()` gives the same bytes back.
public struct HLSPlaylist: Hashable, Sendable {
    /// The two kinds that RFC 8216, 4 knows.
    public enum Kind: Hashable, Sendable {
        /// A multivariant playlist: names other playlists.
        case master
        /// Names segments.
        case media
    }

    /// The largest playlist that is read, in bytes.
    public static let maximumSize = 16 * 1024 * 1024
    /// The most lines that are read: four for each segment of two seconds are 172,800 a day.
    public static let maximumLines = 200_000
    /// The most `EXT-X-KEY` tags that are read, and the most `EXT-X-MAP` tags, if nothing else is set: a key that changes every
    /// 44 s changes 2,000 times a day.
    public static let defaultKeyLimit = 2_000
    /// The most of both together that can be set: one for each segment of four seconds are 21,600 a day.
    public static let maximumKeysAndMaps = 25_000
    /// In bytes: what the playlists of a presentation may take of memory as long as they are played, if nothing else is set. A day
    /// in segments of two seconds, pictures and sound, are 86,400 segments of 582 bytes each. With AES-128, one counts 256 bytes,
    /// its URL and its lines. With SAMPLE-AES and an IV of its own, it counts 336 bytes, its URL and its lines.
    public static let defaultMemoryLimit = 48 * 1024 * 1024
    /// The most of it that can be set, in bytes.
    public static let maximumMemoryLimit = 1024 * 1024 * 1024
    /// In bytes, of one line. Keys of some systems stand in `data:` URIs of tens of kilobytes.
    public static let maximumLineSize = 1024 * 1024

    /// Told by the tags; a playlist that has none of either kind counts as a media playlist.
    public let kind: Kind
    /// All of them, blank lines and comments included; `HLSLine.number` is the index plus one.
    public let lines: [HLSLine]
    /// Whether the bytes start with U+FEFF, which is none of the lines.
    public let hasByteOrderMark: Bool

    /// Reads a playlist.
    ///
    /// Throws `tooLarge` above the limits, and `malformed` for bytes that are not UTF-8, for a NUL, where the first line
    /// is not `#EXTM3U`, and for a playlist that is both a master and a media playlist. Error texts name the line.
    public init(_ bytes: some Collection<UInt8>) throws(FormatError) {
        guard bytes.count <= Self.maximumSize else {
            throw .tooLarge("a playlist of \(bytes.count) bytes; \(Self.maximumSize) are read")
        }
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        hasByteOrderMark = bytes.starts(with: mark)
        guard let text = String(validating: bytes.dropFirst(hasByteOrderMark ? 3 : 0), as: UTF8.self) else {
            throw .malformed("a playlist that is not UTF-8")
        }
        lines = try Self.lines(of: text)
        guard let first = lines.first, first.text.utf8.starts(with: "#EXTM3U".utf8) else {
            throw .malformed("line 1: no #EXTM3U, so this is no playlist")
        }
        kind = try Self.kind(of: lines)
    }

    /// The bytes that were read.
    public func serialized() -> [UInt8] {
        var bytes: [UInt8] = hasByteOrderMark ? [0xEF, 0xBB, 0xBF] : []
        for line in lines {
            bytes += line.text.utf8
            bytes += line.ending.utf8
        }
        return bytes
    }

    private static func lines(of text: String) throws(FormatError) -> [HLSLine] {
        var lines: [HLSLine] = []
        var rest = text[...].utf8
        while !rest.isEmpty {
            let number = lines.count + 1
            guard number <= maximumLines else { throw .tooLarge("a playlist of more than \(maximumLines) lines") }
            let newline = rest.firstIndex(of: UInt8(ascii: "\n"))
            let next = newline.map { rest.index(after: $0) } ?? rest.endIndex
            let line = rest[..<(newline ?? rest.endIndex)]
            guard line.count <= maximumLineSize else {
                throw .tooLarge("line \(number): \(line.count) bytes; \(maximumLineSize) are read")
            }
            guard !line.contains(0) else { throw .malformed("line \(number): a NUL character") }
            let end = line.firstIndex(of: UInt8(ascii: "\r")) ?? line.endIndex
            lines.append(
                HLSLine(number: number, text: Substring(line[..<end]), ending: Substring(rest[end..<next])))
            rest = rest[next...]
        }
        return lines
    }

    /// By the tags that stand for what a playlist names; without any, by the others.
    private static func kind(of lines: [HLSLine]) throws(FormatError) -> Kind {
        var (namesPlaylists, namesSegments, looksLikeMaster) = (false, false, false)
        for line in lines {
            guard line.text.utf8.first == UInt8(ascii: "#"), case .tag(let name, _) = line.content else { continue }
            switch name {
            case "EXT-X-STREAM-INF", "EXT-X-I-FRAME-STREAM-INF": namesPlaylists = true
            case "EXTINF", "EXT-X-PART": namesSegments = true
            case "EXT-X-MEDIA", "EXT-X-SESSION-KEY", "EXT-X-SESSION-DATA", "EXT-X-CONTENT-STEERING":
                looksLikeMaster = true
            default: break
            }
            if namesPlaylists, namesSegments {
                throw .malformed("line \(line.number): a playlist that is both a master and a media playlist")
            }
        }
        return namesPlaylists || looksLikeMaster && !namesSegments ? .master : .media
    }
}

extension HLSPlaylist {
    /// How many bytes `isKeyed(start:)` and `blocksReload(start:)` want to see.
    public static let recognitionSize = 4096

    /// Whether the first bytes of a playlist say that its server waits with the next version until there is something new in it
    /// (`CAN-BLOCK-RELOAD`; draft-pantos-hls-rfc8216bis, 4.4.3.8).
    public static func blocksReload(start: [UInt8]) -> Bool {
        start.prefix(recognitionSize).split(separator: UInt8(ascii: "\n")).contains { line in
            line.starts(with: "#EXT-X-SERVER-CONTROL:".utf8) && line.firstRange(of: "CAN-BLOCK-RELOAD=YES".utf8) != nil
        }
    }

    /// Whether the first bytes of a file are those of a playlist with keys: one of their lines is an `EXT-X-SESSION-KEY` or an
    /// `EXT-X-KEY`. Playlists of other kinds begin with `#EXTM3U` too, and have no such lines. The bytes may end anywhere behind
    /// the name of the tag.
    public static func isKeyed(start: [UInt8]) -> Bool {
        let start = start.prefix(recognitionSize)
        guard start.starts(with: "#EXTM3U".utf8) else { return false }
        return start.split(separator: UInt8(ascii: "\n")).contains { line in
            ["#EXT-X-SESSION-KEY:", "#EXT-X-KEY:"].contains { line.starts(with: $0.utf8) }
        }
    }
}

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

/// What a player asks of the server of a live playlist, in the query of its URL (draft-pantos-hls-rfc8216bis, 6.2.5).
public enum HLSDeliveryDirectives {
    /// `url` with the directives of `query`: all parameters whose names start with `_HLS_`. Those that `url` has of that
    /// kind go.
    ///
    /// `query` is that of the URL under which the demuxer was given the playlist, and nothing else of it goes further.
    public static func forwarding(_ query: String, to url: String) -> String {
        let isDirective: (Substring) -> Bool = { $0.utf8.starts(with: "_HLS_".utf8) }
        let directives = query.split(separator: "&").filter { isDirective($0) && $0.utf8.allSatisfy(isPlain) }
        var reference = URIReference(url)
        guard !directives.isEmpty else { return url }
        let kept = (reference.query ?? "").split(separator: "&").filter { !isDirective($0) }
        reference.query = (kept + directives).joined(separator: "&")
        return reference.text
    }

    /// Without asking for what another playlist has more (`EXT-X-SKIP`).
    package static func withoutSkip(_ query: String) -> String {
        query.split(separator: "&").filter { !$0.hasPrefix("_HLS_skip=") }.joined(separator: "&")
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "_-.=~%".utf8.contains(byte)
        }
    }
}
