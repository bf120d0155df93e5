// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyProtection
import Testing

@testable import LatchkeyElements
@testable import LatchkeyContainers

extension ElementTests {
    /// What latchkeytsdec says of a key that is not the samples'. Right keys: `TSDecryptorCorpusTests` has no warning.
    @Suite struct TSDecryptorWrongKeyTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static let wrongKey = [UInt8](repeating: 0x5A, count: 16)

        /// All warnings of a stream that is decrypted with a key under the KID of its note.
        private func warnings(
            _ name: String, _ files: [String], key: [UInt8] = wrongKey, vector: String? = nil, hasNote: Bool = true
        ) throws -> [BusMessage] {
            let item = try #require(SampleAESCase(name))
            let keyID = hasNote ? Media.keyIDText : "*"
            let vector = vector ?? item.iv(ofSegment: 0)
            let harness = try Harness("latchkeytsdec", [("keys", .string("\(keyID):\(Media.hex(key)):\(vector)"))])
            harness.start(caps: "application/x-latchkey-ts")
            for file in files {
                let note = SegmentKey(
                    keyID: KeyID(Media.keyID), initializationVector: InitializationVector(Hex.decode(vector) ?? []))
                if hasNote {
                    #expect(harness.push(file.hasSuffix("ts") ? note.transportStreamPackets() : note.id3Tag()) == .ok)
                }
                #expect(harness.push(try SampleAESCase.read("\(name)/\(file)")) == .ok)
            }
            #expect(harness.pushEndOfStream())
            #expect(!harness.output.samples.isEmpty)
            return harness.bus.all().filter { $0.type == "warning" }
        }

        @Test(arguments: [
            ("hls-ts-sampleaes-3drm-eac3", ["a_1.ts", "a_2.ts", "a_3.ts"]),
            ("hls-ts-sampleaes-skd-ac3", ["a_1.ts", "a_2.ts", "a_3.ts"]),
            ("hls-packed-ac3-sampleaes-skd", ["a_1.ac3", "a_2.ac3"]),
        ])
        func soundWithChecksumsTellsItOnce(name: String, files: [String]) throws {
            let warnings = try warnings(name, files)
            try #require(warnings.count == 1, "\(warnings)")
            #expect(warnings[0].text.contains(Media.keyIDText), "\(warnings[0])")
            #expect(!"\(warnings[0])".contains(Media.hex(Self.wrongKey)))
        }

        @Test func aKeyForEverythingIsCalledSo() throws {
            let warnings = try warnings("hls-ts-sampleaes-skd-ac3", ["a_1.ts"], hasNote: false)
            #expect(warnings.map { $0.text.contains("media without a KID") } == [true], "\(warnings)")
        }

        @Test func theRightKeyIsNotDoubted() throws {
            let item = try #require(SampleAESCase("hls-ts-sampleaes-skd-ac3"))
            let key = try #require(Hex.decode(item.key))
            #expect(try warnings(item.name, ["a_1.ts"], key: key).isEmpty)
        }

        private static let aac = [
            ("hls-ts-sampleaes-skd-aac", ["a_1.ts", "a_2.ts", "a_3.ts", "a_4.ts"]),
            ("hls-packed-aac-sampleaes", ["a_1.aac", "a_2.aac", "a_3.aac", "a_4.aac"]),
        ]

        @Test(arguments: aac)
        func aacTellsItOnceByTheEndsOfItsFrames(name: String, files: [String]) throws {
            let told = try warnings(name, files)
            try #require(told.count == 1, "\(told)")
            #expect(told[0].text.contains(Media.keyIDText) && told[0].text.contains("ends of AAC frames"), "\(told[0])")
            let item = try #require(SampleAESCase(name))
            let right = try #require(Hex.decode(item.key))
            #expect(try warnings(name, files, key: right).isEmpty)
        }

        /// Too little in them tells.
        @Test func shortAACSaysNothing() throws {
            #expect(try warnings("hls-packed-aac-sampleaes", ["a_1.aac"]).isEmpty)
        }

        /// One intra slice is enough at the end, and a wrong IV tells too: it spoils the first block of each slice alone.
        @Test(arguments: ["hls-ts-sampleaes-skd-aac", "hls-ts-sampleaes-skd-ac3"])
        func picturesTellOnceOfTheKeyAndTheIV(name: String) throws {
            let item = try #require(SampleAESCase(name))
            let right = try #require(Hex.decode(item.key))
            for files in [["v_1.ts"], ["v_1.ts", "v_2.ts"]] {
                #expect(try warnings(name, files, key: right).isEmpty)
                let other = String(repeating: "5a", count: 16)
                let told = [try warnings(name, files), try warnings(name, files, key: right, vector: other)]
                for warnings in told {
                    try #require(warnings.count == 1, "\(files): \(warnings)")
                    #expect(warnings[0].text.contains(Media.keyIDText) && warnings[0].text.contains("another IV"))
                    #expect(!"\(warnings[0])".contains(Media.hex(Self.wrongKey)))
                }
            }
        }

