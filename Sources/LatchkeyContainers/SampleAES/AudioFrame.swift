// SPDX-License-Identifier: MPL-2.0

/// The header of one frame of AAC (ADTS, ISO/IEC 13818-7, 6.2), AC-3 or E-AC-3 (ETSI TS 102 366, 4.3 and E.1.2).
///
/// ```
/// ADTS:    FFF(12) ID(1) layer=0(2) protection_absent(1), …, bits 30…42: frame length
/// AC-3:    0B77, CRC, fscod(2) frmsizecod(6), bsid(5) …
/// E-AC-3:  0B77, strmtyp(2) substreamid(3) frmsiz(11), …, bsid(5) in the sixth byte
/// ```
package struct AudioFrame: Equatable {
    enum Reading: Equatable {
        case frame(AudioFrame)
        /// More bytes are needed to tell.
        case incomplete
        case noFrame
    }

    /// What is needed to read any of the headers.
    static let headerSize = 7
    /// Clear bytes behind an ADTS header, and at the start of the others.
    private static let clearLeader = 16

    /// The whole frame, in bytes.
    let size: Int
    /// In front of the encrypted blocks. May be more than `size`.
    let clearSize: Int
    let codec: SampleAESCodec

    /// Reads the frame that starts at `offset`.
    @inline(__always)
    static func read(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Reading {
        let left = bytes.count - offset
        guard left >= 2 else {
            return left < 1 || bytes[offset] == 0xFF || bytes[offset] == 0x0B ? .incomplete : .noFrame
        }
        let (first, second) = (bytes[offset], bytes[offset + 1])
        let isADTS = first == 0xFF && second & 0xF6 == 0xF0
        guard isADTS || first == 0x0B && second == 0x77 else { return .noFrame }
        // SAFETY: from here on nothing behind `headerSize` bytes is read; above, nothing behind the two that are there.
        guard left >= headerSize else { return .incomplete }
        if isADTS {
            let size =
                Int(bytes[offset + 3] & 3) << 11 | Int(bytes[offset + 4]) << 3 | Int(bytes[offset + 5]) >> 5
            let header = second & 1 == 1 ? 7 : 9
            guard size >= header else { return .noFrame }
            return .frame(AudioFrame(size: size, clearSize: header + clearLeader, codec: .aac))
        }
        let identification = bytes[offset + 5] >> 3
        if identification > 10 {
            guard identification <= 16 else { return .noFrame }
            let size = 2 * ((Int(bytes[offset + 2] & 7) << 8 | Int(bytes[offset + 3])) + 1)
            guard size >= headerSize else { return .noFrame }
            return .frame(AudioFrame(size: size, clearSize: clearLeader, codec: .eac3))
        }
        guard let size = sizeOfAC3(rate: Int(bytes[offset + 4] >> 6), code: Int(bytes[offset + 4] & 0x3F)) else {
            return .noFrame
        }
        return .frame(AudioFrame(size: size, clearSize: clearLeader, codec: .ac3))
    }

    /// The same; but where frames were lost, only one counts behind which another or a tag starts, or the end:
    /// encrypted bytes look like a header now and then.
    static func read(_ bytes: UnsafeRawBufferPointer, at offset: Int, isLost: Bool, isEnd: Bool) -> Reading {
        let reading = read(bytes, at: offset)
        guard isLost, case .frame(let frame) = reading else { return reading }
        let left = bytes.count - offset - frame.size
        if isEnd, left == 0 { return reading }
        // All of the next header is waited for: how the bytes come must not decide.
        guard left >= (isEnd ? 1 : headerSize) else { return .incomplete }
        let next = bytes[(offset + frame.size)...]
        return read(bytes, at: offset + frame.size) == .noFrame && !next.starts(with: "ID3".utf8) ? .noFrame : reading
    }

    /// Whether at `offset`, which is one of `bytes`, a frame starts behind which another or a tag starts, or the end.
    package static func areFrames(_ bytes: [UInt8], at offset: Int = 0) -> Bool {
        bytes.withUnsafeBytes { bytes in
            if case .frame = read(bytes, at: offset, isLost: true, isEnd: true) { true } else { false }
        }
    }

    /// TS 102 366, table 4.13: kbit/s for each pair of frame size codes.
    private static let rates = [
        32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640,
    ]

    private static func sizeOfAC3(rate: Int, code: Int) -> Int? {
        guard code / 2 < rates.count else { return nil }
        let kilobits = rates[code / 2]
        return switch rate {
        case 0: kilobits * 4
        // 1536 samples at 44.1 kHz, in words of 16 bits, rounded down; the odd code has one word more.
        case 1: 2 * (kilobits * 96_000 / 44_100 + code % 2)
        case 2: kilobits * 6
        default: nil
        }
    }
}

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

/// How AAC frames end: an ADTS frame ends in the element `ID_END`, which is three one bits, and at most seven zero bits
/// behind it (ISO/IEC 14496-3, 4.4.2.1). SAMPLE-AES encrypts blocks of 16 bytes, and leaves what is behind the last whole
/// one: the ends of one frame in 16 are encrypted. Those of the others tell whether the stream keeps the rule at all. Pure.
public struct AudioFrameEnds: Hashable, Sendable {
    /// Frames whose end was encrypted: those that end so, and those that do not.
    public private(set) var right = 0
    public private(set) var wrong = 0
    /// The same of frames whose end is clear.
    public private(set) var clearRight = 0
    public private(set) var clearWrong = 0

    public init() {}

    /// Looks at the whole AAC frames that lie one behind the other from the first byte on.
    public mutating func add(_ bytes: UnsafeRawBufferPointer) {
        var offset = 0
        while case .frame(let frame) = AudioFrame.read(bytes, at: offset), frame.codec == .aac,
            frame.size <= bytes.count - offset
        {
            let end = offset + frame.size
            let (blocks, rest) = (frame.size - frame.clearSize).quotientAndRemainder(dividingBy: 16)
            if blocks > 0 {
                let isRight = Self.isEnd(bytes[end - 2], bytes[end - 1])
                switch rest {
                case 0: if isRight { right += 1 } else { wrong += 1 }
                // The three bits may lie in the last two bytes.
                case 1: break
                default: if isRight { clearRight += 1 } else { clearWrong += 1 }
                }
            }
            offset = end
        }
    }

    private static func isEnd(_ first: UInt8, _ last: UInt8) -> Bool {
        guard last != 0 else { return false }
        let bits = (UInt16(first) << 8 | UInt16(last)) >> last.trailingZeroBitCount
        return bits & 7 == 7
    }
}
