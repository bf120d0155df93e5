// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import Testing

extension ElementTests {
    /// Every broken file of the corpus that a stock demuxer can meet: an error or the end, in time, and no sample that
    /// was made with a wrong key.
    @Suite struct BrokenInputTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        /// The corpus, beside this folder's package.
        private static let corpus = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Tests/Corpus").standardizedFileURL

        private static let cases = [
            "broken-ffmpeg51-fragmented-noaux", "broken-mp4-cbcs", "broken-mp4-playready-object", "broken-mp4-pssh",
            "broken-mp4-saiz-saio", "broken-mp4-seig", "broken-mp4-senc", "broken-mp4-tenc-sinf",
            "broken-mp4-truncated",
            "broken-mpd-contentprotection", "broken-piff", "broken-webm",
        ]

        /// Unbroken cases of the same sources: what a right sample is.
        private static let references = ["bento4-cenc-muxed", "shaka-cenc-iv8-h264-aac", "webm-vp9-opus-cenc"]

        /// Files that describe another encryption than was used, validly: the right key gives other bytes, and nothing
        /// in the file shows it.
        private static let misleading: [String: String] = [
            "broken-mp4-cbcs/pattern-0-0-video.mp4": "the pattern says all blocks, one in ten is encrypted",
            "broken-mp4-cbcs/pattern-15-15.mp4": "the pattern is a valid one, and not the one that was used",
            "broken-mp4-saiz-saio/saiz-entries-3.mp4": "qtdemux reads IVs out of entries that are too small for them",
            "broken-mp4-truncated/zero-length-sample.mp4": "the samples behind the empty one are other bytes",
        ]

        /// A file that qtdemux reads for minutes from GStreamer 1.26 on, without looking whether it is to stop: `sbgp`
        /// says 2³²−1 samples, and each one's group is looked up and refused.
        private static let endless = "broken-mp4-seig/sbgp-samplecount-ffffffff.mp4"

        struct CaseFile: Decodable {
            struct Key: Decodable {
                let kid: String
                let key: String
            }
            struct Variant: Decodable {
                let file: String
            }
            let keys: [Key]
            let variants: [Variant]
        }

        struct Variant: Sendable, CustomTestStringConvertible {
            let folder: String
            let file: String
            let keys: String
            var testDescription: String { "\(folder)/\(file)" }
        }

        static let variants: [Variant] = cases.flatMap { folder -> [Variant] in
            let file = corpus.appendingPathComponent("\(folder)/case.json")
            guard let data = try? Data(contentsOf: file),
                let read = try? JSONDecoder().decode(CaseFile.self, from: data)
            else { return [] }
            let keys = read.keys.map { "\($0.kid):\($0.key)" }.joined(separator: ",")
            return read.variants.map { Variant(folder: folder, file: $0.file, keys: keys) }
        }

        private static let expected: Set<String> = Set(
            references.flatMap { name in
                ["video", "audio"].flatMap { track -> [String] in
                    let file = corpus.appendingPathComponent("\(name)/expect/\(track).packets.framemd5")
                    guard let text = try? String(contentsOf: file, encoding: .utf8) else { return [] }
                    return text.split(separator: "\n").filter { !$0.hasPrefix("#") }.compactMap {
                        $0.split(separator: ",").last.map { $0.trimmingCharacters(in: .whitespaces) }
                    }
                }
            })

        /// What came of one file.
        struct Outcome {
            var line: String
            var wrong = 0
        }

