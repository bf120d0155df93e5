// SPDX-License-Identifier: MPL-2.0

/// Reads an intra slice in CABAC to its end (ISO/IEC 14496-10, 7.3.4 and 9.3). With a wrong key or a wrong IV, its macroblocks
/// end somewhere else than its bytes do. Of frames in 4:2:0 or in gray. No bytes make it trap.
struct H264IntraSlice {
    private let sequence: H264ParameterSets.SequenceSet
    private let hasLargeTransform: Bool
    private let first: Int
    private var engine: H264ArithmeticEngine
    private var contexts: [H264ArithmeticContext]
    /// Of the row above, and of this one up to here.
    private var row: [Macroblock]
    private var left: Macroblock?
    private var above: Macroblock?
    private var hasQuantizerDelta = false

    /// What its neighbors have to know of a macroblock.
    private struct Macroblock {
        var isBlocks = false
        var isSamples = false
        var hasChromaMode = false
        var hasLargeTransform = false
        /// A bit for each quarter.
        var luma = 0
        var chroma = 0
        /// The blocks that have coefficients: those of luma and of both colors by rows, then those of averages.
        var coded: UInt32 = 0
    }

    private enum Broken: Error { case broken }
    /// Where samples lie that are not coded, their depth has to be known.
    private enum Outcome { case next, end, unknown }

    /// Nil: this slice does not tell. `bits` are at the first macroblock, and the last bit that is set is at `end`. The sequence is
    /// wholly known, and the codes are arithmetic ones.
    static func isWhole(
        _ bits: SampleBits, endsAt end: Int, _ sequence: H264ParameterSets.SequenceSet,
        _ picture: H264ParameterSets.PictureSet, quantizer: Int, first: Int
    ) -> Bool? {
        guard first < sequence.macroblocks, let engine = H264ArithmeticEngine(bits) else { return false }
        var slice = H264IntraSlice(sequence, picture, quantizer, first, engine)
        var place = first
        while place < sequence.macroblocks {
            switch try? slice.readMacroblock(at: place) {
            case .next: guard slice.engine.offset <= end + 1 else { return false }
            // Encoders leave some bits behind.
            case .end: return (0..<bitsBehind).contains(end + 1 - slice.engine.offset)
            case .unknown: return nil
            case nil: return false
            }
            place += 1
        }
        return false
    }

    private init(
        _ sequence: H264ParameterSets.SequenceSet, _ picture: H264ParameterSets.PictureSet, _ quantizer: Int,
        _ first: Int, _ engine: H264ArithmeticEngine
    ) {
        self.sequence = sequence
        hasLargeTransform = picture.hasLargeTransform
        self.first = first
        self.engine = engine
        contexts = Self.starts.map { H264ArithmeticContext($0.0, $0.1, quantizer: quantizer) }
        row = [Macroblock](repeating: Macroblock(), count: sequence.width)
    }

    private mutating func decode(_ context: Int) -> Int { engine.decode(&contexts[context]) }

    // MARK: Macroblocks

    /// 7.3.5
    private mutating func readMacroblock(at place: Int) throws(Broken) -> Outcome {
        let column = place % sequence.width
        above = place - sequence.width >= first ? row[column] : nil
        left = column > 0 && place > first ? row[column - 1] : nil
        var block = Macroblock()
        var isWhole = false
        if decode(Context.kind + count { !$0.isBlocks }) == 0 {
            block.isBlocks = true
            readModes(&block)
        } else if engine.isEnd() {
            guard sequence.hasBytes else { return .unknown }
            block = Macroblock(isSamples: true, luma: 15, chroma: 2, coded: .max)
            hasQuantizerDelta = false
            guard engine.restart(behind: sequence.hasChroma ? 384 : 256) else { throw .broken }
        } else {
            isWhole = true
            block.luma = decode(Context.kind + 3) * 15
            if decode(Context.kind + 4) == 1 { block.chroma = 1 + decode(Context.kind + 5) }
            _ = decode(Context.kind + 6)
            _ = decode(Context.kind + 7)
        }
        if !block.isSamples {
            if sequence.hasChroma { readChromaMode(&block) }
            if !isWhole { readPattern(&block) }
            if isWhole || block.luma > 0 || block.chroma > 0 {
                try readQuantizerDelta()
                try readCoefficients(&block, isWhole: isWhole)
            } else {
                hasQuantizerDelta = false
            }
        }
        row[column] = block
        return engine.isEnd() ? .end : .next
    }

