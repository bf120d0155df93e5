// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// Damaged boxes throw or are read; they never trap, and never become more than the bytes that came in.
@Suite struct PSSHBoxFuzzTests {
    @Test func everyTruncationOfARealBoxThrows() throws {
        for bytes in try CorpusBoxes.all() {
            for length in 1..<bytes.count {
                #expect(throws: FormatError.self) { try PSSHBox.boxes(in: bytes.prefix(length)) }
                #expect(PSSHBox.readableBoxes(in: bytes.prefix(length)).isEmpty)
            }
        }
    }

    @Test(arguments: [UInt64(1), 2, 3, 4])
    func mutatedBoxesNeverBecomeMoreThanTheyAre(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let boxes = try CorpusBoxes.all()
        var (read, refused) = (0, 0)
        for _ in 0..<2500 {
            let first = try #require(boxes.randomElement(using: &generator))
            let second = try #require(boxes.randomElement(using: &generator))
            let bytes = generator.mutate(first + second)
            let readable = PSSHBox.readableBoxes(in: bytes)
            #expect(readable.reduce(0) { $0 + 32 + 16 * $1.keyIDs.count + $1.data.count } <= bytes.count)
            #expect(Set(InitDataType.anyKeyIDs(in: bytes)) == Set(readable.flatMap(\.keyIDs)))
            do throws(FormatError) {
                #expect(try PSSHBox.boxes(in: bytes) == readable)
                read += 1
            } catch {
                #expect(!error.reason.isEmpty)
                refused += 1
            }
        }
        #expect(read > 0)
        #expect(refused > 0)
    }

    @Test(arguments: [UInt64(11), 12])
    func whatIsWrittenIsReadAgain(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let systems = [.common, .clearKey, .fairPlay, .playReady] + ProtectionSystem.others
        for _ in 0..<300 {
            let boxes = (0..<Int.random(in: 1...4, using: &generator)).map { _ in
                PSSHBox(
                    system: systems.randomElement(using: &generator) ?? .common,
                    keyIDs: (0..<Int.random(in: 0...5, using: &generator)).compactMap { _ in
                        KeyID(generator.bytes(16))
                    },
                    data: generator.bytes(Int.random(in: 0...200, using: &generator)))
            }
            let bytes = boxes.compactMap { $0.serialized() }.flatMap(\.self)
            #expect(try PSSHBox.boxes(in: bytes) == boxes)
            #expect(PSSHBox.readableBoxes(in: bytes) == boxes)
        }
    }

    @Test(arguments: [UInt64(21), 22])
    func randomBytesAreNoInitializationData(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<2000 {
            let bytes = generator.bytes(Int.random(in: 17...200, using: &generator))
            #expect(throws: FormatError.self) { try PSSHBox.boxes(in: bytes) }
            #expect(InitDataType.anyKeyIDs(in: bytes).isEmpty)
        }
    }
}
