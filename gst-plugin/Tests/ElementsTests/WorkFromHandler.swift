// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementTestSupport
import Foundation

/// An application that answers the making of a thread in the call that says so: starts work on another thread, and waits
/// for that. Thread-safe. Stop it before it goes.
final class WorkFromHandler: @unchecked Sendable {
    // SAFETY: the bus and the element outlive this and are only compared or locked; the rest is guarded by `condition`.
    private let bus: UnsafeMutablePointer<GstBus>
    fileprivate let element: UnsafeMutablePointer<GstElement>?
    private let work: @Sendable () -> Void
    private let condition = NSCondition()
    private var isBack = false
    private var returns: [Bool] = []

    /// Answers only threads of `element`, where there is one.
    init(
        _ bus: UnsafeMutablePointer<GstBus>, of element: UnsafeMutablePointer<GstElement>? = nil,
        _ work: @escaping @Sendable () -> Void
    ) {
        (self.bus, self.element, self.work) = (bus, element, work)
        gst_bus_set_sync_handler(bus, answerAtOnce, Unmanaged.passUnretained(self).toOpaque(), nil)
    }

    func stop() { gst_bus_set_sync_handler(bus, nil, nil, nil) }

    /// For each time that a thread was made: whether the work was done before the handler returned.
    var outcomes: [Bool] { condition.withLock { returns } }

    fileprivate func run() {
        Thread.detachNewThread {
            self.work()
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

private func answerAtOnce(
    _ bus: UnsafeMutablePointer<GstBus>?, _ message: UnsafeMutablePointer<GstMessage>?, _ data: gpointer?
) -> GstBusSyncReply {
    guard let message, let data, ekt_message_type(message) == GST_MESSAGE_STREAM_STATUS else { return GST_BUS_PASS }
    var type = GST_STREAM_STATUS_TYPE_DESTROY
    var owner: UnsafeMutablePointer<GstElement>?
    gst_message_parse_stream_status(message, &type, &owner)
    // SAFETY: the test keeps the object until it has stopped it.
    let handler = Unmanaged<WorkFromHandler>.fromOpaque(data).takeUnretainedValue()
    if type == GST_STREAM_STATUS_TYPE_CREATE, handler.element == nil || handler.element == owner { handler.run() }
    return GST_BUS_PASS
}
