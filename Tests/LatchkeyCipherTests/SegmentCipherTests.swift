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

    /// A key frame inside a segment, whose range is any bytes in the clear: the block in front is the IV.
    @Test func aPartOfASegment() throws {
        let key = try #require(ContentKey(keyBytes))
        let clear = (0..<100).map { UInt8($0) }
        let bytes = try encrypt(clear, padding: [UInt8](repeating: 12, count: 12))
        for start in 0..<100 {
            for count in [1, 15, 16, 17, 100 - start] where start + count <= 100 {
                let first = max(start / 16 - 1, 0) * 16
                let end = (start + count + 15) / 16 * 16
                let part = UInt64(start - first)..<UInt64(start - first + count)
                var cipher = try SegmentCipher(key: key, initializationVector: vector, part: part)
                var decrypted = try cipher.decrypt(Array(bytes[first..<first + 7]))
                decrypted += try cipher.decrypt(Array(bytes[first + 7..<end]))
                decrypted += try cipher.finish()
                #expect(decrypted == Array(clear[start..<start + count]))
            }
        }
        #expect(throws: DecryptionError.self) {
            let cipher = try SegmentCipher(key: key, initializationVector: vector, part: 20..<40)
            return try cipher.decrypt(whole: Array(bytes[..<32]))
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
