// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@testable import LatchkeyContainers

/// What decrypted samples tell of their key.
@Suite struct SampleSignsTests {
    private static let whole = SamplePlan(scheme: .cenc, initializationVector: InitializationVector(high: 0, low: 0))

    private func signs(_ bytes: [UInt8], _ codec: SampleCodec, _ plan: SamplePlan = whole) -> SampleSigns {
        bytes.withUnsafeBytes { SampleSigns($0, plan, codec) }
    }

    /// NAL units behind lengths of four bytes.
    private func sample(_ units: [[UInt8]]) -> [UInt8] {
        units.flatMap { [0, 0, UInt8($0.count >> 8), UInt8($0.count & 255)] + $0 }
    }

    /// first_mb_in_slice 0, slice_type 7, pic_parameter_set_id 0, then anything.
    private static let slice: [UInt8] = [0x65, 0b1000_1000, 0b1000_0100, 0x21, 0xA0, 0x11, 0x80]

    @Test func rightStartsArePlausible() {
        let right: [(SampleCodec, [UInt8])] = [
            (.h264(lengthSize: 4), sample([[0x09, 0xF0], Self.slice])),
            (.h265(lengthSize: 4), sample([[0x26, 0x01, 0xAF, 0x09, 0x40, 0x80]])),
            (.aac, [0x21, 0x10, 0x04]), (.aac, [0x01, 0x40]), (.aac, [0xDE, 0x02]),
            (.ac3, [0x0B, 0x77, 1]), (.flac, [0xFF, 0xF8, 1]), (.mp3, [0xFF, 0xFB]), (.vorbis, [0x02]),
            (.vp9, [0x82, 0x49]), (.vp8, [0x10, 0, 0, 0x9D, 0x01, 0x2A]), (.av1, [0x12, 0x00, 0x32, 0x01, 0x10]),
        ]
        for (codec, bytes) in right { #expect(signs(bytes, codec).verdict == .plausible, "\(codec)") }
    }

    @Test func whatNoEncoderWritesIsWrong() {
        let wrong: [(SampleCodec, [UInt8])] = [
            // A length beyond the sample; a forbidden bit; a picture that begins with its second macroblock.
            (.h264(lengthSize: 4), [0x10, 0, 0, 1, 0x65]),
            (.h264(lengthSize: 4), sample([[0xE5, 0x88, 0x80, 0x10, 1]])),
            (.h264(lengthSize: 4), sample([[0x65, 0b0100_1000, 0x84, 0x21, 0xA0]])),
            (.h265(lengthSize: 4), sample([[0x26, 0x00, 0xAF, 0x09, 0x40, 0x80]])),
            (.aac, [0xE1, 0]), (.aac, [0x2F, 0]), (.aac, [0x21, 0x80]), (.ac3, [0x77, 0x0B]), (.vp9, [0x02, 0]),
            (.vp8, [0x10, 0, 0, 1, 2, 3]), (.av1, [0x80, 0]), (.av1, [0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
        ]
        for (codec, bytes) in wrong { #expect(signs(bytes, codec).verdict == .wrong, "\(codec) \(bytes)") }
    }

    /// Packets whose first byte says that the next one has the number of frames. Each stream of several begins so.
    @Test func opusPacketsTellByTheNumberOfTheirFrames() {
        // The configuration, and the most frames in 120 ms.
        let limits: [(UInt8, UInt8)] = [
            (0, 12), (1, 6), (2, 3), (3, 2), (11, 2), (12, 12), (13, 6), (14, 12), (15, 6), (16, 48), (17, 24),
            (18, 12), (31, 6),
        ]
        for (configuration, limit) in limits {
            let first = configuration << 3 | 3
            for (frames, verdict) in [
                (0, .wrong), (1, .plausible), (limit, .plausible), (limit + 1, .wrong), (63, .wrong),
            ] as [(UInt8, SampleSigns.Verdict)] {
                #expect(signs([first | 4, frames | 0xC0, 9], .opus).verdict == verdict, "\(configuration) \(frames)")
            }
            for code: UInt8 in 0...2 { #expect(signs([configuration << 3 | code, 0, 9], .opus).verdict == .unknown) }
        }
        #expect(signs([3], .opus).verdict == .unknown)
        var plan = Self.whole
        plan.subsamples = [Subsample(clear: 1, protected: 2)]
        #expect(signs([3, 0, 9], .opus, plan).verdict == .unknown)
    }

    @Test func onlyWhatWasEncryptedCounts() {
        var plan = Self.whole
        plan.subsamples = [Subsample(clear: 4, protected: 0)]
        #expect(signs([0x77, 0x0B, 0, 0], .ac3, plan).verdict == .unknown)
        #expect(signs([], .aac).verdict == .unknown)
        // Blocks that a pattern skips, and the rest behind the last whole block.
        plan = SamplePlan(
            scheme: .cbcs, initializationVector: InitializationVector(high: 0, low: 0),
            pattern: BlockPattern(crypt: 1, skip: 9))
        let unit = [UInt8(0x65)] + [UInt8](repeating: 0xFF, count: 198) + [0]
        let found = signs(sample([unit]), .h264(lengthSize: 4), plan)
        #expect(found.units == 0 && found.zeroEnds == 0)
    }

    @Test func theInsideOfUnitsTells() {
        var plan = Self.whole
        plan.subsamples = [Subsample(clear: 12, protected: 20)]
        let unit = [UInt8(0x65)] + [UInt8](repeating: 0xFF, count: 13) + [0, 0, 1, 9, 0, 0, 3, 1, 0, 0, 0, 7, 7, 0]
        let found = signs(sample([unit]), .h264(lengthSize: 4), plan)
        #expect(found.verdict == .unknown && found.startCodes == 2 && found.units == 1 && found.zeroEnds == 1)
    }

    /// Zeros between units, as an encoder of a constant bit rate writes them: some packagers make them a part of the unit in front.
    @Test(arguments: [0, 1, 2, 3, 300]) func stuffingBehindUnitsTellsNothing(zeros: Int) {
        let unit = Self.slice + [UInt8](repeating: 0, count: zeros)
        let found = signs(sample([unit, unit]), .h264(lengthSize: 4))
        #expect(found.verdict == .plausible && found.startCodes == 0)
        #expect(found.units == 2 && found.zeroEnds == (zeros == 1 ? 2 : 0))
    }

    /// What counts, against a list of all bytes: subsamples of any sizes, also empty ones and ones beyond the sample.
    @Test func subsamplesOfAnySizesCount() {
        for _ in 0..<300 {
            var plan = SamplePlan(
                scheme: Bool.random() ? .cenc : .cbcs, initializationVector: InitializationVector(high: 0, low: 0))
            plan.subsamples = (0..<Int.random(in: 1...40)).map { _ in
                Subsample(clear: .random(in: 0...9), protected: Bool.random() ? 0 : .random(in: 1...40))
            }
            let bytes = sample(
                (0..<Int.random(in: 1...20)).map { _ in
                    [0x65] + (0..<Int.random(in: 0...40)).map { _ in UInt8.random(in: 0...3) / 2 }
                })
            let expected = expected(bytes, plan)
            let found = signs(bytes, .h264(lengthSize: 4), plan)
            #expect(found.startCodes == expected.startCodes, "\(bytes) \(plan)")
            #expect(found.units == expected.units && found.zeroEnds == expected.zeroEnds, "\(bytes) \(plan)")
        }
    }

    /// Start codes, units and zero ends of H.264 with lengths of four bytes and no pattern.
    private func expected(_ bytes: [UInt8], _ plan: SamplePlan) -> (startCodes: Int, units: Int, zeroEnds: Int) {
        var isEncrypted: [Bool] = []
        for subsample in plan.subsamples {
            let blocks = plan.scheme == .cenc ? subsample.protected : subsample.protected & ~15
            isEncrypted += [Bool](repeating: false, count: Int(subsample.clear))
            isEncrypted += (0..<subsample.protected).map { $0 < blocks }
        }
        isEncrypted += [Bool](repeating: false, count: bytes.count)
        var found = (startCodes: 0, units: 0, zeroEnds: 0)
        var unit = 0
        while unit < bytes.count {
            let end = unit + 4 + Int(bytes[unit + 3])
            var (zeros, last) = (0, end)
            while last > unit + 5, bytes[last - 1] == 0 { last -= 1 }
            for index in unit + 5..<last {
                if zeros >= 2, bytes[index] <= 2, isEncrypted[index], isEncrypted[index - 1] {
                    found.startCodes += 1
                    zeros = 0
                } else {
                    zeros = bytes[index] == 0 ? zeros + 1 : 0
                }
            }
            if end > unit + 5, isEncrypted[end - 1] {
                found.units += 1
                if last == end - 1 { found.zeroEnds += 1 }
            }
            unit = end
        }
        return found
    }

    /// As many subsamples as a sample can have cost no more than its bytes. A search for each byte would not end here.
    @Test func manySubsamplesCostNoMoreThanTheirBytes() {
        var plan = Self.whole
        plan.subsamples = [Subsample](repeating: Subsample(clear: 13, protected: 3), count: 65_535)
        let size = 16 * 65_535
        // One unit of start codes, and units that have a start code in one subsample and end in the next.
        let one: [UInt8] = [0, UInt8(size >> 16), UInt8(size >> 8 & 255), UInt8((size & 255) - 4), 0x65]
        let inOne = signs(one + [UInt8](repeating: 0, count: size - 6) + [1], .h264(lengthSize: 4), plan)
        #expect(inOne.startCodes == 65_535 && inOne.units == 1 && inOne.zeroEnds == 0)
        let starts: [(SampleCodec, [UInt8])] = [
            (.h264(lengthSize: 1), [31, 0x65, 0]), (.h265(lengthSize: 1), [31, 0x40, 1]),
        ]
        for (codec, start) in starts {
            let unit = start + [UInt8](repeating: 0, count: 28) + [1]
            let inMany = signs([[UInt8]](repeating: unit, count: size / 32).flatMap(\.self), codec, plan)
            #expect(inMany.startCodes == 65_534 && inMany.units == 32_767 && inMany.zeroEnds == 0)
        }
    }

    /// Any bytes: nothing traps, and random ones are found out.
    @Test func randomBytesAreWrong() {
        var random = SystemRandomNumberGenerator()
        let codecs: [SampleCodec] = [
            .h264(lengthSize: 4), .h264(lengthSize: 1), .h265(lengthSize: 4), .aac, .ac3, .av1, .vp8, .vp9, .vorbis,
            .flac, .mp3,
        ]
        for codec in codecs {
            var wrong = 0
            for _ in 0..<400 {
                let bytes = (0..<Int.random(in: 2...300)).map { _ in UInt8.random(in: 0...255, using: &random) }
                if signs(bytes, codec).verdict == .wrong { wrong += 1 }
            }
            #expect(wrong > 140, "\(codec): \(wrong)")
        }
        // One Opus packet in four tells.
        let wrong = (0..<4000).count { _ in signs((0..<9).map { _ in .random(in: 0...255) }, .opus).verdict == .wrong }
        #expect(600...920 ~= wrong, "\(wrong)")
    }
}
