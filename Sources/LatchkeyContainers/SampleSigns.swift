// SPDX-License-Identifier: MPL-2.0

import Glibc
public import LatchkeyProtection

/// What a decrypted sample shows of its key. A wrong key gives random bytes: those break rules that every sample of a
/// codec keeps. Only bytes that were encrypted count. Pure; no bytes make it trap.
public struct SampleSigns: Hashable, Sendable {
    public enum Verdict: Hashable, Sendable {
        /// Nothing that was encrypted tells.
        case unknown
        /// As of a right key. Random bytes may look so too.
        case plausible
        /// No encoder writes this.
        case wrong
    }

    /// By the structure at the start of the sample.
    public private(set) var verdict = Verdict.unknown
    /// NAL units whose encrypted end was looked at.
    public private(set) var units = 0
    /// Those of them that end in one zero byte, which a NAL unit never does. One of 257 random ones does. More of them are
    /// stuffing between units, as of a constant bit rate, which some packagers leave at the end of a unit.
    public private(set) var zeroEnds = 0
    /// The kind and the number of an AAC frame's first element, if only the number keeps it from being plausible: encoders
    /// number from 0 on. One that does not has the same in every frame, and random bytes have it in one of 128.
    public private(set) var oddElement: UInt8?
    /// Places where three bytes are a start code or what an encoder breaks up with 0x03. One of 5.6 million random ones is.
    public private(set) var startCodes = 0
    /// Intra slices of H.264 that were read as a whole, and those that are none. Those behind a whole one are not read, nor those
    /// behind `sliceLimit` broken ones.
    public private(set) var wholeSlices = 0
    public private(set) var brokenSlices = 0
    static let sliceLimit = 8
    /// The width that a VP9 frame states. Others have that of a frame before them.
    public private(set) var frameWidth: Int?

    /// Those of a sample that shows nothing of its key.
    public init() {}

    /// `plan` is what the sample was decrypted by. `frameWidth`: the only width that VP9 frames before this one stated.
    public init(
        _ sample: UnsafeRawBufferPointer, _ plan: SamplePlan, _ codec: SampleCodec, frameWidth: Int? = nil
    ) {
        var bytes = Bytes(sample, plan)
        switch codec {
        case .h264(let size, var sets):
            var slices: [Bool] = []
            lookAtUnits(&bytes, lengthSize: size, headerSize: 1) { Self.h264(&$0, $1, &$2, &sets, &slices) }
            wholeSlices = slices.count { $0 }
            brokenSlices = slices.count - wholeSlices
        case .h265(let size): lookAtUnits(&bytes, lengthSize: size, headerSize: 2, Self.h265)
        case .aac: if bytes.are(0..<2) { lookAtElement(bytes) }
        case .ac3: verdict = bytes.are(0..<2) ? Self.verdict(bytes[0] == 0x0B && bytes[1] == 0x77) : .unknown
        case .flac: verdict = bytes.are(0..<2) ? Self.verdict(bytes[0] == 0xFF && bytes[1] & 0xFE == 0xF8) : .unknown
        case .mp3: verdict = bytes.are(0..<2) ? Self.verdict(bytes[0] == 0xFF && bytes[1] & 0xE0 == 0xE0) : .unknown
        // An audio packet begins with the bit 0 (Vorbis I, 4.3.1).
        case .vorbis: verdict = bytes.are(0..<1) ? Self.verdict(bytes[0] & 1 == 0) : .unknown
        case .vp9: lookAtFrame(&bytes, width: frameWidth)
        case .opus: verdict = bytes.are(0..<2) ? Self.opus(bytes) : .unknown
        case .vp8: verdict = bytes.are(0..<1) ? Self.vp8(&bytes) : .unknown
        case .av1: verdict = bytes.are(0..<1) ? Self.av1(bytes) : .unknown
        }
    }

    private static func verdict(_ isRight: Bool) -> Verdict { isRight ? .plausible : .wrong }

    /// A sample, and which of its bytes were encrypted. The search for a byte's subsample begins where the last one ended:
    /// there may be 65,535 subsamples, and bytes are asked for roughly in order.
    private struct Bytes {
        let sample: UnsafeRawBufferPointer
        let plan: SamplePlan
        /// The subsample of the byte asked for last, and where it begins.
        private var (subsample, start) = (0, 0)

        init(_ sample: UnsafeRawBufferPointer, _ plan: SamplePlan) { (self.sample, self.plan) = (sample, plan) }

        var count: Int { sample.count }

