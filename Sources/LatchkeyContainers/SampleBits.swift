// SPDX-License-Identifier: MPL-2.0

/// Reads bits of a sample, the highest of a byte first. Behind the end they are 0.
struct SampleBits {
    private let sample: UnsafeRawBufferPointer
    /// The bits before the next one.
    private(set) var offset: Int

    init(_ sample: UnsafeRawBufferPointer, from byte: Int) { (self.sample, offset) = (sample, byte * 8) }

    /// The bytes up to here, with the one that is read in part.
    var bytesRead: Int { (offset + 7) / 8 }

    mutating func flag() -> Bool {
        defer { offset += 1 }
        return offset / 8 < sample.count && sample[offset / 8] >> (7 - UInt8(offset % 8)) & 1 == 1
    }

    mutating func number(_ count: Int) -> Int { (0..<count).reduce(0) { value, _ in value << 1 | (flag() ? 1 : 0) } }

    mutating func skip(_ count: Int) { offset += count }

    /// An Exp-Golomb number; nil from 2^24 on.
    mutating func exponential() -> Int? {
        var zeros = 0
        while !flag() {
            zeros += 1
            if zeros > 24 { return nil }
        }
        return (1 << zeros | number(zeros)) - 1
    }

    /// The same with a sign (ISO/IEC 14496-10, 9.1.1).
    mutating func signedExponential() -> Int? {
        exponential().map { $0 & 1 == 1 ? $0 / 2 + 1 : -($0 / 2) }
    }
}
