// SPDX-License-Identifier: MPL-2.0

/// What the uncompressed header of a VP9 frame says of the bytes behind it (VP9 bitstream, 6.2). Pure; no bytes make it trap.
struct VP9FrameHeader {
    /// The bytes of the header itself. The compressed header begins behind them.
    let size: Int
    /// Those of the compressed header. The tiles begin behind them.
    let compressedSize: Int
    /// The width of the picture, if the frame states it. The others have that of a frame which they refer to.
    let width: Int?

    private static let key = 0
    /// Red, green and blue.
    private static let rgb = 7

    /// Nil for a frame that only repeats a picture, for one that states no width if `width` is nil, and for what is none.
    init?(_ sample: UnsafeRawBufferPointer, width known: Int?) {
        var bits = SampleBits(sample, from: 0)
        guard bits.number(2) == 2 else { return nil }
        let profile = bits.number(1) | bits.number(1) << 1
        guard profile < 3 || !bits.flag(), !bits.flag() else { return nil }
        let isKey = bits.number(1) == Self.key
        let isShown = bits.flag()
        let isResilient = bits.flag()
        let isIntra = isKey || !isShown && bits.flag()
        // reset_frame_context
        if !isKey, !isResilient { bits.skip(2) }
        if isIntra {
            guard bits.number(24) == 0x49_83_42 else { return nil }
            if isKey || profile > 0 { Self.skipColors(&bits, profile) }
        }
        // refresh_frame_flags
        if !isKey { bits.skip(8) }
        // Three references, each with the sign of its motion vectors.
        if !isIntra { bits.skip(3 * 4) }
        width = isIntra || !Self.refersToSize(&bits) ? Self.width(&bits) : nil
        // The size to be shown in.
        if bits.flag() { bits.skip(32) }
        if !isIntra {
            // allow_high_precision_mv, and the filter unless it may change from block to block
            bits.skip(1)
            if !bits.flag() { bits.skip(2) }
        }
        // refresh_frame_context, frame_parallel_decoding_mode; frame_context_idx
        if !isResilient { bits.skip(2) }
        bits.skip(2)
        Self.skipLoopFilter(&bits)
        Self.skipQuantization(&bits)
        Self.skipSegmentation(&bits)
        guard let width = width ?? known else { return nil }
        Self.skipTiles(&bits, width)
        compressedSize = bits.number(16)
        size = bits.bytesRead
        guard compressedSize > 0, size + compressedSize < sample.count else { return nil }
    }

    private static func skipColors(_ bits: inout SampleBits, _ profile: Int) {
        // ten_or_twelve_bit
        if profile >= 2 { bits.skip(1) }
        if bits.number(3) != rgb {
            // color_range; subsampling in both directions, and a reserved bit
            bits.skip(1)
            if profile & 1 == 1 { bits.skip(3) }
        } else if profile & 1 == 1 {
            bits.skip(1)
        }
    }

    /// Whether the frame has the size of one that it refers to. One bit for each of the three, up to the first that is set.
    private static func refersToSize(_ bits: inout SampleBits) -> Bool {
        (0..<3).contains { _ in bits.flag() }
    }

    private static func width(_ bits: inout SampleBits) -> Int {
        defer { bits.skip(16) }
        return bits.number(16) + 1
    }

    private static func skipLoopFilter(_ bits: inout SampleBits) {
        // The level, the sharpness; then, differences for four references and two modes.
        bits.skip(6 + 3)
        guard bits.flag(), bits.flag() else { return }
        for _ in 0..<6 where bits.flag() { bits.skip(6 + 1) }
    }

    private static func skipQuantization(_ bits: inout SampleBits) {
        bits.skip(8)
        for _ in 0..<3 where bits.flag() { bits.skip(4 + 1) }
    }

    private static func skipSegmentation(_ bits: inout SampleBits) {
        guard bits.flag() else { return }
        if bits.flag() {
            for _ in 0..<7 where bits.flag() { bits.skip(8) }
            // temporal_update
            if bits.flag() {
                for _ in 0..<3 where bits.flag() { bits.skip(8) }
            }
        }
        guard bits.flag() else { return }
        // Absolute or not; then, for each segment, the quantizer and the loop filter with signs, the reference, and skip.
        bits.skip(1)
        for _ in 0..<8 {
            for size in [8 + 1, 6 + 1, 2, 0] where bits.flag() { bits.skip(size) }
        }
    }

    private static func skipTiles(_ bits: inout SampleBits, _ width: Int) {
        // In superblocks of 64 pixels, of which a column has 4 to 64.
        let columns = (width + 63) / 64
        var (least, most) = (0, 1)
        while 64 << least < columns { least += 1 }
        while columns >> most >= 4 { most += 1 }
        while least < most - 1, bits.flag() { least += 1 }
        // tile_rows_log2
        if bits.flag() { bits.skip(1) }
    }
}