        /// Zero behind the end.
        subscript(_ index: Int) -> UInt8 { index >= 0 && index < sample.count ? sample[index] : 0 }

        /// The first zero byte from `start` on and before `end`, which both lie within the sample.
        func zero(from start: Int, to end: Int) -> Int? {
            guard start < end, let base = sample.baseAddress, let found = memchr(base + start, 0, end - start) else {
                return nil
            }
            return base.distance(to: UnsafeRawPointer(found))
        }

        /// Whether all of these bytes are there and were encrypted.
        mutating func are(_ range: Range<Int>) -> Bool {
            range.upperBound <= count && range.allSatisfy { isEncrypted($0) }
        }

        mutating func isEncrypted(_ index: Int) -> Bool {
            guard index >= 0, index < count else { return false }
            guard !plan.subsamples.isEmpty else { return isEncrypted(index, within: count) }
            while index < start {
                subsample -= 1
                start -= Int(plan.subsamples[subsample].clear) + Int(plan.subsamples[subsample].protected)
            }
            while subsample < plan.subsamples.count {
                let protected = start + Int(plan.subsamples[subsample].clear)
                if index < protected { return false }
                let size = Int(plan.subsamples[subsample].protected)
                if index < protected + size { return isEncrypted(index - protected, within: size) }
                start = protected + size
                subsample += 1
            }
            return false
        }

        private func isEncrypted(_ index: Int, within size: Int) -> Bool {
            if plan.scheme != .cenc, index >= size & ~15 { return false }
            let (crypt, skip) = (Int(plan.pattern.crypt), Int(plan.pattern.skip))
            guard plan.scheme == .cens || plan.scheme == .cbcs, crypt > 0, skip > 0 else { return true }
            return (index / 16) % (crypt + skip) < crypt
        }
    }

    // MARK: NAL units

    private mutating func lookAtUnits(
        _ bytes: inout Bytes, lengthSize: Int, headerSize: Int,
        _ look: (inout Bytes, Range<Int>, inout Bool) -> Verdict
    ) {
        guard 1...4 ~= lengthSize else { return }
        var offset = 0
        // The first slice of the sample begins the picture.
        var isFirst = true
        while offset < bytes.count {
            let start = offset + lengthSize
            let isLengthEncrypted = (offset..<start).contains { bytes.isEncrypted($0) }
            let size = (offset..<start).reduce(0) { $0 << 8 | Int(bytes[$1]) }
            guard size <= bytes.count - start, size >= headerSize else {
                if isLengthEncrypted { verdict = .wrong }
                return
            }
            let unit = start..<start + size
            if isLengthEncrypted, verdict == .unknown { verdict = .plausible }
            if verdict != .wrong {
                let found = look(&bytes, unit, &isFirst)
                if found != .unknown { verdict = found }
            }
            lookInside(&bytes, unit.dropFirst(headerSize))
            offset = unit.upperBound
        }
    }

    /// What no NAL unit has inside (ISO/IEC 14496-10, 7.4.1).
    private mutating func lookInside(_ bytes: inout Bytes, _ unit: Range<Int>) {
        guard let last = unit.last else { return }
        var unitEnd = unit.upperBound
        while unitEnd > unit.lowerBound, bytes[unitEnd - 1] == 0 { unitEnd -= 1 }
        if bytes.isEncrypted(last) {
            units += 1
            if unitEnd == last { zeroEnds += 1 }
        }
        // By zero bytes, which memchr finds many times faster than a loop does: this looks at every byte of a picture.
        var index = unit.lowerBound
        while let zero = bytes.zero(from: index, to: unitEnd - 2) {
            let end = zero + 2
            if bytes[zero + 1] == 0, bytes[end] <= 2, bytes.isEncrypted(end), bytes.isEncrypted(end - 1) {
                startCodes += 1
                index = end + 1
            } else {
                index = zero + 1
            }
        }
    }

