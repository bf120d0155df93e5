// SPDX-License-Identifier: MPL-2.0

/// The start of an intra slice of H.264: the header, which is clear, and the first macroblock. That one has no neighbors, so
/// that few ways to predict it are allowed (ISO/IEC 14496-10, 8.3). Random bytes choose one of the others in most cases.
struct H264IntraStart {
    /// The first byte that has data of the slice alone, counted from the one behind the header of the NAL unit.
    let dataOffset: Int
    /// Whether the first macroblock is one that may be the first.
    let isAllowed: Bool

    /// The header of a slice, and what the syntax of one macroblock takes at most.
    private static let sizeLimit = 256
    /// Larger slices are not read as a whole.
    private static let wholeLimit = 256 << 10

    private struct Header {
        let sequence: H264ParameterSets.SequenceSet
        let picture: H264ParameterSets.PictureSet
        let quantizer: Int
        /// The first macroblock.
        let first: Int
        let isField: Bool
    }

    /// Whether all of an intra slice is one. Nil: it does not tell. `unit` and `header` are those of `init`.
    static func isWhole(
        _ unit: some Collection<UInt8>, header: UInt8, _ sets: H264ParameterSets
    ) -> Bool? {
        // Most slices are of other kinds. Those are not copied.
        guard unit.count <= wholeLimit,
            H264Payload(unit, limit: sizeLimit).bytes.withUnsafeBytes({ readStart($0, header, sets) != nil })
        else { return nil }
        let payload = H264Payload(unit, limit: wholeLimit)
        return payload.bytes.withUnsafeBytes { bytes in
            guard let (found, bits) = readStart(bytes, header, sets) else { return nil }
            return H264IntraSlice.isWhole(
                bits, endsAt: payload.bitsBeforeStop, found.sequence, found.picture, quantizer: found.quantizer,
                first: found.first)
        }
    }

    /// The header of a slice that can be read as a whole, and the bits behind it.
    private static func readStart(
        _ bytes: UnsafeRawBufferPointer, _ header: UInt8, _ sets: H264ParameterSets
    ) -> (Header, SampleBits)? {
        var bits = SampleBits(bytes, from: 0)
        guard let found = readHeader(&bits, header, sets), found.sequence.isWhollyKnown, found.picture.isArithmetic,
            !found.isField
        else { return nil }
        // Bits that are set, up to a whole byte.
        while bits.offset % 8 != 0 { guard bits.flag() else { return nil } }
        return (found, bits)
    }

    /// `unit` begins behind the header of the NAL unit, of which `header` is the byte. Nil for other slices, and for those of
    /// which the sets do not tell where the data begins.
    init?(_ unit: some Sequence<UInt8>, header: UInt8, _ sets: H264ParameterSets) {
        let payload = H264Payload(unit, limit: Self.sizeLimit)
        let found = payload.bytes.withUnsafeBytes { bytes -> (start: Int, isAllowed: Bool)? in
            var bits = SampleBits(bytes, from: 0)
            guard let found = Self.readHeader(&bits, header, sets) else { return nil }
            let (picture, hasChromaMode) = (found.picture, found.sequence.hasChromaMode)
            // Bits that are set, up to a whole byte.
            while picture.isArithmetic, bits.offset % 8 != 0 { guard bits.flag() else { return nil } }
            // Codes of whole bits begin within a byte, which is clear as the header is.
            let start = bits.bytesRead
            if picture.isArithmetic {
                guard var decoder = H264ArithmeticStart(bits, quantizer: found.quantizer) else { return (start, false) }
                return (start, Self.isAllowed(&decoder, picture, hasChromaMode))
            }
            var decoder = H264PlainStart(bits)
            return (start, Self.isAllowed(&decoder, picture, hasChromaMode))
        }
        guard let found else { return nil }
        dataOffset = payload.position(of: found.start)
        isAllowed = found.isAllowed
    }

