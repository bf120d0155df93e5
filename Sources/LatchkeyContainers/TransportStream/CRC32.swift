// SPDX-License-Identifier: MPL-2.0

/// The CRC-32 of MPEG sections (ISO/IEC 13818-1, annex A): polynomial 0x04C11DB7, most significant bit first, started
/// with ones, not inverted at the end.
enum CRC32 {
    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index) << 24) { value, _ in
            value & 0x8000_0000 != 0 ? value << 1 ^ 0x04C1_1DB7 : value << 1
        }
    }

    /// Zero where the last four bytes are the right CRC of those before.
    static func checksum(_ bytes: some Sequence<UInt8>) -> UInt32 {
        bytes.reduce(UInt32.max) { $0 << 8 ^ table[Int(UInt8(truncatingIfNeeded: $0 >> 24) ^ $1)] }
    }
}

extension UInt32 {
    var bigEndianBytes: [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: self >> UInt32(24 - $0 * 8)) } }
}
