// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@testable import LatchkeyContainers

/// Whether intra slices are whole ones. Those are of x264, pictures of 48x32.
@Suite struct H264IntraSliceTests {
    private struct Stream {
        let name: String
        let sequence, picture: String
        let slices: [String]

        var sets: H264ParameterSets {
            var sets = H264ParameterSets()
            for unit in [sequence, picture] {
                H264IntraSliceTests.bytes(unit).withUnsafeBytes { sets.add(unit: $0) }
            }
            return sets
        }
        var units: [[UInt8]] { slices.map { H264IntraSliceTests.bytes($0) } }
    }

    private static let streams = [
        Stream(
            name: "8x8", sequence: "6764000aacd98d6c0440000003004000000c83c4896680", picture: "68e97844b22c",
            slices: [
                "65888400ff69dc122a7a55c1c6d1035f588f25011997e9b6ec8491cc3f45035fff3688ca23d84645889ba561635c5a"
                    + "c754642bd964d2733e07e0426e196e3734518ae611085eee54f8bf8bf3aad8f250d3edd8fb0b6d2e3c67df7df24385"
                    + "58ad54e6d35a17936f228995cc8afcd527bbef5c610b15154d65f5145fc58907f1dde90de770b77d4c9de00e9838ae"
                    + "bedeca17980df87b6d912a87848e991fc984ac69d822bbb8ff07faffa3a12dea8d5d82f0c78785e9390c2a022eb1b4"
                    + "c25b9028e4b71300334564009bf0ab7170c40fd3f075ded3c8400e92b3d28370efcfdc20bb3562fb38426d2ee4fd27"
                    + "57f9d0c6ba0f27f48ae6d14521039f6d86d3146ee0010f5724a8e158464f0f277bfee8db08a223330738713a2768b8"
                    + "1dde59e242b47ddcd28707174b0e5a0e3415c125662081179a166a13b9f38e413f2e1be215f4fad5c6069be040cdd7"
                    + "50b52717a67552a5a101481d9a2a7d2e1ac19c4b03f3d082c936f457feaf893775edb85d02b49167d16c61490d9c70"
                    + "fc6872ddf5c80797c440c28bbe8a35116b5a7bb10af3237371b022e2f429231c2221cea187b0528fa038fa2c2967de"
                    + "aa087f96a44f076a4f20ddb02dcedcc888daef27157a83363b428de37c8d047b6e6b8b48c537"
            ]),
        Stream(
            name: "4x4", sequence: "674d400aecc6b60220000003002000000641e244b340", picture: "68e978212c80",
            slices: [
                "65888400ff3d831f99f0ba328f9dc4d6eea0d7d01fcd1f744fe4a9298b0c89c4af46082da1f89c1926ed173947b72e"
                    + "1b7edb727fd1cb2d957ed0efb93d3af8dda2b1a787e25d52893f62b4aa2c6311656be8e7b830ec4278f1f696ae2e7a"
                    + "56ff9de9edfa31f24c6afbd443576f23cc06c71aba3983ba7a2e69af93f3be938cbddb2ef111e3991007c11bf3ea7f"
                    + "e3bdac9a476f7a27a4edf6a71e52db8d6e364b93b633a3670608723bb65dc2b93d8b21ef6773639464daf086453758"
                    + "729f60f349893ba8caf6442ddf3d1048bcbbb5df9b6ac27c4eba55a2bc58e3140a4e0813cb33b8fcfcecafd3a19919"
                    + "cd8333da0fbf8ba2ae360b59af32c7d2e6a3e1de7ea947bdea70691619cc659e03e33a96556f7404a493c43840c843"
                    + "cf337828a375bcf638344f197139ef17c413b35cf3968cc00edb10a266098bbdc73f16a0878c55f16c34921e6b9b14"
                    + "f0ffc6f90f0f5839cfab5afa789c0a7097a3bc0bf30941"
            ]),
        Stream(
            name: "gray", sequence: "6764000af36635b016c80000030008000003019078912cd0", picture: "68e97844b22c",
            slices: [
                "65888400ff583e229df250081dfa26c66417593e8eaf8fa1aeabe2f9539c53895e4dbfd2f456f67b886ba502b742df"
                    + "681591305265bfd7a7ffe5cb837ba6300c3308a6f6b519ba72067cf9a4b2a89b012d99e1e3062e0c8f08bbaa09c6ca"
                    + "c23e9addf200f520753d1e9e2ecc7703622b41749442937c6bf77470184ee9a134a6c4c9ac913c7914afbdaea29f28"
                    + "04e8b6a61c0dc1736685ad46a77f1a12097ea6b1c395e1fd6049734c25ae3d64b09c90b0e2b8b45e1196181b3b643d"
                    + "2eb2d26d5cb1e6085a33c6e967940786ff9901bf0f69d48e5ea114d3a218430af7fe0f09969b70e53b5143c091d83e"
                    + "87f11878b1441a6372ffe39ead7aa95221e70ca04446871cedaaea3b97dc0b870e92d412ad4254051e8afb2715c9c1"
            ]),
        Stream(
            name: "10 bits", sequence: "676e000aa6cd98d6c044000003000400000300c83c489668", picture: "68e97b2c8b",
            slices: [
                "65888400ff4d08796c010ef410e913947fe41a30e7460875ab8622b43ebf351b63c9cfe40de710f77e2b8686f15b88"
                    + "3b69d7c66f0889aa8da40bbc6aba2d841e70c7afca0925f20f24e7d583d5945f1ef113b9114711fe1a05b101a41e2f"
                    + "a35de06b6f1a71784dd9b16565bf1f972a9721dc81f13d5070d624eee3e25b2077014d4250cb2124a17677856fc146"
                    + "bec9047eb98f11d7e0a733b79dc3e39b778668d304db688aa5076df29c7afceec6d06143401d90c7065fd97719a8a7"
                    + "4a86969eda5c205b4805c95dc4f6d5dfe859aee91a36d166e25309e2502ce189de2429d6528faa60e81e9149d5a0fb"
                    + "0c1b65bfdc7c9bae358d4085d56c7cd6cc84617cfd8a7325b6ce8ea01ae509e4ac97fa9d9e497a49acae99f38751a6"
                    + "53af7eb245d29cecdcdfcf6d4a6a65de8d6362c2d365f528040aa51fef51a53b12290f4b95a8d761d6359b03874380"
                    + "ad722f5cf1f2faffa3363bf9a2476aa8e863205adf81aee23144fa31db1e9591f4d03ff86085ec08fe2eae73d472fe"
                    + "fea0399207b8bd6ffe6c673eeb04ea60aa35351fcd12bf7e88d5608c491c7cbfbfc760919e5f00282e8e30f3bcdafb"
                    + "60caf5cb9d5a9f27701486cb92efb66939b023c1d1026b12cd7fa056ef8905428ceaae9983bacf73ba50d94b144628"
                    + "3bf68d75dccfcfff81e844dfc9bc5f9c5f392e4f30e49e18b6955fc69fcc780490e4ab78e2b8ffa10ea397dd6da155"
                    + "f6a0093944cd997874dbb3b540d5173043bec8e916907cd746408d8795112d94165cb49886909950f742d21d12278b"
                    + "8f3e9f524e61"
            ]),
        Stream(
            name: "two slices", sequence: "6764000aacd98d6c0440000003004000000c83c4896680", picture: "68e978312c8b",
            slices: [
                "65888400ff465fcb4e37b54de13afc4a34dc4c3e4ee7ebb5e3f1a77a5517477108062576f360b41220ef5682617b55"
                    + "ab110a9653ec3e294bec5dc283f8485efce3accc4a7a3104a54797d5fad34f2f4d24ac50db4b7a0f20e6b48fa8faa3"
                    + "77272f874bfd45a13560e238fc6d5c8381",
                "652088400fff0a0a0265bf7f765c6ce34020ec3467db8a48837a81599160b680956e4b3791aeba0897eae05b259d82"
                    + "882d085388207ac384815d9dce2f05d6fff5fbac1ec0ffff7ad975bac05ea9fc464cb9c55a7af2400c25371b258147"
                    + "374df42989a2e9c3b1b425f019c36081d25bffcbab316d1fff7ba11f12d66f3ba93dc9b4b937a094566cd8664f33d8"
                    + "bfbd4525326a8b0bcbe75d78e2df",
            ]),
    ]

