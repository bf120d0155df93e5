// SPDX-License-Identifier: MPL-2.0

/// What servers and networks send, with a status of success, in the place of media, playlists and manifests: the log-in page of
/// a captive portal, an error in JSON, XML or words, an image. Only what is surely no content counts. The text is for people.
package enum ForeignContent: String, Sendable {
    case webPage = "a web page"
    case json = "JSON"
    case xml = "an XML document"
    case text = "plain text"
    case image = "an image"

    /// What is looked at, in bytes.
    package static let size = 512

    /// Looks at the first `size` bytes, or at all of them if there are fewer. Nil for what may be content.
    ///
    /// `isPart`: the bytes are from the middle of a resource, where only a web page is surely wrong. `isEncrypted`: content would
    /// be encrypted as a whole, in blocks of 16 bytes that look random.
    package init?(start bytes: some Sequence<UInt8>, isPart: Bool = false, isEncrypted: Bool = false) {
        let bytes = Array(bytes.prefix(Self.size))
        if Self.isWebPage(start: bytes) {
            self = .webPage
        } else if isPart {
            return nil
        } else if Self.isImage(bytes) {
            self = .image
        } else if !isEncrypted || bytes.count > 48 || !bytes.count.isMultiple(of: 16),
            let kind = Self.kind(ofText: bytes)
        {
            self = kind
        } else {
            return nil
        }
    }

    /// Whether the bytes start as a page of HTML does. No content does.
    package static func isWebPage(start bytes: some Sequence<UInt8>) -> Bool {
        guard let text = behindProlog(Array(bytes.prefix(size))) else { return false }
        let start = String(decoding: text.prefix(16), as: UTF8.self).lowercased()
        return ["<!doctype html", "<html", "<head", "<body", "<script", "<meta"].contains { start.hasPrefix($0) }
    }

    /// The type in a `Content-Type` field, if no media, playlist or manifest has it; servers may give it to them all the same.
    package static func type(_ field: String) -> String? {
        let type = field.prefix { $0 != ";" && $0 != " " }.lowercased()
        let isForeign =
            type.hasPrefix("text/") && type != "text/vtt" && type != "text/xml" || type.hasPrefix("image/")
            || type == "application/json" || type.hasSuffix("+json")
        return isForeign ? type : nil
    }

    // MARK: Inside

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || 0x09...0x0D ~= byte }

    /// Without a byte order mark, and without space in front.
    private static func trimmed(_ bytes: [UInt8]) -> ArraySlice<UInt8> {
        (bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes[3...] : bytes[...]).drop(while: isSpace)
    }

    /// Behind comments and instructions of XML or HTML. Nil where these do not end.
    private static func behindProlog(_ bytes: [UInt8]) -> ArraySlice<UInt8>? {
        var text = trimmed(bytes)
        while let end = text.starts(with: "<!--".utf8) ? "-->" : text.starts(with: "<?".utf8) ? "?>" : nil {
            guard let place = text.indices.first(where: { text[$0...].starts(with: end.utf8) }) else { return nil }
            text = text[(place + end.utf8.count)...].drop(while: isSpace)
        }
        return text
    }

    /// PNG, GIF and JPEG.
    private static func isImage(_ bytes: [UInt8]) -> Bool {
        if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) { return true }
        if bytes.starts(with: "GIF87a".utf8) || bytes.starts(with: "GIF89a".utf8) { return true }
        let name = bytes.dropFirst(6).prefix(4)
        return bytes.starts(with: [0xFF, 0xD8, 0xFF])
            && (name.elementsEqual("JFIF".utf8) || name.elementsEqual("Exif".utf8))
    }

    /// Nil for what is no text, and for text that may be a playlist, a manifest or subtitles.
    private static func kind(ofText bytes: [UInt8]) -> ForeignContent? {
        guard isText(bytes) else { return nil }
        let text = trimmed(bytes)
        guard let first = text.first else { return nil }
        let second = text.dropFirst().first { !isSpace($0) }
        switch first {
        case UInt8(ascii: "<"): return isForeignXML(bytes) ? .xml : nil
        // Subtitles may begin with a number in braces or brackets, or with the name of a section.
        case UInt8(ascii: "{"): return second.map { "\"}".utf8.contains($0) } == true ? .json : nil
        case UInt8(ascii: "["): return second.map { "\"]{".utf8.contains($0) } == true ? .json : nil
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"), 0x80...:
            let isTimed =
                text.starts(with: "WEBVTT".utf8) || text.indices.contains { text[$0...].starts(with: "-->".utf8) }
            // A few letters tell too little.
            return isTimed || bytes.count < 8 ? nil : .text
        default: return nil
        }
    }

    /// UTF-8 without control characters.
    private static func isText(_ bytes: [UInt8]) -> Bool {
        var bytes = bytes[...]
        // The last character may be cut off.
        if bytes.count == size, let last = bytes.lastIndex(where: { $0 & 0xC0 != 0x80 }), bytes[last] >= 0xC0 {
            bytes = bytes[..<last]
        }
        return bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F || isSpace($0) }
            && String(validating: bytes, as: UTF8.self) != nil
    }

    /// Whether the element of the document is surely none of a manifest or of subtitles.
    private static func isForeignXML(_ bytes: [UInt8]) -> Bool {
        guard let text = behindProlog(bytes) else { return false }
        var start = String(decoding: text.dropFirst(), as: UTF8.self).lowercased()[...]
        if start.hasPrefix("!doctype ") { start = start.dropFirst(9) }
        let name = start.prefix { $0.isLetter || $0.isNumber || "_-.:".contains($0) }
        guard name.first?.isLetter == true, name.endIndex < start.endIndex, let local = name.split(separator: ":").last
        else { return false }
        return !["mpd", "smoothstreamingmedia", "tt", "sami", "smil"].contains(local)
    }
}
