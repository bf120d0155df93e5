// SPDX-License-Identifier: MPL-2.0

/// A URI or a relative reference (RFC 3986), taken apart but not changed.
///
/// Any text can be taken apart; what is no URI becomes a path. The schemes of keys (`skd:`, `data:`) are kept to the
/// letter. A value type.
public struct URIReference: Hashable, Sendable {
    /// In bytes, of a URL that is fetched: longer ones in a playlist are refused.
    public static let maximumURLSize = 65_536

    /// In the spelling of the text, without the colon.
    public var scheme: String?
    /// `user@host:port`, without the slashes in front.
    public var authority: String?
    /// As it stands, percent-encoding included. Empty where there is none.
    public var path: String
    /// Without the question mark.
    public var query: String?
    /// Without the number sign.
    public var fragment: String?

    /// Takes `text` apart as RFC 3986, appendix B does.
    public init(_ text: some StringProtocol) {
        var rest = Substring(text).utf8
        let isDelimiter: (UInt8) -> Bool = {
            $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#")
        }
        if let colon = rest.firstIndex(of: UInt8(ascii: ":")), Self.isScheme(rest[..<colon]) {
            scheme = String(Substring(rest[..<colon]))
            rest = rest[rest.index(after: colon)...]
        }
        if rest.starts(with: "//".utf8) {
            let body = rest.dropFirst(2)
            let end = body.firstIndex(where: isDelimiter) ?? body.endIndex
            authority = String(Substring(body[..<end]))
            rest = body[end...]
        }
        if let mark = rest.firstIndex(of: UInt8(ascii: "#")) {
            fragment = String(Substring(rest[rest.index(after: mark)...]))
            rest = rest[..<mark]
        }
        if let mark = rest.firstIndex(of: UInt8(ascii: "?")) {
            query = String(Substring(rest[rest.index(after: mark)...]))
            rest = rest[..<mark]
        }
        path = String(Substring(rest))
    }

    /// The parts in a row (RFC 3986, 5.3).
    public var text: String {
        var text = ""
        if let scheme { text += "\(scheme):" }
        if let authority { text += "//\(authority)" }
        text += path
        if let query { text += "?\(query)" }
        if let fragment { text += "#\(fragment)" }
        return text
    }

    /// Whether the scheme is http or https, which is what a demuxer can fetch, with a host.
    public var isHTTP: Bool {
        guard let name = scheme?.lowercased(), name == "http" || name == "https" else { return false }
        return authority?.isEmpty == false
    }

    /// The path of a `file` URL (RFC 8089) on this machine; nil for every other URL.
    package var filePath: String? {
        guard scheme?.lowercased() == "file", ["", "localhost"].contains(authority ?? "") else { return nil }
        return PercentEncoding.decode(path.utf8).map { String(decoding: $0, as: UTF8.self) }
    }

    /// `reference` as seen from `base` (RFC 3986, 5.2).
    ///
    /// A reference that has a scheme comes back to the letter, whatever it is. In http and https URLs, characters that
    /// no URL may hold are percent-encoded.
    public static func resolve(_ reference: some StringProtocol, against base: URIReference) -> String {
        var target = URIReference(reference)
        if target.scheme != nil {
            return target.isHTTP ? PercentEncoding.encodeInvalid(String(reference)) : String(reference)
        }
        target.scheme = base.scheme
        if target.authority == nil {
            target.authority = base.authority
            if target.path.isEmpty {
                target.path = base.path
                target.query = target.query ?? base.query
            } else if target.path.utf8.first != UInt8(ascii: "/") {
                target.path = base.merged(with: target.path)
            }
        }
        target.path = removingDotSegments(target.path)
        return target.isHTTP ? PercentEncoding.encodeInvalid(target.text) : target.text
    }

    /// Scheme, host and port, with the port written out: `https://example.com:443`. Nil unless `isHTTP`.
    public var origin: String? {
        guard isHTTP, let scheme = scheme?.lowercased(), let authority else { return nil }
        let host =
            authority.utf8.lastIndex(of: UInt8(ascii: "@"))
            .map { authority[authority.utf8.index(after: $0)...] } ?? authority[...]
        var (name, port) = (host.lowercased(), scheme == "https" ? "443" : "80")
        if let colon = host.utf8.lastIndex(of: UInt8(ascii: ":")), !host[colon...].utf8.contains(UInt8(ascii: "]")) {
            let digits = host[host.utf8.index(after: colon)...]
            if !digits.isEmpty { port = String(digits) }
            name = host[..<colon].lowercased()
        }
        return "\(scheme)://\(name):\(port)"
    }

