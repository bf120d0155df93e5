// SPDX-License-Identifier: MPL-2.0

/// Walks over the encrypted blocks of a sample with a pattern.
///
/// In a protected range, `crypt` blocks are encrypted and `skip` clear, in turn. Where the range ends within the
/// encrypted ones, its whole blocks are encrypted; a trailing partial block is clear (ISO/IEC 23001-7, 9.6). The pattern
/// starts anew in each range.
///
/// The subsample map must have been checked against the sample.
struct PatternWalk {
    private let crypt: Int
    /// In bytes.
    private let gap: Int
    private var next: UnsafePointer<Subsample>?
    private let end: UnsafePointer<Subsample>?
    private var rangeEnd = 0
    /// Of the next block.
    private var offset = 0
    /// Encrypted blocks in front of the next gap.
    private var left = 0

    /// `crypt` is at least 1.
    @inline(__always)
    init(crypt: Int, skip: Int, over subsamples: UnsafeBufferPointer<Subsample>) {
        self.crypt = crypt
        gap = skip * 16
        next = subsamples.baseAddress
        end = subsamples.baseAddress.map { $0 + subsamples.count }
    }

    /// Calls `body` for the next blocks, at most `capacity`, with the offset of each in the sample and its number in this
    /// call, and `rangeBody` in front of the first block of each range. Returns how many there were: none at the end.
    @inline(__always)
    mutating func advance(
        capacity: Int, _ body: (_ offset: Int, _ number: Int) -> Void, startingRange rangeBody: (_ number: Int) -> Void
    ) -> Int {
        // All offsets are at most the size of the sample and a gap of 255 blocks: nothing overflows.
        var number = 0
        while number < capacity {
            if offset &+ 16 > rangeEnd {
                guard let subsample = next, subsample != end else { break }
                // SAFETY: in front of `end`, in the buffer that outlives the walk.
                offset = rangeEnd &+ Int(subsample.pointee.clear)
                rangeEnd = offset &+ Int(subsample.pointee.protected)
                next = subsample + 1
                left = crypt
                if offset &+ 16 <= rangeEnd { rangeBody(number) }
                continue
            }
            body(offset, number)
            number &+= 1
            offset &+= 16
            left &-= 1
            if left == 0 {
                left = crypt
                offset &+= gap
            }
        }
        return number
    }
}
