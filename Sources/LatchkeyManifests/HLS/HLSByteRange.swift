// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// A part of a resource: `length` bytes from `offset` (RFC 8216, 4.3.2.2).
public struct HLSByteRange: Hashable, Sendable {
    /// In bytes from the start of the resource.
    public var offset: UInt64
    /// In bytes; at least 1.
    public var length: UInt64

    /// Nil for a range without bytes and for one that ends above 2^63, which no resource reaches.
    public init?(offset: UInt64, length: UInt64) {
        let (end, overflow) = offset.addingReportingOverflow(length)
        guard length > 0, !overflow, end <= UInt64(Int64.max) else { return nil }
        self.offset = offset
        self.length = length
    }

    /// The offset of the byte behind the last one.
    public var end: UInt64 { offset &+ length }

    /// As much more as cipher blocks of 16 bytes need. Packagers write the size that a part has in the clear, of which no
    /// cipher block may be left out (draft-pantos-hls-rfc8216bis, 6.3.6).
    public var wholeBlocks: HLSByteRange {
        let (rest, missing) = (length % 16, 16 - length % 16)
        return rest == 0 ? self : HLSByteRange(offset: offset, length: length &+ missing) ?? self
    }

    /// The cipher blocks of a part of what is encrypted from its start, with the block in front of them, which is the IV of the
    /// first one (RFC 8216, 6.3.6).
    public var cipherBlocks: HLSByteRange {
        let start = offset / 16 * 16
        let first = start >= 16 ? start - 16 : 0
        let end = (end &+ 15) / 16 * 16
        return HLSByteRange(offset: first, length: end &- first) ?? self
    }

    /// The same with a block more behind. If `length` is the size in the clear and a number of blocks, that is the padding.
    var withBlockBehind: HLSByteRange { HLSByteRange(offset: offset, length: length &+ 16) ?? self }

    /// `length@offset`, as a playlist has it.
    public var text: String { "\(length)@\(offset)" }

    /// The value of an HTTP `Range` field: `bytes=10-19` (RFC 9110, 14.1.2).
    public var httpRange: String { "bytes=\(offset)-\(end &- 1)" }

    /// Reads `length` or `length@offset`. `previousEnd` is where a range without an offset starts.
    public init(parsing text: some StringProtocol, previousEnd: UInt64?) throws(FormatError) {
        let parts = text.split(separator: "@", maxSplits: 1, omittingEmptySubsequences: false)
        guard let length = parts.first.flatMap({ hlsInteger($0) }) else { throw .malformed("a byte range") }
        var offset = previousEnd
        if parts.count > 1 { offset = hlsInteger(parts[1]) }
        guard let offset else { throw .malformed("a byte range without an offset, and nothing that it could follow") }
        guard let range = HLSByteRange(offset: offset, length: length) else { throw .malformed("a byte range") }
        self = range
    }
}

/// A decimal-integer (RFC 8216, 4.2) with white space around it; nil for anything else and above 2^64 - 1.
func hlsInteger(_ text: some StringProtocol) -> UInt64? {
    let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
    let digits = Substring(text).utf8.drop(while: isSpace)
    guard let last = digits.lastIndex(where: { !isSpace($0) }) else { return nil }
    return hlsInteger(digits: digits[...last])
}

private func hlsInteger(digits: Substring.UTF8View) -> UInt64? {
    guard !digits.isEmpty, digits.allSatisfy({ 0x30...0x39 ~= $0 }) else { return nil }
    var value: UInt64 = 0
    for digit in digits {
        let (product, overflow) = value.multipliedReportingOverflow(by: 10)
        let (sum, carry) = product.addingReportingOverflow(UInt64(digit &- 0x30))
        guard !overflow, !carry else { return nil }
        value = sum
    }
    return value
}
