// SPDX-License-Identifier: MPL-2.0

/// AES-128 written down from FIPS 197, byte by byte: slow, and independent of what is tested.
struct ReferenceAES {
    private static let sBox: [UInt8] = {
        var box = [UInt8](repeating: 0x63, count: 256)
        var power: UInt8 = 1
        var inverse: UInt8 = 1
        repeat {
            power ^= double(power)  // times 3, a generator
            inverse ^= inverse << 1  // divided by 3
            inverse ^= inverse << 2
            inverse ^= inverse << 4
            if inverse & 0x80 != 0 { inverse ^= 0x09 }
            let spread =
                inverse ^ rotate(inverse, 1) ^ rotate(inverse, 2) ^ rotate(inverse, 3) ^ rotate(inverse, 4)
            box[Int(power)] = spread ^ 0x63
        } while power != 1
        return box
    }()

    private static let inverseSBox: [UInt8] = {
        var box = [UInt8](repeating: 0, count: 256)
        for (index, value) in sBox.enumerated() { box[Int(value)] = UInt8(index) }
        return box
    }()

    private var roundKeys: [[UInt8]] = []

    init(key: [UInt8]) {
        var words = (0..<4).map { Array(key[$0 * 4..<$0 * 4 + 4]) }
        var constant: UInt8 = 1
        for index in 4..<44 {
            var word = words[index - 1]
            if index % 4 == 0 {
                word = [word[1], word[2], word[3], word[0]].map { Self.sBox[Int($0)] }
                word[0] ^= constant
                constant = Self.double(constant)
            }
            words.append(zip(words[index - 4], word).map { $0 ^ $1 })
        }
        for round in 0..<11 { roundKeys.append(Array(words[round * 4..<round * 4 + 4].joined())) }
    }

    func encrypt(_ block: [UInt8]) -> [UInt8] {
        var state = Self.xor(block, roundKeys[0])
        for round in 1...10 {
            state = state.map { Self.sBox[Int($0)] }
            state = (0..<16).map { state[($0 + 4 * ($0 % 4)) % 16] }
            if round < 10 { state = Self.mixColumns(state, [2, 3, 1, 1]) }
            state = Self.xor(state, roundKeys[round])
        }
        return state
    }

    func decrypt(_ block: [UInt8]) -> [UInt8] {
        var state = Self.xor(block, roundKeys[10])
        for round in (0...9).reversed() {
            state = (0..<16).map { state[($0 + 12 * ($0 % 4)) % 16] }
            state = state.map { Self.inverseSBox[Int($0)] }
            state = Self.xor(state, roundKeys[round])
            if round > 0 { state = Self.mixColumns(state, [14, 11, 13, 9]) }
        }
        return state
    }

    static func xor(_ left: [UInt8], _ right: [UInt8]) -> [UInt8] { zip(left, right).map { $0 ^ $1 } }

    private static func double(_ value: UInt8) -> UInt8 { value << 1 ^ (value & 0x80 != 0 ? 0x1b : 0) }

    private static func rotate(_ value: UInt8, _ count: UInt8) -> UInt8 { value << count | value >> (8 - count) }

    /// Products in the field, by the factors that the columns are mixed with.
    private static let products: [[UInt8]] = (0..<16).map { factor in
        (0..<256).map { value in
            (0..<4).reduce(UInt8(0)) { sum, bit in
                guard factor >> bit & 1 == 1 else { return sum }
                return sum ^ (0..<bit).reduce(UInt8(value)) { product, _ in double(product) }
            }
        }
    }

    private static func mixColumns(_ state: [UInt8], _ row: [Int]) -> [UInt8] {
        let tables = row.map { products[$0] }
        var mixed = state
        for position in 0..<16 {
            let column = position & ~3
            var sum: UInt8 = 0
            for index in 0..<4 { sum ^= tables[(index - position) & 3][Int(state[column + index])] }
            mixed[position] = sum
        }
        return mixed
    }
}
