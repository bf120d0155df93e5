// SPDX-License-Identifier: MPL-2.0

import Glibc

/// A generator with a seed, so that a failing case can be had again (SplitMix64).
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Long runs set `LATCHKEY_TEST_SEED` to get other numbers each time.
    private static let round = getenv("LATCHKEY_TEST_SEED").flatMap { UInt64(String(cString: $0)) } ?? 0

    public init(seed: UInt64) { state = seed &+ Self.round &* 0x1_0000_0000 }

    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = (state ^ state >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }

    public mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &self) }
    }

    /// `source` with a few bytes changed, removed, doubled or set to a value that sizes break on.
    public mutating func mutate(_ source: [UInt8]) -> [UInt8] {
        var bytes = source
        for _ in 0..<Int.random(in: 1...4, using: &self) where !bytes.isEmpty {
            let position = Int.random(in: 0..<bytes.count, using: &self)
            switch Int.random(in: 0..<5, using: &self) {
            case 0: bytes[position] ^= 1 << UInt8.random(in: 0..<8, using: &self)
            case 1: bytes[position] = [0, 1, 0x7F, 0x80, 0xFF].randomElement(using: &self) ?? 0
            case 2: bytes.removeSubrange(position..<min(bytes.count, position + Int.random(in: 1...8, using: &self)))
            case 3: bytes.insert(contentsOf: bytes[position..<min(bytes.count, position + 8)], at: position)
            default:
                for index in position..<min(bytes.count, position + 4) { bytes[index] = 0xFF }
            }
        }
        return bytes
    }
}
