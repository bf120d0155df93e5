// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyProtection
import Testing

/// Whole files of the corpus: the packets in the clear file are those that independent tools decrypted, at the places
/// where the encrypted ones were.
@Suite("Box-level decryption of the corpus") struct ISOCorpusTests {
    @Test(arguments: Corpus.tracks)
    func readAnywhereTheFileIsClear(track: Corpus.Track) throws {
        let bytes = try track.bytes()
        let clear = try WholeFile.readAnywhere(bytes, keys: Self.keys(of: track))
        try check(clear, of: bytes, track)
    }

    @Test(arguments: Corpus.tracks)
    func asAStreamTheFileIsClear(track: Corpus.Track) throws {
        let bytes = try track.bytes()
        let clear = try WholeFile.stream(
            bytes, keys: Self.keys(of: track), cuts: stride(from: 4096, to: bytes.count, by: 4096))
        #expect(try clear == WholeFile.readAnywhere(bytes, keys: Self.keys(of: track)))
    }

    /// Media in front of `moov` waits for it.
    @Test(arguments: Corpus.tracks.filter { $0.name.hasPrefix("ffmpeg-cenc-progressive/") }, [999, 4096, .max])
    func asAStreamThatCannotJumpTheFileIsClear(track: Corpus.Track, step: Int) throws {
        let bytes = try track.bytes()
        let clear = try WholeFile.stream(
            bytes, keys: Self.keys(of: track), cuts: stride(from: min(step, bytes.count), to: bytes.count, by: step),
            canJump: false)
        #expect(try clear == WholeFile.readAnywhere(bytes, keys: Self.keys(of: track)))
    }

    private func check(_ clear: [UInt8], of bytes: [UInt8], _ track: Corpus.Track) throws {
        #expect(clear.count == bytes.count)
        let samples = try #require(try IsoFile(bytes).samples[track.handler])
        let packets = try samples.map { sample in
            let packet = Array(clear[sample.range])
            return Corpus.Packet(size: packet.count, md5: try packet.withUnsafeBytes { try Corpus.md5($0) })
        }
        let expected = try track.expectedPackets()
        try #require(!expected.isEmpty)
        #expect(packets.count == expected.count)
        let wrong = zip(packets, expected).count { $0 != $1 }
        #expect(wrong == 0, "\(wrong) of \(expected.count) packets differ")
    }

    /// A packager's boxes name the keys of all the files that it wrote at once; this one has one track.
    @Test func boxesSayWhichOfTheirKeysTracksUse() throws {
        let track = try #require(
            Corpus.tracks.first { $0.files.contains { $0.path.hasSuffix("shaka-cbcs-alldrm/video.mp4") } })
        let bytes = try track.bytes()
        var access = ISORandomAccess()
        try access.prepare(0..<16) { offset, count in Array(bytes[Int(offset)...].prefix(count)) }
        let found = access.takeProtections()
        let used = try #require(KeyID(hex: "e05ed5e514fcb6be6716f5633a25f628"))
        #expect(!found.isEmpty && found.allSatisfy { $0.usedKeyIDs == [used] })
        let named = Set(found.flatMap { PSSHBox.readableBoxes(in: $0.box) }.flatMap(\.keyIDs))
        #expect(named.contains(used) && named.count == 2)
    }

    /// A file may have tracks that the case has keys for but does not check.
    private static func keys(of track: Corpus.Track) -> [KeyID: String] {
        Corpus.tracks.filter { $0.files == track.files }.reduce(into: [:]) { keys, other in
            keys.merge(other.keys) { first, _ in first }
        }
    }
}
