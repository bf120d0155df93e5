// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyOutputs
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// Frames in other than plain memory, as hardware decoders make them.
    @Suite struct GuardMemoryTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static let size = "width=16,height=16,framerate=30/1"
        private static let modern = "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=YU12:0x0,\(size)"

        /// A white frame from a pool; it says of itself what it is.
        private func pushPooledFrame(on bench: GuardBench) throws -> GstFlowReturn {
            let pool = try #require(gst_buffer_pool_new())
            defer {
                gst_buffer_pool_set_active(pool, 0)
                gst_object_unref(pool)
            }
            let caps = try #require(Caps(GuardBench.raw))
            let config = gst_buffer_pool_get_config(pool)
            caps.withPointer { gst_buffer_pool_config_set_params(config, $0, 16 * 16 * 3 / 2, 0, 4) }
            #expect(gst_buffer_pool_set_config(pool, config) != 0)
            #expect(gst_buffer_pool_set_active(pool, 1) != 0)
            var buffer: UnsafeMutablePointer<GstBuffer>?
            #expect(gst_buffer_pool_acquire_buffer(pool, &buffer, nil) == GST_FLOW_OK)
            let frame = try #require(buffer)
            gst_buffer_memset(frame, 0, GuardTests.white, 16 * 16)
            gst_buffer_add_video_meta(frame, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_I420, 16, 16)
            frame.pointee.pts = 0
            return gst_pad_push(bench.pad, frame)
        }

        @Test(arguments: [
            "video/x-raw(memory:DMABuf),format=I420,\(size)", modern,
            "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=YU12,\(size)",
        ])
        func plainMemoryTakesThePlace(_ caps: String) throws {
            let bench = try GuardBench()
            try bench.start(caps: caps)
            bench.outputGuard.obey(GuardTests.blocked)
            #expect(try bench.pushFrame() == GST_FLOW_OK)
            #expect(bench.shown == [GuardTests.black])
            let last = try #require(bench.launched.recorders["screen"]?.caps.last)
            #expect(last.contains("I420"))
            #expect(!last.contains("DMABuf"))
            bench.outputGuard.obey(.allow)
            #expect(try bench.pushFrame() == GST_FLOW_OK)
            #expect(bench.frames.all.last?.luma == GuardTests.white)
            #expect(try #require(bench.launched.recorders["screen"]?.caps.last).contains("DMABuf"))
        }

        @Test(arguments: ["video/x-raw(memory:DMABuf),format=I420,\(size)", modern])
        func elseTheFramesOwnPoolGivesABlackOne(_ caps: String) throws {
            let bench = try GuardBench(between: #"capsfilter caps="video/x-raw(memory:DMABuf)" !"#)
            try bench.start(caps: caps)
            bench.outputGuard.obey(GuardTests.blocked)
            #expect(try pushPooledFrame(on: bench) == GST_FLOW_OK)
            #expect(bench.shown == [GuardTests.black])
            #expect(bench.launched.recorders["screen"]?.caps.count == 1)
            let sample = try #require(bench.launched.recorders["screen"]?.samples.first)
            #expect(sample.bytes == [UInt8](repeating: 16, count: 256) + [UInt8](repeating: 128, count: 128))
        }

        @Test func elseFramesAreLeftOutAndThatIsSaid() throws {
            let bench = try GuardBench(between: #"capsfilter caps="video/x-raw(memory:DMABuf)" !"#)
            try bench.start(caps: Self.modern)
            bench.outputGuard.obey(GuardTests.blocked)
            for time in 0..<3 as Range<UInt64> { #expect(try bench.pushFrame(at: time) == GST_FLOW_OK) }
            let recorder = try #require(bench.launched.recorders["screen"])
            #expect(recorder.samples.isEmpty)
            #expect(recorder.order.count { $0 == "gap" } == 3)
            let warning = try bench.launched.bus.next { $0.type == "warning" || $0.type == "error" }
            #expect(warning.type == "warning")
            #expect(warning.description.contains("left out"))
            // It goes on by itself.
            bench.outputGuard.obey(.allow)
            #expect(try bench.pushFrame(at: 4) == GST_FLOW_OK)
            #expect(recorder.samples.count == 1)
        }
    }
}
