// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
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
            let outputGuard = screen.outputGuard
            let teller = WorkFromHandler(screen.launched.bus.pointer, of: outputGuard.reference.pointer) {
                _ = outputGuard.reference.pointer.emit("set-outputs", [.string("HDMI-A-1:digital:none")])
            }
            defer { teller.stop() }
            #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            #expect(teller.outcomes == [true], "the call has to return while the message is being posted")
            #expect(screen.shows(GuardTests.black, 1, from: 0))
        }

        /// The thread that changes the state holds the locks of the bins around the guard.
        @Test func theWatchTellsWhatIsDecidedAtTheStart() throws {
            let (session, keyID) = (KeySession(), KeyID(high: 1, low: 2))
            let key = try #require(ContentKey(Array(repeating: 7, count: 16)))
            session.install([keyID: key], terms: KeyTerms(outputRequirement: .hdcpType0))
            // In use before there is a guard.
            #expect(session.beginUse(of: keyID, for: .audio, by: 1) == nil)
            let screen = try GuardTests.Screen()
            Latchkey.attach(session, to: screen.launched.pipeline)
            let posts = Posts(on: screen.launched.bus.pointer)
            defer { posts.stop() }
            _ = screen.set(GST_STATE_READY)
            let isBlocked = screen.outputGuard.order.withLock { $0.isVideoBlocked }
            #expect(isBlocked, "the decision counts before it is told")
            let message = try screen.launched.bus.next(element: "latchkey-output-protection")
            #expect(message.string("status") == "blocked")
            #expect(!posts.threads.contains(UInt(bitPattern: g_thread_self())))
            _ = screen.set(GST_STATE_NULL)
        }
    }
}

/// The threads on which guards post what they decided. Thread-safe. Stop it before it goes.
private final class Posts: @unchecked Sendable {
    // SAFETY: the bus outlives this and is thread-safe; the rest is guarded by a mutex.
    private let bus: UnsafeMutablePointer<GstBus>
    fileprivate let found = Mutex<Set<UInt>>([])

    init(on bus: UnsafeMutablePointer<GstBus>) {
        self.bus = bus
        gst_bus_set_sync_handler(bus, noteThread, Unmanaged.passUnretained(self).toOpaque(), nil)
    }

    func stop() { gst_bus_set_sync_handler(bus, nil, nil, nil) }

    var threads: Set<UInt> { found.withLock { $0 } }
}

private func noteThread(
    _ bus: UnsafeMutablePointer<GstBus>?, _ message: UnsafeMutablePointer<GstMessage>?, _ data: gpointer?
) -> GstBusSyncReply {
    guard let message, let data, gst_message_has_name(message, "latchkey-output-protection") != 0 else {
        return GST_BUS_PASS
    }
    // SAFETY: the test keeps the object until it has stopped it.
    let posts = Unmanaged<Posts>.fromOpaque(data).takeUnretainedValue()
    let thread = UInt(bitPattern: g_thread_self())
    posts.found.withLock { _ = $0.insert(thread) }
    return GST_BUS_PASS
}