        /// A stream that is encrypted says so in its program map; what comes out of the decryptor does not.
        @Test func theFirstPacketsAnnounceIt() throws {
            let item = try #require(SampleAESCase("hls-ts-sampleaes-skd-aac"))
            let harness = try Harness("latchkeytsdec", [("keys", .string("*:\(item.key):\(item.iv(ofSegment: 0))"))])
            harness.start(caps: "application/x-latchkey-ts")
            for file in ["a_1.ts", "v_1.ts"] {
                let bytes = try SampleAESCase.read("\(item.name)/\(file)")
                #expect(bytes.withUnsafeBytes { SampleAESStream.isAnnounced(in: $0) })
                for size in 0..<188 * 2 {
                    #expect(!bytes.prefix(size).withUnsafeBytes { SampleAESStream.isAnnounced(in: $0) } || size >= 188)
                }
                #expect(harness.push(bytes) == .ok)
            }
            #expect(harness.pushEndOfStream())
            let clear = harness.output.samples.flatMap(\.bytes)
            #expect(clear.count > 376 && !clear.withUnsafeBytes { SampleAESStream.isAnnounced(in: $0) })
            for _ in 0..<500 {
                var noise = (0..<188 * 4).map { _ in UInt8.random(in: 0...255) }
                for start in stride(from: 0, to: noise.count, by: 188) { noise[start] = 0x47 }
                #expect(!noise.withUnsafeBytes { SampleAESStream.isAnnounced(in: $0) })
            }
        }

        /// An ADTS frame that ends so: behind the header, the clear part and so many bytes.
        private func frame(_ size: Int, end: [UInt8]) -> [UInt8] {
            let total = 7 + 16 + size
            let header: [UInt8] = [
                0xFF, 0xF1, 0x50, 0x80 | UInt8(total >> 11), UInt8(total >> 3 & 255), UInt8(total & 7) << 5 | 0x1F,
                0xFC,
            ]
            return header + [UInt8](repeating: 0x11, count: 16 + size - end.count) + end
        }

        /// After how many of these frames a key is called a wrong one; nil: never.
        private func told(_ frames: [[UInt8]]) -> Int? {
            var doubt = KeyDoubt()
            let reasons = frames.map { frame in
                doubt.isOpen(for: nil) ? frame.withUnsafeBytes { doubt.reason(by: $0) } : nil
            }
            #expect(reasons.count { $0 != nil } <= 1)
            return reasons.firstIndex { $0 != nil }.map { $0 + 1 }
        }

        @Test func endsTellOnlyWhereClearOnesKeepTheRule() {
            let clear = [[UInt8]](repeating: frame(40, end: [0x01, 0xC0]), count: KeyDoubt.clearLimit)
            let wrong = frame(32, end: [0x12, 0x34])
            let right = frame(32, end: [0x03, 0x80])
            let limit = KeyDoubt.endLimit
            let wrongs = [[UInt8]](repeating: wrong, count: 40)
            #expect(told(clear + wrongs) == clear.count + limit)
            #expect(told(clear + Array(wrongs.prefix(limit - 1))) == nil)
            #expect(told(Array(clear.dropLast()) + wrongs) == nil)
            #expect(told(wrongs + clear) == wrongs.count + clear.count)
            // Padding behind the end: nothing can be told.
            #expect(told(clear + [frame(40, end: [0xE0, 0])] + wrongs) == nil)
            // No fewer than the right ones; and right ones alone settle it.
            #expect(told(clear + [right, right, right] + wrongs) == clear.count + 3 + limit)
            #expect(told(clear + [wrong] + [[UInt8]](repeating: right, count: 9) + wrongs) == clear.count + 1 + 9 + 8)
            #expect(told(clear + [[UInt8]](repeating: right, count: limit) + wrongs) == nil)
            // One byte behind the last block: the three bits may have been encrypted.
            #expect(told(clear + [frame(33, end: [0x12, 0x34])] + wrongs) == clear.count + 1 + limit)
        }

        @Test func oneRightFrameSettlesIt() throws {
            let clear: [UInt8] = try clearAC3()
            let size = try #require(
                clear.withUnsafeBytes { bytes -> Int? in
                    guard case .frame(let frame) = AudioFrame.read(bytes, at: 0) else { return nil }
                    return frame.size
                })
            var broken = Array(clear.prefix(size))
            broken[size / 2] ^= 1
            let good = Array(clear.prefix(size))

            func confirmed(_ frames: [[UInt8]]) -> [Bool] {
                var doubt = KeyDoubt()
                return frames.map { frame in
                    doubt.isOpen(for: nil) && frame.withUnsafeBytes { doubt.reason(by: $0) != nil }
                }
            }
            let limit = KeyDoubt.frameLimit
            #expect(confirmed([good] + Array(repeating: broken, count: 2 * limit)).allSatisfy { !$0 })
            #expect(confirmed(Array(repeating: broken, count: limit - 1) + [good, broken]).allSatisfy { !$0 })
            let all = confirmed(Array(repeating: broken, count: 2 * limit))
            #expect(all.firstIndex(of: true) == limit - 1 && all.count { $0 } == 1)
            // Another key is looked at anew.
            var doubt = KeyDoubt()
            let many = Array(repeatElement(broken, count: limit).joined())
            for keyID in [nil, KeyID(Media.keyID)] {
                let wasOpen = doubt.isOpen(for: keyID)
                let isConfirmed = many.withUnsafeBytes { doubt.reason(by: $0) != nil }
                let isOpen = doubt.isOpen(for: keyID)
                #expect(wasOpen && isConfirmed && !isOpen)
            }
        }

        private func clearAC3() throws -> [UInt8] {
            let item = try #require(SampleAESCase("hls-packed-ac3-sampleaes-skd"))
            let harness = try Harness("latchkeytsdec", [("keys", .string("*:\(item.key):\(item.iv(ofSegment: 0))"))])
            harness.start(caps: "application/x-latchkey-ts")
            #expect(harness.push(try SampleAESCase.read("\(item.name)/a_1.ac3")) == .ok)
            #expect(harness.pushEndOfStream())
            let bytes = harness.output.samples.flatMap(\.bytes)
            let start = try #require(bytes.indices.first { bytes[$0...].starts(with: [0x0B, 0x77]) })
            return Array(bytes[start...])
        }
    }
}
