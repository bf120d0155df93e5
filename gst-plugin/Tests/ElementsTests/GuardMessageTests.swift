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
    }
}
