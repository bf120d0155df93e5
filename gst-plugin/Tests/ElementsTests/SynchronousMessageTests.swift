// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import CGStreamerCheck
import ElementKit
import ElementTestSupport
import Foundation
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
            let flush = try harness.sinkPad { FlushFromHandler(pad: $0) }
            gst_bus_set_sync_handler(harness.bus.pointer, flushAtOnce, Unmanaged.passUnretained(flush).toOpaque(), nil)
            defer { gst_bus_set_sync_handler(harness.bus.pointer, nil, nil, nil) }
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

/// Begins a flush on another thread, and waits for that thread. Thread-safe.
private final class FlushFromHandler: @unchecked Sendable {
    // SAFETY: the pad belongs to an element that outlives this; the rest is guarded by `condition`.
    private let pad: UnsafeMutablePointer<GstPad>
    private let condition = NSCondition()
    private var isBack = false
    private var returns: [Bool] = []

    init(pad: UnsafeMutablePointer<GstPad>) { self.pad = pad }

    /// For each time that a thread was made: whether the flush returned before the handler did.
    var outcomes: [Bool] { condition.withLock { returns } }

    func run() {
        Thread.detachNewThread {
            gst_pad_send_event(self.pad, gst_event_new_flush_start())
            self.condition.withLock {
                self.isBack = true
                self.condition.broadcast()
            }
        }
        let end = Date(timeIntervalSinceNow: Double(TestProcess.deadline) / 1e9)
        condition.withLock {
            while !isBack, condition.wait(until: end) {}
            returns.append(isBack)
        }
    }
}

private func flushAtOnce(
    _ bus: UnsafeMutablePointer<GstBus>?, _ message: UnsafeMutablePointer<GstMessage>?, _ data: gpointer?
) -> GstBusSyncReply {
    guard let message, let data, ekt_message_type(message) == GST_MESSAGE_STREAM_STATUS else { return GST_BUS_PASS }
    var type = GST_STREAM_STATUS_TYPE_DESTROY
    var owner: UnsafeMutablePointer<GstElement>?
    gst_message_parse_stream_status(message, &type, &owner)
    if type == GST_STREAM_STATUS_TYPE_CREATE {
        // SAFETY: the test keeps the object until it has taken the handler away.
        Unmanaged<FlushFromHandler>.fromOpaque(data).takeUnretainedValue().run()
    }
    return GST_BUS_PASS
}
