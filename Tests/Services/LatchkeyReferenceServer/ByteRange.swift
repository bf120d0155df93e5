// SPDX-License-Identifier: MPL-2.0

/// What a `Range` header asks of a representation (RFC 9110, 14.1.2 and 14.2).
enum ByteRange: Equatable, Sendable {
    /// No range, several, or one that cannot be read: the header is ignored.
    case whole
    /// First and last byte.
    case part(ClosedRange<Int>)
    /// Answered with 416.
    case unsatisfiable

    /// `size` is the length of the representation in bytes.
    init(header: String?, size: Int) {
        self = .whole
        guard let header, header.lowercased().hasPrefix("bytes=") else { return }
        let ends = header.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]) else { return }
        switch (first, last) {
        case (nil, nil):
            return
        case (nil, let count?):
            self = count > 0 && size > 0 ? .part(max(0, size - count)...size - 1) : .unsatisfiable
        case (let first?, let last):
            if let last, last < first { return }
            self = first < size ? .part(first...min(last ?? size - 1, size - 1)) : .unsatisfiable
        }
    }

    /// Nil inside for no digits, nil for no number. What does not fit counts as the largest number.
    private static func number(_ text: Substring) -> Int?? {
        let isSpace = { (character: Character) in character == " " || character == "\t" }
        var digits = text.drop(while: isSpace)
        while let last = digits.last, isSpace(last) { digits.removeLast() }
        guard digits.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else { return .none }
        return .some(digits.isEmpty ? nil : Int(digits) ?? Int.max)
    }
}
