// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyProtection
import Testing

@testable import LatchkeyContainers

/// Every segment of the corpus, against what independent tools made of it.
@Suite struct CorpusTests {
    @Test func tracksAreFound() {
        #expect(Corpus.tracks.count == 17, "found \(Corpus.tracks.map(\.name)) in \(Corpus.folder)")
    }

    @Test(arguments: Corpus.tracks)
    func elementaryStreamsEqualThoseOfTheCorpus(track: Corpus.Track) throws {
        var clear: [UInt8] = []
        for (index, file) in track.files.enumerated() {
            let bytes = Array(try Data(contentsOf: file))
            var decryption = try Decryption(key: track.key, iv: track.iv(ofSegment: index))
            try decryption.append(bytes)
            try decryption.end()
            let output = decryption.takeOutput()
            if file.pathExtension == "ts" {
                #expect(decryption.stream.output == .transportStream)
                clear += try elementaryStream(of: output, comparedWith: bytes, codec: track.codec)
            } else {
                #expect(decryption.stream.output == .id3)
                clear += try audio(of: output)
            }
            #expect(decryption.units > 0)
        }
        #expect(try Corpus.md5(clear) == track.elementaryStreamMD5)
        try expectPackets(of: track, in: clear)
    }

    /// Any size of the pieces gives the same packets.
    @Test(arguments: Corpus.tracks)
    func piecesDoNotMatter(track: Corpus.Track) throws {
        let bytes = Array(try Data(contentsOf: track.files[0]))
        var whole = try Decryption(key: track.key, iv: track.iv(ofSegment: 0))
        try whole.append(bytes)
        try whole.end()
        let expected = whole.takeOutput()
        for size in [1, 7, 187, 188, 189, 4096, 65_536] {
            var decryption = try Decryption(key: track.key, iv: track.iv(ofSegment: 0))
            try decryption.append(bytes, inPiecesOf: size)
            try decryption.end()
            #expect(decryption.takeOutput() == expected, "pieces of \(size)")
        }
    }

    private func elementaryStream(of output: [UInt8], comparedWith bytes: [UInt8], codec: String) throws -> [UInt8] {
        let (after, before) = (Demultiplexer(output), Demultiplexer(bytes))
        #expect(after.complaints.isEmpty, "\(after.complaints.prefix(5))")
        // The packets are where they were, with their clocks.
        #expect(after.pids == before.pids)
        #expect(after.clocks == before.clocks)
        let types: [String: UInt8] = ["h264": 0x1B, "aac": 0x0F, "ac3": 0x81, "eac3": 0x87]
        let type = try #require(types[codec])
        let stream = try #require(after.streams.first { $0.type == type })
        for stream in after.streams {
            let text = String(decoding: stream.descriptors, as: UTF8.self)
            for mark in ["zavc", "aacd", "ac3d", "ec3d", "apad"] { #expect(!text.contains(mark)) }
        }
        return after.elementaryStream(stream.pid)
    }

    /// Behind the tag, which keeps the timestamp and nothing about the encryption.
    private func audio(of output: [UInt8]) throws -> [UInt8] {
        let tag = try ID3Tag(output)
        #expect(tag.frames.count == 1)
        let timestamp = tag.frames.first?.data(owner: "com.apple.streaming.transportStreamTimestamp")
        #expect(timestamp?.count == 8)
        return Array(output.dropFirst(tag.bytes.count))
    }

    private func expectPackets(of track: Corpus.Track, in stream: [UInt8]) throws {
        var offset = 0
        var wrong: [Int] = []
        let packets = try track.expectedPackets()
        try #require(!packets.isEmpty)
        for (index, packet) in packets.enumerated() {
            let end = min(stream.count, offset + packet.size)
            if try Corpus.md5(stream[offset..<end]) != packet.md5 { wrong.append(index) }
            offset = end
        }
        #expect(offset == stream.count)
        #expect(wrong.isEmpty, "\(wrong.count) of \(packets.count) packets differ")
    }
}
