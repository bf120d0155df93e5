// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Finds out which bytes of an access unit, or of some audio frames, SAMPLE-AES has encrypted.
///
/// The result is a plan of the scheme `cbcs`: the chaining starts from the IV at each NAL unit and each frame, as it
/// does at each subsample there, and the pattern of video is 1 : 9. The IV in the plan is the caller's to set. One
/// planner serves a stream of units without allocations. Not thread-safe.
struct SampleAESPlanner {
    /// How to decrypt the unit that was planned last.
    private(set) var plan = SamplePlan(scheme: .cbcs, initializationVector: InitializationVector(high: 0, low: 0))

    /// The pictures that were planned last cannot have been encrypted: between encrypted blocks, their own emulation prevention
    /// is not escaped a second time. In pictures that are clear, one such place comes in 4 MB.
    private(set) var areClearPictures = false

    /// Positions of emulation prevention bytes in one NAL unit.
    private var escapes: [Int] = []

    /// NAL units of at most so many bytes are clear.
    private static let largestClearUnit = 48
    private static let clearLeader = 32
    /// One encrypted block and nine clear ones.
    private static let period = 160
    private static let blockSize = 16

    /// Whether anything is encrypted.
    var isProtected: Bool { !plan.subsamples.isEmpty }

    /// Plans an H.264 byte stream (ITU-T H.264, annex B).
    ///
    /// The encryptor escaped encrypted NAL units a second time. These emulation prevention bytes are taken out here, so
    /// the unit may shrink: its first bytes, as many as the result says, are the unit then.
    mutating func planVideo(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
        plan.subsamples.removeAll(keepingCapacity: true)
        plan.pattern = BlockPattern(crypt: 1, skip: 9)
        areClearPictures = false
        guard let base = bytes.baseAddress else { return 0 }
        let source = UnsafeRawPointer(base)
        let size = bytes.count
        // What is kept goes to `target`; up to `planned` the plan says what it is.
        var target = 0
        var planned = 0
        var unit = StartCode.find(source, from: 0, to: size, escapes: nil)
        // SAFETY: all offsets are at most `size`, and `target` is never ahead of what is read.
        target = unit.map { $0 + StartCode.size } ?? size
        while let start = unit {
            let first = start + StartCode.size
            guard first < size else { break }
            let type = source.load(fromByteOffset: first, as: UInt8.self) & 0x1F
            let mayBeEncrypted = type == 1 || type == 5
            escapes.removeAll(keepingCapacity: true)
            let next =
                mayBeEncrypted
                ? StartCode.find(source, from: first, to: size, escapes: &escapes)
                : StartCode.find(source, from: first, to: size, escapes: nil)
            let behind = next ?? size
            var end = behind
            while end > first, source.load(fromByteOffset: end - 1, as: UInt8.self) == 0 { end -= 1 }

            let unitTarget = target
            if mayBeEncrypted, end - first > Self.largestClearUnit {
                // Zeros at the end, and what escapes them, tell nothing: encryptors treat them in several ways.
                var told = end
                while told > first, source.load(fromByteOffset: told - 1, as: UInt8.self) <= 3 { told -= 1 }
                var from = first
                for escape in escapes where escape < end {
                    Self.move(base, from: from, to: &target, count: escape - from)
                    from = escape + 1
                    if from < told, source.load(fromByteOffset: from, as: UInt8.self) < 3,
                        Self.isClear(target - 2 - unitTarget), Self.isClear(target - unitTarget)
                    {
                        areClearPictures = true
                    }
                }
                Self.move(base, from: from, to: &target, count: end - from)
                planUnit(from: unitTarget, to: target, &planned)
            } else {
                Self.move(base, from: first, to: &target, count: end - first)
            }
            // Zeros behind the unit, and the next start code.
            Self.move(
                base, from: end, to: &target, count: min(size, next == nil ? size : behind + StartCode.size) - end)
            unit = next
        }
        if isProtected { plan.subsamples.append(Subsample(clear: UInt32(clamping: target - planned), protected: 0)) }
        return target
    }

    /// Plans the frames that start at the first byte. What is no frame stays clear.
    mutating func planAudio(_ bytes: UnsafeRawBufferPointer) {
        startAudio()
        var planned = 0
        var offset = 0
        var isLost = false
        while offset < bytes.count {
            switch AudioFrame.read(bytes, at: offset, isLost: isLost, isEnd: true) {
            case .frame(let frame):
                planFrame(frame, at: offset, to: min(bytes.count, offset + frame.size), &planned)
                offset += frame.size
                isLost = false
            case .incomplete: offset = bytes.count
            case .noFrame:
                offset += 1
                isLost = true
            }
        }
        finishAudio(planned: planned, size: bytes.count)
    }

    mutating func startAudio() {
        plan.subsamples.removeAll(keepingCapacity: true)
        plan.pattern = .none
    }

