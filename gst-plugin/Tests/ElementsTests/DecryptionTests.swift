// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyProtection
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// The bytes, and what else of a sample must stay.
    @Suite struct DecryptionTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        struct Vector: CustomTestStringConvertible, Sendable {
            let scheme: ProtectionScheme
            let vector: [UInt8]
            let pattern: (crypt: Int, skip: Int)
            let subsamples: [(clear: Int, protected: Int)]
            let size: Int

            var testDescription: String {
                "\(scheme) iv \(vector.count) \(pattern.crypt):\(pattern.skip) \(subsamples.count) subsamples \(size)"
            }
        }

        /// Every scheme with every shape that it can have.
        static let vectors: [Vector] = {
            let maps: [(size: Int, subsamples: [(clear: Int, protected: Int)])] = [
                (1, []), (15, []), (16, []), (17, []), (160, []), (1000, []), (5000, []),
                (100, [(100, 0)]), (100, [(0, 100)]), (100, [(5, 95)]), (100, [(5, 64), (31, 0)]),
                (1000, [(7, 160), (9, 33), (0, 15), (10, 700), (66, 0)]),
                (70_000, [(65_535, 0), (1, 4464)]),
                (3000, (0..<100).map { _ in (clear: 3, protected: 27) }),
            ]
            let patterns: [ProtectionScheme: [(crypt: Int, skip: Int)]] = [
                .cenc: [(0, 0)], .cbc1: [(0, 0)], .cens: [(0, 0), (1, 9), (10, 0), (5, 5)],
                .cbcs: [(0, 0), (1, 9), (10, 0), (5, 5), (0, 10)],
            ]
            return ProtectionScheme.allCases.flatMap { scheme in
                (patterns[scheme] ?? []).flatMap { pattern in
                    [Media.vector8, Media.vector16, Media.wrappingVector].flatMap { vector in
                        maps.map {
                            Vector(
                                scheme: scheme, vector: vector, pattern: pattern, subsamples: $0.subsamples,
                                size: $0.size)
                        }
                    }
                }
            }
        }()

        /// The vectors with their clear bytes, encrypted by the reference.
        private static let samples: [(vector: Vector, clear: [UInt8], encrypted: EncryptedSample)] = vectors.map {
            let clear = Media.bytes($0.size, seed: UInt64($0.size))
            let encryption = CommonEncryption(
                key: Media.key, scheme: $0.scheme, vector: $0.vector, pattern: $0.pattern, subsamples: $0.subsamples)
            return ($0, clear, EncryptedSample(clear, keyID: Media.keyID, encryption))
        }

        /// How the sample's memory is held.
        enum Memory: CaseIterable { case exclusive, partOfAFragment }

        @Test(arguments: Memory.allCases, [true, false])
        func everySchemeInEveryShape(memory: Memory, inCaps: Bool) throws {
            for scheme in ProtectionScheme.allCases {
                let harness = try Harness("latchkeycencdec", Media.keysProperty)
                // qtdemux names the scheme in the caps; other demuxers may name it in the meta.
                harness.start(caps: inCaps ? Media.caps(scheme) : Media.audio)
                for (vector, clear, encrypted) in Self.samples where vector.scheme == scheme {
                    var sample = encrypted
                    if !inCaps { sample.cipherMode = scheme.rawValue }
                    harness.output.clear()
                    switch memory {
                    case .exclusive:
                        #expect(harness.push(try sample.makeBuffer()) == .ok)
                    case .partOfAFragment:
                        let padding = [UInt8](repeating: 0xee, count: 13)
                        guard let fragment = Buffer(copying: padding + sample.bytes + padding) else {
                            throw TestFailure("no memory")
                        }
                        #expect(harness.push(try sample.makeBuffer(inside: fragment, at: 13)) == .ok)
                        let isUntouched = fragment.copyBytes() == padding + sample.bytes + padding
                        #expect(isUntouched, "\(vector): the fragment was changed")
                    }
                    let output = try #require(harness.output.samples.first, "\(vector)")
                    let isRight = output.bytes == clear
                    #expect(isRight, "\(vector)")
                    #expect(!output.hasProtection)
                }
            }
        }

        @Test func aConstantVectorIsAsGoodAsAnyOther() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.caps(.cbcs, "audio/mpeg"))
            let clear = Media.bytes(333)
            for vector in [Media.vector8, Media.vector16] {
                var sample = EncryptedSample(
                    clear, keyID: Media.keyID, CommonEncryption(key: Media.key, scheme: .cbcs, vector: vector))
                sample.vectorSizeField = "constant_iv_size"
                #expect(harness.push(try sample.makeBuffer()) == .ok)
            }
            #expect(harness.output.samples.map(\.bytes) == [clear, clear])
        }

        @Test func mediaWithoutAKeyIDUsesTheStarKey() throws {
            let harness = try Harness("latchkeycencdec", [("keys", .string("*:\(Media.hex(Media.key))"))])
            harness.start(caps: Media.bareVideo)
            let clear = Media.bytes(50)
            #expect(harness.push(try Media.sample(clear, keyID: nil).makeBuffer()) == .ok)
            #expect(harness.output.samples.map(\.bytes) == [clear])
        }

        @Test func keysChangeFromSampleToSample() throws {
            let keys = [(Media.keyID, Media.key), (Media.otherKeyID, Media.otherKey)]
            let property = keys.map { "\(Media.hex($0.0)):\(Media.hex($0.1))" }.joined(separator: ",")
            let harness = try Harness("latchkeycencdec", [("keys", .string(property))])
            harness.start(caps: Media.bareVideo)
            let clear = Media.bytes(64)
            for index in 0..<6 {
                let (keyID, key) = keys[index % 2]
                #expect(harness.push(try Media.sample(clear, keyID: keyID, key: key).makeBuffer()) == .ok)
            }
            #expect(harness.output.samples.map(\.bytes) == [[UInt8]](repeating: clear, count: 6))
        }

        // MARK: Clear samples

        @Test func samplesWithoutMetaAreClear() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push([1, 2, 3]) == .ok)
            #expect(harness.output.samples.map(\.bytes) == [[1, 2, 3]])
        }

        @Test(arguments: [true, false])
        func samplesThatSaySoAreClear(hasKeyAndVector: Bool) throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            var sample = EncryptedSample(
                bytes: [1, 2, 3], keyID: hasKeyAndVector ? Media.keyID : nil,
                vector: hasKeyAndVector ? Media.vector8 : nil)
            sample.isEncrypted = false
            let buffer = try sample.makeBuffer()
            let shared = buffer.share()
            #expect(harness.push(buffer) == .ok)
            let output = try #require(harness.output.samples.first)
            #expect(output.bytes == [1, 2, 3])
            #expect(!output.hasProtection)
            #expect(output.metas == ["GstReferenceTimestampMetaAPI"])
            let other = shared.withPointer { StreamRecorder.Sample($0) }
            #expect(other.hasProtection, "a buffer that others hold was changed")
        }

        private static let versions: [(minor: UInt32, micro: UInt32, isClear: Bool)] = [
            (20, 7, false), (22, 0, true), (22, 5, true), (22, 6, false), (22, 12, false), (24, 0, false),
            (28, 6, false),
        ]

        /// qtdemux of these versions marks the clear lead of cbcs video as encrypted.
        @Test(arguments: versions)
        func theClearLeadOfCbcsVideo(minor: UInt32, micro: UInt32, isClear: Bool) throws {
            var sample = EncryptedSample(bytes: Media.bytes(64), keyID: Media.keyID, vector: Media.vector16)
            sample.vectorSizeField = "constant_iv_size"
            let cases: [(type: String, subsamples: Bool, clear: Bool)] = [
                ("video/x-h264", false, isClear), ("video/x-h265", false, isClear), ("audio/mpeg", false, false),
                ("video/x-vp9", false, false), ("video/x-h264", true, false),
            ]
            for (type, hasSubsamples, expected) in cases {
                var sample = sample
                if hasSubsamples { sample.setSubsamples([(0, 64)]) }
                let caps = try #require(Caps(Media.caps(.cbcs, type)))
                let format = try #require(EncryptedFormat(caps))
                var protection = SampleProtection(gstreamerVersion: (1, minor, micro))
                let reading = protection.read(try sample.makeBuffer(), format: format)
                #expect(reading == (expected ? .clear : .encrypted(KeyID(Media.keyID))), "\(type)")
            }
        }

        // MARK: What stays

        @Test func aWritableSampleIsDecryptedWhereItIs() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            let clear = Media.bytes(4096)
            let buffer = try Media.sample(clear).makeBuffer()
            let address = buffer.withPointer { StreamRecorder.Sample($0).address }
            #expect(harness.push(buffer) == .ok)
            let output = try #require(harness.output.samples.first)
            #expect(output.address == address)
            #expect(output.bytes == clear)
        }

        @Test(arguments: [true, false])
        func flagsTimesAndMetasStay(isShared: Bool) throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            let clear = Media.bytes(900)
            let buffer = try Media.sample(clear, at: 12_345).makeBuffer()
            _ = buffer.withPointer { gst_buffer_set_flags($0, GST_BUFFER_FLAG_DISCONT) }
            let before = buffer.withPointer { StreamRecorder.Sample($0) }
            let kept = isShared ? Optional(buffer.share()) : nil
            #expect(harness.push(buffer) == .ok)
            let output = try #require(harness.output.samples.first)
            #expect(output.bytes == clear)
            #expect(output.presentationTime == 12_345)
            #expect(output.decodeTime == before.decodeTime)
            #expect(output.duration == before.duration)
            #expect(output.flags == before.flags)
            #expect(before.metas == ["GstProtectionMetaAPI", "GstReferenceTimestampMetaAPI"])
            #expect(output.metas == ["GstReferenceTimestampMetaAPI"])
            if let kept {
                let other = kept.withPointer { StreamRecorder.Sample($0) }
                #expect(other == before, "a buffer that others hold was changed")
                #expect(output.address != before.address)
            }
        }

        /// Stock qtdemux loses what is said of the samples of a file that is not fragmented.
        @Test(arguments: [(3, 0, true), (3, 1, false), (0, 0, false)])
        func anEncryptedStreamWithoutAWordOfItsSamplesIsNamedAtTheEnd(plain: Int, marked: Int, warns: Bool) throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            for _ in 0..<plain { #expect(harness.push([1]) == .ok) }
            for _ in 0..<marked { #expect(harness.push(try Media.sample([1, 2]).makeBuffer()) == .ok) }
            #expect(harness.pushEndOfStream())
            #expect(harness.output.wait(event: "eos"))
            let warnings = harness.bus.all().filter { $0.type == "warning" }
            #expect(warnings.map { $0.text.contains("says how it is encrypted") } == (warns ? [true] : []))
            #expect(harness.output.samples.count == plain + marked)
        }

        @Test func anEndlessStreamWithoutAWordOfItsSamplesIsNamedOnce() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            for _ in 0..<1500 { #expect(harness.push([1]) == .ok) }
            #expect(harness.bus.all().count { $0.type == "warning" } == 0)
            for _ in 0..<100 { #expect(harness.push([1]) == .ok) }
            #expect(harness.bus.all().count { $0.type == "warning" } == 1)
        }

        @Test func theStatisticsCount() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            for size in [10, 20, 30] { #expect(harness.push(try Media.sample(Media.bytes(size)).makeBuffer()) == .ok) }
            #expect(harness.push([1]) == .ok)
            let decryptor = try #require(Decryptor.implementation(of: harness.element))
            #expect(decryptor.statistics.samplesDecrypted == 3)
            #expect(decryptor.statistics.bytesDecrypted == 60)
            #expect(decryptor.statistics.samplesClear == 1)
            #expect(decryptor.statistics.decryptTime > 0)
            let text = try #require(harness.propertyText("stats")).filter { $0 != "\\" }
            for field in ["samples-decrypted=(guint64)3", "bytes-decrypted=(guint64)60", "samples-clear=(guint64)1"] {
                #expect(text.contains(field), "\(text)")
            }
            // From the next start on they count anew.
            #expect(harness.setState(GST_STATE_READY) == GST_STATE_CHANGE_SUCCESS)
            #expect(harness.setState(GST_STATE_PLAYING) == GST_STATE_CHANGE_SUCCESS)
            #expect(decryptor.statistics.samplesDecrypted == 0)
        }
    }
}
