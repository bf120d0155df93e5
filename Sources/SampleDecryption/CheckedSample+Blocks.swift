// SPDX-License-Identifier: MPL-2.0

import ProtectionModel

// Single blocks far apart: gathering them for one EVP call costs less than a call for each. The clear bytes are the
// caller's.
extension CheckedSample {
    private typealias Block = SIMD2<UInt64>

    /// AES-CTR over the blocks of the walk. The counter runs on over encrypted blocks only, through all ranges.
    @inline(__always)
    func decryptBlocks(
        of walk: PatternWalk, counter context: CipherContext, startingAt vector: InitializationVector,
        gatheredIn buffer: UnsafeMutableRawPointer
    ) throws(DecryptionError) {
        try context.restart(high: vector.high, low: vector.low)
        var run = CounterRun(startingAt: vector)
        var reader = walk
        var writer = walk
        while true {
            let count = gather(&reader, into: buffer)
            guard count > 0 else { return }
            try run.update(context, from: buffer, to: buffer, count: count * 16)
            var block = buffer
            // The same room as in `gather`, so that the walk is cut at the same rows.
            var room = SampleCipher.gatherCapacity
            while let rows = writer.advance(capacity: room) {
                forEachBlock(of: rows, crypt: walk.crypt, stride: walk.stride) { offset in
                    // SAFETY: as in `gather`.
                    (target + offset).storeBytes(of: block.loadUnaligned(as: Block.self), as: Block.self)
                    block += 16
                }
                room -= rows.blocks
            }
        }
    }

    /// AES-CBC over the blocks of the walk, from the IV anew in each range.
    ///
    /// ECB has no IV to set: one call serves all ranges, and the chaining is one XOR when a block goes back to its
    /// place.
    @inline(__always)
    func decryptBlocks(
        of walk: PatternWalk, chainedWith context: CipherContext, startingAt vector: InitializationVector,
        gatheredIn buffer: UnsafeMutableRawPointer
    ) throws(DecryptionError) {
        let start = Block(vector.high.bigEndian, vector.low.bigEndian)
        var previous = start
        var reader = walk
        var writer = walk
        while true {
            let count = gather(&reader, into: buffer)
            guard count > 0 else { return }
            try context.update(from: buffer, to: buffer, count: count * 16)
            var block = buffer
            // The same room as in `gather`, so that the walk is cut at the same rows.
            var room = SampleCipher.gatherCapacity
            while let rows = writer.advance(capacity: room) {
                if rows.startsRange { previous = start }
                forEachBlock(of: rows, crypt: walk.crypt, stride: walk.stride) { offset in
                    // SAFETY: as in `gather`. The ciphertext is read before its place is written.
                    let encrypted = (source + offset).loadUnaligned(as: Block.self)
                    (target + offset).storeBytes(of: block.loadUnaligned(as: Block.self) ^ previous, as: Block.self)
                    previous = encrypted
                    block += 16
                }
                room -= rows.blocks
            }
        }
    }

    /// Fills the buffer with the next blocks of the walk. Returns how many.
    @inline(__always)
    private func gather(_ walk: inout PatternWalk, into buffer: UnsafeMutableRawPointer) -> Int {
        let crypt = walk.crypt
        let stride = walk.stride
        var block = buffer
        var room = SampleCipher.gatherCapacity
        while let rows = walk.advance(capacity: room) {
            forEachBlock(of: rows, crypt: crypt, stride: stride) { offset in
                // SAFETY: the walk stays inside the checked ranges, and `room` counts what is free in the buffer.
                block.storeBytes(of: (source + offset).loadUnaligned(as: Block.self), as: Block.self)
                block += 16
            }
            room -= rows.blocks
        }
        return SampleCipher.gatherCapacity - room
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
