// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyElements
@testable import LatchkeyContainers

extension ElementTests {
    /// The corpus's broken transport streams and packed audio: what is whole comes out right, what is not is left out
    /// or named.
    @Suite struct TSDecryptorBrokenTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static let keys = "keys=*:c685730e9039aa683a2b62218280f4c1:00000000000000000000000000000000"

        /// How a file ends, and how many NAL units and AAC frames are right, and how many others there are.
        struct Outcome: Sendable, CustomTestStringConvertible {
            var file: String
            var end = "eos"
            var units = (right: 78, other: 0)
            var frames = (right: 47, other: 0)
            var testDescription: String { file }
        }

        /// From GStreamer 1.28 on, tsdemux drops the packetized elementary stream packet in which packets are missing; before,
        /// what came of it goes on.
        private static let dropsWhatIsIncomplete = Environment.gstreamerVersion.minor >= 28

        static let outcomes: [Outcome] = [
            Outcome(file: "pmt-no-descriptors"),
            // Two headers were changed in each.
            Outcome(file: "adts-length-0", frames: (45, 2)), Outcome(file: "adts-length-8191", frames: (45, 2)),
            // Without its first packet the stream has no program association.
            Outcome(file: "cut-first-packet", end: "no program map that can be read", units: (0, 0), frames: (0, 0)),
            Outcome(file: "cut-mid-packet", units: (40, 1), frames: (23, 0)),
            dropsWhatIsIncomplete
                ? Outcome(file: "gap-12-packets", units: (66, 0), frames: (42, 0))
                : Outcome(file: "gap-12-packets", units: (70, 1), frames: (43, 0)),
            Outcome(file: "pes-header-length-255", units: (69, 3)),
            Outcome(file: "pes-startcode-broken", units: (dropsWhatIsIncomplete ? 69 : 75, 0)),
            // Without a note, what the stream calls clear is not touched.
            Outcome(file: "pmt-cleartypes", units: (28, 50), frames: (0, 47)),
            // The table is not one, and there is no other.
            Outcome(file: "pmt-crc-wrong", end: "no program map that can be read", units: (0, 0), frames: (0, 0)),
            dropsWhatIsIncomplete
                ? Outcome(file: "sync-lost", units: (66, 0), frames: (42, 0))
                : Outcome(file: "sync-lost", units: (72, 0), frames: (43, 1)),
        ]

        private func play(_ file: String) throws -> (end: BusMessage, video: [UInt8], audio: [[UInt8]]) {
            try play(path: SampleAESCase.folder.appendingPathComponent("broken-ts/\(file).ts").path, Self.keys)
        }

        private func play(
            path: String, _ keys: String
        ) throws -> (end: BusMessage, video: [UInt8], audio: [[UInt8]]) {
            // Filters that are there from the start: one that the parser of the description makes for a pad that comes
            // while the pipeline stops is freed while it plays.
            let playback = try LaunchedPipeline(
                "filesrc location=\(path) ! latchkeytsdec \(keys) ! tsdemux name=d "
                    + "d. ! capsfilter caps=video/x-h264 ! queue ! "
                    + "fakesink name=video async=false d. ! capsfilter caps=audio/mpeg ! queue ! "
                    + "fakesink name=audio async=false",
                recorded: ["video", "audio"])
            return (
                try playback.play(), playback.bytes("video"), playback.recorders["audio"]?.samples.map(\.bytes) ?? []
            )
        }

        private static func nalUnits(_ bytes: [UInt8]) -> [[UInt8]] {
            var starts: [Int] = []
            var index = 0
            while index + 2 < bytes.count {
                if bytes[index] == 0, bytes[index + 1] == 0, bytes[index + 2] == 1 { starts.append(index + 3) }
                index += 1
            }
            return starts.enumerated().map { number, start in
                var end = number + 1 < starts.count ? starts[number + 1] - 3 : bytes.count
                while end > start, bytes[end - 1] == 0 { end -= 1 }
                return Array(bytes[start..<end])
            }
        }

