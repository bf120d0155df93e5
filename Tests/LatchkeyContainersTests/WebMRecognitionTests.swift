// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyTestSupport
import Testing

/// Which files are shown to players as protected WebM of which more is to come.
@Suite struct WebMRecognitionTests {
    /// An element whose length has eight bytes; all ones say that it is not known.
    private static func element(_ identifier: UInt32, _ body: [UInt8], length: UInt64? = nil) -> [UInt8] {
        let name = withUnsafeBytes(of: identifier.bigEndian) { Array($0.drop { $0 == 0 }) }
        let size = (length ?? UInt64(body.count)) | 1 << 56
        return name + withUnsafeBytes(of: size.bigEndian) { Array($0) } + body
    }

    private static let unknown: UInt64 = (1 << 56) - 1
    private static let header = element(0x1A45_DFA3, [0x42, 0x82, 0x84] + Array("webm".utf8))
    private static let encryption = element(0x5035, [0x47, 0xE1, 0x81, 5])
    private static let compression = element(0x5034, [0x42, 0x54, 0x81, 3])
    private static let cluster = element(0x1F43_B675, [0xE7, 0x81, 0])
    private static let void = element(0xEC, [UInt8](repeating: 0, count: 100))

    private static func track(_ encodings: [UInt8]?) -> [UInt8] {
        element(
            0xAE,
            [0xD7, 0x81, 1] + (encodings.map { element(0x6D80, element(0x6240, [0x50, 0x31, 0x81, 0] + $0)) } ?? []))
    }

    private static func tracks(_ encodings: [UInt8]?...) -> [UInt8] {
        element(0x1654_AE6B, encodings.flatMap { track($0) })
    }

    private static func file(_ body: [UInt8], length: UInt64? = 1_000_000) -> [UInt8] {
        header + element(0x1853_8067, body, length: length)
    }

    private static func isProtected(_ file: some Collection<UInt8>, size: UInt64? = nil) -> Bool {
        WebMRecognition.isProtectedFile(size: size) { offset, count in
            let part = file.dropFirst(Int(clamping: offset)).prefix(count)
            return part.count == count ? Array(part) : nil
        }
    }

    @Test(arguments: [
        ("encrypted", file(tracks(encryption)), true),
        ("encrypted, behind other elements", file(void + tracks(encryption) + cluster), true),
        ("the second track", file(tracks(nil, encryption)), true),
        ("compressed and encrypted", file(tracks(compression + encryption)), true),
        ("segment of an unknown length", file(tracks(encryption), length: unknown), true),
        ("tracks of an unknown length", file(element(0x1654_AE6B, track(encryption), length: unknown)), true),
        ("clear", file(tracks(nil, nil) + cluster), false),
        ("compressed", file(tracks(compression) + cluster), false),
        ("media in front of the tracks", file(cluster + tracks(encryption)), false),
        ("encryption of no track", file(encryption + cluster), false),
        ("a track of no tracks", file(track(encryption)), false),
        ("tracks longer than the segment", file(tracks(encryption), length: 20), false),
        ("tracks out of reach", file(element(0xEC, [], length: 1 << 40) + tracks(encryption)), false),
        ("no segment", header + tracks(encryption), false),
        ("the header alone", header, false),
        ("nothing", [], false),
        ("ISO media", [0, 0, 0, 16] + Array("ftypisom".utf8) + [0, 0, 0, 0], false),
        ("a length of no length", header + [0x18, 0x53, 0x80, 0x67, 0], false),
        ("an identifier of no length", header + [0, 0, 0, 0, 0, 0], false),
    ])
    func isProtected(name: String, file: [UInt8], isProtected: Bool) {
        #expect(Self.isProtected(file) == isProtected, "\(name)")
    }

    /// As a file of the disk is, and one over HTTP that has come already. From GStreamer 1.26 on, the size is told of both.
    @Test func aFileThatIsThereAsAWholeIsLeftToPlayers() {
        let file = Self.file(Self.tracks(Self.encryption), length: nil)
        let size = UInt64(file.count)
        #expect(Self.isProtected(file) && Self.isProtected(file, size: size - 1))
        #expect(!Self.isProtected(file, size: size) && !Self.isProtected(file, size: size + 1))
        #expect(Self.isProtected(Self.file(Self.tracks(Self.encryption), length: Self.unknown), size: size))
    }

    @Test func theHeaderOfTheEncryptionIsEnough() {
        let file = Self.file(Self.void + Self.tracks(Self.compression, Self.encryption))
        let last = file.count - 4
        for count in 0...file.count {
            #expect(Self.isProtected(file.prefix(count)) == (count >= last), "\(count) bytes")
        }
    }

    /// Elements without end are not gone through.
    @Test func theSearchEnds() {
        let elements = [UInt8]((0..<2000).flatMap { _ in [0xEC, 0x80] as [UInt8] })
        #expect(!Self.isProtected(Self.file(elements + Self.tracks(Self.encryption))))
        #expect(Self.isProtected(Self.file(elements.prefix(1000) + Self.tracks(Self.encryption))))
    }

    /// The first bytes, as a player has them over HTTP.
    @Test(arguments: [
        "webm-av1/video.webm", "webm-vp8-fullsample/video.webm", "webm-vp9-fullsample/video.webm",
        "webm-vp9-opus-cenc/video.webm", "webm-vp9-opus-cenc/audio.webm",
    ])
    func packagersSayItInTheFirstBytes(file: String) throws {
        let start = try CorpusBoxes.corpusFile(file).prefix(4096)
        #expect(Self.isProtected(start) && Self.isProtected(start, size: 4096))
    }
}
