// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

@Suite("Keys in use, and those who guard outputs") struct OutputUseTests {
    private let keyID = KeyID(high: 1, low: 2)
    private let other = KeyID(high: 3, low: 4)
    private let clock = ManualClock()

    /// A guard that does what a test wants when it hears of keys.
    private final class TestGuard: OutputGuard {
        let media: OutputPolicy.Media?
        let outputLevel: OutputRequirement? = nil
        let maximumPixels: Int? = nil
        private let state = Mutex((calls: 0, pokes: 0, isShowing: true, isPlaying: true))
        private let body: @Sendable (Int) -> Void

        init(_ media: OutputPolicy.Media?, _ body: @escaping @Sendable (Int) -> Void = { _ in }) {
            self.media = media
            self.body = body
        }

        var calls: Int { state.withLock(\.calls) }
        var pokes: Int { state.withLock(\.pokes) }
        var isShowing: Bool {
            get { state.withLock(\.isShowing) }
            set { state.withLock { $0.isShowing = newValue } }
        }
        var isPlaying: Bool {
            get { state.withLock(\.isPlaying) }
            set { state.withLock { $0.isPlaying = newValue } }
        }

        func keysInUseDidChange() {
            body(
                state.withLock { state in
                    state.calls += 1
                    return state.calls
                })
        }

        func otherGuardsDidChange() { state.withLock { $0.pokes += 1 } }
    }

    private func session(video: OutputRule = .pass, audio: OutputRule = .pass) throws -> KeySession {
        let session = KeySession(loaders: [], clock: clock.clock)
        try install(in: session, video: video, audio: audio)
        return session
    }

    private func install(in session: KeySession, video: OutputRule, audio: OutputRule = .pass) throws {
        var policy = OutputPolicy.unrestricted
        (policy.digitalVideo, policy.digitalAudio) = (video, audio)
        var terms = KeyTerms()
        terms.outputPolicies[keyID] = policy
        session.install([keyID: try #require(ContentKey(Array(repeating: 7, count: 16)))], terms: terms)
    }

    @Test func whoeverComesWhileAGuardDecidesWaitsToo() throws {
        let session = try session(video: .require(.hdcpType0))
        let box = Mutex<KeyError?>(nil)
        let keyID = keyID
        // The second user comes in the middle of the guard's answer to the first.
        let outputGuard = TestGuard(.video) { [weak session] call in
            guard call == 1 else { return }
            let error = session?.beginUse(of: keyID, for: .video, by: 2)
            box.withLock { $0 = error }
        }
        session.join(outputGuard)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        #expect(outputGuard.calls == 2)
        #expect(box.withLock { $0 } == nil)
        // Now it has acted, and nobody need wait.
        #expect(session.beginUse(of: keyID, for: .video, by: 3) == nil)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        #expect(outputGuard.calls == 2)
    }

    @Test func aGuardThatComesHearsOfKeysThatAreInUse() throws {
        let session = try session()
        let (first, second) = (TestGuard(.video), TestGuard(.audio))
        session.join(first)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        session.join(second)
        #expect(first.pokes == 2)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        #expect(first.calls == 2)
        #expect(second.calls == 1)
    }

    @Test func anotherPolicyForTheSameKeyIsNews() throws {
        let session = try session()
        let outputGuard = TestGuard(.video)
        session.join(outputGuard)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        let revision = session.revision
        try install(in: session, video: .require(.hdcpType1))
        // Whoever uses the key looks again, though it is the same key.
        #expect(session.revision != revision)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        #expect(outputGuard.calls == 2)
    }

    @Test(arguments: [OutputRule.protectOrReduce(pixels: 100), .block, .require(.hdcpType0)])
    func everyRuleHasAStatus(rule: OutputRule) throws {
        let session = try session()
        #expect(session.externalProtectionStatus(of: keyID) == .sufficient)
        try install(in: session, video: rule)
        #expect(session.externalProtectionStatus(of: keyID) == .pending)
        session.setExternalProtectionStatus(.insufficient, of: keyID)
        #expect(session.externalProtectionStatus(of: keyID) == .insufficient)
        try install(in: session, video: .pass, audio: rule)
        #expect(session.externalProtectionStatus(of: keyID) == .pending)
        session.setExternalProtectionStatus(.sufficient, of: keyID)
        #expect(session.externalProtectionStatus(of: keyID) == .sufficient)
    }

    @Test func violationsEndWithTheGuard() throws {
        let session = try session(video: .require(.hdcpType0))
        let (first, second) = (TestGuard(.video), TestGuard(.video))
        session.join(first)
        session.join(second)
        session.setOutputViolation("the first", for: .video, by: first)
        session.setOutputViolation("the second", for: .video, by: second)
        // One that is content does not speak for the other.
        session.setOutputViolation(nil, for: .video, by: second)
        #expect(session.beginUse(of: keyID, for: .video, by: 1)?.description.contains("the first") == true)
        #expect(session.outputViolation == "the first")
        session.leave(first)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        #expect(session.outputViolation == nil)
        // What comes late from one that has left does not count.
        session.setOutputViolation("too late", for: .video, by: first)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
    }

    @Test func aGuardOfTheSoundIsNoneForThePicture() throws {
        let session = try session(video: .require(.hdcpType0), audio: .require(.hdcpType0))
        let (sound, unknown) = (TestGuard(.audio), TestGuard(nil))
        session.join(sound)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) != nil)
        #expect(session.beginUse(of: keyID, for: .audio, by: 2) == nil)
        #expect(session.hasGuard(for: .audio))
        #expect(!session.hasGuard(for: .video))
        session.leave(sound)
        session.join(unknown)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        #expect(session.beginUse(of: keyID, for: .audio, by: 2) == nil)
        #expect(!session.hasGuard(for: .audio))
        #expect(!session.hasGuard(for: .video))
    }