    /// How many of the neighbors are so.
    private func count(_ isSo: (Macroblock) -> Bool) -> Int {
        (left.map(isSo) == true ? 1 : 0) + (above.map(isSo) == true ? 1 : 0)
    }

    /// The same, where that above counts twice.
    private func weight(_ isSo: (Macroblock) -> Bool) -> Int {
        (left.map(isSo) == true ? 1 : 0) + (above.map(isSo) == true ? 2 : 0)
    }

    private mutating func readModes(_ block: inout Macroblock) {
        if hasLargeTransform {
            block.hasLargeTransform = decode(Context.largeTransform + count { $0.hasLargeTransform }) == 1
        }
        for _ in 0..<(block.hasLargeTransform ? 4 : 16) where decode(Context.mode) == 0 {
            for _ in 0..<3 { _ = decode(Context.mode + 1) }
        }
    }

    private mutating func readChromaMode(_ block: inout Macroblock) {
        guard decode(Context.chromaMode + count { $0.hasChromaMode }) == 1 else { return }
        block.hasChromaMode = true
        if decode(Context.chromaMode + 3) == 1 { _ = decode(Context.chromaMode + 3) }
    }

    /// Which quarters have coefficients, and whether chroma has.
    private mutating func readPattern(_ block: inout Macroblock) {
        for quarter in 0..<4 {
            let beside = quarter & 1 == 0 ? left?.luma : block.luma
            let over = quarter & 2 == 0 ? above?.luma : block.luma
            let increment =
                (Self.lacks(beside, quarter ^ 1) ? 1 : 0) + (Self.lacks(over, quarter ^ 2) ? 2 : 0)
            block.luma |= decode(Context.luma + increment) << quarter
        }
        guard sequence.hasChroma, decode(Context.chroma + weight { $0.chroma > 0 }) == 1 else { return }
        block.chroma = 1 + decode(Context.chroma + 4 + weight { $0.chroma == 2 })
    }

    private static func lacks(_ pattern: Int?, _ quarter: Int) -> Bool {
        pattern.map { $0 >> quarter & 1 == 0 } ?? false
    }

    private mutating func readQuantizerDelta() throws(Broken) {
        var value = 0
        var context = Context.quantizer + (hasQuantizerDelta ? 1 : 0)
        while decode(context) == 1 {
            context = Context.quantizer + (value == 0 ? 2 : 3)
            value += 1
            if value > Self.largestQuantizerDelta { throw .broken }
        }
        hasQuantizerDelta = value > 0
    }

    // MARK: Coefficients

    /// 7.3.5.3
    private mutating func readCoefficients(_ block: inout Macroblock, isWhole: Bool) throws(Broken) {
        if isWhole { try readBlock(.lumaAverages, &block, bit: Place.averages, 1, 1) }
        for number in 0..<16 where block.luma >> (number >> 2) & 1 == 1 {
            // In squares of four, and those in squares.
            let (column, line) = (number & 1 | number >> 1 & 2, number >> 1 & 1 | number >> 2 & 2)
            if block.hasLargeTransform {
                if number & 3 == 0 { try readLevels(.largeLuma) }
                block.coded |= 1 << UInt32(line * 4 + column)
            } else {
                try readBlock(isWhole ? .lumaOthers : .luma, &block, bit: line * 4 + column, 4, 4)
            }
        }
        guard block.chroma > 0 else { return }
        for color in 0..<2 { try readBlock(.chromaAverages, &block, bit: Place.averages + 1 + color, 1, 1) }
        guard block.chroma == 2 else { return }
        for color in 0..<2 {
            for number in 0..<4 { try readBlock(.chromaOthers, &block, bit: Place.chroma + color * 4 + number, 2, 2) }
        }
    }

    private enum Place {
        static let chroma = 16
        static let averages = 24
    }

