// SPDX-License-Identifier: MPL-2.0

/// What a player asks of the server of a live playlist, in the query of its URL (draft-pantos-hls-rfc8216bis, 6.2.5).
public enum HLSDeliveryDirectives {
    /// `url` with the directives of `query`: all parameters whose names start with `_HLS_`. Those that `url` has of that
    /// kind go.
    ///
    /// `query` is that of the URL under which the demuxer was given the playlist, and nothing else of it goes further.
    public static func forwarding(_ query: String, to url: String) -> String {
        let isDirective: (Substring) -> Bool = { $0.utf8.starts(with: "_HLS_".utf8) }
        let directives = query.split(separator: "&").filter { isDirective($0) && $0.utf8.allSatisfy(isPlain) }
        var reference = URIReference(url)
        guard !directives.isEmpty else { return url }
        let kept = (reference.query ?? "").split(separator: "&").filter { !isDirective($0) }
        reference.query = (kept + directives).joined(separator: "&")
        return reference.text
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "_-.=~%".utf8.contains(byte)
        }
    }
}