    @Test func whatAStoppedUserMadeIsShownForAWhile() throws {
        let session = try session(video: .require(.hdcpType0))
        let outputGuard = TestGuard(.video)
        session.join(outputGuard)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        session.endUse(by: 1)
        #expect(session.outputPoliciesInUse.keys.contains(keyID))
        clock.advance(by: OutputUse.linger)
        #expect(session.outputPoliciesInUse.isEmpty)

        // Where nothing is shown, nothing is left either: whatever plays next is judged by its own keys.
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        session.endUse(by: 1)
        outputGuard.isShowing = false
        session.didStop(outputGuard)
        #expect(session.outputPoliciesInUse.isEmpty)
        #expect(session.beginUse(of: other, for: .video, by: 2) == nil)
        session.endUse(by: 2)
        #expect(session.outputPoliciesInUse.isEmpty)
    }

    /// What is in queues stays there, however long a pause is. One guard that plays is enough for the time to go on.
    @Test func aPauseIsNoTime() throws {
        let session = try session(video: .require(.hdcpType0))
        let (pictures, sound) = (TestGuard(.video), TestGuard(.audio))
        func set(_ outputGuard: TestGuard, isPlaying: Bool) {
            outputGuard.isPlaying = isPlaying
            session.playingDidChange(of: outputGuard)
        }
        func isInUse(_ keyID: KeyID) -> Bool { session.outputPoliciesInUse.keys.contains(keyID) }
        session.join(pictures)
        session.join(sound)
        #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
        #expect(session.beginUse(of: other, for: .video, by: 1) == nil)
        clock.advance(by: .seconds(20))
        set(pictures, isPlaying: false)
        clock.advance(by: .seconds(20))
        set(sound, isPlaying: false)
        clock.advance(by: .seconds(3600))
        #expect(isInUse(keyID))
        // What ends in the pause is in queues from then on.
        session.endUse(by: 1)
        clock.advance(by: .seconds(3600))
        #expect(isInUse(keyID) && isInUse(other))
        set(pictures, isPlaying: true)
        clock.advance(by: .seconds(19))
        #expect(isInUse(keyID) && isInUse(other))
        clock.advance(by: .seconds(1))
        #expect(!isInUse(keyID) && isInUse(other))
        clock.advance(by: .seconds(40))
        #expect(!isInUse(other))
        // Without a guard, nothing is held up.
        set(pictures, isPlaying: false)
        session.leave(pictures)
        session.leave(sound)
        #expect(session.beginUse(of: other, for: .audio, by: 2) == nil)
        #expect(session.beginUse(of: keyID, for: .audio, by: 2) == nil)
        #expect(isInUse(other))
        clock.advance(by: OutputUse.linger)
        #expect(!isInUse(other) && isInUse(keyID))
    }

    @Test func aShortGapIsNoNewsToGuards() throws {
        let session = try session(video: .require(.hdcpType0))
        let outputGuard = TestGuard(.video)
        session.join(outputGuard)
        for user in 1...5 as ClosedRange<UInt64> {
            #expect(session.beginUse(of: keyID, for: .video, by: user) == nil)
            session.endUse(by: user)
            clock.advance(by: .seconds(10))
            #expect(session.outputPoliciesInUse.count == 1)
        }
        #expect(outputGuard.calls == 1)
    }
}
