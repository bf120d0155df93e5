// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import Testing

extension ElementTests {
    /// Whole files through latchkeyisodec and qtdemux, read anywhere and in order.
    @Suite struct ISODecryptorTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static let corpus = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Tests/Corpus").standardizedFileURL

        private struct Case: Decodable {
            struct Key: Decodable {
                let kid: String
                let key: String
            }
            struct Track: Decodable {
                struct Expected: Decodable { let packets_framemd5: String? }
                let id: String
                let type: String
                let files: [String]
                let keys: [Key]?
                let expected: Expected?
            }
            let tracks: [Track]

            static func named(_ name: String) throws -> Case {
                let url = ISODecryptorTests.corpus.appendingPathComponent("\(name)/case.json")
                return try JSONDecoder().decode(Case.self, from: try Data(contentsOf: url))
            }

            var keys: String { tracks.flatMap { $0.keys ?? [] }.map { "\($0.kid):\($0.key)" }.joined(separator: ",") }
        }

        private static func packets(_ name: String, _ track: Case.Track) throws -> [(size: Int, md5: String)] {
            let file = try #require(track.expected?.packets_framemd5)
            let text = try String(contentsOf: corpus.appendingPathComponent("\(name)/\(file)"), encoding: .utf8)
            return try text.split(separator: "\n").filter { !$0.hasPrefix("#") }.map { line in
                let fields = line.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
                return (try #require(Int(fields[4])), fields[5])
            }
        }

        private static func md5(_ bytes: some Collection<UInt8>) -> String {
            let bytes = Array(bytes)
            guard let text = g_compute_checksum_for_data(G_CHECKSUM_MD5, bytes, gsize(bytes.count)) else { return "" }
            defer { g_free(text) }
            return String(cString: text)
        }

        private static func source(_ path: String, inOrder: Bool, keys: String) -> String {
            "filesrc location=\"\(path)\" \(inOrder ? "! queue " : "")! latchkeyisodec name=dec key-timeout=200 "
                + (keys.isEmpty ? "" : "keys=\(keys) ")
        }

        @Test(
            arguments: [
                "bento4-piff-cbc-ismv", "gpac-cens-progressive", "ffmpeg-cenc-progressive", "bento4-cbcs-muxed",
                "bento4-cenc-piffcompat",
            ], [false, true])
        func packetsAreThoseOfTheCorpus(name: String, inOrder: Bool) throws {
            let item = try Case.named(name)
            let video = try #require(item.tracks.first { $0.type == "video" })
            let path = Self.corpus.appendingPathComponent("\(name)/\(video.files[0])").path
            let playback = try LaunchedPipeline(
                Self.source(path, inOrder: inOrder, keys: item.keys)
                    + "! qtdemux name=d d.video_0 ! queue ! fakesink name=video d.audio_0 ! queue ! fakesink name=audio",
                recorded: ["video", "audio"])
            let end = try playback.play()
            #expect(end.type == "eos", "\(end)")
            for track in item.tracks {
                let expected = try Self.packets(name, track).map(\.md5)
                let found = try #require(playback.recorders[track.type]?.samples).map { Self.md5($0.bytes) }
                // qtdemux leaves priming packets of progressive files out.
                #expect(found.count >= expected.count - 2 && found.count > 90)
                #expect(found == Array(expected.suffix(found.count)) || found == Array(expected.prefix(found.count)))
            }
        }

        /// One presentation at several bit rates: the others are not there for the demuxer, and nobody needs their keys.
        @Test(arguments: ["bento4-piff-cbc-ismv", "bento4-piff-ctr-ismv"], [false, true])
        func ofSeveralVideosTheBestPlays(name: String, inOrder: Bool) throws {
            let item = try Case.named(name)
            let video = try #require(item.tracks.first { $0.type == "video" })
            let key = try #require(video.keys?.first)
            let source = Self.corpus.appendingPathComponent("\(name)/\(video.files[0])")
            let keyID = stride(from: 0, to: 32, by: 2).compactMap {
                UInt8(key.kid.dropFirst($0).prefix(2), radix: 16)
            }
            let file = TwoVideoFile(Array(try Data(contentsOf: source)), keyID: keyID)
            #expect(file.bytes.count > 200_000 && file.bytes.firstRange(of: TwoVideoFile.keyID) != nil)
            // Another run of the tests may be under way.
            let path = FileManager.default.temporaryDirectory.appendingPathComponent("two-\(UUID().uuidString)")
            try Data(file.bytes).write(to: path)
            defer { try? FileManager.default.removeItem(at: path) }
            let playback = try LaunchedPipeline(
                Self.source(path.path, inOrder: inOrder, keys: item.keys)
                    + "! qtdemux name=d d.video_0 ! queue ! fakesink name=video d.audio_0 ! queue ! fakesink name=audio",
                recorded: ["video", "audio"])
            let end = try playback.play()
            #expect(end.type == "eos", "\(end)")
            for track in item.tracks {
                let found = try #require(playback.recorders[track.type]?.samples).map { Self.md5($0.bytes) }
                #expect(try found == Self.packets(name, track).map(\.md5))
            }
        }

        @Test(arguments: [false, true])
        func everyBrokenFileEnds(inOrder: Bool) throws {
            let variants = BrokenInputTests.variants.filter { $0.file.hasSuffix("mp4") || $0.file.hasSuffix("ismv") }
            #expect(variants.count >= 50)
            var errors = 0
            for variant in variants {
                let path = Self.corpus.appendingPathComponent("\(variant.folder)/\(variant.file)").path
                let playback = try LaunchedPipeline(
                    Self.source(path, inOrder: inOrder, keys: variant.keys) + "! qtdemux ! fakesink", recorded: [])
                let end = try playback.play()
                if end.type == "error" {
                    errors += 1
                    #expect(end.source == "dec", "\(variant): \(end)")
                    #expect(
                        [Int(GST_STREAM_ERROR_DECRYPT.rawValue), Int(GST_STREAM_ERROR_DECRYPT_NOKEY.rawValue)]
                            .contains(end.code), "\(variant): \(end)")
                }
            }
            #expect(errors > 25 && errors < variants.count)
        }