    /// Any text for messages and logs: without user information, query and fragment, with a space for each control
    /// character, at most 256 characters. A `data:` URI holds a key, so only its scheme is shown. If the text may hold a
    /// password at another place, its scheme is shown, or nothing.
    public static func printable(_ text: some StringProtocol) -> String {
        var url = URIReference(text)
        guard url.scheme?.lowercased() != "data" else { return "data:…" }
        let isSign: (UInt8) -> Bool = { $0 == UInt8(ascii: "@") }
        if let authority = url.authority {
            let host = authority.utf8.lastIndex(where: isSign).map { authority[authority.utf8.index(after: $0)...] }
            url.authority = String(host ?? authority[...])
            let isInRest = [url.path, url.query, url.fragment].contains { $0?.utf8.contains(where: isSign) == true }
            // With a slash too many, libcurl takes what is behind it for the host, with name and password.
            let isBehindSlash = url.authority == "" && ["http", "https"].contains(url.scheme?.lowercased() ?? "")
            if isInRest, isBehindSlash || !isHost(url.authority ?? "") {
                return "\(url.scheme.map { "\($0):" } ?? "")//…"
            }
        } else if text.utf8.contains(where: isSign), url.scheme != nil || url.path.utf8.first != UInt8(ascii: "/") {
            return "…"
        }
        (url.query, url.fragment) = (nil, nil)
        let scalars = url.text.unicodeScalars.prefix(257).map {
            $0.properties.generalCategory == .control ? " " : $0
        }
        let isLong = scalars.count > 256
        return String(String.UnicodeScalarView(scalars.prefix(isLong ? 255 : 256))) + (isLong ? "…" : "")
    }

    /// The same of this reference.
    public var printable: String { Self.printable(text) }

    /// Whether an authority without user information is a host, and maybe a port.
    private static func isHost(_ authority: String) -> Bool {
        let bytes = Array(authority.utf8)
        let end = bytes.lastIndex(of: UInt8(ascii: "]")) ?? 0
        guard let colon = bytes[end...].firstIndex(of: UInt8(ascii: ":")) else { return true }
        return bytes[(colon + 1)...].allSatisfy { 0x30...0x39 ~= $0 }
    }
}

extension URIReference {
    /// RFC 3986, 3.1.
    private static func isScheme(_ text: Substring.UTF8View) -> Bool {
        let isLetter: (UInt8) -> Bool = { 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 }
        guard let first = text.first, isLetter(first) else { return false }
        return text.allSatisfy { isLetter($0) || 0x30...0x39 ~= $0 || "+-.".utf8.contains($0) }
    }

    /// RFC 3986, 5.2.3.
    private func merged(with reference: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else {
            return authority == nil ? reference : "/\(reference)"
        }
        return "\(path[...slash])\(reference)"
    }

    /// RFC 3986, 5.2.4, in one pass over the segments.
    package static func removingDotSegments(_ path: String) -> String {
        var kept: [Substring.UTF8View] = []
        let isRooted = path.utf8.first == UInt8(ascii: "/")
        var segments = path[...].utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        if isRooted { segments.removeFirst() }
        var endsInDirectory = false
        for segment in segments {
            let isParent = segment.elementsEqual("..".utf8)
            endsInDirectory = isParent || segment.elementsEqual(".".utf8)
            if isParent {
                _ = kept.popLast()
            } else if !endsInDirectory {
                kept.append(segment)
            }
        }
        let text = kept.map { String(Substring($0)) }.joined(separator: "/")
        return (isRooted ? "/" : "") + text + (endsInDirectory && !kept.isEmpty ? "/" : "")
    }
}

extension URIReference {
    /// One spelling for all that mean the same http or https URL (RFC 3986, 6.2.2 and 6.2.3): scheme and host in lower
    /// case, percent-encodings in capitals and only where they are needed, no dot segments, no default port, a path of at
    /// least `/`. Without the fragment, which is never sent. What is no http or https URL comes back to the letter, and so does
    /// what has an authority of more than 4096 bytes, which no server has.
    ///
    /// For comparing; a server may tell apart what is the same by the standard, so that requests keep their spelling.
    public static func normalized(_ text: String) -> String {
        var url = URIReference(text)
        guard url.isHTTP, let scheme = url.scheme?.lowercased(), let authority = url.authority,
            authority.utf8.count <= maximumAuthoritySize
        else { return text }
        url.scheme = scheme
        url.authority = normalizedAuthority(authority, scheme)
        url.path = removingDotSegments(normalizedEscapes(url.path))
        if url.path.isEmpty { url.path = "/" }
        url.query = url.query.map(normalizedEscapes)
        url.fragment = nil
        return url.text
    }