    /// 7.3.3, for intra slices.
    private static func readHeader(
        _ bits: inout SampleBits, _ header: UInt8, _ sets: H264ParameterSets
    ) -> Header? {
        guard let first = bits.exponential(), let kind = bits.exponential(), kind == 2 || kind == 7,
            let number = bits.exponential(), let (sequence, picture) = sets.sets(of: number)
        else { return nil }
        bits.skip(sequence.frameNumberBits)
        let isField = !sequence.hasOnlyFrames && bits.flag()
        if isField { bits.skip(1) }
        guard isField || !sequence.hasAdaptiveFrames else { return nil }
        let isKey = header & 31 == 5
        if isKey, bits.exponential() == nil { return nil }
        if let count = sequence.orderCountBits { bits.skip(count) }
        let deltas =
            (sequence.orderCountBits != nil || sequence.hasOrderDeltas) && picture.hasFieldOrder && !isField ? 1 : 0
        for _ in 0..<deltas + (sequence.hasOrderDeltas ? 1 : 0) where bits.exponential() == nil { return nil }
        if picture.hasRedundantPictures, bits.exponential() == nil { return nil }
        if header & 0x60 != 0 {
            guard skipMarking(&bits, isKey: isKey) else { return nil }
        }
        guard let delta = bits.signedExponential() else { return nil }
        if picture.hasDeblockingControl {
            guard let mode = bits.exponential(), mode <= 2 else { return nil }
            if mode != 1 {
                guard bits.exponential() != nil, bits.exponential() != nil else { return nil }
            }
        }
        return Header(
            sequence: sequence, picture: picture, quantizer: picture.quantizer + delta, first: first, isField: isField)
    }

    /// 7.3.3.3
    private static func skipMarking(_ bits: inout SampleBits, isKey: Bool) -> Bool {
        guard !isKey else {
            bits.skip(2)
            return true
        }
        guard bits.flag() else { return true }
        // There are no more references than 32, and fewer operations that do something.
        for _ in 0..<66 {
            guard let operation = bits.exponential(), operation <= 6 else { return false }
            if operation == 0 { return true }
            let count = operation == 5 ? 0 : operation == 3 ? 2 : 1
            for _ in 0..<count where bits.exponential() == nil { return false }
        }
        return false
    }

    // MARK: The first macroblock

    /// 7.3.5
    private static func isAllowed(
        _ decoder: inout some H264MacroblockStart, _ picture: H264ParameterSets.PictureSet, _ hasChromaMode: Bool
    ) -> Bool {
        switch decoder.kind() {
        case .none: return false
        case .samples: return true
        case .whole(let mode): guard mode == average else { return false }
        case .blocks:
            let side = picture.hasLargeTransform && decoder.isLargeTransform() ? 2 : 4
            guard areBlocksAllowed(&decoder, side: side) else { return false }
        }
        return !hasChromaMode || decoder.isChromaAverage()
    }

    /// The way that needs no neighbor, for blocks as for whole macroblocks.
    private static let average = 2
    /// The ways that need a neighbor on the left, and above (8.3.1.2).
    private static let needingLeft: Set<Int> = [1, 4, 5, 6, 8]
    private static let needingAbove: Set<Int> = [0, 3, 4, 5, 6, 7]

    /// 8.3.1.1
    private static func areBlocksAllowed(_ decoder: inout some H264MacroblockStart, side: Int) -> Bool {
        var modes = [[Int]](repeating: [Int](repeating: average, count: side), count: side)
        for block in 0..<side * side {
            // In squares of four, and those in squares.
            let (column, row) = (block & 1 | block >> 1 & 2, block >> 1 & 1 | block >> 2 & 2)
            let predicted = row > 0 && column > 0 ? min(modes[row][column - 1], modes[row - 1][column]) : average
            let mode = decoder.mode().map { $0 < predicted ? $0 : $0 + 1 } ?? predicted
            if column == 0, needingLeft.contains(mode) { return false }
            if row == 0, needingAbove.contains(mode) { return false }
            modes[row][column] = mode
        }
        return true
    }
}
