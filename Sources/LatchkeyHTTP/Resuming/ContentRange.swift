// SPDX-License-Identifier: MPL-2.0

/// Which bytes of a resource an answer has, as its `Content-Range` field tells (RFC 9110, section 14.4). A value.
package struct ContentRange: Sendable, Hashable {
    /// In bytes. No resource has so many, and sums do not overflow.
    package static let limit = 1 << 47

    /// Counted from 0; nil where the answer has none of them, which then is one with the status 416.
    package let first: Int?
    /// Nil where the field does not tell.
    package let last: Int?
    /// Of the whole resource, in bytes; nil where the field does not tell.
    package let size: Int?

    /// Reads `bytes 0-99/1000`, with `*` for an unknown size and for no bytes. The last byte and the size count as untold
    /// where they cannot be read. Nil for anything else that is malformed, and for places that contradict each other.
    package init?(_ field: String) {
        guard field.utf8.starts(with: "bytes ".utf8) else { return nil }
        let halves = field.utf8.dropFirst(6).split(
            separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
        size = halves.count == 2 ? Self.number(halves[1]) : nil
        if halves[0].elementsEqual("*".utf8) {
            (first, last) = (nil, nil)
            return
        }
        let ends = halves[0].split(separator: UInt8(ascii: "-"), maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = Self.number(ends[0]) else { return nil }
        let last = ends.count == 2 ? Self.number(ends[1]) : nil
        guard last ?? .max >= first, size ?? .max > last ?? first else { return nil }
        (self.first, self.last) = (first, last)
    }

    /// Digits only: `Int` would take a sign as well.
    static func number(_ text: Substring.UTF8View) -> Int? {
        guard text.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return Int(Substring(text)).flatMap { $0 < limit ? $0 : nil }
    }
}

extension HTTPResponse {
    /// Nil without a `Content-Range` that can be read.
    package var contentRange: ContentRange? { header("Content-Range").flatMap { ContentRange($0) } }

    /// What `Content-Length` tells, in bytes; nil without one that can be read.
    package var contentLength: Int? { header("Content-Length").flatMap { ContentRange.number($0[...].utf8) } }

    /// Of the whole resource, in bytes; nil where the answer does not tell.
    package var resourceSize: Int? { status == 206 || status == 416 ? contentRange?.size : contentLength }
}