        private func play(_ variant: Variant) throws -> Outcome {
            let path = Self.corpus.appendingPathComponent("\(variant.folder)/\(variant.file)").path
            let demuxer =
                switch path.split(separator: ".").last {
                case "webm": "matroskademux"
                case "mpd": "dashdemux"
                default: "qtdemux"
                }
            let playback = try FilePlayback(
                path, demuxer: demuxer, properties: [("keys", .string(variant.keys)), ("key-timeout", .uint(90))])
            playback.setState(GST_STATE_PLAYING)
            let end = try playback.waitForEnd()
            playback.setState(GST_STATE_NULL)
            var outcome = Outcome(line: "\(variant.testDescription): ")
            if end.type == "eos" {
                outcome.line += "eos"
            } else {
                let source = end.source.prefix { !$0.isNumber }
                // The time that a wait took differs, and whether the loaders were asked before it was over.
                let text = end.text.replacing(#/ in \d+ ms/#, with: "").replacing(
                    "timed out: no answer",
                    with: "no loader: no key source has it, and the application gave no answer")
                outcome.line += "\(end.name) \(end.code) from \(source): \(text)"
            }
            for track in playback.tracks {
                let (inputs, outputs) = (track.input.samples, track.output.samples)
                var counts = (right: 0, clear: 0, unchanged: 0, wrong: 0)
                for (input, output) in zip(inputs, outputs) {
                    #expect(!output.hasProtection)
                    #expect(input.presentationTime == output.presentationTime)
                    if !input.hasProtection {
                        let isSame = input.bytes == output.bytes
                        #expect(isSame, "\(variant.testDescription): a clear sample was changed")
                        counts.clear += 1
                    } else if Self.expected.contains(Self.md5(output.bytes)) {
                        counts.right += 1
                    } else if input.bytes == output.bytes {
                        counts.unchanged += 1
                    } else {
                        counts.wrong += 1
                    }
                }
                #expect(outputs.count <= inputs.count)
                outcome.line += "; \(track.name.prefix { $0 != "_" }) \(counts.right) right"
                if counts.clear > 0 { outcome.line += ", \(counts.clear) passed as clear" }
                if counts.unchanged > 0 { outcome.line += ", \(counts.unchanged) marked, not encrypted" }
                if counts.wrong > 0 { outcome.line += ", \(counts.wrong) other" }
                outcome.wrong += counts.wrong
            }
            return outcome
        }

        /// Plays a file with stock elements alone, in a process of its own.
        ///
        /// - Parameter limit: The processor time that it may take, in seconds.
        /// - Returns: Whether it took all of that time.
        private func playStockAlone(_ variant: Variant, limit: Int) throws -> Bool {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            process.arguments = [
                "-c",
                "ulimit -c 0; ulimit -t \(limit); exec gst-launch-1.0 filesrc location=\"$0\" ! qtdemux ! fakesink",
                Self.corpus.appendingPathComponent(variant.testDescription).path,
            ]
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            return process.terminationReason == .uncaughtSignal
                && [SIGXCPU, SIGKILL].contains(process.terminationStatus)
        }

        private static func md5(_ bytes: [UInt8]) -> String {
            guard let text = g_compute_checksum_for_data(G_CHECKSUM_MD5, bytes, gsize(bytes.count)) else { return "" }
            defer { g_free(text) }
            return String(cString: text)
        }

        @Test func everyBrokenFileEndsAsRecorded() throws {
            #expect(Self.variants.count >= 60, "the corpus is not there")
            #expect(Self.expected.count > 200)
            let version = Environment.gstreamerVersion
            let isEndless = version.major == 1 && version.minor >= 26
            var lines: [String] = []
            for variant in Self.variants {
                if isEndless && variant.testDescription == Self.endless {
                    let usedUp = try playStockAlone(variant, limit: 3)
                    #expect(usedUp, "stock qtdemux ends here by now: the file can be played again")
                    continue
                }
                let outcome = try play(variant)
                lines.append(outcome.line)
                if outcome.wrong > 0 {
                    #expect(
                        Self.misleading[variant.testDescription] != nil,
                        "a wrong key or IV was used silently: \(outcome.line)")
                } else {
                    #expect(Self.misleading[variant.testDescription] == nil, "not misleading any more")
                }
            }
            let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appendingPathComponent("../Golden/broken-inputs-\(version.major).\(version.minor).txt")
                .standardizedFileURL
            let table = lines.joined(separator: "\n") + "\n"
            if getenv("LATCHKEY_UPDATE_GOLDEN") != nil { try table.write(to: file, atomically: true, encoding: .utf8) }
            let recorded = try? String(contentsOf: file, encoding: .utf8)
            let known = Set((recorded ?? "").split(separator: "\n").map(String.init))
            for line in lines {
                #expect(
                    known.contains(line),
                    "\(line): not as in \(file.lastPathComponent); LATCHKEY_UPDATE_GOLDEN=1 records it")
            }
            #expect(known.count == lines.count)
        }
    }
}
