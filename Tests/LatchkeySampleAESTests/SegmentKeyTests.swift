// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyContainers

/// The note in front of a segment, in both forms.
@Suite struct SegmentKeyTests {
    static let keys: [SegmentKey] = [
        SegmentKey(keyID: nil),
        SegmentKey(keyID: KeyID(high: 1, low: 2)),
        SegmentKey(keyID: KeyID(high: .max, low: 0), initializationVector: InitializationVector(high: 7, low: .max)),
        // What is clear needs no IV; one that is there comes back.
        SegmentKey(keyID: nil, initializationVector: InitializationVector(high: 3, low: 4)),
    ]

    @Test(arguments: keys)
    func bothFormsComeBack(key: SegmentKey) throws {
        let packets = key.transportStreamPackets()
        #expect(packets.count == 5 * 188)
        for start in stride(from: 0, to: packets.count, by: 188) { #expect(packets[start] == 0x47) }
        #expect(SegmentKey(transportStreamPackets: packets) == key)
        let tag = key.id3Tag()
        #expect(tag.starts(with: "ID3".utf8))
        #expect(SegmentKey(id3Tag: tag) == key)
        // What follows does not matter.
        #expect(SegmentKey(id3Tag: tag + [0xFF, 0xF1, 0x00]) == key)
        #expect(SegmentKey(transportStreamPackets: [UInt8](repeating: 0, count: 188) + packets) == key)
    }

    /// What came before a decryptor had the tag in front of all.
    @Test(arguments: [false, true])
    func aStreamThatIsJoinedHasNoTag(isJoining: Bool) throws {
        var random = SeededGenerator(seed: 7)
        let frames = (0..<3).flatMap { _ in TestEncoder.adtsFrame(&random) }
        let tag = ID3Tag(frames: [.privateFrame(owner: "time", data: [1, 2, 3])]).bytes
        let stream = SampleAESStream(isJoining: isJoining)
        try (SegmentKey(keyID: nil).id3Tag() + tag + frames).withUnsafeBytes { try stream.append($0) }
        try stream.end()
        while case .key = try stream.next() {}
        var output = [UInt8](repeating: 0, count: stream.outputSize)
        output.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
        #expect(output == (isJoining ? frames : tag + frames))
        #expect(stream.output == (isJoining ? .audio(.aac) : .id3))
    }

    /// Written by hand from the table in the documentation: the format must not change by accident.
    @Test func theFormatStays() throws {
        let key = SegmentKey(
            keyID: KeyID([UInt8](1...16)), initializationVector: InitializationVector([UInt8](17...32)))
        let note = Array("LKSEGKEY".utf8) + [1, 3] + [UInt8](1...32) + [0x6D, 0x2C, 0xB4, 0x31]
        let packets = key.transportStreamPackets()
        #expect(Array(packets[..<4]) == [0x47, 0x5F, 0xF8, 0x10])
        #expect(Array(packets[4..<(4 + note.count - 4)]) == note.dropLast(4))
        #expect(packets[(4 + note.count)..<188].allSatisfy { $0 == 0xFF })
        let owner = Array("org.latchkey.segment-key".utf8) + [0]
        let frame = Array("PRIV".utf8) + [0, 0, 0, UInt8(owner.count + note.count), 0, 0] + owner
        #expect(
            key.id3Tag().starts(
                with: Array("ID3".utf8) + [4, 0, 0, 0, 0, 0, UInt8(frame.count + note.count)] + frame + note.dropLast(4)
            ))
    }

    @Test func anyOtherBitIsNoNote() throws {
        let key = Self.keys[2]
        let packet = Array(key.transportStreamPackets()[..<188])
        for bit in 0..<(50 * 8) {
            var changed = packet
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            let isSameMeaning = SegmentKey(transportStreamPackets: changed) == key
            // Only what demultiplexers read in the header does not belong to the note.
            #expect(
                !isSameMeaning || [8, 9, 10].contains(bit) || (24..<32).contains(bit) || [13, 14, 15].contains(bit),
                "bit \(bit)")
        }
        #expect(SegmentKey(transportStreamPackets: [UInt8]()) == nil)
        #expect(SegmentKey(transportStreamPackets: packet.dropLast()) == nil)
        #expect(SegmentKey(id3Tag: [UInt8]()) == nil)
        #expect(SegmentKey(id3Tag: Array(key.id3Tag().dropLast(3))) == nil)
    }

    @Test(arguments: 0..<500)
    func changedNotesNeverTrap(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        _ = SegmentKey(id3Tag: random.mutate(Self.keys[seed % 4].id3Tag()))
        _ = SegmentKey(transportStreamPackets: random.mutate(Self.keys[seed % 4].transportStreamPackets()))
    }
}
