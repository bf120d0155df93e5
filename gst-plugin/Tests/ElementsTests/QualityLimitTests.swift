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
    }
}
