// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@testable import LatchkeyElements
@testable import LatchkeyContainers

/// After how many decrypted samples a key is called a wrong one, and that right keys are not.
@Suite struct SampleDoubtTests {
    private static let keyID = KeyID([UInt8](repeating: 1, count: 16))
    private static let plan = SamplePlan(scheme: .cenc, initializationVector: InitializationVector(high: 0, low: 0))

    /// What one sample shows.
    private enum Sample {
        case good, bad, silent

        /// As AC-3, of which the first two bytes tell.
        func isConfirmed(in doubt: inout SampleDoubt, _ keyID: KeyID? = SampleDoubtTests.keyID) -> Bool {
            var plan = SampleDoubtTests.plan
            if self == .silent { plan.subsamples = [Subsample(clear: 2, protected: 2)] }
            let bytes: [UInt8] = self == .good ? [0x0B, 0x77, 1, 2] : [0x5A, 0x77, 1, 2]
            return bytes.withUnsafeBytes { doubt.isConfirmed(by: SampleSigns($0, plan, .ac3), keyID, .ac3) }
        }
    }

    /// The numbers of the samples, from 1 on, at which a key is told. Samples are given as long as the doubt is open.
    private func told(_ samples: [Sample], in doubt: inout SampleDoubt, _ keyID: KeyID? = keyID) -> [Int] {
        samples.enumerated().filter { _, sample in
            doubt.isOpen(for: keyID, .ac3) && sample.isConfirmed(in: &doubt, keyID)
        }.map { $0.offset + 1 }
    }

    private func told(_ samples: [Sample]) -> [Int] {
        var doubt = SampleDoubt()
        return told(samples, in: &doubt)
    }

    private func of(_ sample: Sample, _ count: Int) -> [Sample] { Array(repeating: sample, count: count) }

    @Test func aBoundedNumberOfBadSamplesTellsOnce() {
        let limit = SampleDoubt.sampleLimit
        let table: [(name: String, runs: [(Sample, Int)], told: [Int])] = [
            ("seven", [(.bad, 7)], []),
            ("eight", [(.bad, 8)], [8]),
            ("many", [(.bad, 500)], [8]),
            ("silent ones alone", [(.silent, 3000)], []),
            ("good ones alone", [(.good, 3000)], []),
            ("seven bad behind good ones", [(.good, 10), (.bad, 7)], []),
            // A third of those that tell anything, and eight.
            ("bad behind ten good ones", [(.good, 10), (.bad, 100)], [18]),
            ("sixteen bad of 48", [(.good, 32), (.bad, 500)], [48]),
            ("fifteen bad of 48", [(.good, 33), (.bad, 500)], []),
            ("eight bad of 48", [(.bad, 7), (.good, 40), (.bad, 500)], []),
            // After 48 that tell anything, the start of samples is looked at no more.
            ("bad behind a verdict", [(.good, 48), (.bad, 500)], []),
            ("bad around a verdict", [(.bad, 7), (.good, 41), (.bad, 500)], []),
            ("late", [(.silent, limit), (.bad, 500)], []),
            ("in time", [(.silent, limit - 8), (.bad, 500)], [limit]),
        ]
        for row in table {
            let samples = row.runs.flatMap { of($0.0, $0.1) }
            #expect(told(samples) == row.told, "\(row.name)")
        }
        let mixed: [(samples: [Sample], told: [Int])] = [
            ([.silent, .silent, .silent, .bad], [32]), ([.good, .good, .bad], [24]), ([.good, .good, .good, .bad], []),
        ]
        for row in mixed {
            let samples = (0..<500).flatMap { _ in row.samples }
            #expect(told(samples) == row.told, "\(row.samples)")
        }
    }

    @Test func nothingIsLookedAtOnceItIsSettled() {
        let limit = SampleDoubt.sampleLimit
        let table: [([Sample], Int)] = [
            (of(.bad, 100), 8), (of(.good, 100), 48), (of(.silent, 3000), limit), ([.bad] + of(.good, 3000), limit),
        ]
        for (samples, count) in table {
            var doubt = SampleDoubt()
            var looked = 0
            for sample in samples where doubt.isOpen(for: Self.keyID, .ac3) {
                looked += 1
                _ = sample.isConfirmed(in: &doubt)
            }
            #expect(looked == count)
        }
        // Also if one is given all the same.
        var doubt = SampleDoubt()
        #expect((0..<100).count { _ in Sample.bad.isConfirmed(in: &doubt) } == 1)
    }

