// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
@testable import LatchkeyProtection
import Testing

@Suite struct SampleCipherPropertyTests {
    private static let patterns = [
        BlockPattern.none, BlockPattern(crypt: 1, skip: 9), BlockPattern(crypt: 10, skip: 0),
        BlockPattern(crypt: 5, skip: 5), BlockPattern(crypt: 1, skip: 0), BlockPattern(crypt: 0, skip: 3),
        BlockPattern(crypt: 2, skip: 1), BlockPattern(crypt: 1, skip: 1), BlockPattern(crypt: 15, skip: 15),
        BlockPattern(crypt: 255, skip: 255),
    ]

    private func randomPlan(
        _ scheme: ProtectionScheme, bound: UInt32, _ generator: inout SeededGenerator
    ) throws -> (plan: SamplePlan, size: Int) {
        var iv = generator.bytes(Bool.random(using: &generator) ? 8 : 16)
        if iv.count == 16, Bool.random(using: &generator) {
            iv.replaceSubrange(8..<15, with: [UInt8](repeating: 0xff, count: 7))
        }
        let subsamples = (0..<Int.random(in: 0...6, using: &generator)).map { _ in
            Subsample(
                clear: Bool.random(using: &generator) ? 0 : UInt32.random(in: 0...70, using: &generator),
                protected: Bool.random(using: &generator)
                    ? UInt32.random(in: 0...40, using: &generator) : UInt32.random(in: 0...bound, using: &generator))
        }
        let size =
            subsamples.isEmpty
            ? Int.random(in: 0...Int(bound), using: &generator)
            : subsamples.reduce(0) { $0 + Int($1.clear) + Int($1.protected) }
        let pattern = try #require(Self.patterns.randomElement(using: &generator))
        let plan = SamplePlan(
            scheme: scheme, initializationVector: try #require(InitializationVector(iv)), pattern: pattern,
            subsamples: subsamples)
        return (plan, size)
    }

    @Test(arguments: ProtectionScheme.allCases, [UInt64(1), 2, 3, 4])
    func equalsTheReference(scheme: ProtectionScheme, seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let key = generator.bytes(16)
        let cipher = try SampleCipher(key)
        let reference = ReferenceCipher(key: key)
        for _ in 0..<40 {
            let (plan, size) = try randomPlan(scheme, bound: 900, &generator)
            let sample = generator.bytes(size)
            let expected = reference.decrypt(plan, sample)
            #expect(try cipher.decryptInPlace(plan, sample) == expected, "\(plan)")
            #expect(try cipher.decryptApart(plan, sample) == expected, "\(plan)")
        }
    }

    /// More blocks than the gather buffer holds, so that chains and counters cross its ends, at every row length.
    @Test(arguments: [ProtectionScheme.cens, .cbcs], patterns)
    func largeSamplesEqualTheReference(scheme: ProtectionScheme, pattern: BlockPattern) throws {
        var generator = SeededGenerator(seed: UInt64(pattern.crypt) << 8 | UInt64(pattern.skip))
        let key = generator.bytes(16)
        let period = max(1, Int(pattern.crypt) + Int(pattern.skip))
        // 400 encrypted blocks, capped for the patterns that hardly encrypt.
        let bytes = min(400 * 16 * period / max(1, Int(pattern.crypt)), 100_000)
        let subsamples = [
            Subsample(clear: 9, protected: UInt32(bytes / 3 + 7)), Subsample(clear: 0, protected: 15),
            Subsample(clear: 1, protected: UInt32(bytes / 2 + 1)), Subsample(clear: 90, protected: UInt32(bytes / 3)),
        ]
        let plan = SamplePlan(
            scheme: scheme, initializationVector: try #require(InitializationVector(generator.bytes(16))),
            pattern: pattern, subsamples: subsamples)
        let sample = generator.bytes(subsamples.reduce(0) { $0 + Int($1.clear) + Int($1.protected) })
        let expected = ReferenceCipher(key: key).decrypt(plan, sample)
        let cipher = try SampleCipher(key)
        #expect(try cipher.decryptInPlace(plan, sample) == expected)
        #expect(try cipher.decryptApart(plan, sample) == expected)
    }

    /// One cipher serves samples of all schemes in any order; no state goes from one to the next.
    @Test func schemesMixOnOneCipher() throws {
        var generator = SeededGenerator(seed: 77)
        let key = generator.bytes(16)
        let cipher = try SampleCipher(key)
        let reference = ReferenceCipher(key: key)
        for _ in 0..<80 {
            let scheme = try #require(ProtectionScheme.allCases.randomElement(using: &generator))
            let (plan, size) = try randomPlan(scheme, bound: 300, &generator)
            let sample = generator.bytes(size)
            #expect(try cipher.decryptInPlace(plan, sample) == reference.decrypt(plan, sample), "\(plan)")
        }
    }

    @Test func twoBuffersAtTheSameAddressAreInPlace() throws {
        var generator = SeededGenerator(seed: 5)
        let key = generator.bytes(16)
        let plan = SamplePlan(
            scheme: .cbcs, initializationVector: try #require(InitializationVector(generator.bytes(16))),
            pattern: BlockPattern(crypt: 1, skip: 1))
        let sample = generator.bytes(333)
        var bytes = sample
        try bytes.withUnsafeMutableBytes {
            try SampleCipher(key).decrypt(plan, from: UnsafeRawBufferPointer($0), into: $0)
        }
        #expect(bytes == ReferenceCipher(key: key).decrypt(plan, sample))
    }
}
