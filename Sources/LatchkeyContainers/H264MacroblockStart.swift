// SPDX-License-Identifier: MPL-2.0

/// The elements at the start of a macroblock in an intra slice, in their order (ISO/IEC 14496-10, 7.3.5). There are two ways
/// to code them.
protocol H264MacroblockStart {
    mutating func kind() -> H264MacroblockKind
    mutating func isLargeTransform() -> Bool
    /// The way to predict a block, by its number among those that are not the predicted one; nil for that one.
    mutating func mode() -> Int?
    /// Whether chroma is predicted by the average.
    mutating func isChromaAverage() -> Bool
}

/// How an intra macroblock is predicted.
enum H264MacroblockKind {
    /// Block by block.
    case blocks
    /// As a whole, in one of four ways.
    case whole(mode: Int)
    /// Not at all: it has its samples.
    case samples
    /// There is none of this kind.
    case none

    /// By the number of Table 7-11.
    init(number: Int) {
        switch number {
        case 0: self = .blocks
        case 1...24: self = .whole(mode: (number - 1) % 4)
        case 25: self = .samples
        default: self = .none
        }
    }
}

/// Codes of whole bits (9.1).
struct H264PlainStart: H264MacroblockStart {
    private var bits: SampleBits

    init(_ bits: SampleBits) { self.bits = bits }

    mutating func kind() -> H264MacroblockKind { bits.exponential().map { H264MacroblockKind(number: $0) } ?? .none }

    mutating func isLargeTransform() -> Bool { bits.flag() }

    mutating func mode() -> Int? { bits.flag() ? nil : bits.number(3) }

    mutating func isChromaAverage() -> Bool { bits.exponential() == 0 }
}

/// Arithmetic codes (9.3), of a macroblock without neighbors.
struct H264ArithmeticStart: H264MacroblockStart {
    private var engine: Engine
    /// The first bit of the kind, and the others of macroblocks that are predicted as a whole.
    private var isWhole, hasLuma, hasChroma, hasAllChroma, modeHigh, modeLow: Context
    private var largeTransform, isPredicted, modeBit, chromaMode: Context

    /// Nil if the first bits are none of this code (9.3.1.2).
    init?(_ bits: SampleBits, quantizer: Int) {
        func context(_ slope: Int, _ start: Int) -> Context { Context(slope, start, quantizer: quantizer) }
        guard let engine = Engine(bits) else { return nil }
        self.engine = engine
        isWhole = context(20, -15)
        hasLuma = context(-28, 127)
        hasChroma = context(-23, 104)
        hasAllChroma = context(-6, 53)
        modeHigh = context(-1, 54)
        modeLow = context(7, 51)
        chromaMode = context(-9, 83)
        isPredicted = context(13, 41)
        modeBit = context(3, 62)
        largeTransform = context(31, 21)
    }

    mutating func kind() -> H264MacroblockKind {
        guard engine.decode(&isWhole) == 1 else { return .blocks }
        if engine.isEnd() { return .samples }
        _ = engine.decode(&hasLuma)
        if engine.decode(&hasChroma) == 1 { _ = engine.decode(&hasAllChroma) }
        return .whole(mode: engine.decode(&modeHigh) << 1 | engine.decode(&modeLow))
    }

    mutating func isLargeTransform() -> Bool { engine.decode(&largeTransform) == 1 }

    mutating func mode() -> Int? {
        engine.decode(&isPredicted) == 1
            ? nil : engine.decode(&modeBit) | engine.decode(&modeBit) << 1 | engine.decode(&modeBit) << 2
    }

    mutating func isChromaAverage() -> Bool { engine.decode(&chromaMode) == 0 }

    /// How probable a bit is, and which (9.3.1.1).
    private struct Context {
        var state: Int
        var likely: Int

        init(_ slope: Int, _ start: Int, quantizer: Int) {
            let value = min(max((slope * min(max(quantizer, 0), 51)) >> 4 + start, 1), 126)
            (state, likely) = value <= 63 ? (63 - value, 0) : (value - 64, 1)
        }
    }