    /// A block, if it has coefficients. `bit` is its place in `coded`, in a square of so many blocks.
    private mutating func readBlock(
        _ kind: Kind, _ block: inout Macroblock, bit: Int, _ width: Int, _ height: Int
    ) throws(Broken) {
        let start = bit >= Place.averages ? bit : bit < Place.chroma ? 0 : Place.chroma + (bit - Place.chroma) / 4 * 4
        let (column, line) = ((bit - start) % width, (bit - start) / width)
        // Without a neighbor, as if it had some.
        let beside = column > 0 ? block.coded >> UInt32(bit - 1) : left.map { $0.coded >> UInt32(bit + width - 1) } ?? 1
        let over =
            line > 0
            ? block.coded >> UInt32(bit - width) : above.map { $0.coded >> UInt32(bit + (height - 1) * width) } ?? 1
        guard decode(Context.coded + kind.rawValue * 4 + Int(beside & 1) + 2 * Int(over & 1)) == 1 else { return }
        block.coded |= 1 << UInt32(bit)
        try readLevels(kind)
    }

    /// Table 9-40
    private enum Kind: Int {
        case lumaAverages, lumaOthers, luma, chromaAverages, chromaOthers, largeLuma

        var size: Int { [16, 15, 16, 4, 15, 64][rawValue] }
        var mapOffset: Int { [0, 15, 29, 44, 47, 0][rawValue] }
        var levelOffset: Int { [0, 10, 20, 30, 39, 0][rawValue] }
    }

    /// 7.3.5.3.3
    private mutating func readLevels(_ kind: Kind) throws(Broken) {
        let isLarge = kind == .largeLuma
        let isAverages = kind == .chromaAverages
        let size = kind.size
        let map = isLarge ? Context.largeMap : Context.map + kind.mapOffset
        let last = isLarge ? Context.largeLast : Context.last + kind.mapOffset
        let level = isLarge ? Context.largeLevel : Context.level + kind.levelOffset
        var count = 0
        var index = 0
        while index < size - 1 {
            let place = isAverages ? min(index, 2) : index
            if decode(map + (isLarge ? Self.largeMap[index] : place)) == 1 {
                count += 1
                if decode(last + (isLarge ? Self.largeLast[index] : place)) == 1 { break }
            }
            index += 1
        }
        if index == size - 1 { count += 1 }
        var (ones, others) = (0, 0)
        for _ in 0..<count {
            if decode(level + (others > 0 ? 0 : min(4, 1 + ones))) == 0 {
                ones += 1
            } else {
                let context = level + 5 + min(isAverages ? 3 : 4, others)
                var value = 1
                while value < 14, decode(context) == 1 { value += 1 }
                if value == 14 { try skipSuffix() }
                others += 1
            }
            _ = engine.bypass()
        }
    }

    /// 9.3.2.3
    private mutating func skipSuffix() throws(Broken) {
        var size = 0
        while engine.bypass() == 1 {
            size += 1
            if size > Self.largestSuffix { throw .broken }
        }
        for _ in 0..<size { _ = engine.bypass() }
    }

    // MARK: Tables

    private static let bitsBehind = 32
    /// With 14 bits a sample.
    private static let largestQuantizerDelta = 2 * (26 + 18)
    private static let largestSuffix = 24

    /// Places in `starts`.
    private enum Context {
        static let kind = 0
        static let quantizer = 8
        static let chromaMode = 12
        static let mode = 16
        static let luma = 18
        static let chroma = 22
        static let coded = 30
        static let map = 50
        static let last = 111
        static let level = 172
        static let largeTransform = 221
        static let largeMap = 224
        static let largeLast = 239
        static let largeLevel = 248
    }

