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
    private var engine: H264ArithmeticEngine
    /// The first bit of the kind, and the others of macroblocks that are predicted as a whole.
    private var isWhole, hasLuma, hasChroma, hasAllChroma, modeHigh, modeLow: H264ArithmeticContext
    private var largeTransform, isPredicted, modeBit, chromaMode: H264ArithmeticContext

    /// Nil if the first bits are none of this code (9.3.1.2).
    init?(_ bits: SampleBits, quantizer: Int) {
        func context(_ slope: Int, _ start: Int) -> H264ArithmeticContext {
            H264ArithmeticContext(slope, start, quantizer: quantizer)
        }
        guard let engine = H264ArithmeticEngine(bits) else { return nil }
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
}
