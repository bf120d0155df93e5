// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyHTTP
import LatchkeyContainers

/// The URI by which a playlist names a key: `skd:{content}`, `skd:{server}?cid={content}`, `skd://host/path`, …
///
/// What stands behind `skd:` is whatever the packager wrote, so nothing is decoded, normalized or refused: `/`, `=`,
/// `%` and any Unicode stay as they are. The media wrote it, so it is not trusted. Prints whole: it is in the playlist
/// for all to read, but it may hold a token, so log `printable` instead.
public struct KeyURI: Sendable, Hashable {
    /// The whole URI, as the playlist has it.
    public let text: String
    /// In lower case; nil where the text has none.
    public let scheme: String?
    /// What stands behind the scheme's colon and the two slashes, if they are there.
    public let afterScheme: String

    /// Takes any text apart; one without a scheme is all `afterScheme`.
    public init(_ text: String) {
        self.text = text
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")), Self.isScheme(text[..<colon]) else {
            scheme = nil
            afterScheme = text
            return
        }
        scheme = text[..<colon].lowercased()
        let rest = text[text.utf8.index(after: colon)...]
        afterScheme = String(rest.utf8.starts(with: "//".utf8) ? Substring(rest.utf8.dropFirst(2)) : rest)
    }

    /// `afterScheme` up to the first `?`.
    public var beforeQuery: String { String(split.before) }

    /// Behind the first `?`, as it is written. Nil where there is none.
    public var query: String? { split.query.map { String($0) } }

    /// Behind the last `/` of what stands before the query; nil where that is empty.
    public var lastPathComponent: String? {
        let before = split.before
        let slash = before.utf8.lastIndex(of: UInt8(ascii: "/")).map { before.utf8.index(after: $0) }
        let last = before[(slash ?? before.startIndex)...]
        return last.isEmpty ? nil : String(last)
    }

    /// The authority without user information and port; nil where that is empty.
    public var host: String? {
        var host = afterScheme.utf8.prefix { !"/?#".utf8.contains($0) }
        if let at = host.lastIndex(of: UInt8(ascii: "@")) { host = host[host.index(after: at)...] }
        host = host.prefix { $0 != UInt8(ascii: ":") }
        return host.isEmpty ? nil : String(Substring(host))
    }

    /// The value of the first parameter of the query with this name, percent-decoded. A `+` stays a `+`: identifiers
    /// are often Base64. Nil where the query lacks it or the value is no UTF-8.
    public func parameter(_ name: String) -> String? {
        guard let query = split.query else { return nil }
        for item in query.utf8.split(separator: UInt8(ascii: "&")) {
            let equals = item.firstIndex(of: UInt8(ascii: "=")) ?? item.endIndex
            guard item[..<equals].elementsEqual(name.utf8) else { continue }
            return PercentEncoding.decodeText(Substring(item[equals...].dropFirst()))
        }
        return nil
    }

    /// The URL that the text is with its scheme changed, as `skd://` to `https://`. Where another http or https URL
    /// stands behind the scheme (`skd:https://host/…`), it is that one.
    ///
    /// Characters that no URL may have are percent-encoded; what is encoded already stays. Nil where no host is there.
    public func url(scheme: String) -> String? {
        let inner = KeyURI(afterScheme)
        let isURL = inner.scheme == "https" || inner.scheme == "http"
        guard (isURL ? inner : self).host != nil else { return nil }
        return PercentEncoding.encodeInvalid(isURL ? afterScheme : "\(scheme)://\(afterScheme)")
    }

    /// For logs and error texts: without query, fragment and user information, at most 256 characters.
    public var printable: String { URIReference.printable(text) }

    private var split: (before: Substring, query: Substring?) {
        guard let mark = afterScheme.utf8.firstIndex(of: UInt8(ascii: "?")) else { return (afterScheme[...], nil) }
        return (afterScheme[..<mark], afterScheme[afterScheme.utf8.index(after: mark)...])
    }

    /// RFC 3986, 3.1.
    private static func isScheme(_ text: Substring) -> Bool {
        guard let first = text.utf8.first, first.isLetter else { return false }
        return text.utf8.allSatisfy { $0.isLetter || 0x30...0x39 ~= $0 || "+-.".utf8.contains($0) }
    }
}

extension UInt8 {
    fileprivate var isLetter: Bool { 0x41...0x5A ~= self || 0x61...0x7A ~= self }
}
