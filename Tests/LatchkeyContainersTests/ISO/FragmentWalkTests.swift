// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import Testing

/// Fragments of a stream, however it is cut.
@Suite struct FragmentWalkTests {
    private static func number(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(value >> (24 - 8 * $0) & 0xFF) } }

    private static func box(_ type: String, _ body: [UInt8] = []) -> [UInt8] {
        number(8 + body.count) + Array(type.utf8) + body
    }

    private static func fragment(_ content: UInt8) -> [UInt8] { box("moof", [UInt8](repeating: content, count: 21)) }

    /// With a size of 64 bits, and the names of boxes inside.
    private static let media: [UInt8] = joined([
        number(1), Array("mdat".utf8), number(0), number(48), fragment(9), [0, 0, 0],
    ])

    private static func joined(_ parts: [[UInt8]]) -> [UInt8] { parts.flatMap(\.self) }

    private static func found(in stream: [UInt8], pieces size: Int) -> (fragments: [[UInt8]], isLost: Bool) {
        var walk = FragmentWalk()
        var fragments: [[UInt8]] = []
        for start in stride(from: 0, to: stream.count, by: size) {
            let piece = stream[start..<min(start + size, stream.count)]
            while let range = walk.wanted(inPieceOf: piece.count) {
                let bytes = piece[start + range.lowerBound..<start + range.upperBound]
                if let fragment = walk.take(bytes) { fragments.append(fragment) }
            }
        }
        return (fragments, walk.isLost)
    }

    @Test func fragmentsAreFoundHoweverTheStreamIsCut() {
        #expect(Self.media.count == 48)
        let stream = Self.joined([
            Self.box("ftyp", Array("iso6".utf8)), Self.box("moov", Self.fragment(8)), Self.box("styp"),
            Self.box("sidx", [1, 2, 3]), Self.fragment(1), Self.media, Self.box("moof"), Self.box("mdat"),
            Self.box("free"), Self.fragment(2), Self.box("mdat", [0, 0, 0]),
        ])
        for size in [1, 2, 3, 7, 8, 9, 16, 31, 64, stream.count] {
            let (fragments, isLost) = Self.found(in: stream, pieces: size)
            #expect(fragments == [Self.fragment(1), Self.box("moof"), Self.fragment(2)], "\(size)")
            #expect(!isLost)
        }
    }

    private static let others: [[UInt8]] = [
        box("abcd"), joined([number(7), Array("free".utf8)]), joined([number(0), Array("mdat".utf8)]),
        [UInt8](repeating: 0xFF, count: 16), joined([number(FragmentWalk.limit + 1), Array("moof".utf8)]),
        joined([number(1), Array("mdat".utf8), number(0), number(15)]),
    ]

    @Test(arguments: others) func otherBytesEndTheWalk(_ bytes: [UInt8]) {
        for size in [1, 8, 1000] {
            let stream = Self.joined([Self.fragment(1), bytes, Self.fragment(2)])
            let (fragments, isLost) = Self.found(in: stream, pieces: size)
            #expect(fragments == [Self.fragment(1)])
            #expect(isLost)
        }
    }

    /// What belongs to a box that does not end is passed over.
    @Test func aBoxWithoutAnEndIsNoFault() {
        let end: [UInt8] = [0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]
        let stream = Self.joined([Self.fragment(1), Self.number(1), Array("mdat".utf8), end, Self.fragment(2)])
        for size in [1, 16, 1000] {
            let (fragments, isLost) = Self.found(in: stream, pieces: size)
            #expect(fragments == [Self.fragment(1)])
            #expect(!isLost)
        }
    }
}
