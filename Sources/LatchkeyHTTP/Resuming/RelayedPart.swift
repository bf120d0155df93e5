// SPDX-License-Identifier: MPL-2.0

/// What of a resource goes on to the client of a relay, where an origin may send more than was asked for. Places are counted
/// in the resource. A value.
package struct RelayedPart: Sendable {
    /// Where what the origin sends begins, and how much that is, in bytes; nil: it does not tell.
    package let sent: (first: Int, length: Int?)
    /// Where what goes on begins and ends; nil: with what the origin sends.
    package let first: Int
    package let end: Int?
    /// The value of a `Content-Range` field of its own, where that is not all that the origin sends.
    package let contentRange: String?

    /// In bytes; nil where that is not known.
    package var length: Int? { end.map { $0 - first } }

    /// Nil where the head does not tell enough of it: a part that is cut out of a resource needs that one's length.
    package init?(of head: HTTPResponse, for request: LoopbackRequest) {
        let range = head.status == 206 ? head.contentRange : nil
        guard let first = head.status == 206 ? range?.first : 0 else { return nil }
        var length = head.contentLength.flatMap { $0 > 0 ? $0 : nil }
        if length == nil, let last = range?.last { length = last - first + 1 }
        sent = (first, length)
        guard head.status == 200, let wanted = request.range else {
            (self.first, end, contentRange) = (first, length.map { first + $0 }, nil)
            return
        }
        guard let length, let bounds = wanted.bounds(in: length) else { return nil }
        (self.first, end) = (bounds.lowerBound, bounds.upperBound)
        contentRange =
            bounds == 0..<length ? nil : "bytes \(bounds.lowerBound)-\(bounds.upperBound - 1)/\(length)"
    }
}
