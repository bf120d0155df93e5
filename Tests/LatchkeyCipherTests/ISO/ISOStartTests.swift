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

    /// Types are looked at in the first place only: those behind it are the file's own business.
    @Test func unknownBoxesBehindTheFirstGoOn() throws {
        let file = BoxBuilder.box("ftyp", Array("isom".utf8)) + BoxBuilder.box("Xtra", [1, 2, 3])
        try readAnywhere(file)
        #expect(try readInOrder(file, step: 4) == file)
    }
}
