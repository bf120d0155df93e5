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
import CLatchkeyWaylandStandIn

@testable import LatchkeyElements

extension ElementTests {
    /// The guard in front of a window of a Wayland compositor's, which is `WaylandStandIn`.
    @Suite struct GuardWaylandTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private let keyID = KeyID(high: 1, low: 3)
        private let session = KeySession()

        private func install(_ requirement: OutputRequirement) throws {
            let key = try #require(ContentKey(Array(repeating: 7, count: 16)))
            session.install([keyID: key], terms: KeyTerms(outputRequirement: requirement))
        }

        private func give(_ standIn: OpaquePointer, to screen: GuardTests.Screen, outputs: String = "wayland") {
            let element = screen.outputGuard.reference.pointer
            element.setProperty("outputs", .string(outputs))
            element.setProperty("wayland-display", .uint64(address(wayland_stand_in_display(standIn))))
            element.setProperty("wayland-surface", .uint64(address(wayland_stand_in_surface(standIn))))
        }

        private func address(_ pointer: UnsafeMutableRawPointer?) -> UInt64 { UInt64(UInt(bitPattern: pointer)) }

        /// Black until the compositor says that HDCP is there, and as soon as it says that it is not.
        @Test func thePictureFollowsTheCompositor() throws {
            let standIn = try #require(wayland_stand_in_new(true, true))
            defer { wayland_stand_in_free(standIn) }
            try install(.hdcpType1)
            let screen = try GuardTests.Screen()
            Latchkey.attach(session, to: screen.launched.pipeline)
            give(standIn, to: screen)
            // Twice, with the same window: no connection ends by that.
            for _ in 1...2 {
                wayland_stand_in_set_status(standIn, 0)
                let start = screen.frames.count
                _ = screen.set(GST_STATE_PLAYING)
                #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
                #expect(screen.shows(GuardTests.black, 2, from: start))
                #expect(wayland_stand_in_wait_pending(standIn, 2, 60_000))
                wayland_stand_in_commit(standIn)
                wayland_stand_in_set_status(standIn, 2)
                #expect(screen.shows(GuardTests.white, 2, from: screen.frames.count))
                #expect(session.externalProtectionStatus(of: keyID) == .sufficient)
                // Type 0 is not enough.
                wayland_stand_in_set_status(standIn, 1)
                #expect(screen.shows(GuardTests.black, 2, from: screen.frames.count))
                #expect(session.externalProtectionStatus(of: keyID) != .sufficient)
                _ = screen.set(GST_STATE_NULL)
                // What the guard has asked for goes with it, before the state change returns.
                #expect(wayland_stand_in_wait_pending(standIn, 0, 60_000))
            }
            #expect(wayland_stand_in_view(standIn).made == 1)
            // The application takes its window back.
            screen.outputGuard.reference.pointer.setProperty("wayland-surface", .uint64(0))
            wayland_stand_in_commit(standIn)
            #expect(wayland_stand_in_error(standIn) == 0)
        }

        /// As with the DRM master's descriptor, others may tell what comes of it.
        @Test func theCompositorIsAskedWhoeverTellsTheOutputs() throws {
            let standIn = try #require(wayland_stand_in_new(true, false))
            defer { wayland_stand_in_free(standIn) }
            try install(.hdcpType0)
            let screen = try GuardTests.Screen()
            Latchkey.attach(session, to: screen.launched.pipeline)
            give(standIn, to: screen, outputs: "application")
            _ = screen.set(GST_STATE_PLAYING)
            let element = screen.outputGuard.reference.pointer
            #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            #expect(element.emit("set-outputs", [.string("HDMI-A-1:digital:none")]))
            #expect(wayland_stand_in_wait_pending(standIn, 1, 60_000))
            #expect(element.emit("set-outputs", [.string("HDMI-A-1:digital:hdcp-type0")]))
            #expect(screen.shows(GuardTests.white, 2, from: screen.frames.count))
            _ = screen.set(GST_STATE_NULL)
            element.setProperty("wayland-surface", .uint64(0))
        }

        @Test func aCompositorThatDoesNotOfferItKeepsThePictureBlack() throws {
            let standIn = try #require(wayland_stand_in_new(false, true))
            defer { wayland_stand_in_free(standIn) }
            try install(.hdcpType0)
            let screen = try GuardTests.Screen()
            Latchkey.attach(session, to: screen.launched.pipeline)
            give(standIn, to: screen)
            _ = screen.set(GST_STATE_PLAYING)
            #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            #expect(screen.shows(GuardTests.black, 2, from: screen.frames.count))
            var reasons: [String] = []
            while !reasons.contains(where: { $0.contains("does not offer weston_content_protection") }) {
                reasons = try screen.launched.bus.next(element: "latchkey-output-protection").strings("reasons") ?? []
            }
            _ = screen.set(GST_STATE_NULL)
            screen.outputGuard.reference.pointer.setProperty("wayland-surface", .uint64(0))
        }

        /// Rules that the window keeps: nothing is black until the compositor has answered.
        @Test func theFirstDecisionIsOfAReading() throws {
            let standIn = try #require(wayland_stand_in_new(true, true))
            defer { wayland_stand_in_free(standIn) }
            var terms = KeyTerms()
            // As long as nothing is known, there may be such an output.
            terms.outputPolicies[keyID] = {
                var policy = OutputPolicy.unrestricted
                policy.analogVideo = .block
                return policy
            }()
            session.install([keyID: try #require(ContentKey(Array(repeating: 7, count: 16)))], terms: terms)
            let screen = try GuardTests.Screen()
            Latchkey.attach(session, to: screen.launched.pipeline)
            give(standIn, to: screen)
            _ = screen.set(GST_STATE_PAUSED)
            #expect(screen.outputGuard.currentPost?.outputLevel == .unprotected)
            #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            #expect(session.externalProtectionStatus(of: keyID) == .sufficient)
            _ = screen.set(GST_STATE_PLAYING)
            #expect(screen.shows(GuardTests.white, 5, from: 0))
            #expect(screen.frames.all.allSatisfy { $0.luma == GuardTests.white })
            _ = screen.set(GST_STATE_NULL)
            #expect(screen.outputGuard.counters.withLock { $0.closings } == 0)
            screen.outputGuard.reference.pointer.setProperty("wayland-surface", .uint64(0))
        }

        @Test func aWindowThatIsNoneIsNamed() throws {
            let screen = try GuardTests.Screen()
            let element = screen.outputGuard.reference.pointer
            element.setProperty("outputs", .string("wayland"))
            #expect(screen.set(GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
            #expect("\(try screen.launched.bus.nextError())".contains("wayland-display"))
        }
    }
}
