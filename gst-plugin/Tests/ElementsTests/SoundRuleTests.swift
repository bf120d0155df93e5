// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@testable import LatchkeyElements
@testable import LatchkeyContainers

extension ElementTests {
    /// Rules for sound hold for sound and for nothing else, whatever it comes in.
    @Suite struct SoundRuleTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        struct Medium: Sendable, CustomTestStringConvertible {
            let name: String
            let element: String
            let caps: String
            let isSound: Bool
            let testDescription: String
        }

        private static let stream = "application/x-latchkey-ts"
        private static let fragments =
            "application/x-latchkey-iso, variant=mss-fragmented, default-kid=(string)\(Media.keyIDText), "

        static let media = [
            Medium(
                name: "hls-ts-sampleaes-skd-aac/a_1.ts", element: "latchkeytsdec", caps: stream, isSound: true,
                testDescription: "sound in a transport stream"),
            Medium(
                name: "hls-ts-sampleaes-skd-aac/v_1.ts", element: "latchkeytsdec", caps: stream, isSound: false,
                testDescription: "pictures in a transport stream"),
            Medium(
                name: "hls-packed-aac-sampleaes/a_1.aac", element: "latchkeytsdec", caps: stream, isSound: true,
                testDescription: "packed audio"),
            Medium(
                name: "smooth-piff-ctr/QualityLevels(64000)/Fragments(audio=19840000)", element: "latchkeyisodec",
                caps: fragments + "media-caps=(GstCaps)[audio/mpeg]", isSound: true,
                testDescription: "a Smooth Streaming fragment of sound"),
            Medium(
                name: "smooth-piff-ctr/QualityLevels(200000)/Fragments(video=0)", element: "latchkeyisodec",
                caps: fragments + "media-caps=(GstCaps)[video/x-h264]", isSound: false,
                testDescription: "a Smooth Streaming fragment of pictures"),
        ]

        @Test(arguments: media, [OutputPolicy.Media.audio, .video])
        func theRuleIsForOneMedium(medium: Medium, forbidden: OutputPolicy.Media) throws {
            let open = try OpenSession()
            let keyID = try #require(KeyID(Media.keyID))
            try install(try #require(ContentKey(Media.key)), keyID, forbidden: forbidden, in: open)
            let harness = try Harness(medium.element, context: open.context)
            harness.start(caps: medium.caps)
            if medium.element == "latchkeytsdec" {
                let note = SegmentKey(
                    keyID: keyID, initializationVector: InitializationVector([UInt8](repeating: 0, count: 16)))
                let isPacked = medium.name.hasSuffix(".aac")
                _ = harness.push(isPacked ? note.id3Tag() : note.transportStreamPackets())
            }
            _ = harness.push(try SampleAESCase.read(medium.name))
            _ = harness.pushEndOfStream()
            try check(harness, isForbidden: (forbidden == .audio) == medium.isSound, forbidden)
        }

        struct Content: Sendable, CustomTestStringConvertible {
            let name: String
            let media: [OutputPolicy.Media]
            let testDescription: String
        }

        static let contents = [
            Content(name: "hls-packed-aac-sampleaes/a_1.aac", media: [.audio], testDescription: "packed audio"),
            Content(
                name: "hls-ts-sampleaes-skd-aac/a_1.ts", media: [.audio], testDescription: "sound in a transport stream"
            ),
            Content(
                name: "hls-ts-sampleaes-skd-aac/v_1.ts", media: [.video],
                testDescription: "pictures in a transport stream"),
            Content(
                name: "hls-ts-muxed-sampleaes-bento4/segment-0.ts", media: [.audio, .video],
                testDescription: "both in a transport stream"),
        ]

        /// What is inside an envelope shows when it is decrypted, and nothing goes on before. A transport stream is
        /// decrypted whole, so that the rules for all of its media hold.
        @Test(arguments: contents, [OutputPolicy.Media.audio, .video])
        func inAnEnvelopeTheContentTells(content: Content, forbidden: OutputPolicy.Media) throws {
            let open = try OpenSession()
            let keyID = try #require(KeyID(Media.keyID))
            let key = try #require(ContentKey(Media.key))
            try install(key, keyID, forbidden: forbidden, in: open)
            var bytes = try SampleAESCase.read(content.name)
            let counter = InitializationVector(high: 7, low: 0)
            try bytes.withUnsafeMutableBytes {
                try SampleCipher(key: key).decrypt(SamplePlan(scheme: .cenc, initializationVector: counter), in: $0)
            }
            let harness = try Harness("latchkeytsdec", context: open.context)
            harness.start(caps: Self.stream)
            let segment = CarriedSegment(keyID: keyID, initialCounter: counter, start: 0)
            _ = harness.push(segment.transportStreamPackets(of: bytes))
            _ = harness.pushEndOfStream()
            let isForbidden = content.media.contains(forbidden)
            try check(harness, isForbidden: isForbidden, forbidden)
            let isSilent = harness.output.samples.isEmpty
            #expect(isSilent == isForbidden)
        }

        private func install(
            _ key: ContentKey, _ keyID: KeyID, forbidden: OutputPolicy.Media, in open: OpenSession
        ) throws {
            var policy = OutputPolicy.unrestricted
            if forbidden == .audio { policy.digitalAudio = .block } else { policy.digitalVideo = .block }
            var terms = KeyTerms()
            terms.outputPolicies[keyID] = policy
            open.session.install([keyID: key], terms: terms)
        }

        private func check(_ harness: Harness, isForbidden: Bool, _ forbidden: OutputPolicy.Media) throws {
            if isForbidden {
                let error = try harness.bus.nextError()
                #expect("\(error)".contains("allows no output for digital \(forbidden)"), "\(error)")
            } else {
                #expect(!harness.output.samples.isEmpty)
            }
        }
    }
}