    private static func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex)
        return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(String(digits[$0...$0 + 1]), radix: 16) ?? 0 }
    }

    private func isWhole(_ slice: [UInt8], _ sets: H264ParameterSets) -> Bool? {
        H264IntraStart.isWhole(slice.dropFirst(), header: slice.first ?? 0, sets)
    }

    /// The slice where those bytes are noise.
    private func noisy(_ slice: [UInt8], from start: Int, every distance: Int = .max) -> [UInt8] {
        var slice = slice
        var place = start
        while place <= slice.count - 16 {
            for index in place..<place + 16 { slice[index] = .random(in: 0...255) }
            guard distance < slice.count else { break }
            place += distance
        }
        return slice
    }

    @Test func slicesOfEncodersAreWhole() {
        for stream in Self.streams {
            for slice in stream.units { #expect(isWhole(slice, stream.sets) == true, "\(stream.name)") }
        }
    }

    /// As with a wrong key by `cbcs`, and with a wrong IV in SAMPLE-AES.
    @Test func noiseBreaksSlices() {
        for stream in Self.streams {
            for slice in stream.units {
                let keys = (0..<25).count { _ in isWhole(noisy(slice, from: 16, every: 160), stream.sets) == false }
                let vectors = (0..<25).count { _ in isWhole(noisy(slice, from: 32), stream.sets) == false }
                #expect(keys > 20 && vectors > 20, "\(stream.name): \(keys), \(vectors)")
                #expect(isWhole(Array(slice.prefix(slice.count / 2)), stream.sets) == false, "\(stream.name)")
                #expect(isWhole(slice + [UInt8](repeating: 0x55, count: 8), stream.sets) == false, "\(stream.name)")
                // Encoders may leave zeros behind.
                #expect(isWhole(slice + [0, 0, 3, 0, 0, 3], stream.sets) == true, "\(stream.name)")
            }
        }
    }

    private static let samples = Stream(name: "samples", sequence: "674d000adcb9", picture: "68ee3880", slices: [])

    private static func samples(_ luma: UInt8, _ chroma: UInt8) -> [UInt8] {
        [UInt8](repeating: luma, count: 200) + [UInt8](repeating: chroma, count: 184)
    }

    private static let startOfSamples = [0x65, 0x88, 0x84, 0xFF, 0xFE, 0xF8] + samples(160, 66) + [0xFD, 0xC0]

    /// Two macroblocks that have their samples, without codes.
    @Test func samplesMayBeInSlices() {
        let (sets, start) = (Self.samples.sets, Self.startOfSamples)
        #expect(isWhole(start + Self.samples(190, 92) + [0xFE, 0x80], sets) == true)
        #expect(isWhole(start + Self.samples(190, 92).dropLast(8), sets) == false)
    }

    @Test func otherSlicesDoNotTell() throws {
        let stream = Self.streams[0]
        let slice = try #require(stream.units.first)
        #expect(isWhole(slice, H264ParameterSets()) == nil)
        // CAVLC
        var sets = stream.sets
        Self.bytes("68ce0f2c8b").withUnsafeBytes { sets.add(unit: $0) }
        #expect(isWhole(slice, sets) == nil)
        // 4:4:4
        Self.bytes("67f4100c919705067e3701100000030010000003032040").withUnsafeBytes { sets.add(unit: $0) }
        #expect(isWhole(slice, sets) == nil)
        #expect(isWhole(slice + [UInt8](repeating: 1, count: 256 << 10), stream.sets) == nil)
    }

    @Test func samplesAndStreamsCountThem() {
        for stream in Self.streams {
            let broken = stream.units.map { noisy($0, from: 32, every: 64) }
            for (units, isWhole) in [(stream.units, true), (broken, false)] {
                var plan = SamplePlan(
                    scheme: .cbcs, initializationVector: InitializationVector(high: 0, low: 0),
                    pattern: BlockPattern(crypt: 1, skip: 9))
                plan.subsamples = units.map { Subsample(clear: 32, protected: UInt32($0.count - 28)) }
                let sample = units.flatMap { unit -> [UInt8] in
                    [0, 0, UInt8(unit.count >> 8), UInt8(unit.count & 255)] + unit
                }
                func signs(_ plan: SamplePlan) -> SampleSigns {
                    sample.withUnsafeBytes { SampleSigns($0, plan, .h264(lengthSize: 4, sets: stream.sets)) }
                }
                let found = signs(plan)
                // One that is whole is enough.
                let expected = isWhole ? (1, 0) : (0, units.count)
                #expect((found.wholeSlices, found.brokenSlices) == expected, "\(stream.name)")
                // Nothing was encrypted, so nothing tells.
                plan.subsamples = [Subsample(clear: UInt32(sample.count), protected: 0)]
                #expect(signs(plan) == SampleSigns(), "\(stream.name)")

                let sets = [stream.sequence, stream.picture].map { Self.bytes($0) }
                let pictures = (sets + units).flatMap { unit -> [UInt8] in [0, 0, 0, 1] + unit }
                var slices = PictureSlices()
                let count = pictures.withUnsafeBytes { slices.count(in: $0) }
                #expect(count == expected, "\(stream.name)")
            }
        }
    }

    /// A sample of any number of slices costs the reading of few.
    @Test func fewSlicesOfASampleAreRead() throws {
        let stream = Self.streams[0]
        let whole = try #require(stream.units.first)
        let limit = SampleSigns.sliceLimit
        let broken = Array(whole.prefix(whole.count / 2))
        let table: [(units: [[UInt8]], whole: Int, broken: Int)] = [
            (Array(repeating: whole, count: 3), 1, 0), ([broken, whole, broken], 1, 1),
            (Array(repeating: broken, count: limit + 1) + [whole], 0, limit),
        ]
        for row in table {
            var plan = SamplePlan(
                scheme: .cbcs, initializationVector: InitializationVector(high: 0, low: 0),
                pattern: BlockPattern(crypt: 1, skip: 9))
            plan.subsamples = row.units.map { Subsample(clear: 32, protected: UInt32($0.count - 28)) }
            let sample = row.units.flatMap { unit -> [UInt8] in
                [0, 0, UInt8(unit.count >> 8), UInt8(unit.count & 255)] + unit
            }
            let found = sample.withUnsafeBytes { SampleSigns($0, plan, .h264(lengthSize: 4, sets: stream.sets)) }
            #expect((found.wholeSlices, found.brokenSlices) == (row.whole, row.broken))
            let sets = [stream.sequence, stream.picture].map { Self.bytes($0) }
            let pictures = (sets + row.units).flatMap { unit -> [UInt8] in [0, 0, 0, 1] + unit }
            var slices = PictureSlices()
            let count = pictures.withUnsafeBytes { slices.count(in: $0) }
            #expect(count == (row.whole, row.broken))
        }
    }

    /// Slices of pictures that no level allows would take few bits and much work.
    @Test func hugePicturesDoNotTell() {
        // The ID, the frame number, the order, the references, the size, and what follows.
        func sequence(width: Int, height: Int) -> [UInt8] {
            func exponential(_ value: Int) -> String {
                let digits = String(value + 1, radix: 2)
                return String(repeating: "0", count: digits.count - 1) + digits
            }
            var bits = "1101110" + exponential(width - 1) + exponential(height - 1) + "11001"
            bits += String(repeating: "0", count: (8 - bits.count % 8) % 8)
            let digits = Array(bits)
            return [0x67, 0x4D, 0, 0x0A]
                + stride(from: 0, to: digits.count, by: 8).map { UInt8(String(digits[$0..<$0 + 8]), radix: 2) ?? 0 }
        }
        let slice = Self.startOfSamples + Self.samples(190, 92) + [0xFE, 0x80]
        #expect(sequence(width: 2, height: 1) == Self.bytes(Self.samples.sequence))
        for (width, height, tells) in [(1056, 131, true), (1056, 132, false), (1057, 1, false)] {
            var sets = Self.samples.sets
            sequence(width: width, height: height).withUnsafeBytes { sets.add(unit: $0) }
            #expect(isWhole(slice, sets) == (tells ? true : nil), "\(width)x\(height)")
        }
    }

    /// Any bytes: nothing traps.
    @Test func noiseIsRead() {
        for _ in 0..<300 {
            guard let stream = Self.streams.randomElement(), var slice = stream.units.first else { return }
            var (sequence, picture) = (Self.bytes(stream.sequence), Self.bytes(stream.picture))
            for _ in 0..<3 { sequence[.random(in: 1..<sequence.count)] = .random(in: 0...255) }
            picture[.random(in: 1..<picture.count)] = .random(in: 0...255)
            slice[.random(in: 1..<8)] = .random(in: 0...255)
            let pictures = [sequence, picture, slice, noisy(slice, from: 2)].flatMap { unit -> [UInt8] in
                [0, 0, 1] + unit
            }
            var slices = PictureSlices()
            let count = pictures.withUnsafeBytes { slices.count(in: $0) }
            #expect(count.whole + count.broken <= 2)
        }
    }
}
