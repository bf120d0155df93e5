// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyProtection
import Testing

@testable import LatchkeyElements
@testable import LatchkeyContainers

extension ElementTests {
    /// What the caps say, and when clear media is taken.
    @Suite struct CapsTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static let conversions: [(from: String, to: String)] = [
            (
                "application/x-cenc, original-media-type=video/x-h264, protection-system=\(Media.commonSystem), "
                    + "cipher-mode=cbcs, width=320, height=180, framerate=25/1, stream-format=avc, codec_data=01ff",
                "video/x-h264, width=320, height=180, framerate=25/1, stream-format=avc, codec_data=01ff"
            ),
            (
                "application/x-cenc, original-media-type=audio/mpeg, mpegversion=4, rate=48000, channels=2",
                "audio/mpeg, mpegversion=4, rate=48000, channels=2"
            ),
            (
                "application/x-cbcs, original-media-type=video/x-h265, cipher-mode=cbcs, profile=main",
                "video/x-h265, profile=main"
            ),
            (
                "application/x-webm-enc, original-media-type=video/x-vp9, encryption-algorithm=AES, "
                    + "encoding-scope=frame, cipher-mode=CTR, width=640",
                "video/x-vp9, width=640"
            ),
            (
                "application/x-cenc(memory:Secret, meta:Whatever), original-media-type=video/x-h264, width=16",
                "video/x-h264(memory:Secret, meta:Whatever), width=16"
            ),
        ]

        @Test(arguments: conversions)
        func theOriginalTypeComesBackAndOnlyProtectionFieldsGo(from: String, to: String) throws {
            let caps = EncryptedFormat.clearCaps(of: try #require(Caps(from)))
            #expect(caps.isEqual(to: try #require(Caps(to))), "\(caps)")
        }

        @Test func theElementSendsTheClearCaps() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            let (from, to) = try #require(Self.conversions.dropFirst().first)
            harness.start(caps: from)
            let sent = try #require(harness.output.caps.first)
            #expect(try #require(Caps(sent)).isEqual(to: try #require(Caps(to))), "\(sent)")
        }

