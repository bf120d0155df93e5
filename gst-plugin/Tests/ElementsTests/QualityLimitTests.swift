// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// What outputs allow and what the user wants, at the stock demuxer.
    @Suite struct QualityLimitTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        @Test func theLowerOfBothBitRatesHolds() throws {
            let element = try #require(gst_element_factory_make("latchkeyhlsdemux", nil))
            gst_object_ref_sink(element)
            defer { gst_object_unref(element) }
            let bin = try #require(HLSDemuxer.implementation(of: element))
            let child = try #require(bin.child).pointer
            #expect(child.property("max-bitrate") == .uint(0))
            bin.setAllowedBitRate(500)
            #expect(child.property("max-bitrate") == .uint(500))
            #expect(element.property("max-bitrate") == .uint(0))
            element.setProperty("max-bitrate", .uint(300))
            #expect(child.property("max-bitrate") == .uint(300))
            element.setProperty("max-bitrate", .uint(900))
            #expect(child.property("max-bitrate") == .uint(500))
            #expect(element.property("max-bitrate") == .uint(900))
            // 0 would be no limit.
            bin.setAllowedBitRate(0)
            #expect(child.property("max-bitrate") == .uint(1))
            bin.setAllowedBitRate(nil)
            #expect(child.property("max-bitrate") == .uint(900))
        }

        /// What comes late of a run that is over is neither a limit for the next one nor told as its own.
        @Test func aRunThatIsOverHasNoSay() throws {
            let element = try #require(gst_element_factory_make("latchkeyhlsdemux", nil))
            gst_object_ref_sink(element)
            defer { gst_object_unref(element) }
            let bin = try #require(HLSDemuxer.implementation(of: element))
            let child = try #require(bin.child).pointer
            let runs = try (0..<2).map { _ in try DASHRun(shared: SharedSession(KeySession(), ControlSettings())) }
            defer {
                bin.withGuarded { $0.run = nil }
                for run in runs { run.end() }
            }
            bin.withGuarded { $0.run = runs[0] }
            bin.setDeparture(.atMost(500), of: runs[0].origin)
            #expect(child.property("max-bitrate") == .uint(500))
            bin.withGuarded { $0.run = nil }
            bin.setDeparture(.atMost(400), of: runs[0].origin)
            #expect(child.property("max-bitrate") == .uint(500))
            bin.setDeparture(nil, of: nil)
            #expect(child.property("max-bitrate") == .uint(0))
            bin.withGuarded { $0.run = runs[1] }
            let refusals = [KeyID(high: 0, low: 1): KeyError.denied("not in the subscription")]
            bin.setDeparture(.atMost(300), of: runs[0].origin)
            bin.tellLeftOut(refusals, of: runs[0].origin)
            #expect(child.property("max-bitrate") == .uint(0) && bin.withGuarded { $0.leftOut.isEmpty })
            bin.setDeparture(.atMost(200), of: runs[1].origin)
            bin.tellLeftOut(refusals, of: runs[1].origin)
            #expect(child.property("max-bitrate") == .uint(200) && bin.withGuarded { $0.leftOut.count } == 1)
        }

        /// The stock demuxer looks at nothing but the speed of the connection where one is set.
        @Test func aFixedConnectionIsLoweredToo() throws {
            let element = try #require(gst_element_factory_make("latchkeymssdemux", nil))
            gst_object_ref_sink(element)
            defer { gst_object_unref(element) }
            let bin = try #require(SmoothDemuxer.implementation(of: element))
            let child = try #require(bin.child).pointer
            element.setProperty("connection-speed", .uint(900))
            #expect(child.property("connection-bitrate") == .uint(900_000))
            bin.setAllowedBitRate(500_000)
            #expect(child.property("connection-bitrate") == .uint(500_000))
            #expect(element.property("connection-speed") == .uint(900))
            element.setProperty("connection-bitrate", .uint(400_000))
            #expect(child.property("connection-bitrate") == .uint(400_000))
            // Measured, as before: the highest bit rate holds then.
            element.setProperty("connection-bitrate", .uint(0))
            #expect(child.property("connection-bitrate") == .uint(0))
            element.setProperty("connection-bitrate", .uint(800_000))
            bin.setAllowedBitRate(nil)
            #expect(child.property("connection-bitrate") == .uint(800_000))
            #expect(element.property("connection-speed") == .uint(800))
        }

        /// Its playlist is fetched ahead, and no other one would be of use.
        @Test(arguments: ["connection-speed", "connection-bitrate", "start-bitrate"])
        func theFirstVariantBeginsUnlessARateIsSet(name: String) throws {
            let element = try #require(gst_element_factory_make("latchkeyhlsdemux", nil))
            gst_object_ref_sink(element)
            defer { gst_object_unref(element) }
            let bin = try #require(HLSDemuxer.implementation(of: element))
            #expect(bin.beginsWithFirstVariant)
            element.setProperty("max-bitrate", .uint(900))
            #expect(bin.beginsWithFirstVariant)
            element.setProperty(name, .uint(900))
            #expect(!bin.beginsWithFirstVariant)
            element.setProperty(name, .uint(0))
            #expect(bin.beginsWithFirstVariant)
        }

        @Test func theSmallerOfBothFramesHolds() throws {
            let element = try #require(gst_element_factory_make("latchkeydashdemux", nil))
            gst_object_ref_sink(element)
            defer { gst_object_unref(element) }
            let bin = try #require(DASHDemuxer.implementation(of: element))
            let child = try #require(bin.child).pointer
            func size(_ element: UnsafeMutablePointer<GstElement>) -> [FieldValue] {
                [element.property("max-video-width"), element.property("max-video-height")]
            }
            element.setProperty("max-video-width", .uint(1280))
            element.setProperty("max-video-height", .uint(720))
            #expect(size(child) == [.uint(1280), .uint(720)])
            bin.setAllowedFrame((640, 800))
            #expect(size(child) == [.uint(640), .uint(720)])
            #expect(size(element) == [.uint(1280), .uint(720)])
            element.setProperty("max-video-width", .uint(0))
            #expect(size(child) == [.uint(640), .uint(720)])
            element.setProperty("max-video-width", .uint(1000))
            // What the application has set stays.
            bin.setAllowedFrame(nil)
            #expect(size(child) == [.uint(1000), .uint(720)])
        }

        /// Outputs and the application change limits from threads of their own. Here another limit comes while the first
        /// is handed on, between the width and the height.
        @Test func whatIsDecidedLastHolds() throws {
            let element = try #require(gst_element_factory_make("latchkeydashdemux", nil))
            gst_object_ref_sink(element)
            defer { gst_object_unref(element) }
            let bin = try #require(DASHDemuxer.implementation(of: element))
            let child = try #require(bin.child).pointer
            let interruption = Interruption { bin.setAllowedFrame((20, 20)) }
            let handler: @convention(c) (gpointer, gpointer, gpointer) -> Void = { _, _, interruption in
                Unmanaged<Interruption>.fromOpaque(interruption).takeUnretainedValue().happen()
            }
            g_signal_connect_data(
                child, "notify::max-video-width", unsafeBitCast(handler, to: GCallback.self),
                Unmanaged.passUnretained(interruption).toOpaque(), nil, GConnectFlags(rawValue: 0))
            bin.setAllowedFrame((10, 10))
            #expect(interruption.hasHappened)
            #expect(child.property("max-video-width") == .uint(20))
            #expect(child.property("max-video-height") == .uint(20))
        }

        private final class Interruption {
            private let body: () -> Void
            private(set) var hasHappened = false

            init(_ body: @escaping () -> Void) { self.body = body }

            func happen() {
                guard !hasHappened else { return }
                hasHappened = true
                body()
            }
        }

        @Test func workAskedForMeanwhileIsDoneAgainByWhoDoesIt() {
            var work = SerialWork()
            let first = work.begin()
            let second = work.begin()
            #expect(first && !second)
            let isDone = work.finish()
            #expect(!isDone, "the second request came while the first was under way")
            let isDoneNow = work.finish()
            #expect(isDoneNow)
            let third = work.begin()
            #expect(third)
        }
    }
}
