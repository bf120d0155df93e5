// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Foundation
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyKeySession
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// What was decrypted before waits in front of the sinks, wherever they are, until the session is there or a flush has taken
    /// it away.
    @Suite struct SinkHoldTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        /// A pipeline in PAUSED with elements `start`, `last` and `end`, the sink behind `last`.
        private final class Bench {
            let launched: LaunchedPipeline
            let hold: SinkHold
            private let last: PadReference

            init(_ description: String) throws {
                launched = try LaunchedPipeline(description, recorded: ["end"])
                hold = SinkHold(behind: try Self.source(of: "start", launched))
                last = try Self.source(of: "last", launched)
                gst_element_set_state(launched.pipeline, GST_STATE_PAUSED)
                _ = gst_element_get_state(launched.pipeline, nil, nil, GstClockTime(TestProcess.deadline))
            }

            deinit {
                gst_element_set_state(launched.pipeline, GST_STATE_NULL)
                hold.forget()
            }

            private static func source(of name: String, _ launched: LaunchedPipeline) throws -> PadReference {
                let bin = UnsafeMutableRawPointer(launched.pipeline).assumingMemoryBound(to: GstBin.self)
                let element = try #require(gst_bin_get_by_name(bin, name))
                defer { gst_object_unref(element) }
                return PadReference(owning: try #require(gst_element_get_static_pad(element, "src")))
            }

            /// The element `start`, if it is one.
            func decryptor() throws -> Decryptor {
                let start = try Self.source(of: "start", launched).element?.implementation
                return try #require(start as? Decryptor)
            }

            func play() { gst_element_set_state(launched.pipeline, GST_STATE_PLAYING) }

            func seekToStart() -> Bool {
                gst_element_seek_simple(launched.pipeline, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 0) != 0
            }

            /// Whether a buffer waits in front of the sink.
            var isHeld: Bool { gst_pad_is_blocking(last.pointer) != 0 }

            /// How many buffers wait in `last`, if that is a queue.
            var level: FieldValue? { last.element?.reference.pointer.property("current-level-buffers") }

            var count: Int { launched.recorders["end"]?.samples.count ?? 0 }

            /// False at the deadline.
            func wait(until fits: (Bench) -> Bool) -> Bool {
                let deadline = MonotonicTime.now + TestProcess.deadline
                while !fits(self), MonotonicTime.now < deadline { g_usleep(1000) }
                return fits(self)
            }
        }

        private static let start = "audiotestsrc ! identity name=start ! "

        private static let ways = [
            "queue name=last ! fakesink name=end",
            "queue ! audioconvert ! queue name=last ! fakesink name=end",
            "bin.( queue ! identity name=last ! fakesink name=end )",
            "tee name=tee ! queue name=last ! fakesink name=end tee. ! queue ! fakesink",
            "input-selector sync-streams=false ! queue name=last ! fakesink name=end",
            "queue ! funnel ! identity name=last ! fakesink name=end",
        ]

        /// The sink has what it showed in PAUSED, and gets nothing before the end of the wait.
        @Test(arguments: ways) func mediaWaitsInFrontOfTheSink(_ way: String) throws {
            let bench = try Bench(Self.start + way)
            bench.hold.set(true)
            let shown = bench.count
            bench.play()
            try #require(bench.wait { $0.isHeld })
            #expect(bench.count == shown)
            bench.hold.set(false)
            #expect(bench.wait { $0.count > shown + 10 && !$0.isHeld })
        }

        private static let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Tests/Corpus/bento4-cbcs-muxed/media.mp4").standardizedFileURL.path
        private static let decryptor =
            "latchkeyisodec name=start keys=8c165712b40b72f91a7e348f544c0429:8ca42e796c411e7fd3508c7b30acc03c,"
            + "2f82caa83387991d81085866780bcec4:8463105ba7bc39f568cd5705d5c4aae6"

        /// As the session tells its decryptor.
        @Test func aWholeFileWaitsForItsSession() throws {
            let bench = try Bench(
                "filesrc location=\"\(Self.path)\" ! \(Self.decryptor) ! qtdemux name=demuxer "
                    + "demuxer.video_0 ! queue name=last ! fakesink name=end")
            let decryptor = try bench.decryptor()
            decryptor.keyEvent(.withheld(true))
            let shown = bench.count
            bench.play()
            try #require(bench.wait { $0.isHeld })
            #expect(bench.count == shown)
            decryptor.keyEvent(.withheld(false))
            #expect(bench.wait { $0.count > shown + 10 })
        }

        /// The stream's thread waits for room in a full queue. The stop of a whole pipeline begins with the sinks, and that of a
        /// decryptor alone does not.
        @Test func aDecryptorStopsAloneWhileMediaWaits() throws {
            let bench = try Bench(
                "filesrc blocksize=1024 location=\"\(Self.path)\" ! queue ! \(Self.decryptor) ! "
                    + "queue name=last max-size-buffers=3 max-size-bytes=0 max-size-time=0 ! fakesink name=end")
            let decryptor = try bench.decryptor()
            decryptor.keyEvent(.withheld(true))
            bench.play()
            try #require(bench.wait { $0.isHeld && $0.level == .uint(3) })
            #expect(gst_element_set_state(decryptor.reference.pointer, GST_STATE_READY) == GST_STATE_CHANGE_SUCCESS)
            #expect(bench.wait { !$0.isHeld })
        }

        /// What comes then was not decrypted before.
        @Test func aFlushEndsTheWait() throws {
            let bench = try Bench(Self.start + Self.ways[0])
            bench.hold.set(true)
            bench.play()
            try #require(bench.wait { $0.isHeld })
            let shown = bench.count
            #expect(bench.seekToStart())
            #expect(bench.wait { $0.count > shown + 10 })
            // The next time it waits again.
            bench.hold.set(false)
            bench.hold.set(true)
            #expect(bench.wait { $0.isHeld })
        }

        /// An event of the session may come when the decryptor has stopped.
        @Test func nothingWaitsBehindAnElementThatHasStopped() throws {
            let bench = try Bench(Self.start + Self.ways[0])
            bench.hold.set(true)
            bench.hold.forget()
            bench.hold.set(true)
            let shown = bench.count
            bench.play()
            #expect(bench.wait { $0.count > shown + 10 })
        }
    }
}