        @Test(arguments: [false, true])
        func aMissingKeyIsNamed(inOrder: Bool) throws {
            let name = "bento4-piff-ctr-ismv"
            let item = try Case.named(name)
            let path = Self.corpus.appendingPathComponent("\(name)/\(item.tracks[0].files[0])").path
            let playback = try LaunchedPipeline(
                Self.source(path, inOrder: inOrder, keys: "") + "! qtdemux ! fakesink", recorded: [])
            let end = try playback.play()
            #expect(end.code == Int(GST_STREAM_ERROR_DECRYPT_NOKEY.rawValue), "\(end)")
            #expect(item.tracks.flatMap { $0.keys ?? [] }.contains { end.text.contains($0.kid) }, "\(end)")
        }

        /// As the byte range of a key frame. No buffer from upstream says that something is missing.
        @Test func aFragmentThatIsCutShortIsFollowedByTheNextOne() throws {
            let name = "hls-fmp4-cbcs-fairplay-skd"
            let item = try Case.named(name)
            let video = try #require(item.tracks.first { $0.type == "video" })
            let files = try video.files.prefix(3).map { file in
                Array(try Data(contentsOf: Self.corpus.appendingPathComponent("\(name)/\(file)")))
            }
            let harness = try Harness("latchkeyisodec", [("keys", .string(item.keys))])
            harness.start(caps: "application/x-latchkey-iso")
            for bytes in [files[0], Array(files[1].prefix(files[1].count / 2)), files[2]] {
                #expect(harness.push(bytes) == .ok)
            }
            var clear: [UInt8] = []
            var gaps: [Int] = []
            for sample in harness.output.samples {
                if sample.flags & GST_BUFFER_FLAG_DISCONT.rawValue != 0 { gaps.append(clear.count) }
                clear += sample.bytes
            }
            try #require(clear.count > files[0].count + files[2].count)
            #expect(gaps.filter { $0 > 0 } == [clear.count - files[2].count])
            let last = Array(clear.suffix(files[2].count))
            var place = 0
            while place + 8 < last.count, Array(last[place + 4..<place + 8]) != Array("mdat".utf8) {
                place += max(8, last[place..<place + 4].reduce(0) { $0 << 8 | Int($1) })
            }
            let packets = try Self.packets(name, video)
            let first = packets[packets.count / 4]
            #expect(Self.md5(last.dropFirst(place + 8).prefix(first.size)) == first.md5)
        }

        /// Fragments of Smooth Streaming, as the bin around its demuxer sends them.
        @Test(arguments: [1 << 20, 1000])
        func capsTellHowFragmentsWithoutAMovieAreEncrypted(size: Int) throws {
            let name = "smooth-piff-ctr"
            let item = try Case.named(name)
            let audio = try #require(item.tracks.first { $0.type == "audio" })
            let pair = try #require(audio.keys?.first)
            let harness = try Harness("latchkeyisodec", [("keys", .string("\(pair.kid):\(pair.key)"))])
            harness.start(caps: "application/x-latchkey-iso, variant=mss-fragmented, default-kid=(string)\(pair.kid)")
            var expected = try Self.packets(name, audio)[...]
            for file in audio.files.dropFirst() {
                let bytes = Array(try Data(contentsOf: Self.corpus.appendingPathComponent("\(name)/\(file)")))
                for start in stride(from: 0, to: bytes.count, by: size) {
                    #expect(harness.push(Array(bytes[start..<min(bytes.count, start + size)])) == .ok)
                }
                var clear: [UInt8] = []
                while let part = harness.pull() { clear += part }
                #expect(clear.count == bytes.count)
                let moof = clear[..<4].reduce(0) { $0 << 8 | Int($1) }
                var media = clear[(moof + 8)...]
                var count = 0
                while let packet = expected.first, packet.size <= media.count {
                    #expect(Self.md5(media.prefix(packet.size)) == packet.md5)
                    media = media.dropFirst(packet.size)
                    expected = expected.dropFirst()
                    count += 1
                }
                #expect(count > 0 && media.isEmpty)
            }
            #expect(expected.isEmpty)
            let caps = try #require(harness.output.caps.last)
            #expect(caps.hasPrefix("video/quicktime") && caps.contains("mss-fragmented") && !caps.contains("kid"))
        }
    }
}
