// SPDX-License-Identifier: MPL-2.0

import ProtectionModel

/// A stretch of encrypted blocks at even distances, inside one protected range.
struct BlockRows {
    /// Of the first block, in bytes from the start of the sample.
    var offset: Int
    /// In all rows together.
    var blocks: Int
    /// Whether these are the first blocks of their range, where `cbcs` starts from the IV again.
    var startsRange: Bool
}

/// Walks over the encrypted blocks of a sample with a pattern, in pieces that fit a buffer.
///
/// A protected range is seen as rows: `crypt` blocks, every `stride` bytes. The last row may be short, because the
/// whole blocks that are left are encrypted; a trailing partial block is clear (ISO/IEC 23001-7, 9.6). The pattern starts
/// anew in each range.
///
/// A value: a copy walks the same way again. The subsample map must have been checked against the sample.
struct PatternWalk {
    /// Blocks in a full row.
    let crypt: Int
    /// Bytes from row to row.
    let stride: Int

    private let period: Int
    private var next: UnsafePointer<Subsample>?
    private let end: UnsafePointer<Subsample>?
    private var rangeEnd = 0
    private var offset = 0
    private var rowsLeft = 0
    /// Blocks that the last row lacks.
    private var shortage = 0
    private var startsRange = false

    /// `crypt` is at least 1.
    @inline(__always)
    init(crypt: Int, skip: Int, over subsamples: UnsafeBufferPointer<Subsample>) {
        self.crypt = crypt
        period = crypt + skip
        stride = period * 16
        next = subsamples.baseAddress
        end = subsamples.baseAddress.map { $0 + subsamples.count }
    }

    /// The next rows, at most `capacity` blocks. Nil when the walk is over or not even one row fits.
    @inline(__always)
    mutating func advance(capacity: Int) -> BlockRows? {
        while rowsLeft == 0 {
            guard let subsample = next, next != end else { return nil }
            // SAFETY: in front of `end`, in the buffer that outlives the walk.
            let clear = Int(subsample.pointee.clear)
            let protected = Int(subsample.pointee.protected)
            next = subsample + 1
            offset = rangeEnd + clear
            rangeEnd = offset + protected
            let blocks = UInt32(truncatingIfNeeded: protected / 16)
            let (rows, rest) = blocks.quotientAndRemainder(dividingBy: UInt32(truncatingIfNeeded: period))
            rowsLeft = Int(rows) + (rest > 0 ? 1 : 0)
            shortage = rest > 0 ? max(0, crypt - Int(rest)) : 0
            startsRange = true
        }
        let rows = crypt == 1 ? min(rowsLeft, capacity) : min(rowsLeft, capacity / crypt)
        guard rows > 0 else { return nil }
        let piece = BlockRows(
            offset: offset, blocks: rows * crypt - (rows == rowsLeft ? shortage : 0), startsRange: startsRange)
        rowsLeft -= rows
        offset += rows * stride
        startsRange = false
        return piece
    }
}
