// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyKeySession
import LatchkeyOutputs
import LatchkeyProtection
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// What a guard knows of its sink before the first media, and that it goes by what the user sets last.
    @Suite struct GuardMediaTests {
        private let session = KeySession()

        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private func outputGuard(
            in description: String, _ body: (LaunchedPipeline, GuardElement) throws -> Void
        ) throws {
            let launched = try LaunchedPipeline(description, recorded: [])
            var found: GuardElement?
            ElementReference(launched.pipeline).forEachAround(madeBy: GuardFactory.name) { found = $0 as? GuardElement }
            try body(launched, try #require(found))
        }

        @Test(arguments: [
            ("latchkeyguard name=guard ! videoconvert ! fakesink", OutputPolicy.Media.video as OutputPolicy.Media?),
            ("latchkeyguard name=guard ! audioconvert ! fakesink", .audio),
            ("audiotestsrc ! latchkeyguard name=guard ! fakesink", .audio),
            ("videotestsrc ! queue ! latchkeyguard name=guard ! fakesink", .video),
            // What a sink calls itself says nothing.
            ("latchkeyguard name=guard ! fakesink", nil),
            ("latchkeyguard name=guard ! appsink", nil),
            ("latchkeyguard name=guard ! autovideosink", nil),
            (#"playbin3 video-sink="latchkeyguard name=guard ! autovideosink""#, .video),
            (#"playbin3 audio-sink="latchkeyguard name=guard ! autoaudiosink""#, .audio),
            (#"playbin3 audio-sink="latchkeyguard name=guard ! appsink""#, .audio),
            (#"playbin3 video-filter="latchkeyguard name=guard""#, .video),
        ])
        func theCapsAndThePlaceTellBeforeAnyMedia(_ description: String, _ media: OutputPolicy.Media?) throws {
            try outputGuard(in: description) { launched, outputGuard in
                try GuardElement.joinAll(around: ElementReference(launched.pipeline), session)
                #expect(outputGuard.currentPost?.media == media)
                #expect(session.hasGuard(for: .audio) == (media == .audio))
                #expect(session.hasGuard(for: .video) == (media == .video))
            }
        }

        @Test func capsTellInTheEnd() throws {
            let bench = try GuardBench()
            Latchkey.attach(session, to: bench.launched.pipeline)
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(!session.hasGuard(for: .audio))
            let revision = session.revision
            bench.push(gst_event_new_stream_start("bench"))
            bench.push(try GuardBench.capsEvent("audio/x-raw,format=S16LE,rate=44100,channels=1,layout=interleaved"))
            #expect(session.hasGuard(for: .audio))
            #expect(!session.hasGuard(for: .video))
            #expect(session.revision != revision)
        }

        @Test func whatIsSetAfterJoiningCounts() throws {
            try outputGuard(in: "latchkeyguard name=guard outputs=application ! fakesink async=false") {
                launched, outputGuard in
                Latchkey.attach(session, to: launched.pipeline)
                try GuardElement.joinAll(around: outputGuard.reference, session)
                let first = try #require(outputGuard.currentPost)
                // What the application tells meanwhile is no other setting.
                #expect(outputGuard.set(.outputs([Output(name: "eDP-1", kind: .internalPanel)])))
                #expect(gst_element_set_state(launched.pipeline, GST_STATE_READY) == GST_STATE_CHANGE_SUCCESS)
                #expect(outputGuard.currentPost === first)
                gst_element_set_state(launched.pipeline, GST_STATE_NULL)

                try GuardElement.joinAll(around: outputGuard.reference, session)
                let second = try #require(outputGuard.currentPost)
                // A mode counts at once, and for the post that is there.
                outputGuard.reference.pointer.setProperty("hdmi-mode", .string("allow"))
                #expect(gst_element_set_state(launched.pipeline, GST_STATE_READY) == GST_STATE_CHANGE_SUCCESS)
                #expect(outputGuard.currentPost === second)
                gst_element_set_state(launched.pipeline, GST_STATE_NULL)

                try GuardElement.joinAll(around: outputGuard.reference, session)
                let third = try #require(outputGuard.currentPost)
                outputGuard.reference.pointer.setProperty("minimum-hdcp", .string("type-0"))
                #expect(gst_element_set_state(launched.pipeline, GST_STATE_READY) == GST_STATE_CHANGE_SUCCESS)
                #expect(outputGuard.currentPost !== third)
                #expect(session.outputLevel == .hdcpType1)
            }
        }

        @Test func aGuardThatCannotJoinIsTold() throws {
            try outputGuard(in: "latchkeyguard name=guard hdmi-mode=wrong ! fakesink") { _, outputGuard in
                let error = try #require(throws: KeyError.self) {
                    try GuardElement.joinAll(around: outputGuard.reference, session)
                }
                #expect(error.description.contains("hdmi-mode=wrong"))
                #expect(error.description.contains("guard"))
            }
            // The one that needs the guard says so, though the guard has no bus yet.
            let keys = "keys=\(Media.keyIDText):\(Media.hex(Media.key))"
            let launched = try LaunchedPipeline(
                "latchkeycencdec name=decryptor \(keys) ! fakesink latchkeyguard hdmi-mode=wrong ! fakesink",
                recorded: [])
            let bin = UnsafeMutableRawPointer(launched.pipeline).assumingMemoryBound(to: GstBin.self)
            let decryptor = try #require(gst_bin_get_by_name(bin, "decryptor"))
            defer { gst_object_unref(decryptor) }
            gst_element_set_locked_state(decryptor, 1)
            #expect(gst_element_set_state(decryptor, GST_STATE_PAUSED) == GST_STATE_CHANGE_FAILURE)
            let error = try launched.bus.nextError()
            #expect(error.source == "decryptor")
            #expect(error.description.contains("hdmi-mode=wrong"))
            gst_element_set_state(decryptor, GST_STATE_NULL)
        }
    }
}
