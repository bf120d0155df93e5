// SPDX-License-Identifier: MPL-2.0

import ProtectionModel

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
        while let gathered = gather(&walk, into: buffer) {
            try run.update(context, from: buffer.encrypted, to: buffer.clear, count: gathered.blocks * 16)
            var block = UnsafeRawPointer(buffer.clear)
            for index in 0..<gathered.rows {
                scatter(buffer.rows[index], crypt: walk.crypt, stride: walk.stride, from: &block)
            }
        }
    }

    /// AES-CBC over the blocks of the walk, from the IV anew in each range.
    ///
    /// One call chains through all ranges as if they were one; the first block of each is put right with two XORs when
    /// it goes back to its place.
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
        while let gathered = gather(&walk, into: buffer) {
            let count = gathered.blocks * 16
            try context.update(from: buffer.encrypted, to: buffer.clear, count: count)
            var block = UnsafeRawPointer(buffer.clear)
            for index in 0..<gathered.rows {
                let rows = buffer.rows[index]
                if rows.startsRange {
                    // SAFETY: `block` is inside the buffer, at the same place as its encrypted form.
                    let place = block - UnsafeRawPointer(buffer.clear)
                    let before = place > 0 ? (buffer.encrypted + (place - 16)).load(as: Block.self) : previous
                    let chained = block.load(as: Block.self)
                    (buffer.clear + place).storeBytes(of: chained ^ before ^ start, as: Block.self)
                }
                scatter(rows, crypt: walk.crypt, stride: walk.stride, from: &block)
            }
            previous = (buffer.encrypted + (count - 16)).load(as: Block.self)
        }
    }

    /// Fills the buffer with the next blocks of the walk, and notes their rows. Nil when the walk is over.
    @inline(__always)
    private func gather(_ walk: inout PatternWalk, into buffer: GatherBuffer) -> (blocks: Int, rows: Int)? {
        let crypt = walk.crypt
        let stride = walk.stride
        var block = buffer.encrypted
        var room = GatherBuffer.capacity
        var count = 0
        while let rows = walk.advance(capacity: room) {
            // SAFETY: the walk stays inside the checked ranges, and `room` counts what is free in the buffer. Each of
            // the rows has a block, so there are no more of them than blocks.
            buffer.rows[count] = rows
            count += 1
            forEachBlock(of: rows, crypt: crypt, stride: stride) { offset in
                block.storeBytes(of: (source + offset).loadUnaligned(as: Block.self), as: Block.self)
                block += 16
            }
            room -= rows.blocks
        }
        return count > 0 ? (GatherBuffer.capacity - room, count) : nil
    }

    /// Puts clear blocks back to their places.
    @inline(__always)
    private func scatter(_ rows: BlockRows, crypt: Int, stride: Int, from block: inout UnsafeRawPointer) {
        forEachBlock(of: rows, crypt: crypt, stride: stride) { offset in
            // SAFETY: as in `gather`.
            (target + offset).storeBytes(of: block.load(as: Block.self), as: Block.self)
            block += 16
        }
    }

    @inline(__always)
    private func forEachBlock(of rows: BlockRows, crypt: Int, stride: Int, _ body: (Int) -> Void) {
        var offset = rows.offset
        var left = rows.blocks
        if crypt == 1 {
            while left > 0 {
                body(offset)
                offset += stride
                left -= 1
            }
        } else {
            while left > 0 {
                let row = min(crypt, left)
                for position in 0..<row { body(offset + position * 16) }
                offset += stride
                left -= row
            }
        }
    }
}
