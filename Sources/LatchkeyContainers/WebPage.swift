// SPDX-License-Identifier: MPL-2.0

/// Tells web pages from media, playlists and manifests: captive portals answer with one in the place of everything.
package enum WebPage {
    /// What is looked at.
    package static let size = 512

    /// Whether the bytes start as a page of HTML does. Media, playlists and manifests never do.
    package static func isOne(start bytes: some Sequence<UInt8>) -> Bool {
        let bytes = Array(bytes.prefix(size))
        var text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes[3...] : bytes[...]
        while true {
            text = text.drop { $0 == 0x20 || 0x09...0x0D ~= $0 }
            // A comment may stand in front.
            guard text.starts(with: "<!--".utf8) else { break }
            guard let end = text.indices.first(where: { text[$0...].starts(with: "-->".utf8) }) else { return false }
            text = text[(end + 3)...]
        }
        let start = String(decoding: text.prefix(16), as: UTF8.self).lowercased()
        return ["<!doctype html", "<html", "<head", "<body", "<script", "<meta"].contains { start.hasPrefix($0) }
    }
}