    /// The header, and the start of the first slice of a picture (ISO/IEC 14496-10, 7.3.1 and 7.3.3).
    private static func h264(
        _ bytes: inout Bytes, _ unit: Range<Int>, _ isFirst: inout Bool, _ sets: inout H264ParameterSets,
        _ slices: inout [Bool]
    ) -> Verdict {
        let header = bytes[unit.lowerBound]
        let type = header & 31
        if bytes.isEncrypted(unit.lowerBound) {
            guard header & 0x80 == 0, 1...12 ~= type || 14...15 ~= type || 19...20 ~= type else { return .wrong }
        }
        let start = unit.lowerBound + 1
        guard 1...5 ~= type else {
            if !bytes.isEncrypted(unit.lowerBound) {
                sets.add(unit: UnsafeRawBufferPointer(rebasing: bytes.sample[unit]))
            }
            return .unknown
        }
        defer { isFirst = false }
        guard type == 1 || type == 5 else { return .unknown }
        guard isFirst, unit.count >= 5, bytes.are(start..<start + 4) else {
            return intraStart(&bytes, unit, sets, &slices)
        }
        var bits = SampleBits(bytes.sample, from: start)
        guard bits.exponential() == 0, let kind = bits.exponential(), let set = bits.exponential() else {
            return .wrong
        }
        return verdict(kind <= 9 && set <= 255)
    }

    /// Behind a header in the clear, the first macroblock of an intra slice, if a block of 16 bytes is encrypted there. If
    /// any is, `slices` gets whether the slice is one.
    private static func intraStart(
        _ bytes: inout Bytes, _ unit: Range<Int>, _ sets: H264ParameterSets, _ slices: inout [Bool]
    ) -> Verdict {
        guard !sets.isEmpty else { return .unknown }
        let payload = UnsafeRawBufferPointer(rebasing: bytes.sample[unit.dropFirst()])
        guard let found = H264IntraStart(payload, header: bytes[unit.lowerBound], sets) else { return .unknown }
        let data = unit.lowerBound + 1 + found.dataOffset
        guard data < unit.upperBound, !(unit.lowerBound..<data).contains(where: { bytes.isEncrypted($0) }) else {
            return .unknown
        }
        if slices.count < sliceLimit, slices.last != true,
            stride(from: data, to: unit.upperBound, by: 16).contains(where: { bytes.isEncrypted($0) }),
            let isWhole = H264IntraStart.isWhole(payload, header: bytes[unit.lowerBound], sets)
        {
            slices.append(isWhole)
        }
        guard data + 16 <= unit.upperBound, bytes.are(data..<data + 16) else { return .unknown }
        return verdict(found.isAllowed)
    }

    /// ISO/IEC 23008-2, 7.3.1.2 and 7.3.6.
    private static func h265(_ bytes: inout Bytes, _ unit: Range<Int>, _ isFirst: inout Bool) -> Verdict {
        let header = unit.lowerBound
        let type = bytes[header] >> 1 & 63
        if bytes.are(header..<header + 2) {
            // The forbidden bit, the layer and the temporal ID, which is never 0 here.
            guard bytes[header] & 0x81 == 0, bytes[header + 1] >> 3 == 0, bytes[header + 1] & 7 != 0 else {
                return .wrong
            }
        }
        let start = header + 2
        guard type < 10 || 16...21 ~= type else { return .unknown }
        defer { isFirst = false }
        guard isFirst, unit.count >= 6, bytes.are(start..<start + 4) else { return .unknown }
        var bits = SampleBits(bytes.sample, from: start)
        guard bits.flag() else { return .wrong }
        if type >= 16 { bits.skip(1) }
        guard let set = bits.exponential(), set <= 63 else { return .wrong }
        return .plausible
    }

    // MARK: Others

    /// The first element of a frame (ISO/IEC 14496-3, 4.4.2.1).
    private mutating func lookAtElement(_ bytes: Bytes) {
        switch bytes[0] >> 5 {
        case 0, 1, 3:
            // A pair of channels with a common window has a reserved bit behind that.
            let isPair = bytes[0] >> 5 == 1
            guard !isPair || bytes[0] & 1 == 0 || bytes[1] & 0x80 == 0 else { return verdict = .wrong }
            verdict = Self.verdict(bytes[0] >> 1 & 15 == 0)
            if verdict == .wrong { oddElement = bytes[0] >> 1 }
        case 2, 7: verdict = .wrong
        default: verdict = .plausible
        }
    }

    /// A packet that states its number of frames, as one in four of random bytes does, has at least one and lasts at most
    /// 120 ms (RFC 6716, 3.2.5). A packet with several streams begins in the same way.
    private static func opus(_ bytes: Bytes) -> Verdict {
        guard bytes[0] & 3 == 3 else { return .unknown }
        let frames = Int(bytes[1] & 63)
        // In units of 2.5 ms (3.1).
        let durations =
            switch bytes[0] >> 3 {
            case 0..<12: [4, 8, 16, 24]
            case 12..<16: [4, 8, 4, 8]
            default: [1, 2, 4, 8]
            }
        return verdict(frames > 0 && frames * durations[Int(bytes[0] >> 3 & 3)] <= 48)
    }