    /// Far more than names and passwords have.
    private static let maximumAuthoritySize = 4096

    private static func normalizedAuthority(_ authority: String, _ scheme: String) -> String {
        let user = authority.utf8.lastIndex(of: UInt8(ascii: "@")).map { authority.utf8.index(after: $0) }
        let host = Array(normalizedEscapes(authority[(user ?? authority.startIndex)...]).lowercased().utf8)
        var end = host.count
        // What is no authority may have several.
        while let colon = host[..<end].lastIndex(of: UInt8(ascii: ":")) {
            let port = host[(colon + 1)..<end]
            let isPort = port.allSatisfy { 0x30...0x39 ~= $0 }
            guard isPort,
                port.isEmpty || UInt16(String(decoding: port, as: UTF8.self)) == (scheme == "https" ? 443 : 80)
            else { break }
            end = colon
        }
        return normalizedEscapes(authority[..<(user ?? authority.startIndex)])
            + String(decoding: host[..<end], as: UTF8.self)
    }

    /// With escapes in capitals, for all that needs one and nothing else: a `%` that starts none, too.
    private static func normalizedEscapes(_ text: some StringProtocol) -> String {
        let bytes = Array(PercentEncoding.encodeInvalid(String(text)).utf8)
        var result: [UInt8] = []
        var place = 0
        while place < bytes.count {
            if bytes[place] == UInt8(ascii: "%"), place + 2 < bytes.count, let high = hexDigit(bytes[place + 1]),
                let low = hexDigit(bytes[place + 2])
            {
                let byte = high << 4 | low
                if isUnreserved(byte) {
                    result.append(byte)
                } else {
                    result += [UInt8(ascii: "%"), capital(bytes[place + 1]), capital(bytes[place + 2])]
                }
                place += 3
            } else {
                result += bytes[place] == UInt8(ascii: "%") ? Array("%25".utf8) : [bytes[place]]
                place += 1
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// RFC 3986, 2.3.
    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "-._~".utf8.contains(byte)
        }
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x41 + 10
        case 0x61...0x66: byte - 0x61 + 10
        default: nil
        }
    }

    private static func capital(_ byte: UInt8) -> UInt8 { 0x61...0x66 ~= byte ? byte - 0x20 : byte }
}

/// A URL that many references are resolved against: the same as `URIReference.resolve`, and fast for plain file names,
/// which is what long playlists are made of.
package struct URIBase: Sendable {
    package let reference: URIReference
    /// What stands in front of a plain reference: the URL up to its last slash. Nil where that is not all there is to it.
    private let directory: String?

    package init(_ reference: URIReference) {
        self.reference = reference
        directory = reference.isHTTP ? URIReference.resolve(".", against: reference) : nil
    }

    package func resolve(_ text: some StringProtocol) -> String {
        if let directory, Self.isPlain(text.utf8) { return Self.joined(directory, text) }
        return Self.joined("", URIReference.resolve(text, against: reference))
    }

    /// Both, without room for more at the end: a long playlist names a hundred thousand.
    private static func joined(_ first: String, _ second: some StringProtocol) -> String {
        var text = ""
        text.reserveCapacity(first.utf8.count + second.utf8.count)
        text += first
        text.append(contentsOf: second)
        return text
    }

    /// Whether `text` is a path, and maybe a query, with nothing in it to take out or to encode. Some that are so are not
    /// found to be.
    static func isPlain(_ text: some Sequence<UInt8>) -> Bool {
        var previous = UInt8(ascii: "/")
        for byte in text {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "="),
                UInt8(ascii: "&"), UInt8(ascii: "%"):
                break
            case UInt8(ascii: "."), UInt8(ascii: "/"), UInt8(ascii: "?"):
                if previous == UInt8(ascii: "/") { return false }
            default: return false
            }
            previous = byte
        }
        return previous != UInt8(ascii: "/")
    }
}
