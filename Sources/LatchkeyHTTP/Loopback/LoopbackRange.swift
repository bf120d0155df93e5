// SPDX-License-Identifier: MPL-2.0

/// One part of a resource, as a `Range` field asks for it (RFC 9110, section 14.1.2).
public enum LoopbackRange: Sendable, Hashable {
    /// From this byte on, counted from 0, to the end.
    case from(Int)
    /// From the first to the last of these bytes, counted from 0. May go past the end.
    case closed(ClosedRange<Int>)
    /// The last bytes.
    case last(Int)

    /// Reads `bytes=0-99`, `bytes=100-` and `bytes=-10`. Nil for several ranges and anything malformed: such a field
    /// is to be ignored.
    public init?(_ field: String) {
        let unit = field.split(separator: "=", maxSplits: 1)
        guard unit.count == 2, unit[0] == "bytes" else { return nil }
        let ends = unit[1].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2 else { return nil }
        switch (Self.number(ends[0]), Self.number(ends[1])) {
        case (let first?, let last?) where first <= last: self = .closed(first...last)
        case (let first?, nil) where ends[1].isEmpty: self = .from(first)
        case (nil, let count?) where ends[0].isEmpty: self = .last(count)
        default: return nil
        }
    }

    /// Which bytes those are of a resource of that size; nil where it has none of them.
    public func bounds(in size: Int) -> Range<Int>? {
        let bounds =
            switch self {
            case .from(let first): min(first, size)..<size
            case .closed(let range): min(range.lowerBound, size)..<(min(range.upperBound, size - 1) + 1)
            case .last(let count): (size - min(count, size))..<size
            }
        return bounds.isEmpty ? nil : bounds
    }

    /// Digits only: `Int` would take a sign as well.
    private static func number(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? Int(text) : nil
    }
}
