// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// The way into memory that the CPU may not see, with a decoder and a trusted environment that stand in for real ones.
    @Suite struct SecureDecryptionTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static func caps(_ mark: String, _ scheme: ProtectionScheme = .cenc) -> String {
            "\(Media.caps(scheme)), mark=\(mark)"
        }

        // MARK: Without a secure decryptor

        @Test func aDecoderOfSecureMemoryAloneIsRefusedByName() throws {
            let bench = try StandInDecoder("ektsecuredec")
            try bench.start(Self.caps("refused"))
            let error = try bench.pipeline.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT), "\(error)")
            #expect(error.text.contains("memory:TestSecure"), "\(error)")
            #expect(error.debug.contains("latchkey_secure_decryptor_register"), "\(error)")
            #expect(bench.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .notNegotiated)
            #expect(bench.samples.isEmpty)
        }

        @Test(arguments: [true, false])
        func secureMemoryThatIsProposedIsRefusedByName(asPool: Bool) throws {
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let pool = try makePool(allocator)
            defer { gst_object_unref(pool) }
            let bench = try StandInDecoder("ekthardwaredec")
            bench.propose(allocator: asPool ? nil : allocator, pool: asPool ? pool : nil, size: 4096)
            try bench.start(Self.caps("nobody"))
            #expect(bench.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .notNegotiated)
            let error = try bench.pipeline.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT), "\(error)")
            #expect(error.text.contains("no secure decryptor is registered"), "\(error)")
            #expect(bench.samples.isEmpty)
        }

        // MARK: With one

        @Test(arguments: ProtectionScheme.allCases)
        func everySchemeIsDecryptedThere(scheme: ProtectionScheme) throws {
            let environment = TestTrustedEnvironment("scheme-\(scheme)")
            defer { SecureDecryptors.unregister(environment) }
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let bench = try StandInDecoder("ektsecuredec")
            bench.propose(allocator: allocator)
            try bench.start(Self.caps(environment.mark, scheme))
            #expect(bench.caps?.memoryFeature() == "memory:TestSecure")
            #expect(bench.askedCaps?.memoryFeature() == "memory:TestSecure")

            let clear = Media.bytes(1000)
            var encryption = CommonEncryption(
                key: Media.key, scheme: scheme, vector: Media.vector16, subsamples: [(7, 160), (9, 824)])
            if scheme == .cens || scheme == .cbcs { encryption.pattern = (1, 9) }
            let sample = EncryptedSample(clear, keyID: Media.keyID, encryption)
            #expect(bench.push(try sample.makeBuffer()) == .ok)

            let seen = try #require(bench.samples.first)
            #expect(seen.bytes == clear)
            #expect(!seen.hasProtection)
            #expect(seen.metas == ["GstReferenceTimestampMetaAPI"])
            #expect(seen.duration == sample.duration)
            #expect(ekt_stand_in_secure(bench.decoder) == 1)
            #expect(ekt_secure_map_attempts(allocator) == 0)
            #expect(ekt_stand_in_questions(bench.decoder) == 1)
            #expect(environment.record.withLock(\.keys) == [KeyID(Media.keyID)])

            // Another decoder may be there now.
            #expect(gst_element_send_event(bench.decoder, gst_event_new_reconfigure()) != 0)
            #expect(bench.push(try sample.makeBuffer()) == .ok)
            #expect(ekt_stand_in_questions(bench.decoder) == 2)
            #expect(bench.samples.map(\.bytes) == [clear, clear])
        }

        /// A loader may answer with 16 bytes by which the environment knows the key: nothing here needs the key then.
        @Test func aNameOfTheKeyIsEnough() throws {
            let bytes = [UInt8](repeating: 0x5A, count: 16)
            let (name, key) = (try #require(ContentKey(bytes)), try #require(ContentKey(Media.key)))
            let environment = TestTrustedEnvironment("named") { $0 == name ? key : $0 }
            defer { SecureDecryptors.unregister(environment) }
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let bench = try StandInDecoder("ektsecuredec", key: bytes)
            bench.propose(allocator: allocator)
            try bench.start(Self.caps(environment.mark))
            for size in [64, 1000, 4096] {
                #expect(bench.push(try Media.sample(Media.bytes(size)).makeBuffer()) == .ok)
            }
            #expect(bench.samples.map(\.bytes) == [64, 1000, 4096].map { Media.bytes($0) })
            #expect(ekt_stand_in_secure(bench.decoder) == 3 && ekt_secure_map_attempts(allocator) == 0)
        }

        /// Caps say of a whole stream where its samples are: clear ones go there, too.
        @Test func clearSamplesGoThereToo() throws {
            let environment = TestTrustedEnvironment("clear")
            defer { SecureDecryptors.unregister(environment) }
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let bench = try StandInDecoder("ektsecuredec")
            bench.propose(allocator: allocator)
            try bench.start(Self.caps(environment.mark))
            var marked = EncryptedSample(bytes: Media.bytes(40), keyID: nil, vector: nil)
            marked.isEncrypted = false
            #expect(bench.push(copying: Media.bytes(50)) == .ok)
            #expect(bench.push(try marked.makeBuffer()) == .ok)
            #expect(bench.push(try Media.sample(Media.bytes(60)).makeBuffer()) == .ok)
            try bench.change("video/x-h264, mark=clear")
            #expect(bench.push(copying: Media.bytes(70)) == .ok)
            #expect(bench.samples.map(\.bytes) == [50, 40, 60, 70].map { Media.bytes($0) })
            #expect(bench.samples.allSatisfy { !$0.hasProtection })
            #expect(ekt_stand_in_secure(bench.decoder) == 4)
            #expect(environment.record.withLock(\.clearSamples) == 3)
            #expect(environment.record.withLock(\.streams).count == 2)
            #expect(ekt_secure_map_attempts(allocator) == 0)
        }

        /// Decoders that have no caps feature for it: what they propose tells.
        @Test(arguments: [true, false])
        func memoryWithoutAFeatureIsFilledToo(asPool: Bool) throws {
            let environment = TestTrustedEnvironment("plain-\(asPool)", memoryFeature: nil)
            defer { SecureDecryptors.unregister(environment) }
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let pool = try makePool(allocator)
            defer { gst_object_unref(pool) }
            let bench = try StandInDecoder("ekthardwaredec")
            bench.propose(allocator: asPool ? nil : allocator, pool: asPool ? pool : nil, size: 4096)
            try bench.start(Self.caps(environment.mark))
            for size in [1, 64, 4096] {
                #expect(bench.push(try Media.sample(Media.bytes(size)).makeBuffer()) == .ok)
            }
            #expect(bench.samples.map(\.bytes) == [1, 64, 4096].map { Media.bytes($0) })
            #expect(bench.caps?.memoryFeature() == nil)
            #expect(ekt_stand_in_secure(bench.decoder) == 3)
            #expect(ekt_stand_in_from_pool(bench.decoder) == (asPool ? 3 : 0))
        }

        /// The decoder takes ordinary memory, and proposes it: nobody needs the environment.
        @Test func ordinaryMemoryStaysOurs() throws {
            let environment = TestTrustedEnvironment("ordinary")
            defer { SecureDecryptors.unregister(environment) }
            let bench = try StandInDecoder("ekthardwaredec")
            try bench.start(Self.caps(environment.mark))
            #expect(bench.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .ok)
            #expect(bench.samples.map(\.bytes) == [Media.bytes(64)])
            #expect(bench.caps?.memoryFeature() == nil)
            #expect(environment.record.withLock(\.keys).isEmpty)
        }

        /// Filters answer for what is behind them once they have caps.
        @Test func aProposalThatComesLateIsTaken() throws {
            let environment = TestTrustedEnvironment("late")
            defer { SecureDecryptors.unregister(environment) }
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let bench = try StandInDecoder("ektsecuredec")
            bench.propose(allocator: allocator)
            ekt_stand_in_answer_late(bench.decoder)
            try bench.start(Self.caps(environment.mark))
            #expect(bench.askedCaps == nil)
            #expect(bench.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .ok)
            #expect(bench.askedCaps?.memoryFeature() == "memory:TestSecure")
            #expect(bench.samples.map(\.bytes) == [Media.bytes(64)])
        }

        @Test func theEnvironmentMayAllocate() throws {
            let environment = TestTrustedEnvironment("allocates", allocates: true)
            defer { SecureDecryptors.unregister(environment) }
            let bench = try StandInDecoder("ektsecuredec")
            try bench.start(Self.caps(environment.mark))
            #expect(bench.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .ok)
            #expect(bench.samples.map(\.bytes) == [Media.bytes(64)])
            #expect(ekt_stand_in_secure(bench.decoder) == 1)
        }

        /// Inside players nothing is linked when the caps come. They plug what the caps ask for, so these ask for secure
        /// memory only where a decoder of it is registered.
        @Test(arguments: [true, false])
        func beforeAnythingIsLinkedTheRegistryDecides(hasDecoder: Bool) throws {
            let environment = TestTrustedEnvironment("player-\(hasDecoder)")
            defer { SecureDecryptors.unregister(environment) }
            // Made for its registration alone.
            let bench = try StandInDecoder("ektsecuredec")
            let factory = try #require(gst_element_get_factory(bench.decoder))
            let rank = gst_plugin_feature_get_rank(factory)
            gst_plugin_feature_set_rank(factory, guint((hasDecoder ? GST_RANK_PRIMARY : GST_RANK_NONE).rawValue))
            defer { gst_plugin_feature_set_rank(factory, rank) }
            let element = try #require(gst_element_factory_make("latchkeycencdec", nil))
            gst_object_ref_sink(element)
            defer {
                gst_element_set_state(element, GST_STATE_NULL)
                gst_object_unref(element)
            }
            let sink = try #require(gst_element_get_static_pad(element, "sink"))
            defer { gst_object_unref(sink) }
            let source = try #require(gst_element_get_static_pad(element, "src"))
            defer { gst_object_unref(source) }
            gst_element_set_state(element, GST_STATE_PAUSED)
            gst_pad_send_event(sink, gst_event_new_stream_start("player"))
            let caps = try #require(
                Caps("application/x-cenc, original-media-type=video/x-h264, mark=player-\(hasDecoder)"))
            #expect(gst_pad_send_event(sink, Event(caps: caps).release()) != 0)
            let sent = try #require(gst_pad_get_current_caps(source).map { Caps(owning: $0) })
            #expect(sent.memoryFeature() == (hasDecoder ? "memory:TestSecure" : nil))
        }

        // MARK: Failures

        @Test func memoryFromNobodyIsANamedError() throws {
            let environment = TestTrustedEnvironment("nowhere")
            defer { SecureDecryptors.unregister(environment) }
            let bench = try StandInDecoder("ektsecuredec")
            try bench.start(Self.caps(environment.mark))
            #expect(bench.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .notNegotiated)
            let error = try bench.pipeline.bus.nextError()
            #expect(error.text.contains("gives memory"), "\(error)")
            #expect(bench.samples.isEmpty)
        }

        @Test(arguments: [true, false])
        func itsFailureIsThePipelinesError(atTheStart: Bool) throws {
            let reason = "the session of the TEE is gone"
            let environment = TestTrustedEnvironment(
                "fails-\(atTheStart)", refusing: (atTheStart ? reason : nil, atTheStart ? nil : reason))
            defer { SecureDecryptors.unregister(environment) }
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let bench = try StandInDecoder("ektsecuredec")
            bench.propose(allocator: allocator)
            try bench.start(Self.caps(environment.mark))
            #expect(bench.push(try Media.sample(Media.bytes(64)).makeBuffer()) != .ok)
            let error = try bench.pipeline.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT), "\(error)")
            #expect(error.text.contains("test environment") && error.text.contains(reason), "\(error)")
            #expect(bench.samples.isEmpty)
        }

        /// The map is checked before it leaves for the trusted environment.
        @Test func aMapThatDoesNotFitTheSampleIsNotHandedOn() throws {
            let environment = TestTrustedEnvironment("map")
            defer { SecureDecryptors.unregister(environment) }
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let bench = try StandInDecoder("ektsecuredec")
            bench.propose(allocator: allocator)
            try bench.start(Self.caps(environment.mark))
            var sample = Media.sample(Media.bytes(64))
            sample.setSubsamples([(clear: 1, protected: 64)])
            #expect(bench.push(try sample.makeBuffer()) == .error)
            #expect(environment.record.withLock(\.keys).isEmpty)
            #expect(bench.samples.isEmpty)
        }

        /// All buffers of the decoder are in use: the decryptor waits, and a flush ends the wait.
        @Test func aFlushEndsTheWaitForABuffer() throws {
            let environment = TestTrustedEnvironment("busy", memoryFeature: nil)
            defer { SecureDecryptors.unregister(environment) }
            let allocator = try #require(ekt_secure_allocator_new())
            defer { gst_object_unref(allocator) }
            let pool = try makePool(allocator)
            defer { gst_object_unref(pool) }
            let bench = try StandInDecoder("ekthardwaredec")
            bench.propose(pool: pool, size: 4096)
            try bench.start(Self.caps(environment.mark))
            #expect(bench.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .ok)
            // The pool has two.
            var held: [UnsafeMutablePointer<GstBuffer>] = []
            for _ in 0..<2 {
                var buffer: UnsafeMutablePointer<GstBuffer>?
                #expect(gst_buffer_pool_acquire_buffer(pool, &buffer, nil) == GST_FLOW_OK)
                held.append(try #require(buffer))
            }
            let sample = Media.sample(Media.bytes(64))
            let (began, ended) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            Thread.detachNewThread {
                if let buffer = try? sample.makeBuffer() {
                    began.signal()
                    _ = bench.push(buffer)
                }
                ended.signal()
            }
            began.wait()
            #expect(bench.send(try Event.flushStart()))
            #expect(ended.wait(timeout: .now() + .nanoseconds(Int(TestProcess.deadline))) == .success)
            #expect(bench.samples.count == 1)
            for buffer in held { _ = Buffer(owning: buffer) }
            #expect(bench.send(try Event.flushStop()))
            #expect(bench.send(try Event.segment()))
            #expect(bench.push(try sample.makeBuffer()) == .ok)
            #expect(bench.samples.count == 2)
        }
    }
}