        private static func frames(_ bytes: [UInt8]) -> [[UInt8]] {
            bytes.withUnsafeBytes { bytes in
                var frames: [[UInt8]] = []
                var offset = 0
                var isLost = false
                while offset < bytes.count {
                    if case .frame(let frame) = AudioFrame.read(bytes, at: offset, isLost: isLost, isEnd: true) {
                        frames.append(Array(bytes[offset..<min(bytes.count, offset + frame.size)]))
                        offset += frame.size
                        isLost = false
                    } else {
                        if !isLost { frames.append([]) }
                        isLost = true
                        offset += 1
                    }
                }
                return frames
            }
        }

        @Test(arguments: outcomes)
        func whatIsWholeComesOutRight(expected: Outcome) throws {
            let whole = try play("pmt-no-descriptors")
            // As the exact reference decryptor has them.
            #expect(SampleAESCase.md5(whole.video) == "d40da8c1d4ad551de6d6c7b1d3a26339")
            #expect(SampleAESCase.md5(whole.audio.flatMap(\.self)) == "5fed8d526e6425b4c9308770317236a7")
            let (units, frames) = (Set(Self.nalUnits(whole.video)), Set(whole.audio.flatMap(Self.frames)))
            let outcome = try play(expected.file)
            let end = outcome.end.type == "eos" ? "eos" : outcome.end.text + outcome.end.debug
            #expect(end.contains(expected.end), "\(outcome.end)")
            let found = (Self.nalUnits(outcome.video), outcome.audio.flatMap(Self.frames))
            let right = (found.0.count { units.contains($0) }, found.1.count { frames.contains($0) })
            #expect(right == (expected.units.right, expected.frames.right))
            #expect((found.0.count - right.0, found.1.count - right.1) == (expected.units.other, expected.frames.other))
        }

