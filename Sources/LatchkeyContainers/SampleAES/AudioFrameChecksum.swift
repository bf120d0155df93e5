// SPDX-License-Identifier: MPL-2.0

/// The checksum that AC-3 and E-AC-3 frames carry over all of their bytes behind the sync word (ETSI TS 102 366, 6.1.7
/// and E.1.3.5), with the polynomial x¹⁶ + x¹⁵ + x² + 1: computed over them, it gives zero.
///
/// With `AudioFrameEnds`, it is all in samples of SAMPLE-AES that tells a wrong key. ADTS has a checksum in few streams, over
/// too few bytes, and slices of H.264 have none.
public enum AudioFrameChecksum {
    /// Looks at the whole AC-3 and E-AC-3 frames that lie one behind the other from the first byte on, at most `limit`:
    /// how many have the right checksum, and how many have not. Frames too short to be encrypted do not count. Pure.
    public static func count(in bytes: UnsafeRawBufferPointer, limit: Int) -> (right: Int, wrong: Int) {
        var (right, wrong, offset) = (0, 0, 0)
        while right + wrong < limit, case .frame(let frame) = AudioFrame.read(bytes, at: offset) {
            guard frame.codec == .ac3 || frame.codec == .eac3, frame.size <= bytes.count - offset else { break }
            let end = offset + frame.size
            if frame.size >= frame.clearSize + 16 {
                if remainder(bytes[offset + 2..<end]) == 0 { right += 1 } else { wrong += 1 }
            }
            offset = end
        }
        return (right, wrong)
    }

    private static func remainder(_ bytes: Slice<UnsafeRawBufferPointer>) -> UInt16 {
        var value: UInt16 = 0
        for byte in bytes {
            value ^= UInt16(byte) << 8
            for _ in 0..<8 { value = value & 0x8000 != 0 ? value << 1 ^ 0x8005 : value << 1 }
        }
        return value
    }
}
