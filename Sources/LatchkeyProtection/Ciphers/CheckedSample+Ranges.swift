// SPDX-License-Identifier: MPL-2.0

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
