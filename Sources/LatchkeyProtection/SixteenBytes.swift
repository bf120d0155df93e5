// SPDX-License-Identifier: MPL-2.0

/// 16 bytes as two big-endian halves: what KIDs and initialization vectors are made of.
struct SixteenBytes: Hashable, Sendable {
    var high: UInt64 = 0
    var low: UInt64 = 0

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Takes the first 16 bytes; zeros stand for those that are not there.
    init(_ bytes: some Collection<UInt8>) {
        for (position, byte) in bytes.prefix(16).enumerated() {
            let shift = UInt64(56 - position % 8 * 8)
            if position < 8 { high |= UInt64(byte) << shift } else { low |= UInt64(byte) << shift }
        }
    }

    var bytes: [UInt8] {
        (0..<16).map { UInt8(truncatingIfNeeded: ($0 < 8 ? high : low) >> (56 - UInt64($0 % 8) * 8)) }
    }
}