    /// 9.3.3.2
    private struct Engine {
        private var bits: SampleBits
        private var range = 510
        private var offset: Int

        init?(_ bits: SampleBits) {
            self.bits = bits
            offset = self.bits.number(9)
            if offset >= range { return nil }
        }

        mutating func decode(_ context: inout Context) -> Int {
            let part = H264ArithmeticStart.ranges[context.state][range >> 6 & 3]
            range -= part
            var bit = context.likely
            if offset >= range {
                bit = 1 - bit
                offset -= range
                range = part
                if context.state == 0 { context.likely = bit }
                context.state = H264ArithmeticStart.statesBehindUnlikely[context.state]
            } else {
                context.state = min(context.state + 1, 62)
            }
            renormalize()
            return bit
        }

        /// What ends a slice, and the bits of samples begin behind.
        mutating func isEnd() -> Bool {
            range -= 2
            if offset >= range { return true }
            renormalize()
            return false
        }

        private mutating func renormalize() {
            while range < 256 {
                range <<= 1
                offset = offset << 1 | bits.number(1)
            }
        }
    }

    /// Of the unlikely bit, by the state and a quarter of the range (Table 9-44).
    private static let ranges: [[Int]] = [
        [128, 176, 208, 240], [128, 167, 197, 227], [128, 158, 187, 216], [123, 150, 178, 205], [116, 142, 169, 195],
        [111, 135, 160, 185], [105, 128, 152, 175], [100, 122, 144, 166], [95, 116, 137, 158], [90, 110, 130, 150],
        [85, 104, 123, 142], [81, 99, 117, 135], [77, 94, 111, 128], [73, 89, 105, 122], [69, 85, 100, 116],
        [66, 80, 95, 110], [62, 76, 90, 104], [59, 72, 86, 99], [56, 69, 81, 94], [53, 65, 77, 89],
        [51, 62, 73, 85], [48, 59, 69, 80], [46, 56, 66, 76], [43, 53, 63, 72], [41, 50, 59, 69],
        [39, 48, 56, 65], [37, 45, 54, 62], [35, 43, 51, 59], [33, 41, 48, 56], [32, 39, 46, 53],
        [30, 37, 43, 50], [29, 35, 41, 48], [27, 33, 39, 45], [26, 31, 37, 43], [24, 30, 35, 41],
        [23, 28, 33, 39], [22, 27, 32, 37], [21, 26, 30, 35], [20, 24, 29, 33], [19, 23, 27, 31],
        [18, 22, 26, 30], [17, 21, 25, 28], [16, 20, 23, 27], [15, 19, 22, 25], [14, 18, 21, 24],
        [14, 17, 20, 23], [13, 16, 19, 22], [12, 15, 18, 21], [12, 14, 17, 20], [11, 14, 16, 19],
        [11, 13, 15, 18], [10, 12, 15, 17], [10, 12, 14, 16], [9, 11, 13, 15], [9, 11, 12, 14],
        [8, 10, 12, 14], [8, 9, 11, 13], [7, 9, 11, 12], [7, 9, 10, 12], [7, 8, 10, 11],
        [6, 8, 9, 11], [6, 7, 9, 10], [6, 7, 8, 9], [2, 2, 2, 2],
    ]
    /// Table 9-45
    private static let statesBehindUnlikely = [
        0, 0, 1, 2, 2, 4, 4, 5, 6, 7, 8, 9, 9, 11, 11, 12, 13, 13, 15, 15, 16, 16, 18, 18, 19, 19, 21, 21, 22, 22, 23,
        24,
        24, 25, 26, 26, 27, 27, 28, 29, 29, 30, 30, 30, 31, 32, 32, 33, 33, 33, 34, 34, 35, 35, 35, 36, 36, 36, 37, 37,
        37, 38,
        38, 63,
    ]
}
