// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyContainers

/// Which codecs a sample entry `mp4a` may be judged by.
@Suite struct ElementaryStreamDescriptorTests {
    /// The body of a box. `flags` are of the ES descriptor, and `more` is what they announce.
    private func box(type: UInt8 = 0x40, _ configuration: [UInt8], flags: UInt8 = 0, _ more: [UInt8] = []) -> [UInt8] {
        let specific: [UInt8] = [5, 0x80, 0x80, UInt8(configuration.count)] + configuration
        let decoder = [4, UInt8(13 + specific.count), type, 0x15] + [UInt8](repeating: 0, count: 11) + specific
        return [0, 0, 0, 0, 3, 0x80, 0x80, 0x80, UInt8(3 + more.count + decoder.count), 0, 1, flags] + more + decoder
    }

    private func codec(_ bytes: [UInt8]) throws(FormatError) -> SampleCodec? {
        try ElementaryStreamDescriptor(ByteReader(bytes[...], structure: "esds")).codec
    }

    @Test func whatIsKnownIsNamed() throws {
        let known: [([UInt8], SampleCodec)] = [
            // LC at 44.1 kHz; SBR and PS around LC; SBR with both frequencies written out.
            (box([0x12, 0x10]), .aac), (box([0x2B, 0x11, 0x88]), .aac), (box([0xEB, 0x09, 0x88]), .aac),
            (box([0x2F, 0x80, 0x2B, 0x11, 0x17, 0x80, 0x56, 0x22, 0x08]), .aac),
            (box(type: 0x67, [0x12, 0x10]), .aac), (box(type: 0x6B, []), .mp3), (box(type: 0xA6, []), .ac3),
            (box([0x12, 0x10], flags: 0xE0, [0, 1, 3, 0x61, 0x62, 0x63, 0, 2]), .aac),
        ]
        for (bytes, expected) in known { #expect(try codec(bytes) == expected, "\(bytes)") }
    }

    /// A right key of such sound would be called a wrong one.
    @Test func otherKindsOfAACAreNot() throws {
        let others: [[UInt8]] = [
            // xHE-AAC (42), AAC-ELD (39), AAC-LD (23), LC with error resilience (17), SBR around scalable AAC (6).
            box([0xF9, 0x4A, 0x10]), box([0xF8, 0xE8, 0x50]), box([0xB9, 0x90]), box([0x8A, 0x10]),
            box([0x2B, 0x11, 0x98]), box([]), box(type: 0xDD, [0x12, 0x10]),
        ]
        for bytes in others { #expect(try codec(bytes) == nil, "\(bytes)") }
    }

    @Test func whatIsCutShortThrowsOrIsNotNamed() throws {
        let whole = box([0x12, 0x10], flags: 0x40, [1, 0x61])
        for count in whole.indices.dropLast(2) {
            #expect((try? codec(Array(whole.prefix(count)))) == nil, "\(count) bytes")
        }
        for place in whole.indices {
            for byte in [0x00, 0x7F, 0x80, 0xFF] as [UInt8] {
                var broken = whole
                broken[place] = byte
                _ = try? codec(broken)
            }
        }
    }
}