    /// As `vp9parse` ends the stream at the first frame.
    @Test func aRefusalTellsIfNoSampleIsRight() {
        let table: [(samples: [Sample], isTold: Bool)] = [
            ([.bad], true), ([.silent, .bad, .bad], true), ([], false), ([.silent], false), ([.good], false),
            ([.good, .bad, .bad], false), ([.bad, .good], false),
            // Told already.
            (of(.bad, 8), false),
        ]
        for row in table {
            var doubt = SampleDoubt()
            _ = told(row.samples, in: &doubt)
            #expect(doubt.refuse() == (row.isTold ? [Self.keyID] : []), "\(row.samples)")
            #expect(doubt.refuse().isEmpty)
        }
        var doubt = SampleDoubt()
        #expect(told([.bad], in: &doubt).isEmpty && told([.good], in: &doubt, nil).isEmpty)
        #expect(doubt.refuse() == [Self.keyID])
    }

    /// Few intra slices of H.264 are enough at the end if no other sample tells anything.
    @Test func theEndTellsIfNoSliceIsRight() {
        let (sequence, picture): ([UInt8], [UInt8]) = ([0x67, 0x4D, 0, 0x0A, 0xDC, 0xB9], [0x68, 0xEE, 0x38, 0x80])
        let configuration = [1, 0x4D, 0, 10, 0xFF, 0xE1, 0, 6] + sequence + [1, 0, 4] + picture
        let known = SampleCodec.h264(lengthSize: 4, sets: H264ParameterSets(configuration: configuration))
        let table: [(samples: [Sample], codec: SampleCodec, isTold: Bool)] = [
            ([.bad, .bad, .bad], known, true), ([.silent, .bad, .silent, .bad, .bad], known, true),
            ([.bad, .bad], known, false), ([], known, false), ([.silent, .silent, .silent], known, false),
            ([.bad, .bad, .good, .bad], known, false), ([.bad, .bad, .bad], .h264(lengthSize: 4), false),
            ([.bad, .bad, .bad], .ac3, false),
            // Told already.
            (of(.bad, 8), known, false),
        ]
        for row in table {
            var doubt = SampleDoubt()
            for sample in row.samples {
                let bytes: [UInt8] = sample == .good ? [0x0B, 0x77] : [0x5A, 0x77]
                let signs = bytes.withUnsafeBytes { SampleSigns($0, Self.plan, .ac3) }
                _ = doubt.isConfirmed(by: sample == .silent ? SampleSigns() : signs, Self.keyID, row.codec)
            }
            #expect(doubt.end() == (row.isTold ? [Self.keyID] : []), "\(row.samples), \(row.codec)")
            #expect(doubt.end().isEmpty)
        }
    }

    /// Intra slices, by samples: 0 has none, 1 a broken one, 2 a whole one, 3 both.
    @Test func brokenSlicesTellUnlessOneIsWhole() {
        let (none, limit) = ([Int](repeating: 0, count: 200), SliceDoubt.sampleLimit)
        let table: [(samples: [Int], told: Int?, atEnd: Bool)] = [
            ([1, 1, 1], 3, true), ([1, 1], nil, true), ([1], nil, true), ([], nil, false), (none, nil, false),
            ([1] + none, limit, true), (none + [1], 201, true), ([2, 1, 1, 1], nil, false), ([1, 1, 2], nil, false),
            ([3, 1, 1, 1], nil, false), ([1] + Array(none.prefix(limit - 3)) + [2] + none, nil, false),
        ]
        for row in table {
            var doubt = SliceDoubt()
            let told = row.samples.map { doubt.isConfirmed(whole: $0 >> 1, broken: $0 & 1) }
            #expect(told.firstIndex(of: true).map { $0 + 1 } == row.told, "\(row.samples)")
            #expect(doubt.isConfirmedByEnd == row.atEnd, "\(row.samples)")
        }
    }

