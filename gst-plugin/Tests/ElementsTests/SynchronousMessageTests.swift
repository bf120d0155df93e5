// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import Testing

extension ElementTests {
    /// An application may answer a message in the call that posts it, and wait for what it starts there.
    @Suite struct SynchronousMessageTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        /// The pad's thread is made when the first sample has to wait, and a message says so.
        @Test func theElementCanBeFlushedWhileItsThreadIsMade() throws {
            let harness = try Harness("latchkeycencdec", [("key-timeout", .uint(0))])
            let pad = try #require(ElementReference(harness.element).pad("sink"))
            let flush = WorkFromHandler(harness.bus.pointer) {
                gst_pad_send_event(pad.pointer, gst_event_new_flush_start())
            }
            defer { flush.stop() }
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .ok)
            #expect(flush.outcomes == [true], "the flush has to return while the message is being posted")

            // The sample is gone with the flush; what comes after it is decrypted.
            #expect(harness.push(try Event.flushStop()))
            #expect(harness.push(try Event.segment()))
            #expect(harness.push(try Media.sample(Media.bytes(9)).makeBuffer()) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            let id = try #require(request.number("request-id"))
            #expect(harness.element.emit("key-response", [.uint64(id), .bytes(Media.key), .string(nil)]))
            #expect(harness.output.wait(samples: 1))
            #expect(harness.output.samples.map(\.bytes) == [Media.bytes(9)])
        }
    }
}
