// SPDX-License-Identifier: MPL-2.0

/// The `Content-Type` of media files, by the ending of the name.
enum MediaTypes {
    /// `path` may have folders in front.
    static func contentType(ofFile path: String) -> String {
        let name = path[(path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex)...]
        guard let dot = name.lastIndex(of: ".") else {
            // A Smooth Streaming manifest has no ending.
            return name.lowercased() == "manifest" ? "application/vnd.ms-sstr+xml" : fallback
        }
        return types[name[name.index(after: dot)...].lowercased()] ?? fallback
    }

    private static let fallback = "application/octet-stream"

    private static let types = [
        "aac": "audio/aac", "ac3": "audio/ac3", "ac4": "audio/ac4", "adts": "audio/aac", "cmfa": "audio/mp4",
        "cmft": "application/mp4", "cmfv": "video/mp4", "ec3": "audio/eac3", "eac3": "audio/eac3",
        "flac": "audio/flac", "htm": "text/html", "html": "text/html", "isma": "audio/mp4",
        "ismc": "application/vnd.ms-sstr+xml", "ismv": "video/mp4", "jpeg": "image/jpeg", "jpg": "image/jpeg",
        "json": "application/json", "m2ts": "video/mp2t", "m3u": "application/vnd.apple.mpegurl",
        "m3u8": "application/vnd.apple.mpegurl", "m4a": "audio/mp4", "m4f": "video/iso.segment",
        "m4s": "video/iso.segment", "m4v": "video/mp4", "mka": "audio/x-matroska", "mkv": "video/x-matroska",
        "mov": "video/quicktime", "mp3": "audio/mpeg", "mp4": "video/mp4", "mp4a": "audio/mp4",
        "mpd": "application/dash+xml", "ogg": "audio/ogg", "opus": "audio/ogg", "png": "image/png",
        "srt": "application/x-subrip", "ts": "video/mp2t", "ttml": "application/ttml+xml",
        "txt": "text/plain; charset=utf-8", "vtt": "text/vtt", "wav": "audio/wav", "webm": "video/webm",
        "xml": "application/xml",
    ]
}