    /// Of CAVLC and of fields, no slice is read.
    @Test func slicesThatTellNothingAreNotLookedAtForever() {
        var doubt = SliceDoubt()
        for number in 1...SampleDoubt.sampleLimit {
            #expect(!doubt.isSettled && !doubt.isConfirmed(whole: 0, broken: 0), "\(number)")
        }
        #expect(doubt.isSettled && !doubt.isConfirmedByEnd)
        doubt = SliceDoubt()
        #expect(!doubt.isConfirmed(whole: 1, broken: 0) && doubt.isSettled)
    }

    /// A demuxer may read parts of a file again, and tracks one after the other.
    @Test(arguments: [
        ([0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7], [12]), ([9, 8, 9, 8, 7, 6, 5, 4, 3, 2, 2, 1], [10]),
        ([0, 0, 0, 0, 0, 0, 0, 0, 0], []),
    ])
    func aSampleOfAFileCountsOnce(places: [UInt64], told: [Int]) {
        var doubt = SampleDoubt()
        let bytes: [UInt8] = [0x5A, 0x77, 1, 2]
        let found = places.map { place in
            bytes.withUnsafeBytes { doubt.isConfirmed(by: $0, at: place, Self.plan, Self.keyID, .ac3) }
        }
        #expect(found.indices.filter { found[$0] }.map { $0 + 1 } == told)
    }

