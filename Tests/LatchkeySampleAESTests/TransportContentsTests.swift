// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import Testing

@testable import LatchkeyContainers

/// What a clear transport stream holds, by its tables.
@Suite struct TransportContentsTests {
    private static let mapPID = 0x100

    private func section(table: UInt8, _ body: [UInt8]) -> [UInt8] {
        let length = 5 + body.count + 4
        let section: [UInt8] =
            [table, 0xB0 | UInt8(length >> 8), UInt8(truncatingIfNeeded: length), 0, 1, 0xC1, 0, 0] + body
        return section + CRC32.checksum(section).bigEndianBytes
    }

    /// The packets of one section.
    private func packets(_ section: [UInt8], pid: Int) -> [UInt8] {
        var payload = ([0] + section)[...]
        var packets: [UInt8] = []
        while !payload.isEmpty {
            let start: UInt8 = packets.isEmpty ? 0x40 : 0
            let piece = payload.prefix(184)
            packets += [0x47, start | UInt8(pid >> 8), UInt8(pid & 0xFF), 0x10] + piece
            packets += [UInt8](repeating: 0xFF, count: 184 - piece.count)
            payload = payload.dropFirst(184)
        }
        return packets
    }

    private var association: [UInt8] {
        packets(section(table: 0, [0, 1, 0xE0 | UInt8(Self.mapPID >> 8), UInt8(Self.mapPID & 0xFF)]), pid: 0)
    }

    private func map(_ types: [UInt8], descriptorSize: Int = 0) -> [UInt8] {
        var descriptor: [UInt8] = []
        if descriptorSize > 0 {
            descriptor = [0xF0, UInt8(descriptorSize - 2)] + [UInt8](repeating: 0, count: descriptorSize - 2)
        }
        var streams: [UInt8] = []
        for (index, type) in types.enumerated() {
            streams += [type, 0xE2, UInt8(index)]
            streams += [0xF0 | UInt8(descriptor.count >> 8), UInt8(truncatingIfNeeded: descriptor.count)]
            streams += descriptor
        }
        return packets(section(table: 2, [0xE2, 0, 0xF0, 0] + streams), pid: Self.mapPID)
    }

    private func contents(_ bytes: [UInt8], inPiecesOf size: Int = 188) -> UnitContents {
        var contents = TransportContents()
        contents.align()
        for start in stride(from: 0, to: bytes.count, by: size) {
            bytes[start..<min(start + size, bytes.count)].withUnsafeBytes { contents.append($0) }
        }
        return contents.contents
    }

    struct Programme: Sendable {
        let types: [UInt8]
        let contents: UnitContents

        init(_ types: [UInt8], _ contents: UnitContents) {
            self.types = types
            self.contents = contents
        }
    }

    static let programmes = [
        Programme([0x1B], .pictures), Programme([0x24, 0x15], .pictures), Programme([0x0F], .sound),
        Programme([0x81, 0x86], .sound), Programme([0x1B, 0x0F], [.pictures, .sound]),
        Programme([0x1B, 0x06], [.pictures, .sound]), Programme([0xDB, 0xCF], [.pictures, .sound]),
        Programme([0x15], []),
        Programme([0xF0], [.pictures, .sound]),
    ]

    @Test(arguments: programmes)
    func theMapTells(programme: Programme) {
        for size in [1, 16, 187, 188, 1000] {
            #expect(
                contents(association + map(programme.types), inPiecesOf: size) == programme.contents,
                "in pieces of \(size)")
        }
    }

    /// A map that needs several packets.
    @Test func aLongMapTells() {
        #expect(contents(association + map([0x1B, 0x15, 0x15, 0x0F], descriptorSize: 200)) == [.pictures, .sound])
    }

    @Test func whatIsNotKnownIsBoth() {
        let both: UnitContents = [.pictures, .sound]
        #expect(contents([]) == both)
        #expect(contents(association) == both)
        #expect(contents(map([0x1B])) == both, "without the association nobody finds the map")
        var damaged = association + map([0x1B])
        damaged[188 + 20] ^= 1
        #expect(contents(damaged) == both)
    }

    /// Other readers may see more in it, so it counts as both from there on.
    @Test func whatCannotBeReadIsBoth() {
        let both: UnitContents = [.pictures, .sound]
        let sound = association + map([0x0F])
        #expect(contents(sound) == .sound)
        #expect(contents(sound + map([0x80])) == both, "video or PCM")
        #expect(contents(sound + [0] + map([0x1B])) == both, "a stray byte")
        var damaged = map([0x1B])
        damaged[20] ^= 1
        #expect(contents(sound + damaged) == both)
        let long = map([0x0F, 0x15, 0x15, 0x15], descriptorSize: 200)
        #expect(contents(association + long) == .sound)
        #expect(contents(association + long.prefix(188) + long) == both, "a section without an end")
        var cut = TransportContents()
        for piece in [association + long.prefix(188), long] {
            cut.align()
            piece.withUnsafeBytes { cut.append($0) }
        }
        #expect(cut.contents == both, "a section that goes on in the next segment")
    }

    /// An ad without sound does not lift the rule for sound.
    @Test func whatWasFoundStays() {
        #expect(contents(association + map([0x1B, 0x0F]) + association + map([0x1B])) == [.pictures, .sound])
    }

    @Test func ofNoiseThePiecesDoNotMatter() {
        var generator = SeededGenerator(seed: 3)
        for _ in 0..<300 {
            var bytes = association + map([0x1B, 0x15], descriptorSize: 120) + association
            for _ in 0..<8 {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = .random(in: 0...255, using: &generator)
            }
            let whole = contents(bytes, inPiecesOf: bytes.count)
            #expect(contents(bytes, inPiecesOf: Int.random(in: 1...400, using: &generator)) == whole)
        }
    }
}
