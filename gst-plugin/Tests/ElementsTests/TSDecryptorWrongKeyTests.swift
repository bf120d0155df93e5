// SPDX-License-Identifier: MPL-2.0

import ElementKit
import ElementTestSupport
import Latchkey
import ProtectionModel
import Testing

@testable import Elements
@testable import MediaFormats

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
            _ name: String, _ files: [String], key: [UInt8] = wrongKey, hasNote: Bool = true
        ) throws -> [BusMessage] {
            let item = try #require(SampleAESCase(name))
            let keyID = hasNote ? Media.keyIDText : "*"
            let vector = item.iv(ofSegment: 0)
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

        /// Nothing in them tells.
        @Test func pictureAndAACSayNothing() throws {
            #expect(try warnings("hls-ts-sampleaes-skd-aac", ["v_1.ts"]).isEmpty)
            #expect(try warnings("hls-packed-aac-sampleaes", ["a_1.aac"]).isEmpty)
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
                    doubt.isOpen(for: nil) && frame.withUnsafeBytes { doubt.isConfirmed(by: $0) }
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
                let isConfirmed = many.withUnsafeBytes { doubt.isConfirmed(by: $0) }
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
