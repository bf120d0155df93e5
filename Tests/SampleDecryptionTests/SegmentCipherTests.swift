// SPDX-License-Identifier: MPL-2.0

import ProtectionModel
import TestSupport
import Testing

@testable import SampleDecryption

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
            var bytes = try encrypt(clear, padding: [UInt8](repeating: missing, count: Int(missing)))
            try SegmentCipher.decrypt(&bytes, key: key, initializationVector: vector)
            #expect(bytes == clear)
        }
    }

    @Test func refusesWhatIsNoSegment() throws {
        let key = try #require(ContentKey(keyBytes))
        for padding: [UInt8] in [
            [UInt8](repeating: 0, count: 16), [UInt8](repeating: 17, count: 16),
            [UInt8](repeating: 4, count: 13) + [3, 4, 4],
        ] {
            var bytes = try encrypt([], padding: padding)
            #expect(throws: DecryptionError.self) {
                try SegmentCipher.decrypt(&bytes, key: key, initializationVector: vector)
            }
        }
        for count in [0, 1, 15, 17, 31] {
            var bytes = [UInt8](repeating: 1, count: count)
            #expect(throws: DecryptionError.self) {
                try SegmentCipher.decrypt(&bytes, key: key, initializationVector: vector)
            }
        }
    }
}
