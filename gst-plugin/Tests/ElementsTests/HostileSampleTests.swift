// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyProtection
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// A sample whose meta does not fit ends in a named error, and no byte of it is touched.
    @Suite struct HostileSampleTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        struct Case: CustomTestStringConvertible, Sendable {
            let testDescription: String
            /// What the error's text has in it.
            let reason: String
            let change: @Sendable (inout EncryptedSample) -> Void

            init(_ name: String, _ reason: String, _ change: @escaping @Sendable (inout EncryptedSample) -> Void) {
                (testDescription, self.reason, self.change) = (name, reason, change)
            }
        }

        private static let size = 100

        static let cases: [Case] = [
            Case("a count beyond the table", "shorter than its count") { $0.subsampleCount = 3 },
            Case("a count of 2³²−1", "shorter than its count") { $0.subsampleCount = .max },
            Case("a table that is not there", "shorter than its count") { $0.subsampleTable = nil },
            Case("an entry that is cut", "shorter than its count") { $0.subsampleTable?.removeLast() },
            Case("an empty table", "shorter than its count") { $0.subsampleTable = [] },
            Case("one protected byte too many", "ends behind") { $0.setSubsamples([(10, 91)]) },
            Case("one clear byte too many", "ends behind") { $0.setSubsamples([(101, 0)]) },
            Case("4 GiB protected", "ends behind") { $0.setSubsamples([(0, Int(UInt32.max))]) },
            Case("100 bytes in 32 bits", "ends behind") { sample in
                sample.setSubsamples([(0, 0x8000_0000), (0, 0x8000_0064)])
            },
            Case("many entries of 4 GiB", "ends behind") { sample in
                sample.setSubsamples([(clear: Int, protected: Int)](repeating: (65_535, Int(UInt32.max)), count: 5000))
            },
            Case("one byte not covered", "cover 99 of the sample's 100 bytes") { $0.setSubsamples([(10, 89)]) },
            Case("nothing covered", "cover 0 of the sample's 100 bytes") { $0.setSubsamples([(0, 0), (0, 0)]) },
            Case("an IV of 7 bytes", "no initialization vector of 8 or 16 bytes") {
                $0.vector = [1, 2, 3, 4, 5, 6, 7]
            },
            Case("an IV of 17 bytes", "no initialization vector of 8 or 16 bytes") { sample in
                sample.vector = [UInt8](repeating: 1, count: 17)
            },
            Case("an empty IV", "no initialization vector of 8 or 16 bytes") { $0.vector = [] },
            Case("no IV", "no initialization vector of 8 or 16 bytes") { $0.vector = nil },
            Case("a KID of 15 bytes", "the KID has 15 bytes") { $0.keyID?.removeLast() },
            Case("a KID of 17 bytes", "the KID has 17 bytes") { $0.keyID?.append(0) },
            Case("an empty KID", "the KID has 0 bytes") { $0.keyID = [] },
            Case("a pattern beyond a byte", "block pattern is out of range") { $0.pattern = (1, 256) },
            Case("a pattern of 2³²−1", "block pattern is out of range") { $0.pattern = (Int(UInt32.max), 1) },
            Case("a scheme of another world", "scheme “abcd” is not known") { $0.cipherMode = "abcd" },
        ]

        @Test(arguments: cases, [true, false])
        func aMetaThatDoesNotFitIsANamedError(hostile: Case, isShared: Bool) throws {
            for scheme in ProtectionScheme.allCases {
                let harness = try Harness("latchkeycencdec", Media.keysProperty)
                harness.start(caps: Media.caps(scheme))
                var sample = EncryptedSample(
                    bytes: Media.bytes(Self.size), keyID: Media.keyID, vector: Media.vector8)
                sample.setSubsamples([(10, 80), (10, 0)])
                hostile.change(&sample)
                let buffer = try sample.makeBuffer()
                // Held by address: a second reference would make the element work out of place.
                let kept = isShared ? Optional(buffer.share()) : nil
                #expect(harness.push(buffer) == .error)
                let error = try harness.bus.nextError()
                #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT), "\(error)")
                #expect(error.text.contains(hostile.reason), "\(error)")
                #expect(harness.output.samples.isEmpty)
                if let kept {
                    let isUntouched = kept.copyBytes() == sample.bytes
                    #expect(isUntouched)
                }
            }
        }

        @Test(arguments: ProtectionScheme.allCases)
        func aRejectedSampleOfTheElementsOwnIsUntouchedToo(scheme: ProtectionScheme) throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.caps(scheme))
            var sample = EncryptedSample(bytes: Media.bytes(Self.size), keyID: Media.keyID, vector: Media.vector8)
            sample.setSubsamples([(0, 96), (5, 0)])
            let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: Self.size)
            defer { memory.deallocate() }
            memory.update(from: sample.bytes, count: Self.size)
            let wrapped = gst_buffer_new_wrapped_full(
                GstMemoryFlags(0), memory, gsize(Self.size), 0, gsize(Self.size), nil, nil)
            let buffer = Buffer(owning: try #require(wrapped))
            sample.mark(buffer)
            let isWritable = buffer.isMemoryWritable
            #expect(isWritable)
            #expect(harness.push(buffer) == .error)
            let isUntouched = Array(UnsafeBufferPointer(start: memory, count: Self.size)) == sample.bytes
            #expect(isUntouched)
        }

        @Test(arguments: ["application/x-cenc", "application/x-webm-enc"])
        func aSchemeOfTheCapsThatIsNotKnownIsANamedError(type: String) throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: "\(type), original-media-type=video/x-h264, cipher-mode=abcd")
            #expect(harness.push(try Media.sample(Media.bytes(Self.size)).makeBuffer()) == .error)
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT), "\(error)")
            #expect(error.text.contains("scheme “abcd” is not known"), "\(error)")
            #expect(harness.output.samples.isEmpty)
        }

        /// A decryptor behind a source, without a demuxer in between.
        @Test func buffersWithoutCapsAreANamedError() throws {
            let bare = try Harness("latchkeycencdec", Media.keysProperty)
            gst_harness_push_event(bare.pointer, gst_event_new_stream_start("bare"))
            var segment = GstSegment()
            gst_segment_init(&segment, GST_FORMAT_TIME)
            gst_harness_push_event(bare.pointer, gst_event_new_segment(&segment))
            #expect(bare.push(Media.bytes(Self.size)) == .notNegotiated)
            let error = try bare.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_WRONG_TYPE), "\(error)")
            #expect(error.debug.contains("qtdemux"), "\(error)")
            #expect(bare.output.samples.isEmpty)
        }

        @Test func anEmptySampleIsHarmless() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample([]).makeBuffer()) == .ok)
            #expect(harness.output.samples.map(\.bytes) == [[]])
        }

        @Test(arguments: [true, false])
        func secureMemoryDownstreamIsANamedError(isShared: Bool) throws {
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let harness = try Harness("latchkeycencdec", Media.keysProperty, allocator: allocator)
            harness.start(caps: Media.bareVideo)
            let buffer = try Media.sample(Media.bytes(64)).makeBuffer()
            let kept = isShared ? Optional(buffer.share()) : nil
            let isInPlace = kept == nil
            #expect(harness.push(buffer) == .notNegotiated, "in place: \(isInPlace)")
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT), "\(error)")
            #expect(error.text.contains("secure memory"), "\(error)")
            #expect(harness.output.samples.isEmpty)
        }

        @Test func secureMemoryUpstreamIsANamedError() throws {
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            let buffer = Buffer(owning: try #require(gst_buffer_new_allocate(allocator, 64, nil)))
            Media.sample([]).mark(buffer)
            #expect(harness.push(buffer) == .error)
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT), "\(error)")
            #expect(error.text.contains("cannot be read"), "\(error)")
        }
    }
}
