// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers

/// One stream of a clip, as far as its bytes tell without a key.
public struct ClipStream: Sendable, Hashable {
    /// What the clip calls it: a sample entry, a codec string or caps.
    public var name: String
    public var isProtected: Bool
    /// Nil where the codec is not known.
    public var caps: String?

    public init(name: String, isProtected: Bool, caps: String?) {
        (self.name, self.isProtected, self.caps) = (name, isProtected, caps)
    }

    init(code: String, isProtected: Bool) {
        self.init(name: code, isProtected: isProtected, caps: ClipCodec.of(code)?.caps)
    }

    // MARK: ISO media

    /// The most bytes of a `moov` box that are read.
    public static let maximumMovieSize = 32 << 20

    /// The streams of a `moov` box, header included (ISO/IEC 14496-12, 8.5). A protected sample entry names the original
    /// in its `frma` box (8.12). Tracks of other kinds than sound and video are left out.
    public static func streams(ofMovie bytes: [UInt8]) throws(FormatError) -> [ClipStream] {
        var streams: [ClipStream] = []
        for movie in try ISOBox.boxes(in: bytes, range: 0..<bytes.count) where movie.type == "moov" {
            for track in try movie.children(in: bytes) where track.type == "trak" {
                for media in try track.children(in: bytes) where media.type == "mdia" {
                    streams += try entries(ofMedia: media, in: bytes)
                }
            }
        }
        return streams
    }

    private static func entries(ofMedia media: ISOBox, in bytes: [UInt8]) throws(FormatError) -> [ClipStream] {
        let parts = try media.children(in: bytes)
        var handler = parts.first { $0.type == "hdlr" }?.reader(bytes)
        try handler?.skip(8)
        let kind = try handler?.readFourCC()
        guard kind == "vide" || kind == "soun" else { return [] }
        var found: [ClipStream] = []
        for information in parts where information.type == "minf" {
            for table in try information.children(in: bytes) where table.type == "stbl" {
                for description in try table.children(in: bytes) where description.type == "stsd" {
                    // Version, flags and count come first.
                    for entry in try description.children(in: bytes, skipping: 8) {
                        let isProtected = entry.type == "encv" || entry.type == "enca"
                        let code = isProtected ? original(of: entry, in: bytes) ?? entry.type : entry.type
                        let stream = ClipStream(code: code, isProtected: isProtected)
                        if !found.contains(stream) { found.append(stream) }
                    }
                }
            }
        }
        return found
    }

    /// The format that a `frma` box within the entry names. Searched for as bytes: entries of sound have three layouts.
    private static func original(of entry: ISOBox, in bytes: [UInt8]) -> String? {
        let body = bytes[entry.body.clamped(to: 0..<bytes.count)]
        let type = Array("frma".utf8)
        guard body.count >= 8 else { return nil }
        for start in body.startIndex...(body.endIndex - 8) where body[start] == type[0] {
            if Array(body[start..<start + 4]) == type {
                return String(decoding: body[start + 4..<start + 8], as: UTF8.self)
            }
        }
        return nil
    }

    // MARK: Manifests

    /// The codecs that a manifest names: `CODECS` of HLS (RFC 8216, 4.3.4.2), `codecs` of DASH (ISO/IEC 23009-1, 5.3.7),
    /// `FourCC` of Smooth Streaming. Nil for what is no manifest; empty where none is named.
    public static func streams(ofManifest text: String) -> [ClipStream]? {
        let start = text.prefix(4096).lowercased()
        let isManifest =
            start.contains("#extm3u") || start.contains("<mpd") || start.contains("<smoothstreamingmedia")
        guard isManifest else { return nil }
        let isProtected = ["ext-x-key:", "ext-x-session-key:", "contentprotection", "<protectionheader"]
            .contains { text.lowercased().contains($0) }
        var streams: [ClipStream] = []
        for value in values(of: ["codecs", "fourcc"], in: text) {
            for code in value.split(whereSeparator: { $0 == "," || $0 == " " }) {
                let stream = ClipStream(code: String(code), isProtected: isProtected)
                if !streams.contains(where: { $0.caps == stream.caps }) { streams.append(stream) }
            }
        }
        return streams
    }

    /// The values in quotation marks behind `NAME=`.
    private static func values(of names: [String], in text: String) -> [String] {
        text.split(whereSeparator: { $0 == "\n" || $0 == "\r\n" || $0 == ">" }).flatMap { line -> [String] in
            let parts = line.split(separator: "=", omittingEmptySubsequences: false)
            return zip(parts, parts.dropFirst()).compactMap { name, value in
                let word = name.split(whereSeparator: { " ,:\t\"'".contains($0) }).last ?? ""
                guard names.contains(word.lowercased()), let quote = value.first, quote == "\"" || quote == "'" else {
                    return nil
                }
                return value.dropFirst().prefix { $0 != quote }.isEmpty
                    ? nil : String(value.dropFirst().prefix { $0 != quote })
            }
        }
    }
}

/// The codecs whose decoders are looked for, by the names that people, sample entries and manifests have for them.
public struct ClipCodec: Sendable, Hashable {
    /// What people say: `h264`.
    public let name: String
    /// What a decoder is asked for. Parsers give it the form that it wants, so the form is not in them; decoders of
    /// pictures with an alpha channel are not meant.
    public let caps: String
    /// Sample entries (ISO/IEC 14496-15 and others), and how RFC 6381 strings begin.
    let codes: Set<String>

    public static let all: [ClipCodec] = [
        ClipCodec(
            name: "h264", caps: "video/x-h264",
            codes: ["avc1", "avc2", "avc3", "avc4", "dva1", "dvav", "h264"]),
        ClipCodec(
            name: "h265", caps: "video/x-h265",
            codes: ["hvc1", "hev1", "dvh1", "dvhe", "hvc2", "hev2", "hevc", "h265"]),
        ClipCodec(name: "av1", caps: "video/x-av1", codes: ["av01", "dav1", "av1"]),
        ClipCodec(name: "vp9", caps: "video/x-vp9, codec-alpha=(boolean)false", codes: ["vp09", "vp9"]),
        ClipCodec(name: "vp8", caps: "video/x-vp8, codec-alpha=(boolean)false", codes: ["vp08", "vp8"]),
        ClipCodec(
            name: "aac", caps: "audio/mpeg, mpegversion=4", codes: ["mp4a", "aac", "aacl", "aach"]),
        ClipCodec(name: "mp3", caps: "audio/mpeg, mpegversion=1, layer=3", codes: ["mp3", ".mp3"]),
        ClipCodec(name: "ac3", caps: "audio/x-ac3", codes: ["ac-3", "ac3"]),
        ClipCodec(name: "eac3", caps: "audio/x-eac3", codes: ["ec-3", "eac3", "ec3"]),
        ClipCodec(name: "opus", caps: "audio/x-opus", codes: ["opus"]),
        ClipCodec(name: "flac", caps: "audio/x-flac", codes: ["flac"]),
    ]

    /// Of a sample entry, a codec string of a manifest or a name; case does not count. Nil for one that is not known.
    public static func of(_ code: String) -> ClipCodec? {
        let first = code.split(separator: ".", omittingEmptySubsequences: false).first.map(String.init) ?? code
        let key = (first.isEmpty ? code : first).lowercased()
        return all.first { $0.codes.contains(key) }
    }
}