    /// Plans one frame from `offset` to `end`, which may cut it short.
    mutating func planFrame(_ frame: AudioFrame, at offset: Int, to end: Int, _ planned: inout Int) {
        let start = offset + frame.clearSize
        guard end - start >= Self.blockSize else { return }
        append(clear: start - planned, protected: end - start)
        planned = end
    }

    mutating func finishAudio(planned: Int, size: Int) {
        if isProtected, size > planned {
            plan.subsamples.append(Subsample(clear: UInt32(clamping: size - planned), protected: 0))
        }
    }

    /// "1 : 9 pattern": blocks are encrypted while more than 16 bytes are left.
    private mutating func planUnit(from start: Int, to end: Int, _ planned: inout Int) {
        let offset = start + Self.clearLeader
        var size = end - offset
        guard size > Self.blockSize else { return }
        // cbcs would take a last block that fills up the unit exactly; here that stays clear.
        if size % Self.period == Self.blockSize { size -= Self.blockSize }
        append(clear: offset - planned, protected: size)
        planned = offset + size
    }

    /// Whether the byte at that place of a NAL unit is never encrypted.
    private static func isClear(_ offset: Int) -> Bool {
        offset < clearLeader || (offset - clearLeader) % period >= blockSize
    }

    private mutating func append(clear: Int, protected: Int) {
        plan.subsamples.append(Subsample(clear: UInt32(clamping: clear), protected: UInt32(clamping: protected)))
    }

    @inline(__always)
    private static func move(_ base: UnsafeMutableRawPointer, from: Int, to target: inout Int, count: Int) {
        guard count > 0 else { return }
        // SAFETY: both ends are inside the unit, as the caller checks; the regions may overlap.
        if from != target { (base + target).copyMemory(from: base + from, byteCount: count) }
        target += count
    }
}

/// Start codes and emulation prevention of an H.264 byte stream (ITU-T H.264, annex B and 7.4.1).
enum StartCode {
    /// `00 00 01`
    static let size = 3

    /// Bytes that are looked at together.
    private static let stride = 32

    /// The offset of the next `00 00 01` at or behind `start`, nil where there is none in front of `end`. Offsets of
    /// the `03` in `00 00 03` on the way there go into `escapes`.
    static func find(
        _ bytes: UnsafeRawPointer, from start: Int, to end: Int, escapes: UnsafeMutablePointer<[Int]>?
    ) -> Int? {
        var offset = start
        while let pair = zeroPair(bytes, from: offset, to: end), pair + 2 < end {
            // SAFETY: `pair + 2` is in front of `end`.
            switch bytes.load(fromByteOffset: pair + 2, as: UInt8.self) {
            case 1: return pair
            case 0: offset = pair + 1
            case 3:
                escapes?.pointee.append(pair + 2)
                offset = pair + 3
            default: offset = pair + 3
            }
        }
        return nil
    }

    /// The offset of the next two zeros in a row.
    @inline(__always)
    private static func zeroPair(_ bytes: UnsafeRawPointer, from start: Int, to end: Int) -> Int? {
        var offset = start
        // SAFETY: each load ends in front of `end`.
        while offset + stride < end {
            if let position = positionOfZeroPair(bytes + offset) { return offset + position }
            offset += stride
        }
        while offset + 1 < end {
            if isZeroPair(bytes, offset) { return offset }
            offset += 1
        }
        return nil
    }

    /// Where, among the first 32 bytes, one is zero and the next too.
    @inline(__always)
    private static func positionOfZeroPair(_ bytes: UnsafeRawPointer) -> Int? {
        // The type of 16 bytes is what compilers turn into vector instructions everywhere. A byte with the next one
        // over it is zero where both are.
        let zeros = SIMD16<UInt8>()
        let first = bytes.loadUnaligned(as: SIMD16<UInt8>.self) | (bytes + 1).loadUnaligned(as: SIMD16<UInt8>.self)
        let second =
            (bytes + 16).loadUnaligned(as: SIMD16<UInt8>.self) | (bytes + 17).loadUnaligned(as: SIMD16<UInt8>.self)
        let (low, high) = (first .== zeros, second .== zeros)
        let found = unsafeBitCast(low .| high, to: SIMD2<UInt64>.self)
        guard found[0] | found[1] != 0 else { return nil }
        let (start, half) = low == SIMDMask(repeating: false) ? (16, high) : (0, low)
        let words = unsafeBitCast(half, to: SIMD2<UInt64>.self)
        // All ones for a byte that fits; the lowest byte is the first.
        return words[0] != 0
            ? start + UInt64(littleEndian: words[0]).trailingZeroBitCount / 8
            : start + 8 + UInt64(littleEndian: words[1]).trailingZeroBitCount / 8
    }

    @inline(__always)
    private static func isZeroPair(_ bytes: UnsafeRawPointer, _ offset: Int) -> Bool {
        bytes.load(fromByteOffset: offset, as: UInt8.self) == 0
            && bytes.load(fromByteOffset: offset + 1, as: UInt8.self) == 0
    }
}