    /// Of the contexts 3 to 10, 60 to 69, 73 to 275 and 399 to 435, for intra slices (Tables 9-12 to 9-33).
    private static let starts: [(Int, Int)] = [
        (20, -15), (2, 54), (3, 74), (-28, 127), (-23, 104), (-6, 53), (-1, 54), (7, 51),
        (0, 41), (0, 63), (0, 63), (0, 63), (-9, 83), (4, 86), (0, 97), (-7, 72), (13, 41), (3, 62),
        (-17, 127), (-13, 102), (0, 82), (-7, 74), (-21, 107), (-27, 127), (-31, 127), (-24, 127), (-18, 95),
        (-27, 127), (-21, 114), (-30, 127),
        // Whether a block has coefficients.
        (-17, 123), (-12, 115), (-16, 122), (-11, 115), (-12, 63), (-2, 68), (-15, 84), (-13, 104), (-3, 70), (-8, 93),
        (-10, 90), (-30, 127), (-1, 74), (-6, 97), (-7, 91), (-20, 127), (-4, 56), (-5, 82), (-7, 76), (-22, 125),
        // Which coefficients it has.
        (-7, 93), (-11, 87), (-3, 77), (-5, 71), (-4, 63), (-4, 68), (-12, 84), (-7, 62), (-7, 65), (8, 61), (5, 56),
        (-2, 66), (1, 64), (0, 61), (-2, 78), (1, 50), (7, 52), (10, 35), (0, 44), (11, 38), (1, 45), (0, 46), (5, 44),
        (31, 17), (1, 51), (7, 50), (28, 19), (16, 33), (14, 62), (-13, 108), (-15, 100), (-13, 101), (-13, 91),
        (-12, 94), (-10, 88), (-16, 84), (-10, 86), (-7, 83), (-13, 87), (-19, 94), (1, 70), (0, 72), (-5, 74),
        (18, 59), (-8, 102), (-15, 100), (0, 95), (-4, 75), (2, 72), (-11, 75), (-3, 71), (15, 46), (-13, 69), (0, 62),
        (0, 65), (21, 37), (-15, 72), (9, 57), (16, 54), (0, 62), (12, 72),
        // Which of them is the last.
        (24, 0), (15, 9), (8, 25), (13, 18), (15, 9), (13, 19), (10, 37), (12, 18), (6, 29), (20, 33), (15, 30),
        (4, 45), (1, 58), (0, 62), (7, 61), (12, 38), (11, 45), (15, 39), (11, 42), (13, 44), (16, 45), (12, 41),
        (10, 49), (30, 34), (18, 42), (10, 55), (17, 51), (17, 46), (0, 89), (26, -19), (22, -17), (26, -17), (30, -25),
        (28, -20), (33, -23), (37, -27), (33, -23), (40, -28), (38, -17), (33, -11), (40, -15), (41, -6), (38, 1),
        (41, 17), (30, -6), (27, 3), (26, 22), (37, -16), (35, -4), (38, -8), (38, -3), (37, 3), (38, 5), (42, 0),
        (35, 16), (39, 22), (14, 48), (27, 37), (21, 60), (12, 68), (2, 97),
        // How large they are.
        (-3, 71), (-6, 42), (-5, 50), (-3, 54), (-2, 62), (0, 58), (1, 63), (-2, 72), (-1, 74), (-9, 91), (-5, 67),
        (-5, 27), (-3, 39), (-2, 44), (0, 46), (-16, 64), (-8, 68), (-10, 78), (-6, 77), (-10, 86), (-12, 92),
        (-15, 55), (-10, 60), (-6, 62), (-4, 65), (-12, 73), (-8, 76), (-7, 80), (-9, 88), (-17, 110), (-11, 97),
        (-20, 84), (-11, 79), (-6, 73), (-4, 74), (-13, 86), (-13, 96), (-11, 97), (-19, 117), (-8, 78), (-5, 33),
        (-4, 48), (-2, 53), (-3, 62), (-13, 71), (-10, 79), (-12, 86), (-13, 90), (-14, 97),
        // The same of blocks of 8x8.
        (31, 21), (31, 31), (25, 50),
        (-17, 120), (-20, 112), (-18, 114), (-11, 85), (-15, 92), (-14, 89), (-26, 71), (-15, 81), (-14, 80), (0, 68),
        (-14, 70), (-24, 56), (-23, 68), (-24, 50), (-11, 74),
        (23, -13), (26, -13), (40, -15), (49, -14), (44, 3), (45, 6), (44, 34), (33, 54), (19, 82),
        (-3, 75), (-1, 23), (1, 34), (1, 43), (0, 54), (-2, 55), (0, 61), (1, 64), (0, 68), (-9, 92),
    ]

    /// Table 9-43, of frames.
    private static let largeMap = [
        0, 1, 2, 3, 4, 5, 5, 4, 4, 3, 3, 4, 4, 4, 5, 5, 4, 4, 4, 4, 3, 3, 6, 7, 7, 7, 8, 9, 10, 9, 8, 7,
        7, 6, 11, 12, 13, 11, 6, 7, 8, 9, 14, 10, 9, 8, 6, 11, 12, 13, 11, 6, 9, 14, 10, 9, 11, 12, 13, 11, 14, 10, 12,
    ]
    private static let largeLast = [
        0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
        3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8,
    ]
}
