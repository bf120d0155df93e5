// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyProtection
import Testing

/// NIST SP 800-38A, appendix F: the same key and plaintext in each mode.
@Suite struct SampleCipherVectorTests {
    private let key = "2b7e151628aed2a6abf7158809cf4f3c"
    private let plain =
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        + "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"

    private func bytes(_ hex: String) throws -> [UInt8] { try #require(Hex.decode(hex)) }

    private func plan(
        _ scheme: ProtectionScheme, iv: String, pattern: BlockPattern = .none, _ subsamples: [Subsample] = []
    ) throws -> SamplePlan {
        let vector = try #require(InitializationVector(try bytes(iv)))
        return SamplePlan(scheme: scheme, initializationVector: vector, pattern: pattern, subsamples: subsamples)
    }

    @Test func referenceEqualsFIPS197() throws {
        let aes = ReferenceAES(key: try bytes("000102030405060708090a0b0c0d0e0f"))
        let encrypted = try bytes("69c4e0d86a7b0430d8cdb78070b4c55a")
        let clear = try bytes("00112233445566778899aabbccddeeff")
        #expect(aes.encrypt(clear) == encrypted)
        #expect(aes.decrypt(encrypted) == clear)
    }

    @Test func cencIsCounterMode() throws {
        let encrypted = try bytes(
            "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
                + "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee")
        let cipher = try SampleCipher(bytes(key))
        let iv = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
        #expect(try cipher.decryptInPlace(plan(.cenc, iv: iv), encrypted) == bytes(plain))
        #expect(try cipher.decryptApart(plan(.cenc, iv: iv), encrypted) == bytes(plain))
        // A partial block is part of the run.
        #expect(
            try cipher.decryptInPlace(plan(.cenc, iv: iv), Array(encrypted.prefix(21)))
                == Array(bytes(plain).prefix(21)))
    }

    @Test(arguments: [ProtectionScheme.cbc1, .cbcs])
    func cbcSchemesAreChained(scheme: ProtectionScheme) throws {
        let encrypted = try bytes(
            "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"
                + "73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7")
        let cipher = try SampleCipher(bytes(key))
        let plan = try plan(scheme, iv: "000102030405060708090a0b0c0d0e0f")
        #expect(try cipher.decryptInPlace(plan, encrypted) == bytes(plain))
        #expect(try cipher.decryptApart(plan, encrypted) == bytes(plain))
        // A partial block is clear.
        #expect(try cipher.decryptApart(plan, encrypted + [1, 2, 3]) == bytes(plain) + [1, 2, 3])
    }

    @Test func patternOfNISTBlocks() throws {
        // Two blocks of the vector, with clear ones between them.
        let first = try bytes("7649abac8119b246cee98e9b12e9197d")
        let second = try bytes("5086cb9b507219ee95db113a917678b2")
        let skipped = [UInt8](repeating: 9, count: 9 * 16)
        let cipher = try SampleCipher(bytes(key))
        let plan = try plan(
            .cbcs, iv: "000102030405060708090a0b0c0d0e0f", pattern: BlockPattern(crypt: 1, skip: 9),
            [Subsample(clear: 3, protected: UInt32(16 + 144 + 16 + 5))])
        let tail: [UInt8] = [5, 4, 3, 2, 1]
        let clear = try cipher.decryptInPlace(plan, [7, 7, 7] + first + skipped + second + tail)
        let blocks = try bytes(plain)
        #expect(clear == [7, 7, 7] + Array(blocks[0..<16]) + skipped + Array(blocks[16..<32]) + tail)
    }

    /// The counter is the low 64 bits alone: after all ones comes zero, and the high half stays.
    @Test(arguments: [0, 1, 16, 17, 32, 40, 64])
    func counterWrapsInItsHalf(clear: Int) throws {
        let cipher = try SampleCipher(bytes(key))
        let aes = ReferenceAES(key: try bytes(key))
        let plan = try plan(
            .cenc, iv: "a0b1c2d3e4f50617fffffffffffffffe",
            clear == 0
                ? []
                : [Subsample(clear: 0, protected: UInt32(clear)), Subsample(clear: 0, protected: UInt32(64 - clear))])
        let counters = [
            "a0b1c2d3e4f50617fffffffffffffffe", "a0b1c2d3e4f50617ffffffffffffffff",
            "a0b1c2d3e4f506170000000000000000", "a0b1c2d3e4f506170000000000000001",
        ]
        let stream = try counters.flatMap { aes.encrypt(try bytes($0)) }
        #expect(try cipher.decryptInPlace(plan, [UInt8](repeating: 0, count: 64)) == stream)
    }
}
