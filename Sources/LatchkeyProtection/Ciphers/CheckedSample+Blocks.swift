// SPDX-License-Identifier: MPL-2.0

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
