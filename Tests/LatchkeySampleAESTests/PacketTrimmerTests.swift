// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import Testing

@testable import LatchkeyContainers

/// Packets with bytes in front or behind, and where they start.
@Suite struct PacketTrimmerTests {
    private static func packet(_ byte: UInt8 = 1) -> [UInt8] {
        [TransportPacket.syncByte] + [UInt8](repeating: byte, count: TransportPacket.size - 1)
    }

    /// As recorders write it: a time stamp of 4 bytes, then the packet.
    private static func recorded(_ stamp: [UInt8], _ numbers: ClosedRange<UInt8>) -> [UInt8] {
        numbers.flatMap { stamp + packet($0) }
    }

    private static func trimmed(_ bytes: [UInt8], inPiecesOf size: Int) throws -> [UInt8] {
        let found = try #require(PacketTrimmer.find(in: bytes, isEnd: false))
        var trimmer = PacketTrimmer(distance: found.distance)
        var packets: [UInt8] = []
        for start in stride(from: found.offset, to: bytes.count, by: size) {
            packets += bytes[start..<min(bytes.count, start + size)].withUnsafeBytes { trimmer.packets(from: $0) }
        }
        packets += trimmer.end()
        #expect(trimmer.heldSize == 0)
        return packets
    }

    /// What is lost between such packets costs those that it belongs to.
    @Test(arguments: [1, 7, 191, 192, 193, 10_000]) func theyAreFoundAgain(size: Int) throws {
        let zeros: [UInt8] = [0, 0, 0, 0]
        let damaged =
            Self.recorded(zeros, 1...4) + Self.recorded(zeros, 5...5).prefix(100) + Self.recorded(zeros, 6...9)
        let expected = ([1, 2, 3, 4, 6, 7, 8, 9] as [UInt8]).flatMap(Self.packet)
        #expect(try Self.trimmed(damaged, inPiecesOf: size) == expected)
        // Too little for three in a row, up to the end.
        #expect(try Self.trimmed(Array(damaged.dropLast(384)), inPiecesOf: size) == Array(expected.dropLast(376)))
    }

    /// The first byte of a time stamp stays for half a second, the second for milliseconds.
    @Test(arguments: [[0x47, 1, 2, 3], [0, 0x47, 2, 3], [0, 1, 0x47, 0x47], [0x47, 0x47, 0x47, 0x47]])
    func aTimeStampIsNoSyncByte(_ stamp: [UInt8]) throws {
        let bytes = Self.recorded(stamp, 1...9)
        // From any place in the first packet on.
        for start in 0..<192 {
            let expected: ClosedRange<UInt8> = (start <= 4 ? 1 : 2)...9
            let packets = try Self.trimmed(Array(bytes[start...]), inPiecesOf: 100)
            #expect(packets == expected.flatMap(Self.packet), "from \(start) on")
        }
        // Nor where the packets were lost.
        let damaged = bytes[..<700] + bytes[900...]
        let packets = try Self.trimmed(Array(damaged), inPiecesOf: 100)
        #expect(packets == ([1, 2, 3, 6, 7, 8, 9] as [UInt8]).flatMap(Self.packet))
    }

    /// Behind the first packets, bytes in them look as if the distance were another.
    @Test(arguments: [(4, 0), (0, 16), (0, 0)]) func theFirstPlaceCounts(front: Int, behind: Int) {
        for other in PacketTrimmer.distances where other != TransportPacket.size + front + behind {
            var bytes = (1...30).flatMap {
                [UInt8](repeating: 0, count: front) + Self.packet($0) + [UInt8](repeating: 0, count: behind)
            }
            for index in 0..<3 { bytes[front + 50 + index * other] = TransportPacket.syncByte }
            let found = PacketTrimmer.find(in: bytes, isEnd: false)
            #expect(found?.offset == front && found?.distance == TransportPacket.size + front + behind)
        }
    }

    /// A decision never depends on how many bytes there are already.
    @Test(arguments: 0..<20) func moreBytesChangeNothing(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let garbage = random.bytes(Int.random(in: 0...50, using: &random))
        let (front, behind) = [(4, 0), (0, 16), (0, 0)][seed % 3]
        let bytes = garbage + (1...6).flatMap { random.bytes(front) + Self.packet($0) + random.bytes(behind) }
        let whole = PacketTrimmer.find(in: bytes, isEnd: false)
        #expect(whole?.distance == TransportPacket.size + front + behind)
        for count in bytes.indices {
            let found = PacketTrimmer.find(in: Array(bytes[..<count]), isEnd: false)
            #expect(found == nil || found! == whole!)
        }
    }

    /// At the end two packets are enough, and one is not.
    @Test func theEndTakesLess() {
        let two = Self.recorded([0x47, 0, 0, 0], 1...2)
        #expect(PacketTrimmer.find(in: two, isEnd: false) == nil)
        let found = PacketTrimmer.find(in: two, isEnd: true)
        #expect(found?.offset == 4 && found?.distance == 192)
        #expect(PacketTrimmer.find(in: Self.packet(), isEnd: true) == nil)
        #expect(PacketTrimmer.find(in: [], isEnd: true) == nil)
    }
}