        @Test func capsWithoutAnOriginalTypeAreRefused() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: "application/x-cenc, cipher-mode=cenc")
            #expect(harness.push([1]) == .notNegotiated)
            #expect(harness.output.caps.isEmpty)
            #expect(harness.output.samples.isEmpty)
        }

        private static let templates: [(factory: String, systems: [String], bare: [String])] = [
            ("latchkeyfairplaydec", ["94ce86fb-07ff-4f43-adb8-93d2fa968ca2"], []),
            ("latchkeyplayreadydec", [Media.playReadySystem], []),
            ("latchkeyclearkeydec", ["e2719d58-a985-b3c9-781a-b030af78d30e", Media.commonSystem], []),
            (
                "latchkeycencdec", ProtectionSystem.others.map(\.uuid),
                ["application/x-cenc", "application/x-webm-enc"]
            ),
        ]

        @Test(arguments: templates)
        func aFactoryHasOneStructureForEachSystem(factory: String, systems: [String], bare: [String]) throws {
            let found = try #require(gst_element_factory_find(factory))
            defer { gst_object_unref(UnsafeMutableRawPointer(found)) }
            let element = try #require(gst_element_factory_create(found, nil))
            gst_object_ref_sink(element)
            defer { gst_object_unref(element) }
            let template = try #require(gst_element_get_pad_template(element, "sink"))
            let caps = Caps(sharing: try #require(ekt_template_caps(template)))
            var seenSystems: [String] = []
            var seenBare: [String] = []
            for index in 0..<caps.count {
                // A list of values would not be a string: GStreamer's selection reads the field as one.
                if let system = caps.string("protection-system", at: index) {
                    #expect(caps.mediaType(at: index) == "application/x-cenc")
                    seenSystems.append(system)
                } else {
                    seenBare.append(try #require(caps.mediaType(at: index)))
                }
            }
            #expect(Set(seenSystems) == Set(systems))
            #expect(seenSystems.count == systems.count)
            #expect(seenBare == bare)
            let klass = gst_element_factory_get_metadata(found, GST_ELEMENT_METADATA_KLASS).map { String(cString: $0) }
            #expect(klass == "Decryptor")
        }

        @Test func onlyTheAutopluggedFactoriesHaveThePrimaryRank() throws {
            for (name, rank) in [
                ("latchkeyfairplaydec", 256), ("latchkeyplayreadydec", 256), ("latchkeyclearkeydec", 256),
                ("latchkeycencdec", 64),
            ] {
                let factory = try #require(gst_element_factory_find(name))
                defer { gst_object_unref(UnsafeMutableRawPointer(factory)) }
                #expect(gst_plugin_feature_get_rank(factory) == rank)
            }
        }

        private func accepts(_ harness: Harness, _ text: String) throws -> Bool {
            let caps = try #require(Caps(text))
            return try harness.sinkPad { pad in caps.withPointer { gst_pad_query_accept_caps(pad, $0) } } != 0
        }

        @Test func clearCapsAreTakenAfterTheStartOnly() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            #expect(try !accepts(harness, Media.clearVideo))
            #expect(try accepts(harness, Media.bareVideo))
            #expect(try accepts(harness, "application/x-webm-enc, original-media-type=video/x-vp9"))
            harness.start(caps: Media.bareVideo)
            #expect(try accepts(harness, Media.clearVideo))
            #expect(try accepts(harness, Media.bareVideo))
            // A system of another factory stays refused: the template lists what this one is for.
            #expect(try !accepts(harness, "application/x-cbcs, original-media-type=video/x-h264, cipher-mode=cbcs"))
        }

        /// By frames of xHE-AAC and the like, a right key would be called a wrong one. Demuxers name no profile of them.
        @Test func framesOfKnownKindsAloneAreJudged() throws {
            func codec(_ fields: String) throws -> SampleCodec? {
                let caps = try #require(Caps("application/x-cenc, cipher-mode=cenc, \(fields)"))
                return try #require(EncryptedFormat(caps)).codec
            }
            #expect(try codec("original-media-type=audio/mpeg, mpegversion=4, base-profile=lc, profile=lc") == .aac)
            #expect(try codec("original-media-type=audio/mpeg, mpegversion=4") == nil)
            #expect(try codec("original-media-type=audio/mpeg, mpegversion=1, layer=3") == nil)
            #expect(try codec("original-media-type=audio/x-ac3") == .ac3)
            #expect(try codec("original-media-type=audio/x-opus") == .opus)
            #expect(try codec("original-media-type=audio/x-dts") == nil)
        }

        @Test func aStreamMayEndInAClearPart() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            let clear = Media.bytes(100)
            #expect(harness.push(try Media.sample(clear).makeBuffer()) == .ok)
            #expect(harness.change(caps: Media.clearVideo))
            #expect(harness.push(clear) == .ok)
            #expect(harness.change(caps: Media.bareVideo))
            #expect(harness.push(try Media.sample(clear).makeBuffer()) == .ok)
            #expect(harness.output.samples.map(\.bytes) == [clear, clear, clear])
            #expect(harness.output.caps.map { Caps($0)?.mediaType() } == [String](repeating: "video/x-h264", count: 3))
        }

        @Test func aChangeOfCapsChangesTheScheme() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.caps(.cenc))
            let clear = Media.bytes(200)
            #expect(harness.push(try Media.sample(clear).makeBuffer()) == .ok)
            #expect(harness.change(caps: "\(Media.caps(.cbcs)), width=640"))
            let cbcs = EncryptedSample(
                clear, keyID: Media.keyID,
                CommonEncryption(key: Media.key, scheme: .cbcs, vector: Media.vector16, subsamples: [(8, 192)]))
            #expect(harness.push(try cbcs.makeBuffer()) == .ok)
            #expect(harness.output.samples.map(\.bytes) == [clear, clear])
            #expect(harness.output.caps.last?.contains("width=(int)640") == true)
        }
    }
}
