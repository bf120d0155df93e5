// SPDX-License-Identifier: MPL-2.0

/// What a content URL is expected to point to.
public enum ContentType: String, Sendable, CaseIterable {
    /// A playlist of HTTP Live Streaming (RFC 8216), master or media.
    case hls
    /// A client manifest of Smooth Streaming ([MS-SSTR]).
    case smoothStreaming = "smooth"
    /// A PIFF file, `.ismv` or `.isma`, local or at a web server.
    case piff
    /// A manifest of DASH (ISO/IEC 23009-1).
    case dash
    /// An MP4 file, fragmented or not, local or at a web server.
    case mp4

    /// A guess from the end of the URL's path, for people who type URLs. Nil where it tells nothing.
    public init?(url: String) {
        let path = url.prefix { $0 != "?" && $0 != "#" }.lowercased()
        if path.hasSuffix(".m3u8") || path.hasSuffix(".m3u") {
            self = .hls
        } else if path.hasSuffix("/manifest") || path.hasSuffix(".ismc") || path.hasSuffix(".ism") {
            self = .smoothStreaming
        } else if path.hasSuffix(".ismv") || path.hasSuffix(".isma") {
            self = .piff
        } else if path.hasSuffix(".mpd") {
            self = .dash
        } else if [".mp4", ".m4v", ".m4a", ".mov"].contains(where: path.hasSuffix) {
            self = .mp4
        } else {
            return nil
        }
    }

    /// What people call it, in a sentence.
    var name: String {
        switch self {
        case .hls: "HLS playlist"
        case .smoothStreaming: "Smooth Streaming manifest"
        case .piff: "PIFF file"
        case .dash: "DASH manifest"
        case .mp4: "MP4 file"
        }
    }
}