    /// The frame marker (VP9 bitstream, 6.2). Behind a header in the clear, the first bit of the compressed header, and that of
    /// the first tile, which is 0 (9.2.1). If there are several tiles, the size of the first stands there, which is below 2^31.
    private mutating func lookAtFrame(_ bytes: inout Bytes, width: Int?) {
        if bytes.are(0..<1) { return verdict = Self.verdict(bytes[0] & 0xC0 == 0x80) }
        guard let header = VP9FrameHeader(bytes.sample, width: width),
            !(0..<header.size).contains(where: { bytes.isEncrypted($0) })
        else { return }
        frameWidth = header.width
        for start in [header.size, header.size + header.compressedSize] where bytes.isEncrypted(start) {
            verdict = bytes[start] & 0x80 == 0 && verdict != .wrong ? .plausible : .wrong
        }
    }

    /// RFC 6386, 9.1.
    private static func vp8(_ bytes: inout Bytes) -> Verdict {
        guard bytes[0] >> 1 & 7 <= 3 else { return .wrong }
        guard bytes[0] & 1 == 0, bytes.are(3..<6) else { return .plausible }
        return verdict(bytes[3] == 0x9D && bytes[4] == 0x01 && bytes[5] == 0x2A)
    }

    /// The headers of the OBUs (AV1 bitstream, 5.3.2).
    private static func av1(_ bytes: Bytes) -> Verdict {
        var offset = 0
        while offset < bytes.count {
            let header = bytes[offset]
            let type = header >> 3 & 15
            guard header & 0x81 == 0, 1...8 ~= type || type == 15 else { return .wrong }
            offset += header & 4 == 0 ? 1 : 2
            // Without a size it is the last one.
            guard header & 2 != 0 else { return .plausible }
            var (size, shift) = (0, 0)
            while true {
                guard offset < bytes.count, shift < 35 else { return .wrong }
                let byte = bytes[offset]
                offset += 1
                size |= Int(byte & 127) << shift
                if byte & 128 == 0 { break }
                shift += 7
            }
            guard size <= bytes.count - offset else { return .wrong }
            offset += size
        }
        return .plausible
    }
}

/// What samples are made of, as far as a wrong key can be detected by it.
public enum SampleCodec: Hashable, Sendable {
    /// NAL units of H.264 behind lengths of so many bytes. Samples may have parameter sets of their own too.
    case h264(lengthSize: Int, sets: H264ParameterSets = H264ParameterSets())
    /// The same of H.265.
    case h265(lengthSize: Int)
    /// Raw AAC frames.
    case aac
    /// AC-3 and E-AC-3.
    case ac3
    case av1
    case vp8
    case vp9
    case vorbis
    case flac
    case mp3
    case opus

    /// By the media type of GStreamer's caps, and the configuration there; nil for others.
    public init?(mediaType: String, configuration: [UInt8] = []) {
        switch mediaType {
        case "video/x-h264": self = .h264(lengthSize: 4, sets: H264ParameterSets(configuration: configuration))
        case "video/x-h265": self = .h265(lengthSize: 4)
        case "audio/mpeg": self = .aac
        case "audio/x-ac3", "audio/x-eac3": self = .ac3
        case "video/x-av1": self = .av1
        case "video/x-vp8": self = .vp8
        case "video/x-vp9": self = .vp9
        case "audio/x-vorbis": self = .vorbis
        case "audio/x-flac": self = .flac
        case "audio/x-opus": self = .opus
        default: return nil
        }
    }

    /// By the four characters of a sample entry (ISO/IEC 14496-12 and the codecs' own documents); nil for others, and for
    /// `mp4a`, which is several.
    public init?(fourCC: String, lengthSize: Int = 4, sets: H264ParameterSets = H264ParameterSets()) {
        switch fourCC {
        case "avc1", "avc2", "avc3", "avc4", "H264", "AVC1": self = .h264(lengthSize: lengthSize, sets: sets)
        case "hvc1", "hev1", "dvh1", "dvhe": self = .h265(lengthSize: lengthSize)
        case "ac-3", "ec-3": self = .ac3
        case "av01": self = .av1
        case "vp08": self = .vp8
        case "vp09": self = .vp9
        case "fLaC": self = .flac
        case "Opus": self = .opus
        case ".mp3": self = .mp3
        default: return nil
        }
    }
}
