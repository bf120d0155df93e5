// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import LatchkeyProtection
import Testing

@testable import LatchkeyElements
@testable import LatchkeyContainers

extension ElementTests {
    /// The corpus's SAMPLE-AES segments through latchkeytsdec and the stock demuxers and parsers.
    @Suite struct TSDecryptorCorpusTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static let parsers = [
            "h264": "h264parse", "aac": "aacparse", "ac3": "ac3parse", "eac3": "ac3parse",
        ]

        /// What one segment becomes: the bytes on the demuxer's pad, and whether a parser took them to the end.
        private func play(_ item: SampleAESCase, _ track: SampleAESCase.Track, segment index: Int) throws -> [UInt8] {
            let file = track.files[index]
            let parser = try #require(Self.parsers[track.codec])
            // id3demux does not know a type by one frame alone.
            if (try? SampleAESCase.read("\(item.name)/\(file)"))?.count ?? 0 < 512 {
                return try playAlone(item, track, segment: index)
            }
            let demuxer = file.hasSuffix(".ts") ? "tsdemux" : "id3demux"
            let type =
                track.codec == "h264" ? "video/x-h264" : "audio/\(track.codec == "aac" ? "mpeg" : "x-\(track.codec)")"
            let playback = try LaunchedPipeline(
                "filesrc location=\(item.path(file)) ! latchkeytsdec keys=*:\(item.key):\(item.iv(ofSegment: index)) "
                    + "! \(demuxer) ! capsfilter caps=\(type) ! identity name=stream ! \(parser) ! fakesink name=sink",
                recorded: ["stream", "sink"])
            let end = try playback.play()
            #expect(end.type == "eos", "\(file): \(end)")
            // tsdemux 1.22 warns of every E-AC-3 stream.
            let warnings = playback.bus.all().filter {
                $0.type == "warning" && !$0.text.hasPrefix("Assuming ATSC E-AC3")
            }
            #expect(warnings.isEmpty, "\(warnings)")
            #expect(playback.recorders["sink"]?.samples.isEmpty == false)
            return playback.bytes("stream")
        }

        /// Packed audio without a demuxer: the tag off, the rest.
        private func playAlone(
            _ item: SampleAESCase, _ track: SampleAESCase.Track, segment index: Int
        ) throws -> [UInt8] {
            let playback = try LaunchedPipeline(
                "filesrc location=\(item.path(track.files[index])) ! latchkeytsdec "
                    + "keys=*:\(item.key):\(item.iv(ofSegment: index)) ! fakesink name=sink", recorded: ["sink"])
            let end = try playback.play()
            #expect(end.type == "eos", "\(end)")
            return Self.elementaryStream(of: playback.bytes("sink"), codec: track.codec).bytes
        }

        @Test(arguments: SampleAESCase.all)
        func everyPacketIsAsExpected(item: SampleAESCase) throws {
            for track in item.tracks {
                var stream: [UInt8] = []
                for index in track.files.indices { stream += try play(item, track, segment: index) }
                #expect(!track.packets.isEmpty)
                let wrong = track.wrongPackets(in: stream)
                #expect(
                    wrong.isEmpty,
                    "\(track.id): \(wrong.count) of \(track.packets.count) packets differ: \(wrong.prefix(9))")
                #expect(SampleAESCase.md5(stream) == track.elementaryStreamMD5)
            }
        }

        @Test func casesAreFound() { #expect(SampleAESCase.all.count == 9) }

        /// As a player feeds it: every segment behind a note that names its key, one stream.
        @Test(arguments: SampleAESCase.all, [188, 4096, 1 << 20])
        func segmentsBehindNotesAreOneStream(item: SampleAESCase, size: Int) throws {
            for track in item.tracks {
                let harness = try Harness("latchkeytsdec", [("keys", .string("\(Media.keyIDText):\(item.key)"))])
                harness.start(caps: "application/x-latchkey-ts")
                for (index, file) in track.files.enumerated() {
                    let note = SegmentKey(
                        keyID: KeyID(Media.keyID),
                        initializationVector: InitializationVector(Hex.decode(item.iv(ofSegment: index)) ?? []))
                    #expect(harness.push(file.hasSuffix(".ts") ? note.transportStreamPackets() : note.id3Tag()) == .ok)
                    let bytes = try SampleAESCase.read("\(item.name)/\(file)")
                    for start in stride(from: 0, to: bytes.count, by: size) {
                        #expect(harness.push(Array(bytes[start..<min(bytes.count, start + size)])) == .ok)
                    }
                }
                #expect(harness.pushEndOfStream())
                let output = harness.output.samples.flatMap(\.bytes)
                let (stream, isClean) = Self.elementaryStream(of: output, codec: track.codec)
                #expect(isClean)
                #expect(SampleAESCase.md5(stream) == track.elementaryStreamMD5)
                let holdsNote = output.contains("LKSEGKEY")
                #expect(!holdsNote)
                let kind = track.files[0].hasSuffix(".ts") ? "video/mpegts" : "application/x-id3"
                #expect(harness.output.caps.count == 1)
                #expect(harness.output.caps.first?.hasPrefix(kind) == true)
                #expect(
                    harness.output.order.firstIndex(of: "caps") ?? 9 < harness.output.order.firstIndex(of: "segment")
                        ?? 0)
            }
        }

        /// The payloads of one stream type, or packed audio without the tag in front; and whether no packet is missing.
        private static func elementaryStream(of bytes: [UInt8], codec: String) -> (bytes: [UInt8], isClean: Bool) {
            guard bytes.first == 0x47 else {
                // Another tag would be a gap to parsers.
                return (Array(bytes.dropFirst(bytes.withUnsafeBytes { ID3Tag.size(ofTagAt: $0) } ?? 0)), true)
            }
            var stream: [UInt8] = []
            var isClean = bytes.count % 188 == 0
            for start in stride(from: 0, to: bytes.count, by: 188) {
                let packet = Array(bytes[start..<min(start + 188, bytes.count)])
                isClean = isClean && packet[0] == 0x47
                let pid = Int(packet[1] & 0x1F) << 8 | Int(packet[2])
                // Bento4's audio is on 0x101, its video on 0x102; shaka has one stream, on 0x50.
                guard pid == 0x50 || pid == (codec == "h264" ? 0x102 : 0x101), packet[3] & 0x10 != 0 else { continue }
                var payload = packet.dropFirst(packet[3] & 0x20 != 0 ? 5 + Int(packet[4]) : 4)
                if packet[1] & 0x40 != 0 { payload = payload.dropFirst(9 + Int(payload[payload.startIndex + 8])) }
                stream += payload
            }
            return (stream, isClean)
        }
    }
}

extension [UInt8] {
    fileprivate func contains(_ text: String) -> Bool {
        let pattern = Array(text.utf8)
        guard count >= pattern.count else { return false }
        return indices.dropLast(pattern.count - 1).contains {
            self[$0] == pattern[0] && self[$0...].starts(with: pattern)
        }
    }
}
