// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyContainers

/// What an independent encoder encrypts comes back, whatever the content and wherever the packets end.
@Suite struct StreamPropertyTests {
    private static let zavc: [UInt8] = [0x0F, 4] + Array("zavc".utf8)
    private static let aacd: [UInt8] = [0x0F, 4] + Array("aacd".utf8)

    /// A stream with video on 0x50 and audio on 0x51, and what is in it.
    private struct Sample {
        var stream: [UInt8] = []
        var video: [[UInt8]] = []
        var audio: [[UInt8]] = []
        var key: ContentKey
        var vector: InitializationVector
    }

    private func sample(seed: UInt64, units: Int = 6) throws -> Sample {
        var random = SeededGenerator(seed: seed)
        let encoder = TestEncoder(key: random.bytes(16), vector: random.bytes(16))
        var sample = Sample(
            key: try #require(ContentKey(encoder.key)), vector: try #require(InitializationVector(encoder.vector)))
        var multiplexer = TestMultiplexer(seed: seed)
        multiplexer.tables([(0xDB, 0x50, Self.zavc), (0xCF, 0x51, Self.aacd + [5, 4] + Array("apad".utf8))])
        for _ in 0..<units {
            var (clear, encrypted): ([UInt8], [UInt8]) = ([], [])
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let unit = TestEncoder.nalUnit(&random)
                let code: [UInt8] = Bool.random(using: &random) ? [0, 0, 0, 1] : [0, 0, 1]
                clear += code + unit
                encrypted += code + encoder.encrypted(nalUnit: unit)
            }
            if Int.random(in: 0..<4, using: &random) == 0 {
                clear += [0, 0]
                encrypted += [0, 0]
            }
            sample.video.append(clear)
            var (clearAudio, encryptedAudio): ([UInt8], [UInt8]) = ([], [])
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let frame = TestEncoder.adtsFrame(&random)
                clearAudio += frame
                encryptedAudio += encoder.encrypted(frame: frame, clear: (frame[1] & 1 == 1 ? 7 : 9) + 16)
            }
            sample.audio.append(clearAudio)
            let isBounded = Bool.random(using: &random)
            multiplexer.append(mixing: [
                multiplexer.unit(pid: 0x50, streamID: 0xE0, isBounded: isBounded, encrypted),
                multiplexer.unit(pid: 0x51, streamID: 0xC0, isBounded: !isBounded, encryptedAudio),
            ])
        }
        sample.stream = multiplexer.bytes
        return sample
    }

    private func decrypt(_ sample: Sample, _ bytes: [UInt8], inPiecesOf size: Int) throws -> [UInt8] {
        var decryption = Decryption([nil: sample.key], sample.vector)
        try decryption.append(bytes, inPiecesOf: size)
        try decryption.end()
        return decryption.takeOutput()
    }

    /// Packets with 4 bytes in front (M2TS) or 16 behind: the same comes out as of plain ones, also behind other bytes.
    @Test(arguments: 0..<5)
    func longerPacketsAreTrimmed(seed: Int) throws {
        let sample = try sample(seed: UInt64(seed))
        let expected = try decrypt(sample, sample.stream, inPiecesOf: sample.stream.count)
        var random = SeededGenerator(seed: UInt64(seed))
        for (front, behind) in [(4, 0), (0, 16)] {
            var longer = [UInt8](repeating: 0x11, count: Int.random(in: 0...300, using: &random))
            for start in stride(from: 0, to: sample.stream.count, by: TransportPacket.size) {
                longer += random.bytes(front) + sample.stream[start..<start + TransportPacket.size]
                longer += random.bytes(behind)
            }
            let isSame = try [7, 192, 5000, longer.count].allSatisfy { size in
                try decrypt(sample, longer, inPiecesOf: size) == expected
            }
            #expect(isSame)
        }
    }

    /// Tables among what comes are read meanwhile, and the unit in front of them stays what it is.
    @Test(arguments: 0..<30)
    func moreMayComeWhileAUnitWaitsForItsKey(seed: Int) throws {
        let sample = try sample(seed: UInt64(seed))
        let more = try self.sample(seed: UInt64(seed) + 1000).stream
        let whole = sample.stream + more
        var waiting = Decryption([:], sample.vector)
        #expect(throws: MissingKey.self) { try waiting.append(sample.stream) }
        #expect(throws: MissingKey.self) { try waiting.append(more) }
        waiting.keys = [nil: sample.key]
        try waiting.end()
        let output = waiting.takeOutput()
        let isRight = output == (try decrypt(sample, whole, inPiecesOf: whole.count))
        #expect(isRight)
    }

    @Test(arguments: 0..<300)
    func everythingComesBack(seed: Int) throws {
        let sample = try sample(seed: UInt64(seed))
        let before = Demultiplexer(sample.stream)
        try #require(before.complaints.isEmpty, "the test's stream: \(before.complaints)")
        let output = try decrypt(sample, sample.stream, inPiecesOf: seed % 3 == 0 ? 997 : sample.stream.count)
        let after = Demultiplexer(output)
        #expect(after.complaints.isEmpty, "\(after.complaints)")
        #expect(after.pids == before.pids)
        #expect(after.clocks == before.clocks)
        #expect(after.streams.map(\.type) == [0x1B, 0x0F])
        #expect(after.streams.map(\.descriptors) == [[], []])
        #expect(after.units[0x51] == sample.audio)
        // Where packets with next to no payload lost most of it, zeros fill the unit up.
        let video = after.units[0x50] ?? []
        #expect(video.count == sample.video.count)
        for (unit, expected) in zip(video, sample.video) where unit != expected {
            #expect(unit.starts(with: expected) && unit.dropFirst(expected.count).allSatisfy { $0 == 0 })
        }
    }

    /// Two pieces, cut at every byte.
    @Test func everyCutGivesTheSame() throws {
        let sample = try sample(seed: 4711, units: 1)
        let whole = try decrypt(sample, sample.stream, inPiecesOf: sample.stream.count)
        for cut in 1..<sample.stream.count {
            var decryption = Decryption([nil: sample.key], sample.vector)
            try decryption.append(sample.stream[..<cut])
            try decryption.append(sample.stream[cut...])
            try decryption.end()
            let isSame = decryption.takeOutput() == whole
            #expect(isSame, "cut at \(cut)")
        }
    }

    /// A wrong key must not look right, or the tests above would show nothing.
    @Test func aWrongKeyGivesOtherBytes() throws {
        var sample = try sample(seed: 12)
        let right = Demultiplexer(try decrypt(sample, sample.stream, inPiecesOf: 4096))
        sample.key = try #require(ContentKey([UInt8](repeating: 1, count: 16)))
        let wrong = Demultiplexer(try decrypt(sample, sample.stream, inPiecesOf: 4096))
        #expect(wrong.units[0x51] != right.units[0x51])
        #expect(wrong.units[0x50] != right.units[0x50])
    }

    /// What was lost in front and between: the rest comes back, and nothing encrypted gets out.
    @Test(arguments: 0..<60)
    func lossesCostNoMoreThanTheirUnits(seed: Int) throws {
        let sample = try sample(seed: UInt64(seed), units: 12)
        var random = SeededGenerator(seed: UInt64(seed) &+ 77)
        var bytes = sample.stream
        // Not of the tables, which are there once; and three packets in a row are what a stream is known by.
        let packets = bytes.count / 188
        let first = Int.random(in: 3..<packets - 6, using: &random)
        let count = Int.random(in: 1...4, using: &random)
        bytes.removeSubrange(first * 188..<(first + count) * 188)
        let garbage = random.bytes(Int.random(in: 1...700, using: &random)).map { $0 == 0x47 ? 0x48 : $0 }
        bytes.insert(contentsOf: garbage, at: first * 188)
        let after = Demultiplexer(try decrypt(sample, bytes, inPiecesOf: 2000))
        let video = (after.units[0x50] ?? []).filter { sample.video.contains($0) }.count
        #expect(video >= sample.video.count - 2 * count - 2)
        let audio = (after.units[0x51] ?? []).filter { sample.audio.contains($0) }.count
        #expect(audio >= sample.audio.count - 2 * count - 2)
    }

    // MARK: Mutations

    /// Any bytes at all: they end, in time that grows with them, and give whole packets or a named error.
    @Test(arguments: 0..<400)
    func changedBytesNeverTrap(seed: Int) throws {
        let sample = try sample(seed: UInt64(seed % 7))
        var random = SeededGenerator(seed: UInt64(seed))
        let bytes = random.mutate(sample.stream)
        do {
            let output = try decrypt(sample, bytes, inPiecesOf: Int.random(in: 100...20_000, using: &random))
            #expect(output.count % 188 == 0)
            #expect(output.count <= bytes.count)
        } catch let error as FormatError {
            #expect(!error.description.isEmpty)
        }
    }

    /// Many small streams out of one table's PIDs: what a hostile table can ask for stays bounded.
    @Test func tablesThatNameEveryPIDAreRead() throws {
        var multiplexer = TestMultiplexer(seed: 1)
        let key = try #require(ContentKey([UInt8](repeating: 1, count: 16)))
        for start in stride(from: 0x10, to: 0x1FE0, by: 30) {
            multiplexer.tables((start..<start + 30).map { (0xDB, $0, []) })
        }
        // No PID is a stream's before its table; each of these opens a unit that never ends.
        var decryption = Decryption([nil: key])
        for pid in 0x10..<0x1FE0 where pid != 0x100 {
            for packet in multiplexer.unit(pid: pid, streamID: 0xE0, isBounded: false, [0, 0, 1, 1]) {
                multiplexer.append(packet)
            }
        }
        try decryption.append(multiplexer.bytes)
        #expect(decryption.stream.heldSize <= multiplexer.bytes.count)
        try decryption.end()
        #expect(decryption.takeOutput().count == multiplexer.bytes.count)
    }
}
