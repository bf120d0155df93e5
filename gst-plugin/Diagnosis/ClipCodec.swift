// SPDX-License-Identifier: MPL-2.0

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