    @Test func eachKeyIsLookedAtForItself() {
        var doubt = SampleDoubt()
        let keyIDs: [KeyID?] = [nil] + (1...3).map { KeyID([UInt8](repeating: $0, count: 16)) }
        #expect(told(of(.good, 48), in: &doubt, keyIDs[0]).isEmpty)
        for keyID in keyIDs.dropFirst() { #expect(told(of(.bad, 20), in: &doubt, keyID) == [8]) }
        for keyID in keyIDs { #expect(told(of(.bad, 20), in: &doubt, keyID).isEmpty) }
        // Keys that come by turns.
        doubt = SampleDoubt()
        var counts: [KeyID?: Int] = [:]
        for _ in 1...20 {
            for keyID in keyIDs where doubt.isOpen(for: keyID, .ac3) {
                if Sample.bad.isConfirmed(in: &doubt, keyID) { counts[keyID, default: 0] += 1 }
            }
        }
        #expect(counts.count == keyIDs.count && counts.values.allSatisfy { $0 == 1 })
    }

    @Test func aKeyOfSeveralTracksIsToldOnce() {
        var doubt = SampleDoubt()
        let signs = ([0x5A, 0x77] as [UInt8]).withUnsafeBytes { SampleSigns($0, Self.plan, .ac3) }
        let codecs = [SampleCodec.aac, .ac3, .h264(lengthSize: 4)]
        let told = codecs.map { codec in
            (1...20).filter { _ in doubt.isConfirmed(by: signs, Self.keyID, codec) }.count
        }
        #expect(told == [1, 0, 0])
        #expect(doubt.refuse().isEmpty && doubt.end().isEmpty)
    }

    /// Keys that rotate for ever take no memory for ever.
    @Test func theNumberOfKeysIsBounded() {
        var doubt = SampleDoubt()
        var open = 0
        for number in 0..<200 as Range<UInt8> {
            let keyID = KeyID([UInt8](repeating: number, count: 16))
            if doubt.isOpen(for: keyID, .ac3) {
                open += 1
                _ = Sample.bad.isConfirmed(in: &doubt, keyID)
            }
        }
        #expect(open == 64)
    }

    /// Any order: told at most once, and exactly if the rule says so of a prefix.
    @Test func theRuleHoldsForAnyOrder() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<2000 {
            let share = Double.random(in: 0...1, using: &random)
            let samples: [Sample] = (0..<120).map { _ in
                Int.random(in: 0..<4, using: &random) == 0
                    ? .silent : Double.random(in: 0...1, using: &random) < share ? .bad : .good
            }
            var (bad, telling) = (0, 0)
            var expected: [Int] = []
            for (index, sample) in samples.enumerated() where telling < SampleDoubt.verdictLimit && expected.isEmpty {
                if sample != .silent { telling += 1 }
                if sample == .bad { bad += 1 }
                if sample == .bad || sample == .good, bad >= SampleDoubt.wrongLimit, bad * 3 >= telling {
                    expected = [index + 1]
                }
            }
            #expect(told(samples) == expected, "\(samples)")
        }
    }

    // MARK: Inside NAL units

    /// Slices behind lengths, in one protected range each, with the header in the clear.
    private func picture(_ units: [[UInt8]]) -> ([UInt8], SamplePlan) {
        var plan = Self.plan
        plan.subsamples = units.map { Subsample(clear: 12, protected: UInt32($0.count - 8)) }
        return (units.flatMap { [0, 0, UInt8($0.count >> 8), UInt8($0.count & 255)] + $0 }, plan)
    }

    /// A slice with a header that is right. `end` is its last byte.
    private func slice(_ body: [UInt8] = [UInt8](repeating: 0x55, count: 24), end: UInt8 = 0x80) -> [UInt8] {
        [0x61, 0x9A, 1, 2, 3, 4, 5, 6] + body + [end]
    }

    /// At which picture the key is told.
    private func toldPictures(_ pictures: [[[UInt8]]]) -> [Int] {
        var doubt = SampleDoubt()
        return pictures.enumerated().filter { _, units in
            guard doubt.isOpen(for: Self.keyID, .h264(lengthSize: 4)) else { return false }
            let (bytes, plan) = picture(units)
            let signs = bytes.withUnsafeBytes { SampleSigns($0, plan, .h264(lengthSize: 4)) }
            return doubt.isConfirmed(by: signs, Self.keyID, .h264(lengthSize: 4))
        }.map { $0.offset + 1 }
    }

    @Test func threeStartCodesInsideUnitsTell() {
        let broken = slice([9, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9])
        let good = slice()
        let many = [[[UInt8]]](repeating: [good], count: 50)
        #expect(toldPictures(many + [[broken], [good], [broken], [good], [broken], [broken]]) == [55])
        #expect(toldPictures(many + [[broken], [broken]] + many).isEmpty)
    }

    /// As with random bytes, of which one in 256 is zero. The bytes of the corpus end so in no unit.
    @Test func zeroBytesAtTheEndTellIfTheyAreFew() {
        let pictures = (1...1000).map { [slice(end: $0 % 256 == 0 ? 0 : 0x80)] }
        #expect(toldPictures(pictures) == [768])
    }

    /// A packager that splits a byte stream at 00 00 01 leaves the first byte of the next picture's 00 00 00 01.
    @Test func zeroBytesBehindEachPictureDoNot() {
        for count in [1, 2, 8, 33, 34, 75, 96] {
            let units = [[UInt8]](repeating: slice(), count: count - 1) + [slice(end: 0)]
            #expect(toldPictures([[[UInt8]]](repeating: units, count: 60)).isEmpty, "\(count) units")
        }
    }

    @Test func manyUnitsOfAPictureEndTheLookSooner() {
        let codec = SampleCodec.h264(lengthSize: 4)
        let (bytes, plan) = picture([[UInt8]](repeating: slice(), count: 30))
        var doubt = SampleDoubt()
        var looked = 0
        while looked < SampleDoubt.sampleLimit, doubt.isOpen(for: Self.keyID, codec) {
            looked += 1
            _ = bytes.withUnsafeBytes { doubt.isConfirmed(by: SampleSigns($0, plan, codec), Self.keyID, codec) }
        }
        #expect(looked == SampleDoubt.unitLimit / 30)
    }

    /// Slices of random bytes behind headers in the clear, as with a wrong key: told in 80 s of pictures, mostly.
    @Test func randomSlicesAreToldInTheEnd() {
        var random = SystemRandomNumberGenerator()
        let headers: [(SampleCodec, [UInt8])] = [
            (.h264(lengthSize: 4), [0x61, 0x9A, 1, 2, 3, 4, 5, 6]),
            (.h265(lengthSize: 4), [0x02, 1, 0xD0, 1, 2, 3, 4, 5]),
        ]
        for (codec, header) in headers {
            var sequences = 0
            for _ in 0..<40 {
                var doubt = SampleDoubt()
                let count = (0..<SampleDoubt.sampleLimit + 100).count { _ in
                    guard doubt.isOpen(for: Self.keyID, codec) else { return false }
                    let noise = (0..<24).map { _ in UInt8.random(in: 0...255, using: &random) }
                    let (bytes, plan) = picture([header + noise])
                    let signs = bytes.withUnsafeBytes { SampleSigns($0, plan, codec) }
                    return doubt.isConfirmed(by: signs, Self.keyID, codec)
                }
                #expect(count <= 1)
                sequences += count
            }
            #expect(sequences > 30, "\(codec): \(sequences) of 40")
        }
    }

    // MARK: VP9

    /// Headers of frames without tiles, with a compressed header of three bytes: those of key frames by their widths, and that
    /// of a frame which has the width of its first reference.
    private static let keyFrames: [Int: [UInt8]] = [
        320: [
            0x82, 0x49, 0x83, 0x42, 0x20, 0x13, 0xF0, 0x0B, 0x32, 0x94, 0x07, 0x80, 0x00, 0x03,
        ],
        1920: [
            0x82, 0x49, 0x83, 0x42, 0x20, 0x77, 0xF0, 0x0B, 0x32, 0x94, 0x07, 0x80, 0x00, 0x01, 0x80,
        ],
    ]
    private static let otherFrame: [UInt8] = [
        0x86, 0x3F, 0xC0, 0x02, 0xA5, 0x28, 0x0F, 0x00, 0x00, 0x06,
    ]

    /// How often a key is told of by noise behind the header of `otherFrame`. Key frames of these widths come first, as of a
    /// right key.
    private func toldFrames(behind widths: [Int]) -> Int {
        var doubt = SampleDoubt()
        func isConfirmed(_ header: [UInt8], _ rest: [UInt8]) -> Bool {
            var plan = Self.plan
            plan.subsamples = [Subsample(clear: UInt32(header.count), protected: UInt32(rest.count))]
            return (header + rest).withUnsafeBytes { doubt.isConfirmed(by: $0, plan, Self.keyID, .vp9) }
        }
        for width in widths { #expect(!isConfirmed(Self.keyFrames[width] ?? [], [UInt8](repeating: 0, count: 16))) }
        return (0..<200).count { _ in isConfirmed(Self.otherFrame, (0..<16).map { _ in .random(in: 0...255) }) }
    }

    @Test func framesTellOnceTheirWidthIsKnown() {
        #expect(toldFrames(behind: []) == 0)
        #expect(toldFrames(behind: [320]) == 1)
        #expect(toldFrames(behind: [320, 320]) == 1)
        // They may be of either.
        #expect(toldFrames(behind: [320, 1920]) == 0)
        #expect(toldFrames(behind: [1920, 320, 320]) == 0)
    }

    // MARK: AAC

    /// How often a key is told of, in 200 frames with these first bytes.
    private func toldFrames(_ first: (Int) -> [UInt8]) -> Int {
        var doubt = SampleDoubt()
        return (0..<200).count { number in
            guard doubt.isOpen(for: Self.keyID, .aac) else { return false }
            let signs = first(number).withUnsafeBytes { SampleSigns($0, Self.plan, .aac) }
            return doubt.isConfirmed(by: signs, Self.keyID, .aac)
        }
    }

    /// An element may have any number, as long as it has the same in each frame.
    @Test func anElementWithANumberOfItsOwnIsRight() {
        for number in 0..<16 as Range<UInt8> {
            #expect(toldFrames { _ in [0x20 | number << 1 | 1, 0x10] } == 0, "a pair, \(number)")
            #expect(toldFrames { _ in [number << 1, 0xFF] } == 0, "a channel, \(number)")
        }
        #expect(toldFrames { [UInt8($0 % 16) << 1, 0] } == 1)
    }

    /// Random bytes are told, once, but for the few sequences that look right by chance.
    @Test func anyBytesAreToldInTime() {
        var random = SystemRandomNumberGenerator()
        for codec in [.aac, .ac3, .flac, .mp3, .vorbis, .vp8, .vp9, .av1] as [SampleCodec] {
            var sequences = 0
            for _ in 0..<200 {
                var doubt = SampleDoubt()
                let count = (0..<200).count { _ in
                    guard doubt.isOpen(for: Self.keyID, codec) else { return false }
                    let bytes = (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
                    let signs = bytes.withUnsafeBytes { SampleSigns($0, Self.plan, codec) }
                    return doubt.isConfirmed(by: signs, Self.keyID, codec)
                }
                #expect(count <= 1, "\(codec)")
                sequences += count
            }
            #expect(sequences > 180, "\(codec): \(sequences) of 200")
        }
    }
}
