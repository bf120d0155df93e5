// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// Whether pictures that leave a pad come to a guard, in pipelines that are there and in those that grow.
    @Suite struct PictureRouteTests {
        private let session = KeySession()

        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        /// A pipeline whose elements have seen caps, and a route from the source pad of its element `start`.
        private final class Bench {
            let launched: LaunchedPipeline
            let route: PictureRoute
            let told: Told

            init(_ description: String, _ session: KeySession, recorded: [String] = []) throws {
                launched = try LaunchedPipeline(description, recorded: recorded)
                Latchkey.attach(session, to: launched.pipeline)
                let start = try #require(gst_bin_get_by_name(Self.bin(launched), "start"))
                defer { gst_object_unref(start) }
                let pad = try #require(gst_element_get_static_pad(start, "src"))
                let told = Told()
                route = PictureRoute(from: PadReference(owning: pad), session: session) { _, _ in told.tell() }
                self.told = told
            }

            deinit {
                gst_element_set_state(launched.pipeline, GST_STATE_NULL)
                route.forget()
            }

            static func bin(_ launched: LaunchedPipeline) -> UnsafeMutablePointer<GstBin> {
                UnsafeMutableRawPointer(launched.pipeline).assumingMemoryBound(to: GstBin.self)
            }

            func element(_ name: String) throws -> UnsafeMutablePointer<GstElement> {
                let element = try #require(gst_bin_get_by_name(Self.bin(launched), name))
                gst_object_unref(element)
                return element
            }

            func pad(_ name: String, of elementName: String) throws -> PadReference {
                PadReference(owning: try #require(gst_element_get_static_pad(try element(elementName), name)))
            }

            /// From NULL. Right behind PLAYING, a GstPipeline is never done now and then: of starts of stock videotestsrc !
            /// fakesink, 4 of 359 on 1.22, 5 of 10 on 1.26 and 5 of 165 on 1.28. All elements are in PAUSED then.
            func preroll() {
                gst_element_set_state(launched.pipeline, GST_STATE_PAUSED)
                _ = gst_element_get_state(launched.pipeline, nil, nil, GstClockTime(TestProcess.deadline))
            }

            /// How many buffers came to a sink.
            func cameTo(_ name: String) -> Int { launched.recorders[name]?.samples.count ?? 0 }

            /// How many of them are larger than those of `audiotestsrc`.
            func picturesCameTo(_ name: String) -> Int {
                launched.recorders[name]?.samples.count { $0.bytes.count > 50_000 } ?? 0
            }

            func soundCameTo(_ name: String) -> Int { cameTo(name) - picturesCameTo(name) }

            /// Opens or closes a valve.
            func hold(_ valve: String, _ isHeld: Bool) throws {
                try element(valve).setProperty("drop", .boolean(isHeld))
            }

            /// Has the element `join` send on what comes to this pad, if it is an input-selector.
            func select(_ name: String) throws {
                let join = try element("join")
                guard ElementReference(join).factoryName == "input-selector" else { return }
                let pad = try #require(gst_element_get_static_pad(join, name))
                defer { gst_object_unref(UnsafeMutableRawPointer(pad)) }
                var value = GValue()
                ek_value_init(&value, gst_pad_get_type())
                g_value_set_object(&value, pad)
                let object = UnsafeMutableRawPointer(join).assumingMemoryBound(to: GObject.self)
                g_object_set_property(object, "active-pad", &value)
                g_value_unset(&value)
            }

            /// False at the deadline.
            func wait(until fits: (Bench) -> Bool) -> Bool {
                let deadline = MonotonicTime.now + TestProcess.deadline
                while !fits(self), MonotonicTime.now < deadline { g_usleep(1000) }
                return fits(self)
            }

            var refusal: String? { route.refusal(of: KeyID(high: 1, low: 2))?.description }
        }

        private final class Told: Sendable {
            private let count = Atomic(0)
            func tell() { count.add(1, ordering: .relaxed) }
            var times: Int { count.load(ordering: .relaxed) }
        }

        private static let pictures = "videotestsrc ! identity name=start ! "

        @Test(arguments: [
            "latchkeyguard ! fakesink",
            "queue ! videoconvert ! latchkeyguard ! queue ! fakesink",
            "tee name=tee ! queue ! latchkeyguard ! fakesink tee. ! queue ! latchkeyguard ! fakesink",
            "latchkeyguard ! tee name=tee ! queue ! fakesink tee. ! queue ! fakesink",
            "bin.( latchkeyguard ! fakesink )",
            "funnel ! latchkeyguard ! fakesink",
            "concat ! latchkeyguard ! fakesink",
            "compositor ! latchkeyguard ! fakesink",
            // One of the two is not active.
            "input-selector sync-streams=false name=join ! latchkeyguard ! fakesink videotestsrc ! join.",
            "latchkeyguard ! fakesink audiotestsrc ! audiomixer name=join ! fakesink audiotestsrc ! join.",
            "queue.sink_0 queue.src_0 ! latchkeyguard ! fakesink multiqueue name=queue "
                + "audiotestsrc ! queue.sink_1 queue.src_1 ! fakesink",
        ])
        func everyBranchHasAGuard(_ rest: String) throws {
            let bench = try Bench(Self.pictures + rest, session)
            bench.preroll()
            #expect(bench.refusal == nil)
        }

        @Test(arguments: [
            ("fakesink name=end", "end"),
            ("fakesink name=end latchkeyguard ! fakesink async=false", "end"),
            ("fakesink name=end latchkeyguard ! appsink async=false", "end"),
            ("appsink name=end", "end"),
            ("videoconvert ! queue ! fakesink name=end", "end"),
            ("tee name=tee ! queue ! latchkeyguard ! fakesink tee. ! queue ! fakesink name=end", "end"),
            ("tee name=tee ! queue ! fakesink name=end tee. ! queue ! latchkeyguard ! fakesink", "end"),
            ("bin.( queue ! fakesink name=end )", "end"),
            ("multiqueue ! queue ! fakesink name=end", "end"),
            ("capssetter join=false replace=true caps=audio/x-raw ! fakesink name=end", "end"),
            ("multiqueue ! capssetter join=false replace=true caps=audio/x-raw ! fakesink name=end", "end"),
            // This guard takes them for sound.
            ("capssetter join=false replace=true caps=audio/x-raw ! latchkeyguard ! fakesink name=end", "end"),
        ])
        func aBranchHasNone(_ rest: String, _ sink: String) throws {
            let bench = try Bench(Self.pictures + rest, session)
            bench.preroll()
            let refusal = try #require(bench.refusal)
            #expect(refusal.contains("pictures") && refusal.contains("latchkeyguard") && refusal.contains(sink))
        }

        private static let cameToBarePad = Atomic(0)

        /// As those of test harnesses are. What its owner does with pictures is not known.
        @Test func aPadWithoutAnElementIsASink() throws {
            let bench = try Bench(Self.pictures + "valve name=gate drop=true ! identity name=last", session)
            let pad = try #require(gst_pad_new("bare", GST_PAD_SINK))
            gst_object_ref_sink(pad)
            let bare = PadReference(owning: pad)
            gst_pad_set_chain_function_full(
                pad,
                { _, _, buffer in
                    if let buffer { _ = Buffer(owning: buffer) }
                    PictureRouteTests.cameToBarePad.add(1, ordering: .relaxed)
                    return GST_FLOW_OK
                }, nil, nil)
            gst_pad_set_active(pad, 1)
            defer { gst_pad_set_active(pad, 0) }
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(bench.refusal == nil)
            let last = try bench.pad("src", of: "last")
            #expect(gst_pad_link(last.pointer, bare.pointer) == GST_PAD_LINK_OK)
            defer { gst_pad_unlink(last.pointer, bare.pointer) }
            try bench.hold("gate", false)
            #expect(bench.wait { $0.told.times > 0 })
            #expect(Self.cameToBarePad.load(ordering: .relaxed) == 0)
            #expect(bench.refusal?.contains("bare") == true)
        }

        /// A tee stands for an element that sends media elsewhere, and on by pads that come on request. It has none yet.
        @Test(arguments: [false, true]) func aSinkThatMayHaveSourcePadsIsASink(isSink: Bool) throws {
            let bench = try Bench(
                "videotestsrc is-live=true ! identity name=start ! tee name=end allow-not-linked=true", session,
                recorded: ["start"])
            if isSink { try bench.element("end").pointee.object.flags |= GST_ELEMENT_FLAG_SINK.rawValue }
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            // The caps are known.
            #expect(bench.wait { $0.cameTo("start") > 0 })
            #expect((bench.refusal?.contains("end") == true) == isSink)
        }

        @Test func soundNeedsNone() throws {
            let bench = try Bench("audiotestsrc ! identity name=start ! queue ! fakesink", session)
            bench.preroll()
            #expect(bench.refusal == nil)
        }

        /// Containers of sound may have pictures, and so may what is not known.
        @Test(arguments: [
            ("audio/mpeg", false), ("text/x-raw", false), ("subpicture/x-dvd", false),
            ("closedcaption/x-cea-608", false),
            ("application/x-ssa", false), ("application/ttml+xml", false), ("audio/x-m4a", true), ("audio/ogg", true),
            ("audio/webm", true), ("audio/x-matroska", true), ("image/jpeg", true), ("video/x-h264", true),
            ("application/x-unknown", true), ("application/x-id3", true),
        ])
        func soundAndTextAloneNeedNone(_ type: String, needsGuard: Bool) throws {
            let bench = try Bench("fakesrc sizetype=fixed ! \(type) ! identity name=start ! fakesink name=end", session)
            bench.preroll()
            #expect((bench.refusal?.contains("end") == true) == needsGuard)
        }

        /// As packed audio has it.
        @Test func soundBehindATagNeedsNone() throws {
            let bench = try Bench(
                "fakesrc sizetype=fixed ! application/x-id3 ! identity name=start ! "
                    + "capssetter join=false replace=true caps=audio/mpeg ! fakesink name=end", session)
            bench.preroll()
            #expect(bench.refusal == nil)
        }

        // MARK: Elements that join streams

        /// The second passes on the caps of the stream that came first, and no others.
        private static let joins = [
            "funnel", "funnel forward-sticky-events=false", "input-selector sync-streams=false", "concat",
        ]

        /// Pictures and sound that one pad sends on. A guard that is linked to nothing stands beside.
        private static func joined(
            _ join: String, _ first: String, _ second: String, before sink: String = ""
        ) -> String {
            "latchkeyguard \(join) name=join ! \(sink)fakesink name=end async=false "
                + "\(first) ! join. \(second) ! join."
        }

        /// The caps at the sink are of sound when the key is used. The valve keeps the pictures back, with their caps.
        @Test(arguments: joins) func picturesThatJoinSoundAreFollowed(_ join: String) throws {
            let bench = try Bench(
                Self.joined(
                    join, "audiotestsrc is-live=true",
                    "videotestsrc is-live=true ! identity name=start ! valve name=pictures drop=true"),
                session, recorded: ["start", "end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(bench.wait { $0.soundCameTo("end") > 0 && $0.cameTo("start") > 0 })
            #expect(bench.refusal?.contains("end") == true)
            #expect(bench.picturesCameTo("end") == 0)
        }

        /// The same where pictures came before the sound.
        @Test(arguments: joins) func picturesThatSoundJoinsAreFollowed(_ join: String) throws {
            let isEnding = join == "concat"
            let bench = try Bench(
                Self.joined(
                    join,
                    "videotestsrc is-live=true num-buffers=\(isEnding ? 3 : -1) ! identity name=start ! "
                        + "valve name=pictures",
                    "audiotestsrc is-live=true ! valve name=sound drop=true"),
                session, recorded: ["end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(bench.wait { $0.picturesCameTo("end") > 0 })
            // The end has to pass the valve.
            if !isEnding { try bench.hold("pictures", true) }
            try bench.hold("sound", false)
            try bench.select("sink_1")
            #expect(bench.wait { $0.soundCameTo("end") > 0 })
            #expect(bench.refusal?.contains("end") == true)
        }

        /// The key is used before anything tells that there are pictures, and sound flows.
        @Test(arguments: joins) func picturesThatComeToSoundLaterAreSeen(_ join: String) throws {
            let bench = try Bench(
                Self.joined(
                    join, "audiotestsrc is-live=true num-buffers=\(join == "concat" ? 3 : -1)",
                    "videotestsrc is-live=true ! valve name=pictures drop=true ! identity name=start"),
                session, recorded: ["start", "end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(bench.wait { $0.soundCameTo("end") > 0 })
            #expect(bench.refusal == nil)
            try bench.hold("pictures", false)
            // A selector drops what is not selected.
            #expect(join == "concat" || bench.wait { $0.cameTo("start") > 0 })
            try bench.select("sink_1")
            #expect(bench.wait { $0.told.times > 0 && $0.cameTo("start") > 3 })
            #expect(bench.picturesCameTo("end") == 0)
            #expect(bench.refusal?.contains("end") == true)
        }

        /// A guard goes by the caps. Pictures behind caps of sound would pass it as sound.
        @Test(arguments: joins) func aGuardThatSoundComesToGuardsNoPictures(_ join: String) throws {
            let bench = try Bench(
                Self.joined(
                    join, "audiotestsrc is-live=true",
                    "videotestsrc is-live=true ! identity name=start ! valve name=pictures drop=true",
                    before: "latchkeyguard ! "),
                session, recorded: ["start", "end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(bench.wait { $0.soundCameTo("end") > 0 && $0.cameTo("start") > 0 })
            #expect(bench.refusal?.contains("end") == true)
        }

        /// The same where the sound comes to it while pictures pass.
        @Test func aGuardThatSoundComesToLaterGuardsNoPictures() throws {
            let bench = try Bench(
                Self.joined(
                    "funnel", "videotestsrc is-live=true ! identity name=start",
                    "audiotestsrc is-live=true ! valve name=sound drop=true", before: "latchkeyguard ! "),
                session, recorded: ["end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(bench.wait { $0.picturesCameTo("end") > 0 })
            #expect(bench.refusal == nil)
            try bench.hold("sound", false)
            #expect(bench.wait { $0.told.times > 0 })
            #expect(bench.soundCameTo("end") == 0)
        }

        /// Nothing tells what it is.
        @Test func whatHasNoCapsComesToNoSink() throws {
            let bench = try Bench(
                "fakesrc sizetype=fixed ! valve name=gate drop=true ! identity name=start ! "
                    + "fakesink name=end async=false", session, recorded: ["end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(bench.refusal == nil)
            try bench.hold("gate", false)
            #expect(bench.wait { $0.told.times > 0 })
            #expect(bench.cameTo("end") == 0)
        }

        // MARK: Pipelines that grow

        /// The guard of another session does not know what this one's keys want.
        @Test func aGuardOfAnotherSessionIsNone() throws {
            let bench = try Bench(Self.pictures + "latchkeyguard ! fakesink name=end", KeySession())
            bench.preroll()
            let start = try bench.element("start")
            let pad = try #require(gst_element_get_static_pad(start, "src"))
            let route = PictureRoute(from: PadReference(owning: pad), session: session) { _, _ in }
            defer { route.forget() }
            #expect(route.refusal(of: nil) != nil)
        }

        /// Nor is one that the application gives another session while it plays.
        @Test func aGuardThatLeavesTheSessionIsNone() throws {
            let bench = try Bench(Self.pictures + "latchkeyguard ! fakesink name=end", session)
            bench.preroll()
            #expect(bench.refusal == nil)
            Latchkey.attach(KeySession(), to: bench.launched.pipeline)
            #expect(bench.refusal?.contains("end") == true)
            Latchkey.attach(session, to: bench.launched.pipeline)
            #expect(bench.refusal == nil)
        }

        /// A way that ends nowhere yet is open, until it is linked to a sink: nothing comes there.
        @Test func whatIsLinkedLaterIsLookedAt() throws {
            let bench = try Bench(
                Self.pictures + "valve name=gate drop=true ! identity name=last fakesink name=end async=false", session,
                recorded: ["end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(bench.refusal == nil)
            let (last, end) = (try bench.element("last"), try bench.element("end"))
            #expect(gst_element_link(last, end) != 0)
            try bench.element("gate").setProperty("drop", .boolean(false))
            let deadline = MonotonicTime.now + TestProcess.deadline
            while bench.told.times == 0, MonotonicTime.now < deadline { g_usleep(1000) }
            #expect(bench.told.times > 0)
            #expect(bench.cameTo("end") == 0)
            #expect(bench.refusal?.contains("end") == true)
        }

        /// What is still in queues when a player removes the decryptor is not looked at any more.
        @Test func theGatesEndWithTheDecryptor() throws {
            let bench = try Bench(
                Self.pictures + "valve name=gate drop=true ! identity name=last fakesink name=end async=false", session,
                recorded: ["end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(bench.refusal == nil)
            let (last, end) = (try bench.element("last"), try bench.element("end"))
            let pad = try #require(gst_element_get_static_pad(last, "src"))
            defer { gst_object_unref(UnsafeMutableRawPointer(pad)) }
            #expect(pad.pointee.num_probes > 0)
            bench.route.forget()
            #expect(pad.pointee.num_probes == 0)
            #expect(gst_element_link(last, end) != 0)
            try bench.element("gate").setProperty("drop", .boolean(false))
            let deadline = MonotonicTime.now + TestProcess.deadline
            while bench.cameTo("end") == 0, MonotonicTime.now < deadline { g_usleep(1000) }
            #expect(bench.cameTo("end") > 0)
            #expect(bench.told.times == 0)
        }

        @Test func aGuardThatIsLinkedLaterCounts() throws {
            let bench = try Bench(
                Self.pictures + "valve name=gate drop=true ! identity name=last "
                    + "latchkeyguard name=guard ! fakesink name=end async=false", session, recorded: ["end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            #expect(bench.refusal == nil)
            let (last, outputGuard) = (try bench.element("last"), try bench.element("guard"))
            #expect(gst_element_link(last, outputGuard) != 0)
            try bench.element("gate").setProperty("drop", .boolean(false))
            let deadline = MonotonicTime.now + TestProcess.deadline
            while bench.cameTo("end") == 0, MonotonicTime.now < deadline { g_usleep(1000) }
            #expect(bench.cameTo("end") > 0)
            #expect(bench.told.times == 0)
            #expect(bench.refusal == nil)
        }

        /// A guard whose place something else takes. Neither the link nor an aggregator says so to those in front.
        @Test(arguments: ["", "compositor ! ", "tee name=tee ! "])
        func aGuardThatIsReplacedIsMissed(_ between: String) throws {
            let bench = try Bench(
                Self.pictures + between + "identity name=last ! latchkeyguard name=guard ! fakesink name=guarded "
                    + "fakesink name=end async=false", session, recorded: ["end"])
            bench.preroll()
            #expect(bench.refusal == nil)
            let (last, end) = (try bench.element("last"), try bench.element("end"))
            gst_element_unlink(last, try bench.element("guard"))
            let source = try #require(gst_element_get_static_pad(last, "src"))
            let sink = try #require(gst_element_get_static_pad(end, "sink"))
            defer {
                gst_object_unref(source)
                gst_object_unref(sink)
            }
            #expect(gst_pad_link_full(source, sink, GST_PAD_LINK_CHECK_NO_RECONFIGURE) == GST_PAD_LINK_OK)
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            let deadline = MonotonicTime.now + TestProcess.deadline
            while bench.told.times == 0, MonotonicTime.now < deadline { g_usleep(1000) }
            #expect(bench.told.times > 0)
            #expect(bench.cameTo("end") == 0)
            #expect(bench.refusal?.contains("end") == true)
        }

        /// What a walk does when it asks where the pictures go from one pad.
        private static let duringWalk = Mutex<(@Sendable () -> Void)?>(nil)

        /// The same on another thread, while a picture in front of the guard waits for a walk that has seen it.
        @Test func aGuardThatIsReplacedDuringAWalkIsMissed() throws {
            let bench = try Bench(
                Self.pictures + "valve name=gate drop=true ! identity name=last identity name=next ! latchkeyguard ! "
                    + "fakesink async=false fakesink name=end async=false", session, recorded: ["start", "end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            // The caps are known, and have no gate put in front.
            #expect(bench.wait { $0.cameTo("start") > 0 })
            #expect(bench.refusal == nil)
            let (last, next) = (try bench.pad("src", of: "last"), try bench.pad("sink", of: "next"))
            let end = try bench.pad("sink", of: "end")
            #expect(gst_pad_link(last.pointer, next.pointer) == GST_PAD_LINK_OK)
            Self.duringWalk.withLock {
                $0 = {
                    gst_pad_unlink(last.pointer, next.pointer)
                    gst_pad_link_full(last.pointer, end.pointer, GST_PAD_LINK_CHECK_NOTHING)
                }
            }
            gst_pad_set_iterate_internal_links_function_full(
                next.pointer,
                { pad, parent in
                    PictureRouteTests.duringWalk.withLock { $0.take() }?()
                    return gst_pad_iterate_internal_links_default(pad, parent)
                }, nil, nil)
            try bench.hold("gate", false)
            #expect(bench.wait { $0.told.times > 0 })
            let wasReplaced = Self.duringWalk.withLock { $0 == nil }
            #expect(wasReplaced)
            #expect(bench.cameTo("end") == 0)
        }

        /// What removes a pad may hold locks that a walk waits for. The walk leaves nothing behind.
        @Test func aPadThatGoesDuringAWalkDoesNotWait() throws {
            let bench = try Bench(Self.pictures + "identity name=last ! fakesink name=end", session)
            bench.preroll()
            let (start, last) = (try bench.pad("src", of: "start"), try bench.pad("src", of: "last"))
            let entry = try bench.pad("sink", of: "last")
            let route = bench.route
            Self.duringWalk.withLock { $0 = { route.forget() } }
            gst_pad_set_iterate_internal_links_function_full(
                entry.pointer,
                { pad, parent in
                    PictureRouteTests.duringWalk.withLock { $0.take() }?()
                    return gst_pad_iterate_internal_links_default(pad, parent)
                }, nil, nil)
            #expect(bench.refusal?.contains("end") == true)
            let hasGone = Self.duringWalk.withLock { $0 == nil }
            #expect(hasGone)
            #expect(start.pointer.pointee.num_probes == 0 && last.pointer.pointee.num_probes == 0)
        }

        /// A branch of a tee that comes while it plays.
        @Test func aLaterBranchIsLookedAt() throws {
            let bench = try Bench(
                Self.pictures + "tee name=tee ! queue ! latchkeyguard ! fakesink name=guarded "
                    + "fakesink name=end async=false", session, recorded: ["guarded", "end"])
            bench.preroll()
            #expect(bench.refusal == nil)
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            let (tee, end) = (try bench.element("tee"), try bench.element("end"))
            #expect(gst_element_link(tee, end) != 0)
            #expect(bench.refusal?.contains("end") == true)
            let deadline = MonotonicTime.now + TestProcess.deadline
            while bench.told.times == 0, MonotonicTime.now < deadline { g_usleep(1000) }
            #expect(bench.told.times > 0)
            #expect(bench.cameTo("end") == 0)
        }

        /// What is decrypted in front of a bin leaves that by pads that may come later. Without a key with rules nothing is
        /// looked at. Nothing is walked before media comes: what adds the pad may hold locks of elements.
        @Test func aPadThatComesAfterTheKeyIsLookedAt() throws {
            let bench = try Bench(
                "videotestsrc is-live=true ! valve name=gate drop=true ! identity name=start ! identity name=last ! "
                    + "fakesink name=end async=false", session, recorded: ["end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            let told = Told()
            let routes = PictureRoutes(session: session) { _, _ in told.tell() }
            defer { routes.forget() }
            let keyID = KeyID(high: 1, low: 2)
            let (pad, last) = (try bench.pad("src", of: "start"), try bench.pad("src", of: "last"))
            routes.add(pad)
            #expect(pad.pointer.pointee.num_probes == 0)
            routes.remove(pad)
            #expect(routes.refusal(of: keyID) == nil)
            routes.add(pad)
            // A walk puts a gate in front of the sink.
            #expect(pad.pointer.pointee.num_probes == 1 && last.pointer.pointee.num_probes == 0)
            #expect(told.times == 0)
            try bench.hold("gate", false)
            #expect(bench.wait { _ in told.times > 0 })
            #expect(bench.cameTo("end") == 0)
            #expect(routes.refusal(of: keyID)?.description.contains("end") == true)
            routes.remove(pad)
            #expect(routes.refusal(of: keyID) == nil)
            #expect(pad.pointer.pointee.num_probes == 0 && last.pointer.pointee.num_probes == 0)
        }

        /// The first media of such a pad passes to a guard.
        @Test func aPadThatComesAfterTheKeyIsNotHeldIfAGuardIsThere() throws {
            let bench = try Bench(
                "videotestsrc is-live=true ! valve name=gate drop=true ! identity name=start ! latchkeyguard ! "
                    + "fakesink name=end async=false", session, recorded: ["end"])
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            let told = Told()
            let routes = PictureRoutes(session: session) { _, _ in told.tell() }
            defer { routes.forget() }
            #expect(routes.refusal(of: KeyID(high: 1, low: 2)) == nil)
            routes.add(try bench.pad("src", of: "start"))
            try bench.hold("gate", false)
            #expect(bench.wait { $0.cameTo("end") > 1 })
            #expect(told.times == 0)
        }

        /// One would stay for ever that nothing knows of. Only the second way tells that there are pictures.
        @Test func twoWaysThatMeetHaveOneGate() throws {
            let bench = try Bench(
                "fakesrc ! valve drop=true ! identity name=start ! tee name=tee ! queue ! funnel name=join ! "
                    + "fakesink name=end async=false tee. ! identity name=typed ! join.", session)
            gst_element_set_state(bench.launched.pipeline, GST_STATE_PLAYING)
            let (typed, join) = (try bench.pad("src", of: "typed"), try bench.pad("src", of: "join"))
            let caps = try #require(Caps("video/x-raw"))
            for event in [gst_event_new_stream_start("typed"), Event(caps: caps).release()] {
                gst_pad_store_sticky_event(typed.pointer, event)
                ek_mini_object_unref(event)
            }
            #expect(bench.refusal?.contains("end") == true)
            #expect(join.pointer.pointee.num_probes == 1)
            bench.route.forget()
            #expect(join.pointer.pointee.num_probes == 0)
        }

        /// Clear media costs nothing: without a key with rules nothing is looked at.
        @Test func nothingStandsBehindAGuard() throws {
            let bench = try Bench(Self.pictures + "queue name=queue ! latchkeyguard ! fakesink", session)
            bench.preroll()
            #expect(bench.refusal == nil)
            let queue = try bench.element("queue")
            let pad = try #require(gst_element_get_static_pad(queue, "src"))
            defer { gst_object_unref(UnsafeMutableRawPointer(pad)) }
            #expect(pad.pointee.num_probes == 0)
        }
    }
}
