// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@testable import LatchkeyContainers

/// Whether the first macroblock of an intra slice is one that may be the first. The slices are those of x264, up to 44 bytes.
@Suite struct H264IntraStartTests {
    private struct Stream {
        let name: String
        let sequence, picture, slice: String
        /// Where the data begins behind the header of the unit.
        let dataOffset: Int
    }

    private static let high = "6764100cacb82833f3e0220000030002000003006408"
    private static let streams = [
        Stream(
            name: "CABAC, 8x8", sequence: high, picture: "68ee0f2c8b",
            slice: "65888427d9674d6278ad3ceb112683accec0873b0336536dde265f2fbd566e20c5043ca04ca63b91700074c2",
            dataOffset: 3),
        Stream(
            name: "a slice that is not the first", sequence: high, picture: "68ee0f2c8b",
            slice: "6503c888404bfffee8c9fccb2b2fe3d437b34629b349a71cc1be02675dbb0010fb5f3ff5182465693b13b27d",
            dataOffset: 6),
        Stream(
            name: "CABAC, 4x4", sequence: "674d400ceca0a0cfcf80880000030008000003019078a14cb0", picture: "68ebe3cb20",
            slice: "658884007768b3f7426f6742fe014c2b8a8e65f5aa8c1caaa85bbaebbfcafa75d40a1e83f8832f1e796a462f",
            dataOffset: 4),
        Stream(
            name: "CAVLC", sequence: high, picture: "68ce0f2c8b",
            slice: "65888427a21115706042fc0428d98007ad435835c00989e19d0825270b499ffe2f2e79aa1b229b96aae27113",
            dataOffset: 3),
        Stream(
            name: "4:4:4", sequence: "67f4100c919705067e3701100000030010000003032040", picture: "68ee0f112110",
            slice: "65888437d4d44633d757c6a3920b66c458ff17a4854ef2e0ec60591bff5b94007d3fe709d4235ff6af0245d1",
            dataOffset: 3),
        Stream(
            name: "10 bits", sequence: "676e100ca6cb82833f3e022000000300200000064080", picture: "68ee0f2c8b",
            slice: "658882021fd3d666e7691ca1b3a499774dd5462aaf2a5b0d097994c42f543dc3a7fc2116769ffffe8a60662a",
            dataOffset: 4),
    ]
    private static let otherSlice =
        "419a226c42dfd53888ffb2e3217a82b0032dbd4cb15d129b107291a85d52d418d6d262dd3c7c1470bd91d448"

