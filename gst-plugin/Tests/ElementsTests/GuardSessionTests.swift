// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Glibc
import Latchkey
import LatchkeyKeySession
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// The guard and the session: what licenses want, and what becomes of their keys.
    @Suite struct GuardSessionTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private let keyID = KeyID(high: 1, low: 2)
        private let session = KeySession()

        private func install(_ requirement: OutputRequirement?) throws {
            let key = try #require(ContentKey(Array(repeating: 7, count: 16)))
            session.install([keyID: key], terms: KeyTerms(outputRequirement: requirement))
        }

        private func screen() throws -> GuardTests.Screen {
            let screen = try GuardTests.Screen()
            Latchkey.attach(session, to: screen.launched.pipeline)
            return screen
        }

        @Test func aKeyWithARuleNeedsAGuard() throws {
            try install(.hdcpType0)
            let error = try #require(session.beginUse(of: keyID, for: .video, by: 1))
            #expect(error.description.contains("latchkeyguard"))
            #expect(session.beginUse(of: keyID, for: .audio, by: 1) == nil)

            let screen = try screen()
            let revision = session.revision
            _ = screen.set(GST_STATE_READY)
            #expect(session.revision != revision)
            #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            _ = screen.set(GST_STATE_NULL)
            #expect(session.beginUse(of: keyID, for: .video, by: 1) != nil)
        }

        @Test func theSessionKnowsWhatTheOutputsHave() throws {
            #expect(session.outputLevel == .unprotected)
            let screen = try screen()
            let type0 = OutputFacts.outputs([Output(name: "HDMI-A-1", kind: .digital, protection: .hdcpType0)])
            // Told before there is anything to watch, and known as soon as there is.
            #expect(screen.outputGuard.set(type0))
            _ = screen.set(GST_STATE_READY)
            #expect(session.outputLevel == .hdcpType0)
            #expect(screen.outputGuard.set(.outputs([Output(name: "HDMI-A-1", kind: .digital)])))
            #expect(session.outputLevel == .unprotected)
            _ = screen.set(GST_STATE_NULL)
            #expect(session.outputLevel == .unprotected)
        }

        @Test func aKeyWithoutARuleNeedsNone() throws {
            for requirement in [nil, OutputRequirement.unprotected] {
                try install(requirement)
                #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            }
        }

        @Test func theGuardClosesBeforeAKeyIsUsed() throws {
            try install(.hdcpType0)
            let screen = try screen()
            _ = screen.set(GST_STATE_PLAYING)
            #expect(screen.shows(GuardTests.white, 2, from: 0))
            // Nobody told the outputs: they are not known, and the key has a rule.
            #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            let closed = screen.frames.count
            #expect(screen.shows(GuardTests.black, 3, from: closed))
            #expect(screen.frames.all[closed...].allSatisfy { $0.luma == GuardTests.black })
            #expect(session.externalProtectionStatus(of: keyID) != .sufficient)
            let message = try screen.launched.bus.next(element: "latchkey-output-protection")
            #expect(message.string("status") == "blocked")
        }

        @Test func outputsThatAreGoodForLongEnoughOpen() throws {
            try install(.hdcpType0)
            let screen = try screen()
            let element = screen.outputGuard.reference.pointer
            _ = screen.set(GST_STATE_PLAYING)
            #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            #expect(element.emit("set-outputs", [.string("HDMI-A-1:digital:hdcp-type0")]))
            #expect(screen.shows(GuardTests.white, 3, from: screen.frames.count))
            #expect(session.externalProtectionStatus(of: keyID) == .sufficient)

            // When the call returns, nothing is shown any more.
            #expect(element.emit("set-outputs", [.string("HDMI-A-1:digital:none")]))
            let closed = screen.frames.count
            #expect(screen.shows(GuardTests.black, 3, from: closed))
            #expect(screen.frames.all[closed...].allSatisfy { $0.luma == GuardTests.black })
            #expect(session.externalProtectionStatus(of: keyID) != .sufficient)
            #expect(!element.emit("set-outputs", [.string("nonsense")]))

            #expect(element.emit("set-outputs", [.string("eDP-1:internal")]))
            #expect(screen.shows(GuardTests.white, 1, from: screen.frames.count))
        }

        @Test func aViolationThatLastsClosesTheKey() throws {
            try install(.hdcpType1)
            let screen = try screen()
            let element = screen.outputGuard.reference.pointer
            element.setProperty("violation-timeout", .uint(1))
            _ = screen.set(GST_STATE_PLAYING)
            #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            #expect(element.emit("set-outputs", [.string("HDMI-A-1:digital:hdcp-type0")]))
            // The next readings say the same.
            let end = MonotonicTime.now + TestProcess.deadline
            while session.beginUse(of: keyID, for: .video, by: 1) == nil, MonotonicTime.now < end { sched_yield() }
            let error = try #require(session.beginUse(of: keyID, for: .video, by: 1))
            #expect(error.description.contains("HDMI-A-1") || error.description.contains("known"))
            #expect(session.beginUse(of: keyID, for: .audio, by: 2) == nil)
        }

        @Test func soundWithoutAGuardEndsInTheDecryptor() throws {
            var policy = OutputPolicy.unrestricted
            policy.digitalAudio = .require(.hdcpType0)
            var terms = KeyTerms()
            terms.outputPolicies[keyID] = policy
            let key = try #require(ContentKey(Array(repeating: 7, count: 16)))
            session.install([keyID: key], terms: terms)
            let screen = try GuardTests.Screen()
            Latchkey.attach(session, to: screen.launched.pipeline)
            _ = screen.set(GST_STATE_PLAYING)
            #expect(screen.shows(GuardTests.white, 1, from: 0))
            #expect(session.beginUse(of: keyID, for: .audio, by: 1) != nil)
            #expect(session.beginUse(of: keyID, for: .video, by: 2) == nil)
        }

        @Test(arguments: [("disable", true), ("alternative", false)])
        func hdmiModesReachThePicture(_ mode: String, _ endsPlayback: Bool) throws {
            try install(nil)
            let screen = try screen()
            let element = screen.outputGuard.reference.pointer
            element.setProperty("hdmi-mode", .string(mode))
            _ = screen.set(GST_STATE_PLAYING)
            // Clear content is nobody's business.
            #expect(element.emit("set-outputs", [.string("HDMI-A-1:digital")]))
            #expect(screen.shows(GuardTests.white, 2, from: 0))
            let before = screen.outputGuard.counters.withLock { $0.blocked }
            #expect(before == 0)
            #expect((session.beginUse(of: keyID, for: .video, by: 1) != nil) == endsPlayback)
            let luma = mode == "alternative" ? GuardTests.white : GuardTests.black
            #expect(screen.shows(luma, 2, from: screen.frames.count))
            #expect(screen.outputGuard.counters.withLock { $0.blocked } > 0)
        }
    }
}
