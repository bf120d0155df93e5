// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A request that reached a `LoopbackServer` with its token. Prints nothing of it but the method.
public struct LoopbackRequest: Sendable {
    /// `GET` or `HEAD`. The server leaves the body of an answer to `HEAD` out.
    public var method: String
    /// What follows the token, without a slash in front and without the query. Not decoded.
    public var path: String
    /// What follows the question mark; nil where there is none. Not decoded.
    public var query: String?
    /// The fields of the request, in its order.
    public var headers: [HTTPHeader]

    /// For tests of handlers; the server makes its own.
    public init(method: String = "GET", path: String, query: String? = nil, headers: [HTTPHeader] = []) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
    }

    /// The value of the first field with this name, in any case.
    public func header(_ name: String) -> String? { headers.first { $0.isNamed(name) }?.value }

    /// The part that the client asks for; nil for all. The server cuts it out of an answer with the status 200.
    public var range: LoopbackRange? { header("Range").flatMap { LoopbackRange($0) } }
}

extension LoopbackRequest: Redacted {
    /// Without the path, which may stand for a secret URL.
    public var description: String { "\(method) of a loopback request" }
    /// The method alone, for the same reason.
    public var shown: KeyValuePairs<String, Any> { ["method": method] }
}

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
