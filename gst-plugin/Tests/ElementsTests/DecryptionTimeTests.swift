// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Foundation
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements
@testable import LatchkeyKeySession

extension ElementTests {
    /// How long decryption takes, as the log of an agent has it.
    @Suite struct DecryptionTimeTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        @Test func eachKeyHasItsTimes() {
            var times = DecryptionTimes()
            let keys = (0..<17).map { KeyID(high: 7, low: $0) }
            let added = [
                times.add(keys[0], bytes: 10, time: 3000), times.add(nil, bytes: 1, time: 999),
                times.add(keys[0], bytes: 20, time: 9500), times.add(keys[0], bytes: 5, time: 1000),
            ]
            #expect(added.allSatisfy { $0 })
            #expect(
                times.lines { $0.map { "\($0)" } ?? "none" } == [
                    "decryption, \(keys[0]): 3 samples, 35 bytes in 13 µs, at most 9 µs for one",
                    "decryption, none: 1 samples, 1 bytes in 0 µs, at most 0 µs for one",
                ])
            // A stream may rotate keys for ever.
            let later = (keys[1..<16] + keys[..<1]).map { times.add($0, bytes: 1, time: 1) }
            #expect(later == [Bool](repeating: true, count: 14) + [false, true])
            #expect(times.lines { _ in "" }.count == 16)
        }

        private final class Lines: Sendable {
            let all = Mutex<[String]>([])
            func take() -> [String] {
                all.withLock { all in
                    defer { all = [] }
                    return all
                }
            }
        }

        @Test func theyAreLoggedAtSeeksAndAtTheEnd() throws {
            let lines = Lines()
            var configuration = KeySessionConfiguration()
            configuration.decryptionLog = { line in lines.all.withLock { $0.append(line) } }
            let session = KeySession(configuration: configuration)
            let keyID = try #require(KeyID(Media.keyID))
            session.install([keyID: try #require(ContentKey(Media.key))])
            let shared = SharedSession(session, ControlSettings())
            var harness = try Harness("latchkeycencdec", context: SharedSession.context(for: shared))
            harness.start(caps: Media.bareVideo)
            var pushed = 0
            func push(_ count: Int) throws {
                for number in 0..<count {
                    #expect(harness.push(try Media.sample(Media.bytes(20 + number)).makeBuffer()) == .ok)
                }
                pushed += count
                #expect(harness.output.wait(samples: pushed))
                #expect(lines.take().isEmpty)
            }
            func logged(_ samples: Int, _ bytes: Int) {
                let found = lines.take()
                let start = "decryption, KID \(keyID): \(samples) samples, \(bytes) bytes in "
                #expect(found.count == 1 && found.allSatisfy { $0.hasPrefix(start) }, "\(found)")
            }
            try push(2)
            #expect(harness.push(try Event.flushStart()))
            #expect(harness.push(try Event.flushStop()))
            logged(2, 41)
            #expect(harness.push(try Event.segment()))
            try push(3)
            #expect(harness.pushEndOfStream())
            logged(3, 63)
            #expect(harness.setState(GST_STATE_NULL) == GST_STATE_CHANGE_SUCCESS)
            #expect(lines.take().isEmpty)
            // A stop without an end.
            harness = try Harness("latchkeycencdec", context: SharedSession.context(for: shared))
            harness.start(caps: Media.bareVideo)
            pushed = 0
            try push(1)
            #expect(harness.setState(GST_STATE_NULL) == GST_STATE_CHANGE_SUCCESS)
            logged(1, 20)
            withExtendedLifetime(shared) {}
        }

        /// A demuxer may read so much at once that several keys are in it.
        @Test func eachKeyOfARangeHasItsTimes() throws {
            let lines = Lines()
            var configuration = KeySessionConfiguration()
            configuration.decryptionLog = { line in lines.all.withLock { $0.append(line) } }
            let session = KeySession(configuration: configuration)
            let video = try #require(KeyID(hex: "8c165712b40b72f91a7e348f544c0429"))
            let audio = try #require(KeyID(hex: "2f82caa83387991d81085866780bcec4"))
            session.install([
                video: try #require(ContentKey(hex: "8ca42e796c411e7fd3508c7b30acc03c")),
                audio: try #require(ContentKey(hex: "8463105ba7bc39f568cd5705d5c4aae6")),
            ])
            let shared = SharedSession(session, ControlSettings())
            let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appendingPathComponent("../../../Tests/Corpus/bento4-cbcs-muxed/media.mp4").standardizedFileURL.path
            let launched = try LaunchedPipeline("filesrc location=\"\(path)\" ! latchkeyisodec name=dec", recorded: [])
            let bin = UnsafeMutableRawPointer(launched.pipeline).assumingMemoryBound(to: GstBin.self)
            let decryptor = try #require(gst_bin_get_by_name(bin, "dec"))
            defer { gst_object_unref(decryptor) }
            let pad = try #require(gst_element_get_static_pad(decryptor, "src"))
            defer { gst_object_unref(pad) }
            SharedSession.context(for: shared)?.withPointer { gst_element_set_context(decryptor, $0) }
            // As a demuxer does: before the source begins to push.
            #expect(gst_element_set_state(launched.pipeline, GST_STATE_READY) == GST_STATE_CHANGE_SUCCESS)
            #expect(gst_pad_activate_mode(pad, GST_PAD_MODE_PULL, 1) != 0)
            #expect(gst_element_set_state(launched.pipeline, GST_STATE_PAUSED) == GST_STATE_CHANGE_SUCCESS)
            var buffer: UnsafeMutablePointer<GstBuffer>?
            #expect(gst_pad_get_range(pad, 0, 1 << 20, &buffer) == GST_FLOW_OK)
            #expect(Buffer(owning: try #require(buffer)).size == 138_135)
            #expect(lines.take().isEmpty)
            #expect(gst_element_set_state(launched.pipeline, GST_STATE_NULL) == GST_STATE_CHANGE_SUCCESS)
            let found = lines.take()
            try #require(found.count == 2, "\(found)")
            #expect(found[0].hasPrefix("decryption, KID \(video): 100 samples, 98679 bytes in "), "\(found)")
            #expect(found[1].hasPrefix("decryption, KID \(audio): 189 samples, 32714 bytes in "), "\(found)")
            withExtendedLifetime(shared) {}
        }
    }
}
