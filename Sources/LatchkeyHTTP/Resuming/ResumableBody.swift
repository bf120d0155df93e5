// SPDX-License-Identifier: MPL-2.0

/// A body on its way through a relay that goes on where it was when its connection broke: with the rest, or, where no field
/// tells that of another resource, with all of it again, whose beginning must be what was handed on. It sends and receives
/// nothing itself. A value, for one owner.
package struct ResumableBody: Sendable {
    /// What is handed on.
    package let part: RelayedPart
    private let head: HTTPResponse
    /// In the resource at the origin: what is handed on next.
    private var place: Int
    /// What the origin sends in front of that, though it was not asked for.
    private var surplus: Int
    /// What was handed on; nil where the fields of the head tell the resource.
    private var fingerprint: BodyFingerprint?
    /// What has to come again before something new does, and what came of that.
    private var repetition = (left: 0, seen: BodyFingerprint())
    /// The head of the answer to a new request has to be looked at.
    private var isNew = false

    /// `head` is that of the first answer.
    package init(_ head: HTTPResponse, _ part: RelayedPart) {
        (self.head, self.part) = (head, part)
        place = part.first
        surplus = part.first - part.sent.first
        let isWeak = head.header("ETag")?.hasPrefix("W/") == true
        let isTold = part.end != nil || head.header("ETag") != nil || head.header("Last-Modified") != nil
        fingerprint = isWeak || !isTold ? BodyFingerprint() : nil
    }

    /// In bytes: what was handed on.
    package var count: Int { place - part.first }

    /// Whether all is handed on; false if the length is unknown.
    package var isAtEnd: Bool { part.end.map { place >= $0 } ?? false }

    /// Takes a piece of the answer with that head. Returns what of it goes on, which may be nothing; nil where it is of
    /// another resource, as far as head and bytes tell: then nothing more can be had.
    package mutating func take(_ piece: [UInt8], of head: HTTPResponse) -> [UInt8]? {
        guard !isNew || fits(head) else { return nil }
        var left = piece.dropFirst(surplus)
        surplus -= piece.count - left.count
        if repetition.left > 0 {
            let again = left.prefix(repetition.left)
            left = left.dropFirst(again.count)
            repetition.left -= again.count
            repetition.seen.add(again)
            guard repetition.left > 0 || repetition.seen == fingerprint else { return nil }
        }
        // An origin without ranges goes on behind the part that was asked for, whose reader may take it for more of that.
        if let end = part.end { left = left.prefix(max(0, end - place)) }
        place += left.count
        fingerprint?.add(left)
        return Array(left)
    }

    /// Whether this is the end of a body of unknown length. If only the end of it was lost, nothing is left.
    package func isWhole(at end: HTTPResponse) -> Bool {
        guard part.end == nil else { return false }
        if end.status == 416 { return isNew && fingerprint == nil && end.resourceSize == place }
        return 200...299 ~= end.status && !isNew && surplus == 0 && repetition.left == 0
    }

    /// The connection broke. Returns the `Range` field of a new request; `range` is that of the client's, if it has one.
    package mutating func resume(_ range: String?) -> String? {
        isNew = true
        return fingerprint == nil ? "bytes=\(place)-" + (part.end.map { "\($0 - 1)" } ?? "") : range
    }

    /// Whether the new answer is of the same resource, as far as its head tells.
    private mutating func fits(_ new: HTTPResponse) -> Bool {
        isNew = false
        let first = new.status == 206 ? new.contentRange?.first : 0
        guard fingerprint == nil else {
            surplus = part.first - part.sent.first
            repetition = (count, BodyFingerprint())
            return first == part.sent.first
        }
        guard new.header("ETag") == head.header("ETag"), new.header("Last-Modified") == head.header("Last-Modified"),
            isOfSameSize(new)
        else { return false }
        // What an answer before this one still was to skip is not in a part.
        surplus = new.status == 206 ? 0 : place
        return new.status != 206 || first == place
    }

    private func isOfSameSize(_ new: HTTPResponse) -> Bool {
        guard part.end != nil else { return true }
        return new.resourceSize.map { $0 == head.resourceSize } ?? false
    }
}

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

/// Tells the same bytes from others, however they are cut into pieces (FNV-1a, 64 bits: RFC 9923). Against accidents, not
/// against an origin that means to deceive.
struct BodyFingerprint: Sendable, Equatable {
    private var value: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ bytes: ArraySlice<UInt8>) {
        bytes.withUnsafeBufferPointer { bytes in
            for byte in bytes { value = (value ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        }
    }
}
