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

    /// Whether all is handed on; false where nobody told how much that is.
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
        place += left.count
        fingerprint?.add(left)
        return Array(left)
    }

    /// Whether this is the end of a body whose length nobody told. Where only the end of it was lost, nothing is left.
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
