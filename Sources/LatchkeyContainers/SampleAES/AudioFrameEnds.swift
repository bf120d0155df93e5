// SPDX-License-Identifier: MPL-2.0

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
