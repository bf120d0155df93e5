// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyProtection
import Testing

/// Subsample maps and buffers that do not fit: a named error, and no byte is touched.
@Suite struct SampleCipherHostileTests {
    private let sample = (0..<100).map { UInt8($0) }

    private func plan(_ scheme: ProtectionScheme, _ subsamples: [(UInt32, UInt32)]) throws -> SamplePlan {
        SamplePlan(
            scheme: scheme, initializationVector: try #require(InitializationVector([UInt8](repeating: 1, count: 16))),
            pattern: BlockPattern(crypt: 1, skip: 1),
            subsamples: subsamples.map { Subsample(clear: $0.0, protected: $0.1) })
    }

    private static let tooLong: [[(UInt32, UInt32)]] = [
        [(.max, .max)], [(0, .max)], [(.max, 0)], [(0, 101)], [(101, 0)], [(50, 51)], [(0, 100), (0, 1)],
        [(0, 100), (1, 0)], [(0, 50), (.max, .max), (.max, .max)],
        Array(repeating: (.max, .max), count: 1000), Array(repeating: (0, 0), count: 9) + [(0, .max)],
        // Would be 100 in 32 bits.
        [(.max, 101)], [(0x8000_0000, 0x8000_0064)],
    ]
    private static let tooShort: [[(UInt32, UInt32)]] = [
        [(0, 0)], [(0, 99)], [(99, 0)], [(49, 50)], Array(repeating: (0, 0), count: 1000), [(10, 10), (10, 10)],
    ]

    private func expectUntouched(
        _ plan: SamplePlan, _ kind: DecryptionError, _ sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let cipher = try SampleCipher([UInt8](repeating: 3, count: 16))
        var bytes = sample
        var target = [UInt8](repeating: 0xee, count: sample.count)
        for isApart in [false, true] {
            do {
                try bytes.withUnsafeMutableBytes { bytes in
                    try target.withUnsafeMutableBytes { target in
                        if isApart {
                            try cipher.decrypt(plan, from: UnsafeRawBufferPointer(bytes), into: target)
                        } else {
                            try cipher.decrypt(plan, in: bytes)
                        }
                    }
                }
                Issue.record("accepted", sourceLocation: sourceLocation)
            } catch let error as DecryptionError {
                #expect(error.isSameKind(as: kind), "\(error)", sourceLocation: sourceLocation)
            }
        }
        #expect(bytes == sample, sourceLocation: sourceLocation)
        #expect(target.allSatisfy { $0 == 0xee }, sourceLocation: sourceLocation)
    }

    @Test(arguments: ProtectionScheme.allCases)
    func mapsThatGoBeyondTheSample(scheme: ProtectionScheme) throws {
        for map in Self.tooLong {
            try expectUntouched(plan(scheme, map), .subsamplesExceedSample(index: 0, size: 0))
        }
    }

    @Test(arguments: ProtectionScheme.allCases)
    func mapsThatEndBeforeTheSample(scheme: ProtectionScheme) throws {
        for map in Self.tooShort {
            try expectUntouched(plan(scheme, map), .subsamplesDoNotCoverSample(covered: 0, size: 0))
        }
    }

    @Test(arguments: ProtectionScheme.allCases)
    func emptySamples(scheme: ProtectionScheme) throws {
        let cipher = try SampleCipher([UInt8](repeating: 3, count: 16))
        let empty = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        try cipher.decrypt(plan(scheme, []), in: empty)
        try cipher.decrypt(plan(scheme, [(0, 0), (0, 0)]), in: empty)
        try cipher.decrypt(plan(scheme, [(0, 0)]), from: UnsafeRawBufferPointer(empty), into: empty)
        #expect(throws: DecryptionError.subsamplesExceedSample(index: 1, size: 0)) {
            try cipher.decrypt(plan(scheme, [(0, 0), (0, 1)]), in: empty)
        }
    }

    @Test func buffersOfTwoSizes() throws {
        let cipher = try SampleCipher([UInt8](repeating: 3, count: 16))
        var target = [UInt8](repeating: 0xee, count: 99)
        #expect(throws: DecryptionError.sizeMismatch(source: 100, target: 99)) {
            try sample.withUnsafeBytes { source in
                try target.withUnsafeMutableBytes { try cipher.decrypt(plan(.cenc, []), from: source, into: $0) }
            }
        }
        #expect(target.allSatisfy { $0 == 0xee })
    }

    @Test(arguments: [1, 16, 99, -1, -16, -99])
    func buffersThatOverlap(distance: Int) throws {
        let cipher = try SampleCipher([UInt8](repeating: 3, count: 16))
        let before = (0..<300).map { UInt8(truncatingIfNeeded: $0) }
        var room = before
        #expect(throws: DecryptionError.buffersOverlap(size: 100)) {
            try room.withUnsafeMutableBytes { room in
                let source = UnsafeRawBufferPointer(rebasing: room[100..<200])
                let target = UnsafeMutableRawBufferPointer(rebasing: room[100 + distance..<200 + distance])
                try cipher.decrypt(plan(.cenc, []), from: source, into: target)
            }
        }
        #expect(room == before)
    }

    @Test func neighboursDoNotOverlap() throws {
        let cipher = try SampleCipher([UInt8](repeating: 3, count: 16))
        var room = (0..<200).map { UInt8($0) }
        let expected = try cipher.decryptInPlace(plan(.cenc, []), Array(room[..<100]))
        try room.withUnsafeMutableBytes { room in
            try cipher.decrypt(
                plan(.cenc, []), from: UnsafeRawBufferPointer(rebasing: room[..<100]),
                into: UnsafeMutableRawBufferPointer(rebasing: room[100...]))
        }
        #expect(Array(room[100...]) == expected)
    }

    @Test func errorsGiveTheNumbers() {
        let error = DecryptionError.subsamplesExceedSample(index: 3, size: 1234)
        #expect(error.description.contains("subsample 3") && error.description.contains("1234"))
        #expect(error.shortDescription == "subsamples exceed sample")
        #expect(!error.isSameKind(as: .sizeMismatch(source: 3, target: 1234)))
        let short = DecryptionError.subsamplesDoNotCoverSample(covered: 41, size: 42)
        #expect(short.description.contains("41") && short.description.contains("42"))
        #expect(DecryptionError.sampleTooLarge(size: 5_000_000_000).description.contains("5000000000"))
        #expect(DecryptionError.cipherFailure(reason: 0xabc).description.contains("0xabc"))
        #expect(DecryptionError.cipherUnavailable(reason: 0x12).description.contains("0x12"))
        #expect(DecryptionError.buffersOverlap(size: 77).description.contains("77"))
    }
}
