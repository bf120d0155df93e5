// SPDX-License-Identifier: MPL-2.0

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
        let bytes = Array(encoded(String(text)).utf8)
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
