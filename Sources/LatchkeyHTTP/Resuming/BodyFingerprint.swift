// SPDX-License-Identifier: MPL-2.0

/// Tells the same bytes from others, however they are cut into pieces (FNV-1a, 64 bits: RFC 9923). Against accidents, not
/// against an origin that means to deceive.
struct BodyFingerprint: Sendable, Equatable {
    private var value: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ bytes: ArraySlice<UInt8>) {
        bytes.withUnsafeBufferPointer { bytes in
            for byte in bytes { value = (value ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        }
    }
}
