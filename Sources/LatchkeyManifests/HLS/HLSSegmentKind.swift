// SPDX-License-Identifier: MPL-2.0

/// What the media segments of a playlist are (RFC 8216, 3).
public enum HLSSegmentKind: Hashable, Sendable {
    /// MPEG-2 transport stream (RFC 8216, 3.2).
    case transportStream
    /// AAC, AC-3, E-AC-3 or MP3 frames behind an ID3 tag (RFC 8216, 3.4).
    case packedAudio
    /// Fragments behind an `EXT-X-MAP` (RFC 8216, 3.3).
    case fragmentedMP4
    /// Subtitles, never encrypted by samples (RFC 8216, 3.5).
    case webVTT

    /// A guess from the file name at the end of a URL's path.
    public init?(url: String) {
        let name = URIReference(url).path.utf8.split(separator: UInt8(ascii: "/")).last
        guard let name, let dot = name.lastIndex(of: UInt8(ascii: ".")) else { return nil }
        switch Substring(name[name.index(after: dot)...]).lowercased() {
        case "ts", "tsv", "tsa", "m2ts", "mts", "m2t": self = .transportStream
        case "aac", "ac3", "ec3", "eac3", "adts", "mp3": self = .packedAudio
        case "mp4", "m4s", "m4v", "m4a", "m4f", "cmfv", "cmfa", "cmft", "cmfm", "frag": self = .fragmentedMP4
        case "vtt", "webvtt": self = .webVTT
        default: return nil
        }
    }

    /// A guess from the first bytes of a segment that is not encrypted as a whole; 377 bytes are enough.
    public init?(firstBytes bytes: some Collection<UInt8>) {
        let bytes = Array(bytes.prefix(1024))
        let sync = UInt8(ascii: "G")
        let boxes = ["styp", "ftyp", "moof", "moov", "sidx", "emsg", "prft"].map { Array($0.utf8) }
        let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
        if text.starts(with: "WEBVTT".utf8) {
            self = .webVTT
        } else if bytes.starts(with: "ID3".utf8) || bytes.starts(with: [0x0B, 0x77]) {
            self = .packedAudio
        } else if bytes.count >= 8, boxes.contains(Array(bytes[4..<8])) {
            self = .fragmentedMP4
        } else if bytes.first == sync, stride(from: 0, to: bytes.count, by: 188).allSatisfy({ bytes[$0] == sync }) {
            self = .transportStream
        } else if bytes.count >= 2, bytes[0] == 0xFF, bytes[1] & 0xE0 == 0xE0 {
            self = .packedAudio
        } else {
            return nil
        }
    }
}