        /// What `bytes` become behind a note that says that they are encrypted, with this key.
        private func playNoted(
            _ bytes: [UInt8], key: String
        ) throws -> (end: BusMessage, video: [UInt8], audio: [[UInt8]]) {
            let note = SegmentKey(
                keyID: KeyID(Media.keyID), initializationVector: InitializationVector(high: 0, low: 0))
            let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).ts")
            defer { try? FileManager.default.removeItem(at: path) }
            try Data(note.transportStreamPackets() + bytes).write(to: path)
            let vector = String(repeating: "0", count: 32)
            return try play(path: path.path, "keys=\(Media.keyIDText):\(key):\(vector)")
        }

        /// Packagers leave the stream types as they were. The note has it from the playlist.
        @Test func clearTypesUnderANoteAreDecrypted() throws {
            let whole = try play("pmt-no-descriptors")
            let found = try playNoted(try SampleAESCase.read("broken-ts/pmt-cleartypes.ts"), key: Self.wholeKey)
            #expect(found.end.type == "eos", "\(found.end)")
            #expect(found.video == whole.video && found.audio == whole.audio)
        }

        /// The stream with other types in its program maps, which have no adaptation fields.
        private static func typed(_ bytes: [UInt8], _ types: [UInt8: UInt8]) -> [UInt8] {
            var bytes = bytes
            for start in stride(from: 0, to: bytes.count - 187, by: 188)
            where bytes[start + 1] & 0x40 != 0 && bytes[start + 4] == 0 && bytes[start + 5] == 2 {
                func size(_ at: Int) -> Int { Int(bytes[at] & 0x0F) << 8 | Int(bytes[at + 1]) }
                let section = start + 5
                let end = section + 3 + size(section + 1) - 4
                var at = section + 12 + size(section + 10)
                while at + 5 <= end {
                    bytes[at] = types[bytes[at]] ?? bytes[at]
                    at += 5 + size(at + 3)
                }
                bytes.replaceSubrange(end..<end + 4, with: CRC32.checksum(bytes[section..<end]).bigEndianBytes)
            }
            return bytes
        }

        private static let wholeKey = "c685730e9039aa683a2b62218280f4c1"

        /// Nobody encrypts the sound alone.
        @Test func picturesThatAreCalledClearBesideSoundAreDecrypted() throws {
            let whole = try play("pmt-no-descriptors")
            let bytes = Self.typed(try SampleAESCase.read("broken-ts/pmt-no-descriptors.ts"), [0xDB: 0x1B])
            let found = try playNoted(bytes, key: Self.wholeKey)
            #expect(found.end.type == "eos", "\(found.end)")
            #expect(found.video == whole.video && found.audio == whole.audio)
        }

        @Test func clearSoundBesideEncryptedPicturesGoesOn() throws {
            let whole = try play("pmt-no-descriptors")
            let bytes = try SampleAESCase.read("broken-ts/pmt-no-descriptors.ts")
            let vector = String(repeating: "0", count: 32)
            let clear = try Harness("latchkeytsdec", [("keys", .string("*:\(Self.wholeKey):\(vector)"))])
            clear.start(caps: "application/x-latchkey-ts")
            #expect(clear.push(bytes) == .ok)
            #expect(clear.pushEndOfStream())
            let output = clear.output.samples.flatMap(\.bytes)
            try #require(output.count == bytes.count)
            var mixed = Self.typed(bytes, [0xCF: 0x0F])
            // Of the PID of the sound.
            for start in stride(from: 0, to: mixed.count - 187, by: 188)
            where mixed[start + 1] & 0x1F == 1 && mixed[start + 2] == 1 {
                mixed.replaceSubrange(start..<start + 188, with: output[start..<start + 188])
            }
            let found = try playNoted(mixed, key: Self.wholeKey)
            #expect(found.end.type == "eos", "\(found.end)")
            #expect(found.video == whole.video && found.audio == whole.audio)
        }

        /// No noise with a good end.
        @Test func soundThatIsCalledClearAndIsNotIsAnError() throws {
            let bytes = try (0..<4).flatMap { number in
                Self.typed(
                    try SampleAESCase.read("hls-ts-muxed-sampleaes-bento4/segment-\(number).ts"), [0xCF: 0x0F])
            }
            let found = try playNoted(bytes, key: "128a85ec696ff60d0cf5cc1b6e1a4805")
            #expect(found.end.type == "error" && found.end.text.contains("it is not"), "\(found.end)")
        }

        /// Samples that are not encrypted: no noise with a good end.
        @Test func clearSamplesUnderANoteAreAnError() throws {
            let item = try #require(SampleAESCase("hls-ts-sampleaes-skd-ac3"))
            let vector = item.iv(ofSegment: 0)
            let clear = try Harness("latchkeytsdec", [("keys", .string("*:\(item.key):\(vector)"))])
            clear.start(caps: "application/x-latchkey-ts")
            #expect(clear.push(try SampleAESCase.read("hls-ts-sampleaes-skd-ac3/a_1.ts")) == .ok)
            #expect(clear.pushEndOfStream())
            let harness = try Harness("latchkeytsdec", [("keys", .string("\(Media.keyIDText):\(item.key):\(vector)"))])
            harness.start(caps: "application/x-latchkey-ts")
            let note = SegmentKey(
                keyID: KeyID(Media.keyID), initializationVector: InitializationVector(Hex.decode(vector) ?? []))
            #expect(harness.push(note.transportStreamPackets()) == .ok)
            _ = harness.push(clear.output.samples.flatMap(\.bytes))
            _ = harness.pushEndOfStream()
            let error = try harness.bus.next { $0.type == "error" }
            #expect(error.code == Int(GST_STREAM_ERROR_DECRYPT.rawValue) && error.text.contains("no media"), "\(error)")
        }

        /// Pictures alone have nothing that tells, but for the emulation prevention that encryption escapes.
        @Test func clearPicturesUnderANoteAreAnError() throws {
            let (key, vector) = ("0f1e2d3c4b5a69788796a5b4c3d2e1f0", "00112233445566778899aabbccddeeff")
            let encrypted = try SampleAESCase.read("hls-ts-sampleaes-captions/v_1.ts")
            let plain = try Harness("latchkeytsdec", [("keys", .string("*:\(key):\(vector)"))])
            plain.start(caps: "application/x-latchkey-ts")
            #expect(plain.push(encrypted) == .ok)
            #expect(plain.pushEndOfStream())
            let clear = plain.output.samples.flatMap(\.bytes)
            let note = SegmentKey(
                keyID: KeyID(Media.keyID), initializationVector: InitializationVector(Hex.decode(vector) ?? []))
            for isEncrypted in [true, false] {
                let harness = try Harness("latchkeytsdec", [("keys", .string("\(Media.keyIDText):\(key):\(vector)"))])
                harness.start(caps: "application/x-latchkey-ts")
                #expect(harness.push(note.transportStreamPackets()) == .ok)
                _ = harness.push(isEncrypted ? Self.typed(encrypted, [0xDB: 0x1B]) : clear)
                _ = harness.pushEndOfStream()
                if isEncrypted {
                    #expect(!harness.bus.all().contains { $0.type == "error" })
                    let found = Self.pictures(harness.output.samples.flatMap(\.bytes))
                    #expect(!found.isEmpty && found == Self.pictures(clear))
                } else {
                    let error = try harness.bus.nextError()
                    #expect(error.text.contains("the pictures show"), "\(error)")
                }
            }
        }

        /// The packets of pictures, which are of the PID whose units have that stream ID.
        private static func pictures(_ bytes: [UInt8]) -> [UInt8] {
            let starts = stride(from: 0, to: bytes.count - 187, by: 188)
            func identifier(_ start: Int) -> [UInt8] { [bytes[start + 1] & 0x1F, bytes[start + 2]] }
            let first = starts.first { start in
                let packet = bytes[start..<start + 188]
                return packet[start + 1] & 0x40 != 0 && packet.firstRange(of: [0, 0, 1, 0xE0]) != nil
            }
            guard let wanted = first.map(identifier) else { return [] }
            return starts.filter { identifier($0) == wanted }.flatMap { bytes[$0..<$0 + 188] }
        }

        static let packed: [(file: String, end: String, size: Int, right: Int)] = [
            ("no-id3", "eos", 8517, 47), ("cut-mid-frame", "eos", 1073, 4),
            ("id3-size-max", "ID3 tag: 268435465 bytes", 0, 0),
        ]

        @Test(arguments: packed)
        func packedAudio(file: String, end: String, size: Int, right: Int) throws {
            let path = SampleAESCase.folder.appendingPathComponent("broken-packed-audio/\(file).aac").path
            let playback = try LaunchedPipeline(
                "filesrc location=\(path) ! latchkeytsdec \(Self.keys) ! fakesink name=sink", recorded: ["sink"])
            let message = try playback.play()
            #expect((message.type == "eos" ? "eos" : message.text).contains(end), "\(message)")
            let bytes = playback.bytes("sink")
            #expect(bytes.count == size)
            let clear = Set(try play("pmt-no-descriptors").audio.flatMap(Self.frames))
            let audio = file == "cut-mid-frame" ? Array(bytes.drop { $0 != 0xFF }) : bytes
            #expect(Self.frames(audio).count { clear.contains($0) } == right)
        }

        /// Changed bytes, in pieces, through the element: an end or a named error, and no warning of GStreamer's.
        @Test(arguments: 0..<60)
        func changedBytesEnd(seed: Int) throws {
            var random = SeededGenerator(seed: UInt64(seed))
            let files = ["hls-ts-muxed-sampleaes-bento4/segment-3.ts", "hls-packed-ac3-sampleaes-skd/a_5.ac3"]
            let bytes = random.mutate(try SampleAESCase.read(files[seed % 2]))
            let harness = try Harness(
                "latchkeytsdec", [("keys", .string("*:128a85ec696ff60d0cf5cc1b6e1a4805:\(Media.hex(Media.vector16))"))])
            harness.start(caps: "application/x-latchkey-ts")
            let size = Int.random(in: 1...9000, using: &random)
            for start in stride(from: 0, to: bytes.count, by: size) {
                guard harness.push(Array(bytes[start..<min(bytes.count, start + size)])) == .ok else { break }
            }
            _ = harness.pushEndOfStream()
            #expect(harness.output.wait(event: "eos") || harness.bus.all().contains { $0.type == "error" })
            #expect(harness.output.samples.reduce(0) { $0 + $1.bytes.count } <= bytes.count)
        }
    }
}
