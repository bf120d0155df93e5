// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyKeySession
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension ElementTests {
    @Suite struct GuardTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        static let black: UInt8 = 16
        static let white: UInt8 = 235

        static let blocked: OutputDecision = {
            var decision = OutputDecision()
            (decision.isVideoBlocked, decision.reasons) = (true, ["a test"])
            return decision
        }()

        /// White frames at 60 a second, ten of them in front of the guard.
        struct Screen {
            let launched: LaunchedPipeline
            let outputGuard: GuardElement
            let frames: RenderedFrames

            init(_ extra: String = "", sink: String = "", recorded: [String] = [], format: String = "I420") throws {
                launched = try LaunchedPipeline(
                    "videotestsrc name=source pattern=white ! video/x-raw,format=\(format),width=320,height=240,"
                        + "framerate=60/1 ! queue max-size-buffers=10 max-size-time=0 max-size-bytes=0 ! "
                        + "latchkeyguard name=guard outputs=application ! "
                        + "fakesink name=screen sync=true signal-handoffs=true \(sink) \(extra)",
                    recorded: recorded)
                let bin = UnsafeMutableRawPointer(launched.pipeline).assumingMemoryBound(to: GstBin.self)
                guard let element = gst_bin_get_by_name(bin, "guard"), let sink = gst_bin_get_by_name(bin, "screen"),
                    let outputGuard = GuardElement.implementation(of: element)
                else { throw TestFailure("no guard") }
                // The pipeline keeps both.
                gst_object_unref(element)
                gst_object_unref(sink)
                self.outputGuard = outputGuard
                frames = RenderedFrames(of: sink)
            }

            func set(_ state: GstState) -> GstStateChangeReturn { gst_element_set_state(launched.pipeline, state) }

            /// What the sink and the pipeline are at, for failures.
            var state: String {
                let bin = UnsafeMutableRawPointer(launched.pipeline).assumingMemoryBound(to: GstBin.self)
                guard let sink = gst_bin_get_by_name(bin, "screen") else { return "no sink" }
                defer { gst_object_unref(sink) }
                func text(_ element: UnsafeMutablePointer<GstElement>) -> String {
                    "\(element.pointee.current_state.rawValue)/\(element.pointee.next_state.rawValue)/"
                        + "\(element.pointee.pending_state.rawValue)/\(element.pointee.last_return.rawValue)"
                }
                let counters = outputGuard.counters.withLock { $0 }
                return "pipeline \(text(launched.pipeline)), sink \(text(sink)), passed \(counters.passed), blocked "
                    + "\(counters.blocked), closings \(counters.closings), last frames "
                    + frames.all.suffix(6).map { "\($0.isPreroll ? "p" : "")\($0.luma)" }.joined(separator: " ")
            }

            /// Waits until so many frames of this kind were rendered from frame number `start` on.
            func shows(_ luma: UInt8, _ count: Int, from start: Int) -> Bool {
                frames.wait(from: start) { $0.count { !$0.isPreroll && $0.luma == luma } >= count }
            }
        }

        @Test func nothingIsShownAfterClosingReturns() throws {
            let screen = try Screen(
                "audiotestsrc samplesperbuffer=441 ! audio/x-raw,rate=44100 ! queue ! fakesink name=sound sync=true",
                recorded: ["sound"])
            _ = screen.set(GST_STATE_PLAYING)
            var leaked = 0
            for round in 0..<200 {
                let opened = screen.frames.count
                screen.outputGuard.obey(.allow)
                let isWhite = screen.shows(Self.white, 1 + round % 3, from: opened)
                #expect(isWhite, "round \(round): \(screen.state)")
                screen.outputGuard.obey(Self.blocked)
                let closed = screen.frames.count
                let isBlack = screen.shows(Self.black, 2, from: closed)
                #expect(isBlack, "round \(round): \(screen.state)")
                leaked += screen.frames.all[closed...].count { $0.luma != Self.black }
            }
            #expect(leaked == 0)
            _ = screen.set(GST_STATE_NULL)
            let counters = screen.outputGuard.counters.withLock { $0 }
            #expect(counters.closings == 200)

            // The sound went on as if nothing had been.
            let sound = try #require(screen.launched.recorders["sound"])
            #expect(!sound.order.contains("flush-start"))
            let samples = sound.samples
            #expect(samples.count > 200)
            for (first, second) in zip(samples, samples.dropFirst()) {
                #expect(first.presentationTime + first.duration == second.presentationTime)
            }
        }

        /// So that the session does not count the time of a pause.
        @Test func whetherItPlaysIsTold() throws {
            let screen = try Screen()
            func isIn(_ state: GstState) -> Bool {
                _ = screen.set(state)
                return gst_element_get_state(screen.launched.pipeline, nil, nil, GstClockTime(TestProcess.deadline))
                    == GST_STATE_CHANGE_SUCCESS
            }
            #expect(isIn(GST_STATE_PAUSED))
            let post = try #require(screen.outputGuard.currentPost)
            #expect(!post.isPlaying)
            #expect(isIn(GST_STATE_PLAYING))
            #expect(post.isPlaying)
            #expect(isIn(GST_STATE_PAUSED))
            #expect(!post.isPlaying)
            _ = screen.set(GST_STATE_NULL)
        }

        @Test func theFrameInTheSinkIsTakenBackWhilePaused() throws {
            let screen = try Screen()
            _ = screen.set(GST_STATE_PAUSED)
            #expect(screen.frames.wait { !$0.isEmpty })
            #expect(screen.frames.all.allSatisfy { $0.luma == Self.white })
            let shown = screen.frames.count
            screen.outputGuard.obey(Self.blocked)
            // Shown in the place of the prerolled frame, though nothing plays.
            #expect(screen.frames.wait(from: shown) { !$0.isEmpty })
            #expect(screen.frames.all[shown...].allSatisfy { $0.luma == Self.black })
            #expect(
                gst_element_get_state(screen.launched.pipeline, nil, nil, GstClockTime(TestProcess.deadline))
                    == GST_STATE_CHANGE_SUCCESS)
            #expect(lastSample(of: screen) == Self.black)
        }

        @Test func whatIsClosedBeforePrerollIsNeverShown() throws {
            let screen = try Screen()
            screen.outputGuard.obey(Self.blocked)
            _ = screen.set(GST_STATE_PLAYING)
            #expect(screen.shows(Self.black, 5, from: 0))
            #expect(screen.frames.all.allSatisfy { $0.luma == Self.black })
            #expect(lastSample(of: screen) == Self.black)
            let start = screen.frames.count
            screen.outputGuard.obey(.allow)
            #expect(screen.shows(Self.white, 2, from: start))
        }

        @Test func closingAtTheEndBlanksTheLastFrame() throws {
            let screen = try Screen(sink: "async=false")
            let source = try #require(element("source", in: screen))
            UnsafeMutablePointer(source).setProperty("num-buffers", .uint(3))
            _ = screen.set(GST_STATE_PLAYING)
            #expect(try screen.launched.bus.next { $0.type == "eos" }.type == "eos")
            let shown = screen.frames.count
            screen.outputGuard.obey(Self.blocked)
            #expect(screen.frames.wait(from: shown) { !$0.isEmpty })
            #expect(screen.frames.all[shown...].allSatisfy { $0.luma == Self.black })
        }

        @Test func aLimitTakesDetailOut() throws {
            let launched = try LaunchedPipeline(
                "videotestsrc pattern=snow num-buffers=2 ! video/x-raw,format=I420,width=64,height=48 ! "
                    + "latchkeyguard name=guard outputs=application ! fakesink name=screen",
                recorded: ["screen"])
            let bin = UnsafeMutableRawPointer(launched.pipeline).assumingMemoryBound(to: GstBin.self)
            let element = try #require(gst_bin_get_by_name(bin, "guard"))
            defer { gst_object_unref(element) }
            var limit = OutputDecision()
            limit.maximumPixels = 64 * 48 / 16
            try #require(GuardElement.implementation(of: element)).obey(limit)
            #expect(try launched.play().type == "eos")
            let samples = try #require(launched.recorders["screen"]).samples
            #expect(samples.count == 2)
            for sample in samples {
                #expect(sample.bytes.count == 64 * 48 * 3 / 2)
                for y in 0..<48 {
                    for x in 0..<64 {
                        #expect(sample.bytes[y * 64 + x] == sample.bytes[(y - y % 4) * 64 + x - x % 4])
                    }
                }
                #expect(Set(sample.bytes[..<(64 * 48)]).count > 16)
            }
        }

        /// Nothing tells how large they are.
        @Test func aLimitHoldsForFramesWhoseCapsHaveNoSize() throws {
            let bench = try GuardBench()
            try bench.start(caps: "video/x-raw,format=I420,framerate=30/1")
            var limit = OutputDecision()
            limit.maximumPixels = 64
            bench.outputGuard.obey(limit)
            try bench.pushFrame()
            #expect(bench.shown.isEmpty)
            bench.outputGuard.obey(.allow)
            try bench.pushFrame(at: 1)
            #expect(bench.shown == [Self.white])
        }

        @Test(arguments: ["I420", "NV12", "YUY2", "GRAY8", "P010_10LE", "BGRA", "RGB", "AYUV", "Y42B", "v210"])
        func blackIsBlackInEveryFormat(_ format: String) throws {
            let launched = try LaunchedPipeline(
                "videotestsrc pattern=white num-buffers=3 ! video/x-raw,format=\(format),width=33,height=17 ! "
                    + "latchkeyguard name=guard outputs=application ! videoconvert ! "
                    + "video/x-raw,format=ARGB ! fakesink name=screen", recorded: ["screen"])
            let bin = UnsafeMutableRawPointer(launched.pipeline).assumingMemoryBound(to: GstBin.self)
            let element = try #require(gst_bin_get_by_name(bin, "guard"))
            defer { gst_object_unref(element) }
            try #require(GuardElement.implementation(of: element)).obey(Self.blocked)
            #expect(try launched.play().type == "eos")
            let samples = try #require(launched.recorders["screen"]).samples
            #expect(samples.count == 3)
            for sample in samples {
                let pixels = stride(from: 0, to: sample.bytes.count, by: 4).map { Array(sample.bytes[$0 + 1..<$0 + 4]) }
                #expect(pixels.allSatisfy { $0.allSatisfy { $0 <= 2 } }, "\(format)")
            }
        }

        @Test func blockedSoundIsSilence() throws {
            let launched = try LaunchedPipeline(
                "audiotestsrc num-buffers=10 ! audio/x-raw,format=S16LE ! "
                    + "latchkeyguard name=guard outputs=application ! fakesink name=sound", recorded: ["sound"])
            let bin = UnsafeMutableRawPointer(launched.pipeline).assumingMemoryBound(to: GstBin.self)
            let element = try #require(gst_bin_get_by_name(bin, "guard"))
            defer { gst_object_unref(element) }
            var decision = OutputDecision()
            decision.isAudioBlocked = true
            try #require(GuardElement.implementation(of: element)).obey(decision)
            #expect(try launched.play().type == "eos")
            let recorder = try #require(launched.recorders["sound"])
            #expect(recorder.samples.isEmpty)
            #expect(recorder.order.count { $0 == "gap" } == 10)
        }

        @Test(arguments: [
            "outputs=wrong", "outputs=script:/dev/null/script", "outputs=script:/etc", "hdmi-mode=wrong",
            "minimum-hdcp=wrong",
        ])
        func aPropertyThatCannotBeUsedIsAnError(_ property: String) throws {
            let launched = try LaunchedPipeline(
                "videotestsrc ! latchkeyguard \(property) ! fakesink", recorded: [])
            #expect(gst_element_set_state(launched.pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
            let error = try launched.bus.nextError()
            #expect(
                error.description.contains(String(property.split(separator: "=")[0]))
                    || error.description.contains("script"))
        }

        private func element(_ name: String, in screen: Screen) -> UnsafeMutablePointer<GstElement>? {
            let bin = UnsafeMutableRawPointer(screen.launched.pipeline).assumingMemoryBound(to: GstBin.self)
            guard let element = gst_bin_get_by_name(bin, name) else { return nil }
            gst_object_unref(element)
            return element
        }

        /// The first byte of what a snapshot would take.
        private func lastSample(of screen: Screen) -> UInt8? {
            guard let sink = element("screen", in: screen), let sample = ekt_last_sample(sink) else { return nil }
            defer { ek_mini_object_unref(UnsafeMutableRawPointer(sample)) }
            var luma: UInt8 = 0
            gst_buffer_extract(gst_sample_get_buffer(sample), 0, &luma, 1)
            return luma
        }
    }
}
