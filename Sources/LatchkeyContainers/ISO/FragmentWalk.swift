// SPDX-License-Identifier: MPL-2.0

/// Finds the `moof` boxes in a stream of fragments that comes in pieces. Only headers and these boxes are copied.
///
/// ```
/// while let range = walk.wanted(inPieceOf: piece.count) {
///     if let fragment = walk.take(piece[range]) { … }
/// }
/// ```
package struct FragmentWalk: Sendable {
    /// A larger `moof` box is not waited for, in bytes.
    package static let limit = 256 << 10
    private static let headerSize = 8

    /// What comes are no boxes of fragments, as far as can be told: nothing more is found.
    package private(set) var isLost = false
    /// How many of the next bytes belong to a box that is passed over.
    private var passed: UInt64 = 0
    /// What came of the next box.
    private var held: [UInt8] = []
    /// How many bytes of it are wanted.
    private var size = FragmentWalk.headerSize
    private var isFragment = false
    /// In the piece.
    private var place = 0

    package init() {}

    /// Which bytes of the piece, which has `count`, are to be given to `take` next. Nil if none are: the next piece may come.
    package mutating func wanted(inPieceOf count: Int) -> Range<Int>? {
        let step = min(passed, UInt64(max(count - place, 0)))
        passed -= step
        place += Int(step)
        guard !isLost, passed == 0, place < count else {
            place = 0
            return nil
        }
        let start = place
        place = min(start + size - held.count, count)
        return start..<place
    }

    /// Takes the bytes that were wanted. Gives a whole `moof` box if they are its last ones.
    package mutating func take(_ bytes: some Sequence<UInt8>) -> [UInt8]? {
        held += bytes
        guard held.count >= size else { return nil }
        if !isFragment { readHeader() }
        guard isFragment, held.count >= size else { return nil }
        let fragment = held
        (held, size, isFragment) = ([], Self.headerSize, false)
        return fragment
    }

    private mutating func readHeader() {
        guard let header = try? ISOBoxHeader(held[...], at: 0) else {
            // The size stands behind the type.
            if size == Self.headerSize, held.starts(with: [0, 0, 0, 1]) {
                size = ISOBoxHeader.maximumSize
            } else {
                isLost = true
            }
            return
        }
        guard let whole = header.size, ISOStream.typesAtTop.contains(header.type) || header.type == "mdat" else {
            isLost = true
            return
        }
        guard header.type == "moof" else {
            passed = whole - UInt64(held.count)
            (held, size) = ([], Self.headerSize)
            return
        }
        guard whole <= UInt64(Self.limit) else {
            isLost = true
            return
        }
        (size, isFragment) = (Int(whole), true)
    }
}
