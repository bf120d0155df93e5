// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import Testing

/// What files begin with, read anywhere and in order.
@Suite("Box-level decryption: starts") struct ISOStartTests {
    private func readAnywhere(_ file: [UInt8]) throws(FormatError) {
        var access = ISORandomAccess()
        try access.prepare(0..<UInt64(max(file.count, 1))) { offset, count in
            offset < UInt64(file.count) ? Array(file[Int(offset)...].prefix(count)) : []
        }
    }

    /// What came out.
    private func readInOrder(_ file: [UInt8], step: Int) throws(FormatError) -> [UInt8] {
        var stream = ISOStream()
        for start in stride(from: 0, to: file.count, by: step) {
            file[start..<min(file.count, start + step)].withUnsafeBytes { stream.append($0) }
            // Media in front of its box stops here, too: nobody jumps.
            while case .sample = try stream.next() {}
        }
        try stream.end()
        var output = [UInt8](repeating: 0, count: stream.outputSize)
        output.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
        return output
    }

    static let others: [[UInt8]] = [
        Array("# Latchkey\n\nLatchkey lets GStreamer play protected media.".utf8),
        Array("#EXTM3U\n#EXT-X-VERSION:7\n".utf8),
        [0x1A, 0x45, 0xDF, 0xA3] + [UInt8](repeating: 0x42, count: 60),
        [0x47] + [UInt8](repeating: 0xFF, count: 375),
        [UInt8](repeating: 0, count: 100),
        // Too short for one box.
        [0], Array("ftyp!".utf8), [0, 0, 0, 8, 0x66, 0x74, 0x79],
    ]

    @Test(arguments: others)
    func whatIsNotISOMediaIsNamed(file: [UInt8]) throws {
        let expected = FormatError.otherFormat("")
        let anywhere = try #require(throws: FormatError.self) { try readAnywhere(file) }
        #expect(anywhere.isSameKind(as: expected), "\(anywhere)")
        for step in [1, 3, file.count] {
            let error = try #require(throws: FormatError.self) { try readInOrder(file, step: step) }
            #expect(error.isSameKind(as: expected), "\(error)")
            #expect(error == anywhere)
        }
    }

    @Test(arguments: [
        "ftyp", "styp", "moov", "moof", "sidx", "emsg", "prft", "free", "skip", "wide", "mdat", "pnot", "uuid", "pdin",
    ])
    func everyTypeThatFilesBeginWithIsTaken(type: String) throws {
        // The box that tells of the media need not be a good one here.
        let isRead = ["moov", "moof", "mdat"].contains(type)
        let file = BoxBuilder.box(type, [UInt8](repeating: 1, count: 16)) + BoxBuilder.box("free", [2])
        do throws(FormatError) {
            try readAnywhere(file)
            #expect(try readInOrder(file, step: 5) == file && !isRead)
        } catch {
            #expect(isRead && !error.isSameKind(as: .otherFormat("")), "\(error)")
        }
    }

    @Test func nothingAtAllIsNoError() throws {
        try readAnywhere([])
        #expect(try readInOrder([], step: 1) == [])
    }

    /// As the byte range of a key frame is. `count`: bytes of the first fragment's media.
    @Test(arguments: [0, 10, 20, 30]) func aFragmentThatIsCutShortEndsWhereTheNextOneBegins(count: Int) throws {
        let vectors = BoxBuilder.number(0xA1, 8) + BoxBuilder.number(0xA2, 8)
        let list = BoxBuilder.full("senc", BoxBuilder.number(2, 4), vectors)
        let fragment = BoxBuilder.fragment { size in
            [BoxBuilder.tfhd(1), BoxBuilder.trun(offset: size + 8, sizes: [20, 30]), list]
        }
        let media = BoxBuilder.box("mdat", [UInt8](repeating: 0x55, count: 50))
        let pieces: [[UInt8]] = [
            BoxBuilder.movie(), fragment + media.prefix(8 + count), fragment + media, fragment + media,
        ]
        var stream = ISOStream()
        var position: UInt64 = 0
        var sizes: [Int] = []
        var cuts: [Int] = []
        for (index, piece) in pieces.enumerated() {
            let isCut = piece.withUnsafeBytes { stream.isCutShort(by: $0) }
            if isCut {
                cuts.append(index)
                try stream.jump(to: position)
            }
            piece.withUnsafeBytes { stream.append($0) }
            position += UInt64(piece.count)
            while case .sample = try stream.next() {
                stream.withSample { _, bytes in sizes.append(bytes.count) }
            }
            var output = [UInt8](repeating: 0, count: stream.outputSize)
            output.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
        }
        try stream.end()
        #expect(cuts == [2])
        let first: [Int] = count < 20 ? [] : [20]
        #expect(sizes == first + [20, 30, 20, 30])
    }

    @Test(arguments: [true, false]) func noiseInPlaceOfASegmentIsAnError(isOfSegments: Bool) throws {
        let noise: [UInt8] = [0, 1, 0, 0, 0x77, 0x55, 0x33, 0x11]
        var stream = ISOStream()
        stream.isOfSegments = isOfSegments
        let fragment = BoxBuilder.fragment { [BoxBuilder.tfhd(1), BoxBuilder.trun(offset: $0 + 8, sizes: [])] }
        for piece in [BoxBuilder.movie(), fragment + BoxBuilder.box("mdat", [1]), BoxBuilder.box("abcd", [2])] {
            piece.withUnsafeBytes { stream.append($0) }
            #expect(try stream.next() == .nothing)
        }
        noise.withUnsafeBytes { stream.append($0) }
        let place = stream.heldSize - noise.count
        if isOfSegments {
            #expect(throws: FormatError.malformed("no box starts at \(place)")) { try stream.next() }
        } else {
            #expect(try stream.next() == .nothing)
        }
    }

    /// Within a fragment, media is not taken for the start of one.
    @Test func mediaIsNoStartOfASegment() {
        func start(_ type: String, size: Int, _ rest: [UInt8]) -> [UInt8] {
            BoxBuilder.number(size, 4) + Array(type.utf8) + rest
        }
        let header = BoxBuilder.full("mfhd", BoxBuilder.number(1, 4))
        let brand = Array("msdh".utf8)
        let number = BoxBuilder.number(1, 4)
        let others: [[UInt8]] = [
            start("moof", size: 40, [UInt8](repeating: 0x55, count: 8)),
            start("moof", size: 40, BoxBuilder.full("mfhe", number)),
            start("moof", size: 40, Array(header.prefix(7))),
            start("styp", size: 18, brand + number),
            start("styp", size: 24, number + number),
            start("sidx", size: 44, BoxBuilder.number(0x200_0000, 4) + number),
            start("mdat", size: 44, header), [],
        ]
        for bytes in others { #expect(!bytes.withUnsafeBytes { ISOStream.startsSegment($0) }, "\(bytes)") }
        let starts: [[UInt8]] = [
            start("styp", size: 24, brand + number),
            start("sidx", size: 44, BoxBuilder.number(0x100_0000, 4) + number),
            start("moof", size: 40, header),
        ]
        for bytes in starts { #expect(bytes.withUnsafeBytes { ISOStream.startsSegment($0) }, "\(bytes)") }
    }

    /// Types are looked at in the first place only: those behind it are the file's own business.
    @Test func unknownBoxesBehindTheFirstGoOn() throws {
        let file = BoxBuilder.box("ftyp", Array("isom".utf8)) + BoxBuilder.box("Xtra", [1, 2, 3])
        try readAnywhere(file)
        #expect(try readInOrder(file, step: 4) == file)
    }
}
