// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import CGStreamerCheck
import ElementKit
import ElementTestSupport
import Foundation
import Latchkey
import LicenseControl
import ProtectionModel
import Testing

@testable import Elements

extension ElementTests {
    /// The guard's thread is made when the screen is to be blanked first, and a message says so.
    @Suite struct GuardMessageTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        @Test func outputsCanBeToldWhileTheThreadIsMade() throws {
            let (session, keyID) = (KeySession(), KeyID(high: 1, low: 2))
            let key = try #require(ContentKey(Array(repeating: 7, count: 16)))
            session.install([keyID: key], terms: KeyTerms(outputRequirement: .hdcpType0))
            let screen = try GuardTests.Screen()
            Latchkey.attach(session, to: screen.launched.pipeline)
            _ = screen.set(GST_STATE_PLAYING)
            #expect(screen.shows(GuardTests.white, 1, from: 0))
            let teller = OutputsFromHandler(screen.outputGuard.reference.pointer)
            let bus = screen.launched.bus.pointer
            gst_bus_set_sync_handler(bus, tellAtOnce, Unmanaged.passUnretained(teller).toOpaque(), nil)
            defer { gst_bus_set_sync_handler(bus, nil, nil, nil) }
            #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            #expect(teller.outcomes == [true], "the call has to return while the message is being posted")
            #expect(screen.shows(GuardTests.black, 1, from: 0))
        }
    }
}

/// Tells the outputs on another thread, and waits for that thread. Thread-safe.
private final class OutputsFromHandler: @unchecked Sendable {
    // SAFETY: the element outlives this; the rest is guarded by `condition`.
    let element: UnsafeMutablePointer<GstElement>
    private let condition = NSCondition()
    private var isBack = false
    private var returns: [Bool] = []

    init(_ element: UnsafeMutablePointer<GstElement>) { self.element = element }

    /// For each time that a thread was made: whether the call returned before the handler did.
    var outcomes: [Bool] { condition.withLock { returns } }

    func run() {
        Thread.detachNewThread {
            _ = self.element.emit("set-outputs", [.string("HDMI-A-1:digital:none")])
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

private func tellAtOnce(
    _ bus: UnsafeMutablePointer<GstBus>?, _ message: UnsafeMutablePointer<GstMessage>?, _ data: gpointer?
) -> GstBusSyncReply {
    guard let message, let data, ekt_message_type(message) == GST_MESSAGE_STREAM_STATUS else { return GST_BUS_PASS }
    var type = GST_STREAM_STATUS_TYPE_DESTROY
    var owner: UnsafeMutablePointer<GstElement>?
    gst_message_parse_stream_status(message, &type, &owner)
    // SAFETY: the test keeps the object until it has taken the handler away.
    let teller = Unmanaged<OutputsFromHandler>.fromOpaque(data).takeUnretainedValue()
    if type == GST_STREAM_STATUS_TYPE_CREATE, owner == teller.element { teller.run() }
    return GST_BUS_PASS
}
