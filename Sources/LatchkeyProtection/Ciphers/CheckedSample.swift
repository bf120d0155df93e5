// SPDX-License-Identifier: MPL-2.0

import Glibc

/// A sample whose subsample map covers it exactly. All pointer arithmetic of the module rests on this check.
struct CheckedSample {
    // SAFETY: the subsamples' ranges add up to the size of source and target, which outlive the value; source and
    // target are equal or apart.
    let subsamples: UnsafeBufferPointer<Subsample>
    let source: UnsafeRawPointer
    let target: UnsafeMutableRawPointer
    let size: Int

    /// Whether the clear bytes must be copied.
    let isApart: Bool

    /// Nil for a sample without bytes.
    @inline(__always)
    init?(
        _ subsamples: UnsafeBufferPointer<Subsample>, from source: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) throws(DecryptionError) {
        let size = source.count
        guard target.count == size else { throw .sizeMismatch(source: size, target: target.count) }
        try Self.check(subsamples, coverAll: size)
        guard let from = source.baseAddress, let to = target.baseAddress, size > 0 else { return nil }
        isApart = UnsafeRawPointer(to) != from
        guard !isApart || abs(from - UnsafeRawPointer(to)) >= size else { throw .buffersOverlap(size: size) }
        self.subsamples = subsamples
        self.source = from
        self.target = to
        self.size = size
    }

    @inline(__always)
    static func check(_ subsamples: UnsafeBufferPointer<Subsample>, coverAll size: Int) throws(DecryptionError) {
        var covered = 0
        for (index, subsample) in subsamples.enumerated() {
            // Two UInt32 and a sum of at most `size`: no Int overflows here.
            covered += Int(subsample.clear) + Int(subsample.protected)
            guard covered <= size else { throw .subsamplesExceedSample(index: index, size: size) }
        }
        guard covered == size else { throw .subsamplesDoNotCoverSample(covered: covered, size: size) }
    }

    /// Copies the whole sample, where the target is another buffer.
    @inline(__always)
    func copyAll() {
        if isApart { copy(from: 0, count: size) }
    }

    @inline(__always)
    func copy(from offset: Int, count: Int) {
        // SAFETY: inside the sample; the buffers are apart where this is called.
        memcpy(target + offset, source + offset, count)
    }
}

// Single blocks far apart: gathering them for one call of the cipher costs less than a call for each. The clear bytes are
// the caller's.
extension CheckedSample {
    private typealias Block = SIMD2<UInt64>

    /// AES-CTR over the blocks of the walk. The counter runs on over encrypted blocks only, through all ranges.
    @inline(__always)
    func decryptBlocks(
        of walk: PatternWalk, counter context: CipherContext, startingAt vector: InitializationVector,
        gatheredIn buffer: GatherBuffer
    ) throws(DecryptionError) {
        try context.restart(high: vector.high, low: vector.low)
        var run = CounterRun(startingAt: vector)
        var walk = walk
        while true {
            let (count, _) = gather(&walk, into: buffer)
            guard count > 0 else { return }
            try run.update(context, from: buffer.encrypted, to: buffer.clear, count: count * 16)
            scatter(count, from: buffer)
        }
    }

    /// AES-CBC over the blocks of the walk, from the IV anew in each range.
    ///
    /// One call chains through all ranges as if they were one; the first block of each is put right with two XORs.
    @inline(__always)
    func decryptBlocks(
        of walk: PatternWalk, chainedWith context: CipherContext, startingAt vector: InitializationVector,
        gatheredIn buffer: GatherBuffer
    ) throws(DecryptionError) {
        try context.restart(high: vector.high, low: vector.low)
        let start = Block(vector.high.bigEndian, vector.low.bigEndian)
        // The encrypted block in front of those that are gathered.
        var previous = start
        var walk = walk
        while true {
            let (count, ranges) = gather(&walk, into: buffer)
            guard count > 0 else { return }
            try context.update(from: buffer.encrypted, to: buffer.clear, count: count * 16)
            for range in 0..<ranges {
                // SAFETY: numbers of blocks in the buffer, from `gather`.
                let place = buffer.rangeStarts[range] &* 16
                let before = place > 0 ? (buffer.encrypted + (place &- 16)).load(as: Block.self) : previous
                let first = buffer.clear + place
                first.storeBytes(of: first.load(as: Block.self) ^ before ^ start, as: Block.self)
            }
            previous = (buffer.encrypted + (count &- 1) &* 16).load(as: Block.self)
            scatter(count, from: buffer)
        }
    }

