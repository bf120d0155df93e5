// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization
import Testing

@testable import Latchkey
@testable import LatchkeyKeySession

/// Requests that wait for rights, and keys whose time is over.
@Suite struct AcquisitionGateTests {
    private let keyID = KeyID(high: 1, low: 2)
    private let key = ContentKey(Array(repeating: 7, count: 16))

    private final class Seen: Sendable {
        let rights = Mutex(RightsStatus.noLicense)
        let held = Mutex<[RightsStatus.Kind]>([])
        let changes = Mutex<[Bool]>([])
    }

    private func gate(_ seen: Seen) -> AcquisitionGate {
        AcquisitionGate(
            AcquisitionGate.Hooks(
                rights: { _ in seen.rights.withLock { $0 } }, needsLicense: { $0.keySystem == .playReady },
                didHold: { _, status in seen.held.withLock { $0.append(status.kind) } },
                holdsDidChange: { change in seen.changes.withLock { $0.append(change) } }, didStartPlaying: {}))
    }

    /// A session behind the gate, whose loader has the key.
    private func session(_ gate: AcquisitionGate) throws -> KeySession {
        let key = try #require(key)
        let loader = CallbackLoader { request in
            request.finishLoading(with: .keys(Dictionary(uniqueKeysWithValues: request.keyIDs.map { ($0, key) })))
            return true
        }
        return KeySession(loaders: [gate, loader])
    }

    private func wait(for session: KeySession, until isDone: @escaping @Sendable () -> Bool) async {
        let (changes, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observation = session.observe { _ in signal.yield() }
        signal.yield()
        for await _ in changes where isDone() { break }
        observation.cancel()
    }

    private func isUsable(_ session: KeySession) -> Bool {
        if case .usable = session.status(of: keyID) { true } else { false }
    }

    @Test(.timeLimit(.minutes(8)))
    func withRightsARequestGoesOnToTheLoaders() async throws {
        let seen = Seen()
        seen.rights.withLock { $0 = RightsStatus(kind: .valid, reason: "") }
        let session = try session(gate(seen))
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .playReady))
        await wait(for: session) { isUsable(session) }
        #expect(seen.held.withLock { $0 }.isEmpty)
    }

    @Test(.timeLimit(.minutes(8)))
    func withoutRightsItWaitsUntilTheyCome() async throws {
        let seen = Seen()
        let gate = gate(seen)
        let session = try session(gate)
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .playReady))
        while seen.held.withLock({ $0.isEmpty }) { await Task.yield() }
        #expect(gate.held.map(\.keyIDs) == [[keyID]])
        await gate.reconsider()
        #expect(seen.held.withLock { $0 } == [RightsStatus.Kind.none, RightsStatus.Kind.none])
        #expect(!isUsable(session))
        seen.rights.withLock { $0 = RightsStatus(kind: .valid, reason: "") }
        await gate.reconsider()
        await wait(for: session) { isUsable(session) }
        #expect(gate.held.isEmpty)
        #expect(seen.changes.withLock { $0.last } == false)
    }

    @Test(.timeLimit(.minutes(8)))
    func anAcquisitionLetsThroughWhatNeedsNoLicense() async throws {
        let seen = Seen()
        let gate = gate(seen)
        let session = try session(gate)
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .clearKey))
        while seen.held.withLock({ $0.isEmpty }) { await Task.yield() }
        let acquisition = gate.beginAcquisition(of: [])
        gate.letGo()
        let other = KeyID(high: 3, low: 4)
        session.demand(KeyDemand(keyIDs: [other], keySystem: .clearKey))
        await wait(for: session) {
            if case .usable = session.status(of: other) { isUsable(session) } else { false }
        }
        gate.end(acquisition)
        #expect(gate.held.isEmpty)
    }

    /// The loaders would deny them: licenses are acquired for what is held. This is what a change of keys brings while an
    /// acquisition for other keys is under way.
    @Test(.timeLimit(.minutes(8)))
    func anAcquisitionForOtherKeysKeepsWhatWaitsForALicense() async throws {
        let seen = Seen()
        let gate = gate(seen)
        let session = try session(gate)
        let others = [KeyID(high: 3, low: 4), KeyID(high: 5, low: 6)]
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .playReady))
        while gate.held.isEmpty { await Task.yield() }
        let acquisition = gate.beginAcquisition(of: [others[0]])
        gate.letGo()
        for other in others { session.demand(KeyDemand(keyIDs: [other], keySystem: .playReady)) }
        await wait(for: session) {
            if case .usable = session.status(of: others[0]) { true } else { false }
        }
        while gate.held.count < 2 { await Task.yield() }
        #expect(gate.held.map(\.keyIDs) == [[keyID], [others[1]]])
        gate.end(acquisition)
        session.close(.sessionClosed("over"))
    }

    @Test(.timeLimit(.minutes(8)))
    func aRequestThatIsWithdrawnIsNotHeldAnyMore() async throws {
        let seen = Seen()
        let gate = gate(seen)
        let session = try session(gate)
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .playReady))
        while seen.held.withLock({ $0.isEmpty }) { await Task.yield() }
        session.close(.sessionClosed("over"))
        // Told once it is not held any more.
        while seen.changes.withLock({ $0.last }) != false { await Task.yield() }
        #expect(gate.held.isEmpty)
    }

    @Test(.timeLimit(.minutes(8)))
    func whoPassesOnHasNoSayAnyMore() async throws {
        let passing = CallbackLoader { request in
            request.passOn()
            return true
        }
        let key = try #require(key)
        let session = KeySession(loaders: [
            passing,
            CallbackLoader { request in
                request.finishLoading(with: .key(key))
                return true
            },
        ])
        session.demand(KeyDemand(keyIDs: [keyID]))
        await wait(for: session) { isUsable(session) }
        // The last that could be asked passes on: nobody took it.
        let lonely = KeySession(loaders: [passing])
        lonely.demand(KeyDemand(keyIDs: [keyID]))
        await wait(for: lonely) {
            guard case .pending(let id) = lonely.status(of: keyID) else { return false }
            return lonely.isUntaken(requestID: id)
        }
    }

    @Test func keysThatEndAreAskedForAgainOrFail() throws {
        let key = try #require(key)
        let now = ContinuousClock.now
        for holds in [true, false] {
            var state = KeySessionState(holdsAtEndOfLease: holds)
            var keys = KeySessionState.Keys(byID: [keyID: key])
            keys.terms = KeyTerms(expiry: .seconds(10))
            _ = state.install(keys, at: now)
            guard case .usable = state.use(keyID) else {
                Issue.record("the key is not there")
                return
            }
            #expect(state.advance(to: now + .seconds(9), makeID: { 1 }).events.isEmpty)
            let events = state.advance(to: now + .seconds(11), makeID: { 2 }).events
            guard case .expired([keyID], _, let wasInUse)? = events.first else {
                Issue.record("no end: \(events)")
                return
            }
            #expect(wasInUse != holds)
            let demanded = state.demand([keyID], keySystem: nil, retryFailuresUpTo: 0, as: 3, at: now + .seconds(12))
            #expect((demanded.requested != nil) == holds)
        }
    }
}
