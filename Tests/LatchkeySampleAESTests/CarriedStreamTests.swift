// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// Segments that are encrypted as a whole, inside packets.
@Suite struct CarriedStreamTests {
    private static let keyID = KeyID(high: 1, low: 2)

    /// A transport stream of null packets whose bytes differ.
    private func stream(packets: Int, seed: UInt8 = 1) -> [UInt8] {
        (0..<packets).flatMap { index in
            [0x47, 0x1F, 0xFF, 0x10] + (0..<184).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ index &+ Int(seed)) }
        }
    }

    private func key() throws -> ContentKey { try #require(ContentKey((0..<16).map { UInt8($0) })) }

    private func encrypted(_ bytes: [UInt8], _ counter: InitializationVector) throws -> [UInt8] {
        var bytes = bytes
        let cipher = try SampleCipher(key: try key())
        try bytes.withUnsafeMutableBytes {
            try cipher.decrypt(SamplePlan(scheme: .cenc, initializationVector: counter), in: $0)
        }
        return bytes
    }

    private func carried(_ bytes: [UInt8], low: UInt64 = 0, start: UInt64 = 0) throws -> [UInt8] {
        let counter = InitializationVector(high: 7, low: low)
        let segment = CarriedSegment(keyID: Self.keyID, initialCounter: counter, start: start)
        return segment.transportStreamPackets(of: try encrypted(bytes, counter))
    }

    private func opened(_ bytes: [UInt8], inPiecesOf size: Int) throws -> (
        output: [UInt8], kind: SampleAESStream.Output?
    ) {
        var decryption = Decryption([Self.keyID: try key()])
        decryption.hasOwnVectors = true
        try decryption.append(bytes, inPiecesOf: size)
        try decryption.end()
        return (decryption.takeOutput(), decryption.stream.output)
    }

    @Test(arguments: [1, 7, 16, 187, 188, 189, 1000, 65_536])
    func segmentsComeBackWhatevertheirPieces(size: Int) throws {
        let clear = [stream(packets: 40), stream(packets: 3, seed: 9), stream(packets: 1, seed: 4)]
        let bytes = try clear.enumerated().flatMap { try carried($1, start: UInt64($0) * 90_000) }
        let (output, kind) = try opened(bytes, inPiecesOf: size)
        #expect(output == clear.flatMap(\.self))
        #expect(kind == .transportStream)
    }

    /// Segments of any size, down to nothing.
    @Test func everySizeComesBack() throws {
        let front = stream(packets: 3)
        for size in 0...400 {
            let clear = front + [UInt8](repeating: 5, count: size)
            let packets = try carried(clear)
            #expect(packets.count % 188 == 0)
            #expect(try opened(packets, inPiecesOf: 500).output == clear, "\(size)")
        }
    }

    /// The counter has eight bytes and wraps round within them.
    @Test func theCounterWraps() throws {
        let clear = stream(packets: 5)
        #expect(try opened(try carried(clear, low: .max - 3), inPiecesOf: 100).output == clear)
    }

    @Test func packedAudioIsRecognized() throws {
        let clear = Array("ID3".utf8) + [4, 0, 0, 0, 0, 0, 0] + [UInt8](repeating: 3, count: 700)
        let (output, kind) = try opened(try carried(clear), inPiecesOf: 64)
        #expect(output == clear)
        #expect(kind == .id3)
    }

    /// Only the first tag goes on, whatever the pieces and the sizes of the others.
    @Test(arguments: [1, 16, 188, 5000])
    func laterTagsStay(size: Int) throws {
        func segment(_ tag: Int, _ value: UInt8) -> (tag: [UInt8], frames: [UInt8]) {
            let head: [UInt8] = [4, 0, 0, 0, 0, UInt8(tag >> 7), UInt8(tag & 0x7F)]
            return (Array("ID3".utf8) + head + [UInt8](repeating: 9, count: tag), [UInt8](repeating: value, count: 600))
        }
        let parts = [segment(20, 1), segment(300, 2), segment(0, 3)]
        var bytes = try parts.flatMap { try carried($0.tag + $0.frames) }
        bytes += CarriedSegment(keyID: nil, start: 0).transportStreamPackets(of: parts[1].tag + parts[1].frames)
        let expected = parts[0].tag + parts.flatMap(\.frames) + parts[1].frames
        #expect(try opened(bytes, inPiecesOf: size).output == expected)
    }

    @Test func clearSegmentsPassBetweenEncryptedOnes() throws {
        let clear = [stream(packets: 5), stream(packets: 6, seed: 3), stream(packets: 7, seed: 8)]
        let middle = CarriedSegment(keyID: nil, start: 0).transportStreamPackets(of: clear[1])
        let bytes = try carried(clear[0]) + middle + carried(clear[2])
        #expect(try opened(bytes, inPiecesOf: 333).output == clear.flatMap(\.self))
    }

    @Test func aWrongKeyIsNamed() throws {
        var decryption = Decryption([Self.keyID: try #require(ContentKey([UInt8](repeating: 9, count: 16)))])
        decryption.hasOwnVectors = true
        let bytes = try carried(stream(packets: 600))
        let error = #expect(throws: FormatError.self) {
            try decryption.append(bytes)
            try decryption.end()
        }
        #expect(error.map { "\($0)".contains("key may be a wrong one") } == true, "\(String(describing: error))")
        #expect(decryption.takeOutput().isEmpty)
    }

    /// The end of a segment is told by its last packet: nothing waits for the next one.
    @Test func nothingIsHeldAtTheEndOfASegment() throws {
        var decryption = Decryption([Self.keyID: try key()])
        decryption.hasOwnVectors = true
        let clear = stream(packets: 11)
        try decryption.append(try carried(clear))
        #expect(decryption.takeOutput() == clear)
        #expect(decryption.stream.heldSize == 0)
    }

    /// What a demuxer needs to find the time (ISO/IEC 13818-1, 2.4.3.6 and 2.4.4.3).
    @Test func theTimeStandsInFront() throws {
        let start: UInt64 = 0x1_2345_6789
        let packets = CarriedSegment(keyID: nil, start: start | 1 << 40).transportStreamPackets(of: [1])
        let association = packets[188..<376]
        #expect(Array(association.prefix(4)) == [0x47, 0x40, 0x00, 0x10])
        let time = Array(packets[376..<564])
        #expect(Array(time[4..<8]) == [0, 0, 1, 0xBD])
        #expect(time[11] & 0x80 != 0)
        let bytes = time[13..<18].map { UInt64($0) }
        let high = bytes[0] >> 1 & 7
        #expect(bytes[0] & 1 == 1 && bytes[2] & 1 == 1 && bytes[4] & 1 == 1)
        let middle = bytes[1] << 7 | bytes[2] >> 1
        let low = bytes[3] << 7 | bytes[4] >> 1
        #expect(high << 30 | middle << 15 | low == start)
    }

    @Test func aFlushForgetsTheSegment() throws {
        var decryption = Decryption([Self.keyID: try key()])
        decryption.hasOwnVectors = true
        let clear = stream(packets: 20)
        let bytes = try carried(clear)
        try decryption.append(bytes.prefix(2000))
        _ = decryption.takeOutput()
        decryption.stream.flush()
        // The rest of a segment whose front is gone says nothing.
        try decryption.append(bytes.dropFirst(188 * 12))
        #expect(decryption.takeOutput().isEmpty)
        try decryption.append(bytes)
        #expect(decryption.takeOutput() == clear)
    }

    @Test(arguments: 0..<400)
    func changedBytesNeverTrap(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let clear = stream(packets: 12)
        let bytes = random.mutate(try carried(clear) + carried(clear))
        do {
            let (output, _) = try opened(bytes, inPiecesOf: Int.random(in: 1...3000, using: &random))
            #expect(output.count <= bytes.count)
        } catch let error as FormatError {
            #expect(!error.description.isEmpty)
        } catch is MissingKey {
        }
    }
}
