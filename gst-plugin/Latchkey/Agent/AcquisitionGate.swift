// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// Stands in front of the loaders of an agent's session, where the application acquires licences by itself: a request
/// whose rights are not installed is held, and goes on when they are. Thread-safe.
final class AcquisitionGate: StoredKeyLoader {
    let name = "agent"
    /// It has no keys of its own.
    let keySystems: Set<KeySystem>? = []

    struct Hooks: Sendable {
        /// How the installed rights stand to a request.
        var rights: @Sendable (KeyLoadingRequest) async -> RightsStatus
        /// A request is held, for want of rights.
        var didHold: @Sendable (KeyLoadingRequest, RightsStatus) -> Void
        /// Whether requests are held.
        var holdsDidChange: @Sendable (Bool) -> Void
        /// Something of this key plays.
        var didStartPlaying: @Sendable () -> Void
    }

    private struct State {
        var held: [UInt64: KeyLoadingRequest] = [:]
        /// Acquisitions under way: what is asked for meanwhile is part of them.
        var acquisitions = 0
    }

    private let state = Mutex(State())
    private let hooks: Hooks

    init(_ hooks: Hooks) { self.hooks = hooks }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        guard !Self.isFree(request), state.withLock({ $0.acquisitions == 0 }) else { return false }
        state.withLock { $0.held[request.id] = request }
        Task { [weak self] in await self?.consider(request) }
        return true
    }

    /// Only the application acquires licences; the lease ends, and then the rights are looked at anew.
    func shouldWaitForRenewal(of request: KeyLoadingRequest) -> Bool {
        Task { request.finishLoading(with: .denied("the application acquires licences by itself")) }
        return true
    }

    func didCancel(_ request: KeyLoadingRequest) { forget(request) }

    func didStartPlaying(_ keyID: KeyID?, in session: KeySession) { hooks.didStartPlaying() }

    /// A key at its own URI is no matter of a licence.
    private static func isFree(_ request: KeyLoadingRequest) -> Bool {
        request.keySystem == nil && request.keyURI != nil
    }

    /// Lets what is asked for from now on through, until `endAcquisition`. What is held stays so until `letGo`.
    func beginAcquisition() { state.withLock { $0.acquisitions += 1 } }

    func endAcquisition() { state.withLock { $0.acquisitions -= 1 } }

    /// Lets all that is held go on to the loaders.
    func letGo() {
        let held = state.withLock { state in
            defer { state.held = [:] }
            return Array(state.held.values)
        }
        guard !held.isEmpty else { return }
        for request in held { request.passOn() }
        hooks.holdsDidChange(false)
    }

    /// The rights may be others now: looks at them anew for what is held.
    func reconsider() async {
        for request in state.withLock({ Array($0.held.values) }) { await consider(request) }
    }

    /// What is held, in the order in which it was asked for.
    var held: [KeyLoadingRequest] { state.withLock { $0.held.values.sorted { $0.id < $1.id } } }

    private func consider(_ request: KeyLoadingRequest) async {
        let status = await hooks.rights(request)
        guard state.withLock({ $0.held[request.id] != nil }) else { return }
        guard status.kind == .valid else {
            hooks.holdsDidChange(true)
            hooks.didHold(request, status)
            return
        }
        if forget(request) { request.passOn() }
    }

    /// False where it was not held.
    @discardableResult
    private func forget(_ request: KeyLoadingRequest) -> Bool {
        let (wasHeld, isLast) = state.withLock { state in
            (state.held.removeValue(forKey: request.id) != nil, state.held.isEmpty)
        }
        if wasHeld, isLast { hooks.holdsDidChange(false) }
        return wasHeld
    }
}
