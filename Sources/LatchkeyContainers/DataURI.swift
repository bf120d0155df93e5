// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A `data:` URI: the bytes stand in the URI itself (RFC 2397).
///
/// In a playlist they may be a key. The URI and its bytes belong in no log and no message.
public struct DataURI: Sendable {
    /// Of what `init` reads, in characters.
    public static let maximumSize = 1 << 16

    /// What stands behind the comma, with Base64 and percent-encoding undone. May be a key.
    public let bytes: [UInt8]

    /// Whether the URI has this scheme, whatever stands behind it.
    public static func isOne(_ uri: String) -> Bool { uri.prefix(5).lowercased() == "data:" }

    /// Nil where the URI has another scheme, no comma, more than `maximumSize` characters, or data that cannot be decoded.
    /// The media type is not looked at.
    public init?(_ uri: String) {
        guard Self.isOne(uri), uri.utf8.count <= Self.maximumSize,
            let comma = uri.utf8.firstIndex(of: UInt8(ascii: ","))
        else { return nil }
        let type = uri[..<comma].lowercased()
        guard let data = PercentEncoding.decode(uri.utf8[uri.utf8.index(after: comma)...]) else { return nil }
        guard type.hasSuffix(";base64") else {
            bytes = data
            return
        }
        // White space may come with lines that were folded.
        let digits = data.filter { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        guard let decoded = Base64.decode(String(decoding: digits, as: UTF8.self)) else { return nil }
        bytes = decoded
    }
}

extension DataURI: Redacted {
    /// The scheme alone. The bytes never show, because they may be a key.
    public var description: String { "data:…" }
}
