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
    /// Nothing of ours stands between a decryptor and a hardware decoder: caps, allocation, pools and metas pass.
    @Suite struct HardwareDecoderTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        @Test func theDecoderIsAskedAboutTheClearCaps() throws {
            let bench = try StandInDecoder("ekthardwaredec")
            try bench.start("\(Media.video), mark=allocation")
            let clear = try #require(Caps("video/x-h264, width=320, stream-format=avc, mark=allocation"))
            #expect(bench.askedCaps?.isEqual(to: clear) == true, "\(String(describing: bench.askedCaps))")
            #expect(bench.caps?.isEqual(to: clear) == true)
        }

        @Test func whatTheDecoderProposesGoesUpstream() throws {
            let pool = try makePool()
            defer { gst_object_unref(pool) }
            let allocator = gst_allocator_find(nil)
            defer { gst_object_unref(allocator) }
            let bench = try StandInDecoder("ekthardwaredec")
            try bench.start(Media.bareVideo)
            bench.propose(allocator: allocator, pool: pool, size: 4096)
            let answer = try #require(try bench.ask("\(Media.bareVideo), width=64"))
            #expect(answer.allocators == 1)
            #expect(answer.pools == 1)
            #expect(answer.metas == 1)
            #expect(bench.askedCaps?.isEqual(to: try #require(Caps("video/x-h264, width=64"))) == true)
        }

        @Test func secureMemoryIsNotForEncryptedBytes() throws {
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let pool = try makePool(allocator)
            defer { gst_object_unref(pool) }
            let bench = try StandInDecoder("ekthardwaredec")
            try bench.start(Media.bareVideo)
            bench.propose(allocator: allocator, pool: pool, size: 4096)
            let answer = try #require(try bench.ask(Media.bareVideo))
            #expect(answer.allocators == 0)
            #expect(answer.pools == 0)
            #expect(answer.metas == 1)
        }

        /// A query cannot pass the samples in front of it.
        @Test func nothingIsProposedWhileSamplesWaitForTheirKey() throws {
            let bench = try StandInDecoder("ekthardwaredec")
            try bench.start(Media.bareVideo)
            #expect(try bench.ask(Media.bareVideo) != nil)
            let waiting = Media.sample(Media.bytes(32), keyID: Media.otherKeyID, key: Media.otherKey)
            #expect(bench.push(try waiting.makeBuffer()) == .ok)
            #expect(try bench.ask(Media.bareVideo) == nil)
        }

        /// Samples whose memory others read too are written anew: into the decoder's buffers, where they are large enough
        /// and free.
        @Test func samplesAreWrittenIntoTheDecodersPool() throws {
            let pool = try makePool()
            defer { gst_object_unref(pool) }
            let bench = try StandInDecoder("ekthardwaredec")
            bench.propose(pool: pool, size: 4096)
            try bench.start(Media.bareVideo)
            for (index, size) in [100, 4096, 5000, 1].enumerated() {
                let clear = Media.bytes(size, seed: UInt64(index))
                let buffer = try Media.sample(clear).makeBuffer()
                let shared = buffer.share()
                #expect(bench.push(buffer) == .ok)
                #expect(bench.samples.last?.bytes == clear)
                #expect(shared.size == size)
            }
            #expect(ekt_stand_in_buffers(bench.decoder) == 4)
            #expect(ekt_stand_in_from_pool(bench.decoder) == 3)
        }

        @Test func samplesOfTheirOwnMemoryStayThere() throws {
            let pool = try makePool()
            defer { gst_object_unref(pool) }
            let bench = try StandInDecoder("ekthardwaredec")
            bench.propose(pool: pool, size: 4096)
            try bench.start(Media.bareVideo)
            #expect(bench.push(try Media.sample(Media.bytes(100)).makeBuffer()) == .ok)
            #expect(bench.samples.first?.bytes == Media.bytes(100))
            #expect(ekt_stand_in_from_pool(bench.decoder) == 0)
        }

        @Test func flagsTimesAndMetasReachTheDecoder() throws {
            let bench = try StandInDecoder("ekthardwaredec")
            try bench.start(Media.bareVideo)
            let sample = Media.sample(Media.bytes(100), at: 7_000_000)
            #expect(bench.push(try sample.makeBuffer()) == .ok)
            let seen = try #require(bench.samples.first)
            #expect(seen.presentationTime == 7_000_000)
            #expect(seen.decodeTime == 7_000_000)
            #expect(seen.duration == sample.duration)
            #expect(seen.flags & GST_BUFFER_FLAG_DELTA_UNIT.rawValue != 0)
            #expect(!seen.hasProtection)
            #expect(seen.metas == ["GstReferenceTimestampMetaAPI"])
        }

        /// Clear media in the memory of a device, behind the encrypted part of a programme.
        @Test func capsFeaturesOfClearMediaStay() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            #expect(harness.change(caps: "video/x-h264(memory:DMABuf, meta:Whatever), width=16"))
            let sent = try #require(harness.output.caps.last.flatMap { Caps($0) })
            #expect(sent.isEqual(to: try #require(Caps("video/x-h264(memory:DMABuf, meta:Whatever), width=16"))))
        }

        /// What a decoder takes in memory of its own is taken encrypted in ordinary memory.
        @Test func aDecoderOfSecureMemoryCanBeLinked() throws {
            let wanted = EncryptedFormat.encryptedCaps(
                for: try #require(Caps("video/x-h264(memory:TestSecure), width=16")),
                template: try #require(Caps("application/x-cenc")))
            let offered = try #require(Caps("\(Media.bareVideo), width=64"))
            #expect(offered.canIntersect(wanted), "\(wanted)")
        }
    }
}
