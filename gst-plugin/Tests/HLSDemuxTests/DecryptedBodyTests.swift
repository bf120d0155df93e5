// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementTestSupport
import LatchkeyHTTP
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

/// What becomes of a segment with METHOD=AES-128 that comes in pieces.
@Suite struct DecryptedBodyTests {
    private struct Segment {
        let encrypted: [UInt8]
        let clear: [UInt8]
        let key: ContentKey
        let vector: InitializationVector

        /// One of the corpus.
        init() throws {
            let media = try CorpusCase("hls-ts-aes128-ffmpeg-iv")
            key = try #require(ContentKey(try media.bytes("key.bin")))
            vector = InitializationVector(high: 0xFF00_FF00_FF00_FF00, low: 0xFF00_FF00_FF00_FF01)
            encrypted = try media.bytes("seg_1.ts")
            clear = try SegmentCipher(key: key, initializationVector: vector).decrypt(whole: encrypted)
        }

        func opened() throws -> OpenedSegment {
            OpenedSegment(try SegmentCipher(key: key, initializationVector: vector))
        }
    }

    /// Gives bytes in pieces of a size, and notes how often it is asked.
    private final class Pieces: Sendable {
        private let bytes: [UInt8]
        private let size: Int
        private let next = Mutex(0)
        let asked = Atomic(0)

        init(_ bytes: [UInt8], of size: Int) { (self.bytes, self.size) = (bytes, size) }

        func stream(length: UInt64?) -> LoopbackStream {
            LoopbackStream(length: length) { () async throws(LoopbackStream.Broken) in
                self.asked.add(1, ordering: .relaxed)
                return self.next.withLock { next in
                    guard next < self.bytes.count else { return nil }
                    defer { next = min(next + self.size, self.bytes.count) }
                    return Array(self.bytes[next..<min(next + self.size, self.bytes.count)])
                }
            }
        }
    }

    private func all(_ body: DecryptedBody) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        while let piece = try await body.next() {
            #expect(!piece.isEmpty)
            bytes += piece
        }
        return bytes
    }

    @Test(arguments: [1, 15, 16, 17, 188, 4096, 1 << 20])
    func piecesGoOnAsTheyCome(size: Int) async throws {
        let segment = try Segment()
        for isLengthKnown in [false, true] {
            let pieces = Pieces(segment.encrypted, of: size)
            let ends = Mutex<[DecryptionError?]>([])
            let stream = pieces.stream(length: isLengthKnown ? UInt64(segment.encrypted.count) : nil)
            let body = DecryptedBody(stream, try segment.opened()) { error in ends.withLock { $0.append(error) } }
            #expect(try await all(body) == segment.clear)
            #expect(ends.withLock { $0 } == [nil])
            // Behind a length that was announced, the stream is not asked again.
            let count = (segment.encrypted.count + size - 1) / size
            #expect(pieces.asked.load(ordering: .relaxed) == (isLengthKnown ? count : count + 1))
        }
    }

    /// By a clock that goes on by itself, and by far more while pieces are waited for.
    @Test func theTimeOfDecryptionIsToldWithoutTheWaits() async throws {
        let segment = try Segment()
        let clock = Mutex<UInt64>(0)
        let told = Mutex<[[UInt64]]>([])
        let pieces = Pieces(segment.encrypted, of: 4096)
        let source = pieces.stream(length: nil)
        let slow = LoopbackStream(length: nil) { () async throws(LoopbackStream.Broken) in
            clock.withLock { $0 += 1_000_000 }
            return try await source.next()
        }
        let body = DecryptedBody(
            slow, try segment.opened(),
            now: {
                clock.withLock { clock in
                    clock += 7
                    return clock
                }
            },
            onDecrypted: { bytes, time in told.withLock { $0.append([bytes, time]) } }, onEnd: { _ in })
        #expect(try await all(body) == segment.clear)
        // The clock is read before and after each piece, and before and after the end.
        let count = (segment.encrypted.count + 4095) / 4096
        #expect(told.withLock { $0 } == [[UInt64(segment.encrypted.count), UInt64(7 * (count + 1))]])
    }

    @Test func aWrongKeyShowsInThePadding() async throws {
        let segment = try Segment()
        let other = try #require(ContentKey([UInt8](repeating: 7, count: 16)))
        let ends = Mutex<[DecryptionError?]>([])
        let body = DecryptedBody(
            Pieces(segment.encrypted, of: 1000).stream(length: nil),
            OpenedSegment(try SegmentCipher(key: other, initializationVector: segment.vector))
        ) { error in ends.withLock { $0.append(error) } }
        await #expect(throws: LoopbackStream.Broken.self) { try await all(body) }
        #expect(ends.withLock { $0 } == [.paddingInvalid(size: segment.encrypted.count)])
    }

    @Test func whatBreaksOffIsNoEnd() async throws {
        let segment = try Segment()
        let ends = Atomic(0)
        let stream = LoopbackStream(length: nil) { () async throws(LoopbackStream.Broken) in
            throw LoopbackStream.Broken()
        }
        let body = DecryptedBody(stream, try segment.opened()) { _ in ends.add(1, ordering: .relaxed) }
        await #expect(throws: LoopbackStream.Broken.self) { try await all(body) }
        #expect(ends.load(ordering: .relaxed) == 0)
    }
}
