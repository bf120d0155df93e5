// SPDX-License-Identifier: MPL-2.0

import HTTP

/// Which bytes of a resource an answer has (RFC 9110, section 14.4).
struct ContentRange {
    /// In bytes. No segment has so many, and sums do not overflow.
    static let limit = PresentationOrigin.streamLimit

    let first: Int
    /// Nil where the field does not tell.
    let last: Int?

    /// Of the whole resource, in bytes; nil where the answer does not tell.
    static func size(_ response: HTTPResponse) -> Int? {
        guard response.status == 206 || response.status == 416 else {
            return response.header("Content-Length").flatMap { Int($0) }
        }
        return response.header("Content-Range").flatMap { field in
            field.lastIndex(of: "/").flatMap { Int(field[field.index(after: $0)...]) }
        }
    }

    init?(_ response: HTTPResponse) {
        guard let field = response.header("Content-Range"), field.hasPrefix("bytes "),
            let first = Int(field.dropFirst(6).prefix { $0 != "-" }), first >= 0, first < Self.limit
        else { return nil }
        self.first = first
        let last = field.firstIndex(of: "-").flatMap { dash in
            Int(field[field.index(after: dash)...].prefix { $0 != "/" })
        }
        self.last = last.flatMap { first..<Self.limit ~= $0 ? $0 : nil }
    }
}