    private func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex)
        return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(String(digits[$0...$0 + 1]), radix: 16) ?? 0 }
    }

    private func sets(_ sequence: String, _ picture: String) -> H264ParameterSets {
        var sets = H264ParameterSets()
        for unit in [sequence, picture] { bytes(unit).withUnsafeBytes { sets.add(unit: $0) } }
        return sets
    }

    private func start(_ slice: [UInt8], _ sets: H264ParameterSets) -> H264IntraStart? {
        H264IntraStart(slice.dropFirst(), header: slice.first ?? 0, sets)
    }

    @Test func slicesOfEncodersAreAllowed() throws {
        for stream in Self.streams {
            let found = try #require(
                start(bytes(stream.slice), sets(stream.sequence, stream.picture)), "\(stream.name)")
            #expect(found.isAllowed && found.dataOffset == stream.dataOffset, "\(stream.name): \(found)")
        }
    }

    /// With a wrong key. In the streams that were made for this, 57 to 99 percent are not allowed.
    @Test func noiseIsNotAllowedInMostSlices() {
        for stream in Self.streams {
            let header = bytes(stream.slice).prefix(1 + stream.dataOffset)
            let sets = sets(stream.sequence, stream.picture)
            let wrong = (0..<200).count { _ in
                start(header + (0..<64).map { _ in .random(in: 0...255) }, sets)?.isAllowed == false
            }
            #expect(wrong > 70, "\(stream.name): \(wrong)")
        }
    }

    @Test func slicesOfWhichNothingIsKnownHaveNoStart() {
        let stream = Self.streams[0]
        let slice = bytes(stream.slice)
        #expect(start(slice, H264ParameterSets()) == nil)
        #expect(start(slice, sets(stream.sequence, "")) == nil)
        #expect(start(slice, sets("", stream.picture)) == nil)
        #expect(start(bytes(Self.otherSlice), sets(stream.sequence, stream.picture)) == nil)
        #expect(start([], sets(stream.sequence, stream.picture)) == nil)
        // Frames of which pairs of macroblocks may be fields.
        let adaptive = sets("67640015acd941433f260220000003002000000643e28532c0", "68fba3cb22c0")
        #expect(start(bytes("6588820b067fc4ff9e95b1e0dcbe9e89f487aab0c947cbc22d2c23769f9f744c"), adaptive) == nil)
    }

    // MARK: In samples

    private func sample(_ units: [[UInt8]]) -> [UInt8] {
        units.flatMap { [0, 0, UInt8($0.count >> 8), UInt8($0.count & 255)] + $0 }
    }

    private func configuration(_ stream: Stream) -> [UInt8] {
        let (sequence, picture) = (bytes(stream.sequence), bytes(stream.picture))
        return [1, 100, 0, 16, 0xFF, 0xE1, 0, UInt8(sequence.count)] + sequence + [1, 0, UInt8(picture.count)] + picture
    }

    private func verdict(
        _ units: [[UInt8]], clear: Int, _ sets: H264ParameterSets, _ scheme: ProtectionScheme = .cbcs
    ) -> SampleSigns.Verdict {
        let sample = sample(units)
        var plan = SamplePlan(
            scheme: scheme, initializationVector: InitializationVector(high: 0, low: 0),
            pattern: BlockPattern(crypt: 1, skip: 9))
        plan.subsamples = [Subsample(clear: UInt32(clear), protected: UInt32(sample.count - clear))]
        return sample.withUnsafeBytes { SampleSigns($0, plan, .h264(lengthSize: 4, sets: sets)).verdict }
    }

    @Test func aBlockBehindTheHeaderTells() {
        for stream in Self.streams {
            let slice = bytes(stream.slice)
            let header = Array(slice.prefix(1 + stream.dataOffset))
            // 510 and 511 are no start of CABAC, and a macroblock of no kind in CAVLC.
            let wrong = header + [stream.name == "CAVLC" ? 0x01 : 0xFF] + [UInt8](repeating: 0xFF, count: 40)
            let clear = 4 + header.count
            let sets = H264ParameterSets(configuration: configuration(stream))
            for scheme in [.cbcs, .cens] as [ProtectionScheme] {
                #expect(verdict([slice], clear: clear, sets, scheme) == .plausible, "\(stream.name)")
                #expect(verdict([wrong], clear: clear, sets, scheme) == .wrong, "\(stream.name)")
            }
            // The header is encrypted in part, or the data is clear.
            #expect(verdict([wrong], clear: clear - 1, sets) == .unknown)
            #expect(verdict([wrong], clear: clear + 1, sets) == .unknown)
            #expect(verdict([wrong], clear: clear, H264ParameterSets()) == .unknown)
            // The sets come with the sample.
            let before = [bytes(stream.sequence), bytes(stream.picture)]
            let size = sample(before).count
            #expect(verdict(before + [wrong], clear: size + clear, H264ParameterSets()) == .wrong, "\(stream.name)")
        }
    }

    /// Any bytes: nothing traps.
    @Test func anyBytesAreRead() {
        var random = SystemRandomNumberGenerator()
        func damaged(_ hex: String) -> [UInt8] {
            var bytes = bytes(hex)
            for _ in 0..<Int.random(in: 0...4, using: &random) {
                if let index = bytes.indices.dropFirst().randomElement(using: &random) {
                    bytes[index] = .random(in: 0...255)
                }
            }
            return Array(bytes.prefix(.random(in: 0...bytes.count, using: &random)))
        }
        for _ in 0..<500 {
            guard let stream = Self.streams.randomElement(using: &random) else { continue }
            var sets = H264ParameterSets()
            for unit in [damaged(stream.sequence), damaged(stream.picture)] {
                unit.withUnsafeBytes { sets.add(unit: $0) }
            }
            let slice = damaged(stream.slice) + (0..<Int.random(in: 0...300)).map { _ in UInt8.random(in: 0...255) }
            if let found = start(slice, sets) { #expect(found.dataOffset < slice.count + 4) }
            _ = H264ParameterSets(configuration: (0..<Int.random(in: 0...60)).map { _ in .random(in: 0...255) })
        }
    }
}
