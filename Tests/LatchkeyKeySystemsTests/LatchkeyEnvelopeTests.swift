// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyTestSupport
import Testing

@Suite struct LatchkeyEnvelopeTests {
    private let parser = LatchkeyEnvelope()
    private let counter = [UInt8](1...16)

    private func front() throws -> (PlayReadyObject, [UInt8]) {
        let object = try PlayReadyObject(reading: PlayReadyGolden.file("object-4.0.bin"))
        return (object, try LatchkeyEnvelope.serialized(playReadyObject: object, initialCounter: counter))
    }

    @Test func readsWhatItWrites() throws {
        let (object, bytes) = try front()
        let header = try #require(try parser.header(of: bytes + [1, 2, 3]))
        #expect(header == EnvelopeHeader(playReadyObject: object, initialCounter: counter, payloadOffset: bytes.count))
        #expect(parser.isEnvelope(bytes) && parser.isEnvelope(Array(bytes.prefix(parser.probeSize))))
        #expect(!parser.isEnvelope(Array(bytes.prefix(parser.probeSize - 1))))
        // The layout of the documentation, byte by byte.
        let size = bytes.count - 28
        #expect(Array(bytes[..<8]) == [0x4C, 0x4B, 0x45, 0x4E, 1, 1, 0, 0] && Array(bytes[8..<24]) == counter)
        #expect(Array(bytes[24..<28]) == [0, 0, UInt8(size >> 8), UInt8(size & 0xFF)])
    }

    @Test func asksForMoreUntilTheHeaderIsThere() throws {
        let (_, bytes) = try front()
        for length in bytes.indices { #expect(try parser.header(of: Array(bytes.prefix(length))) == nil) }
    }

    @Test func refusesOtherBytes() throws {
        let (object, bytes) = try front()
        for (position, value) in [(0, UInt8(0)), (4, 2), (5, 2), (6, 1), (7, 1), (24, 0xFF)] {
            var changed = bytes
            changed[position] = value
            #expect(throws: FormatError.self, "byte \(position)") { try parser.header(of: changed) }
        }
        #expect(throws: FormatError.self) { try parser.header(of: [0x47, 0x40, 0x11]) }
        #expect(throws: FormatError.self) {
            try LatchkeyEnvelope.serialized(playReadyObject: object, initialCounter: [1])
        }
    }

    @Test(arguments: [UInt64(1), 2]) func damagedEnvelopesThrowOrAreReadAndNeverTrap(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let (_, bytes) = try front()
        for _ in 0..<500 {
            let changed = random.mutate(bytes)
            if let header = try? parser.header(of: changed) { #expect(header.payloadOffset <= changed.count) }
        }
    }
}