    /// Fills the buffer with the next blocks of the walk. Returns how many, and how many ranges start among them.
    @inline(__always)
    private func gather(_ walk: inout PatternWalk, into buffer: GatherBuffer) -> (blocks: Int, ranges: Int) {
        var ranges = 0
        // SAFETY: the walk stays inside the checked ranges, and gives numbers below the capacity; a block follows the
        // start of each range.
        let blocks = walk.advance(capacity: GatherBuffer.capacity) { offset, number in
            (buffer.encrypted + number &* 16).storeBytes(
                of: (source + offset).loadUnaligned(as: Block.self), as: Block.self)
            buffer.offsets[number] = offset
        } startingRange: { number in
            buffer.rangeStarts[ranges] = number
            ranges &+= 1
        }
        return (blocks, ranges)
    }

    /// Puts clear blocks back to their places.
    @inline(__always)
    private func scatter(_ count: Int, from buffer: GatherBuffer) {
        var number = 0
        while number < count {
            // SAFETY: as in `gather`.
            (target + buffer.offsets[number]).storeBytes(
                of: (buffer.clear + number &* 16).load(as: Block.self), as: Block.self)
            number &+= 1
        }
    }
}

// Whole ranges: one call of the cipher for each, as fast as gathering is not (two more passes over all bytes).
extension CheckedSample {
    /// AES-CTR over the protected ranges, which continue each other. With `wholeBlocks`, a partial block at the end of
    /// a range is clear.
    @inline(__always)
    func decryptRanges(
        counter context: CipherContext, startingAt vector: InitializationVector, wholeBlocks: Bool
    ) throws(DecryptionError) {
        try context.restart(high: vector.high, low: vector.low)
        var run = CounterRun(startingAt: vector)
        let mask = wholeBlocks ? ~15 : ~0
        try forEachRange(mask: mask) { offset, count throws(DecryptionError) in
            try run.update(context, from: source + offset, to: target + offset, count: count)
        }
    }

    /// AES-CBC over the whole blocks of the protected ranges. They continue each other, or start from the IV each.
    @inline(__always)
    func decryptRanges(
        chained context: CipherContext, startingAt vector: InitializationVector, eachAnew: Bool
    ) throws(DecryptionError) {
        try context.restart(high: vector.high, low: vector.low)
        var isFresh = true
        try forEachRange(mask: ~15) { offset, count throws(DecryptionError) in
            guard count > 0 else { return }
            if eachAnew, !isFresh { try context.restart(high: vector.high, low: vector.low) }
            isFresh = false
            try context.update(from: source + offset, to: target + offset, count: count)
        }
    }

    /// Calls `body` with the offset and the masked size of each protected range, and copies the rest if need be.
    @inline(__always)
    private func forEachRange(
        mask: Int, _ body: (_ offset: Int, _ count: Int) throws(DecryptionError) -> Void
    ) throws(DecryptionError) {
        var offset = 0
        for subsample in subsamples {
            let clear = Int(subsample.clear)
            let protected = Int(subsample.protected)
            let count = protected & mask
            if isApart {
                copy(from: offset, count: clear)
                copy(from: offset + clear + count, count: protected - count)
            }
            try body(offset + clear, count)
            offset += clear + protected
        }
    }
}

/// AES-CTR whose counter is the low 64 bits alone: ISO/IEC 23001-7, 9.3 lets them wrap, libgcrypt carries into the high
/// half. So the run is split where they wrap.
struct CounterRun {
    private let high: UInt64
    /// In bytes of key stream.
    private var untilWrap: Int

    @inline(__always)
    init(startingAt vector: InitializationVector) {
        high = vector.high
        let blocks = 0 &- vector.low
        // No sample is as long as the far ends.
        untilWrap = blocks == 0 || blocks > 1 << 56 ? Int.max : Int(blocks) * 16
    }

    @inline(__always)
    mutating func update(
        _ context: CipherContext, from source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, count: Int
    ) throws(DecryptionError) {
        guard count > untilWrap else {
            untilWrap -= count
            return try context.update(from: source, to: target, count: count)
        }
        // SAFETY: the caller's `count` bytes are at both addresses, and `first` is less than that.
        let first = untilWrap
        try context.update(from: source, to: target, count: first)
        try context.restart(high: high, low: 0)
        untilWrap = Int.max
        try context.update(from: source + first, to: target + first, count: count - first)
    }
}

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
