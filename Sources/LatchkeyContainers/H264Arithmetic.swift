// SPDX-License-Identifier: MPL-2.0

/// How probable a bit of H.264's arithmetic codes is, and which (ISO/IEC 14496-10, 9.3.1.1).
struct H264ArithmeticContext {
    fileprivate var state: Int
    fileprivate var likely: Int

    init(_ slope: Int, _ start: Int, quantizer: Int) {
        let value = min(max((slope * min(max(quantizer, 0), 51)) >> 4 + start, 1), 126)
        (state, likely) = value <= 63 ? (63 - value, 0) : (value - 64, 1)
    }
}

/// Reads arithmetic codes (9.3.3.2). Behind the end, bits are 0.
struct H264ArithmeticEngine {
    private var bits: SampleBits
    private var range = 510
    private var value: Int

    /// Nil if the first bits are none of this code (9.3.1.2).
    init?(_ bits: SampleBits) {
        self.bits = bits
        value = self.bits.number(9)
        if value >= range { return nil }
    }

    /// The bits that were read, from the start of the bytes.
    var offset: Int { bits.offset }

    mutating func decode(_ context: inout H264ArithmeticContext) -> Int {
        let part = Int(Self.ranges[context.state << 2 | range >> 6 & 3])
        range -= part
        var bit = context.likely
        if value >= range {
            bit = 1 - bit
            value -= range
            range = part
            if context.state == 0 { context.likely = bit }
            context.state = Int(Self.statesBehindUnlikely[context.state])
        } else {
            context.state = min(context.state + 1, 62)
        }
        renormalize()
        return bit
    }

    /// A bit that is as probable as the other.
    mutating func bypass() -> Int {
        value = value << 1 | bits.number(1)
        guard value >= range else { return 0 }
        value -= range
        return 1
    }

    /// What ends a slice, and what samples without codes begin behind.
    mutating func isEnd() -> Bool {
        range -= 2
        if value >= range { return true }
        renormalize()
        return false
    }

    /// Goes on behind so many bytes without codes. False if there is no code.
    mutating func restart(behind size: Int) -> Bool {
        bits.skip((8 - bits.offset % 8) % 8 + size * 8)
        (range, value) = (510, bits.number(9))
        return value < range
    }

    private mutating func renormalize() {
        while range < 256 {
            range <<= 1
            value = value << 1 | bits.number(1)
        }
    }

    /// Of the unlikely bit, four for each state, by a quarter of the range (Table 9-44).
    private static let ranges: [UInt8] = [
        128, 176, 208, 240, 128, 167, 197, 227, 128, 158, 187, 216, 123, 150, 178, 205, 116, 142, 169, 195,
        111, 135, 160, 185, 105, 128, 152, 175, 100, 122, 144, 166, 95, 116, 137, 158, 90, 110, 130, 150,
        85, 104, 123, 142, 81, 99, 117, 135, 77, 94, 111, 128, 73, 89, 105, 122, 69, 85, 100, 116, 66, 80, 95, 110,
        62, 76, 90, 104, 59, 72, 86, 99, 56, 69, 81, 94, 53, 65, 77, 89, 51, 62, 73, 85, 48, 59, 69, 80, 46, 56, 66, 76,
        43, 53, 63, 72, 41, 50, 59, 69, 39, 48, 56, 65, 37, 45, 54, 62, 35, 43, 51, 59, 33, 41, 48, 56, 32, 39, 46, 53,
        30, 37, 43, 50, 29, 35, 41, 48, 27, 33, 39, 45, 26, 31, 37, 43, 24, 30, 35, 41, 23, 28, 33, 39, 22, 27, 32, 37,
        21, 26, 30, 35, 20, 24, 29, 33, 19, 23, 27, 31, 18, 22, 26, 30, 17, 21, 25, 28, 16, 20, 23, 27, 15, 19, 22, 25,
        14, 18, 21, 24, 14, 17, 20, 23, 13, 16, 19, 22, 12, 15, 18, 21, 12, 14, 17, 20, 11, 14, 16, 19, 11, 13, 15, 18,
        10, 12, 15, 17, 10, 12, 14, 16, 9, 11, 13, 15, 9, 11, 12, 14, 8, 10, 12, 14, 8, 9, 11, 13, 7, 9, 11, 12,
        7, 9, 10, 12, 7, 8, 10, 11, 6, 8, 9, 11, 6, 7, 9, 10, 6, 7, 8, 9, 2, 2, 2, 2,
    ]
    /// Table 9-45
    private static let statesBehindUnlikely: [UInt8] = [
        0, 0, 1, 2, 2, 4, 4, 5, 6, 7, 8, 9, 9, 11, 11, 12, 13, 13, 15, 15, 16, 16, 18, 18, 19, 19, 21, 21, 22, 22, 23,
        24, 24, 25, 26, 26, 27, 27, 28, 29, 29, 30, 30, 30, 31, 32, 32, 33, 33, 33, 34, 34, 35, 35, 35, 36, 36, 36, 37,
        37, 37, 38, 38, 63,
    ]
}
