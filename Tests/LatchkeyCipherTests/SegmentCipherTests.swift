// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite("Whole segments", .timeLimit(.minutes(8)))
struct SegmentCipherTests {
    private let keyBytes: [UInt8] = (0..<16).map { $0 &* 7 ^ 0x5A }
    private let vector = InitializationVector(high: 0x0011_2233_4455_6677, low: 0x8899_AABB_CCDD_EEFF)

    /// CBC on the reference's single blocks.
    private func encrypt(_ clear: [UInt8], padding: [UInt8]) throws -> [UInt8] {
        var previous = vector.bytes
        var encrypted: [UInt8] = []
        let padded = clear + padding
        for start in stride(from: 0, to: padded.count, by: 16) {
            let block = zip(padded[start..<start + 16], previous).map { $0 ^ $1 }
            previous = ReferenceAES(key: keyBytes).encrypt(block)
            encrypted += previous
        }
        return encrypted
    }

    @Test func decryptsEveryLength() throws {
        let key = try #require(ContentKey(keyBytes))
        for count in 0...64 {
            let clear = (0..<count).map { UInt8($0 &* 3) }
            let missing = UInt8(16 - count % 16)
            let bytes = try encrypt(clear, padding: [UInt8](repeating: missing, count: Int(missing)))
            #expect(try SegmentCipher(key: key, initializationVector: vector).decrypt(whole: bytes) == clear)
        }
    }

    @Test func piecesMayHaveAnySize() throws {
        let key = try #require(ContentKey(keyBytes))
        let clear = (0..<100).map { UInt8($0) }
        let bytes = try encrypt(clear, padding: [UInt8](repeating: 12, count: 12))
        for size in 1...bytes.count {
            var cipher = try SegmentCipher(key: key, initializationVector: vector)
            var (came, decrypted): (Int, [UInt8]) = (0, [])
            for start in stride(from: 0, to: bytes.count, by: size) {
                let piece = Array(bytes[start..<min(start + size, bytes.count)])
                came += piece.count
                decrypted += try cipher.decrypt(piece)
                // All but the last block, which may have the padding.
                #expect(decrypted.count == (came - 1) / 16 * 16)
            }
            decrypted += try cipher.finish()
            #expect(decrypted == clear)
        }
    }

    @Test func refusesWhatIsNoSegment() throws {
        let key = try #require(ContentKey(keyBytes))
        for padding: [UInt8] in [
            [UInt8](repeating: 0, count: 16), [UInt8](repeating: 17, count: 16),
            [UInt8](repeating: 4, count: 13) + [3, 4, 4],
        ] {
            let bytes = try encrypt([], padding: padding)
            #expect(throws: DecryptionError.self) {
                try SegmentCipher(key: key, initializationVector: vector).decrypt(whole: bytes)
            }
        }
        for count in [0, 1, 15, 17, 31] {
            let bytes = [UInt8](repeating: 1, count: count)
            #expect(throws: DecryptionError.self) {
                try SegmentCipher(key: key, initializationVector: vector).decrypt(whole: bytes)
            }
        }
    }
}
