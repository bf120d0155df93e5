// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import ElementTestSupport
import Latchkey
import Testing

@testable import Elements

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
    }
}
