// SPDX-License-Identifier: MPL-2.0

import ProtectionModel
import Synchronization

extension KeySession {
    /// Says that somebody plays with this session from now on; nil where no session server counts that.
    ///
    /// What is not played any more is ended at the session server, so keep the answer while you play.
    public func beginPlayback() -> PlaybackUse? { viewing.map { PlaybackUse($0, id: Self.makeID()) } }

    /// Whether the session is closed, for good.
    public var isClosed: Bool { core.withLock { $0.state.closure != nil } }

    /// Sets the viewing session up, and waits for it, as ahead of a licence that no request of this session asks for.
    /// Throws why there is none. Nobody counts: returns at once.
    package func establishViewing() async throws(KeyError) {
        beginViewing(retryFailuresUpTo: generation)
        try await viewing?.established()
    }

    /// Sees to it that a viewing session is there or on its way, where a demand wants one.
    func beginViewing(retryFailuresUpTo generation: UInt64) {
        guard let viewing else { return }
        let begins = core.withLock { core in
            guard core.state.closure == nil, core.gate.begins(retryFailuresUpTo: generation) else { return false }
            core.gate = .opening
            return true
        }
        if begins { viewing.begin() }
    }

    /// The viewing session is there, or not: keys that the session has are of use, or not.
    func setGate(_ gate: ViewingGate) {
        perform { core in
            guard core.state.closure == nil else { return (KeySessionState.Action(), ()) }
            core.gate = gate
            var action = KeySessionState.Action(changesStatus: true)
            if case .open = gate {
                action.events += core.state.usableKeyIDs.map { .usable(requestID: nil, $0, elapsed: .zero) }
            }
            return (action, ())
        }
    }

    /// Whether the process is watched, so that keys have to come through a session.
    package var isWatched: Bool { configuration.integrity != nil }

    /// Nobody looks into the process, and it is as it was built: keys that the session has may be used.
    func processIsSound() {
        perform { core in
            guard core.state.closure == nil, core.awaitsFirstLook else { return (KeySessionState.Action(), ()) }
            core.awaitsFirstLook = false
            var action = KeySessionState.Action(changesStatus: true)
            action.events += core.state.usableKeyIDs.map { .usable(requestID: nil, $0, elapsed: .zero) }
            return (action, ())
        }
    }

    /// There is no viewing session, and so no key. Requests that wait for it fail by themselves.
    func refuse(_ error: KeyError) {
        perform { core in
            guard core.state.closure == nil else { return (KeySessionState.Action(), ()) }
            core.state.generation += 1
            core.gate = .refused(error, generation: core.state.generation)
            var action = KeySessionState.Action(changesStatus: true)
            action.events += core.state.usableKeyIDs.map { .failed(requestID: 0, $0, error) }
            return (action, ())
        }
    }

    func tell(_ notice: ClockNotice) {
        perform { _ in (KeySessionState.Action(events: [.clockSetBack(notice)]), ()) }
    }

    func tell(_ notice: ViewingNotice) {
        perform { _ in (KeySessionState.Action(events: [.viewing(notice)]), ()) }
    }
}

extension KeySessionState {
    /// As events name them: the KIDs, and an empty list for the key of media without a KID.
    fileprivate var usableKeyIDs: [[KeyID]] {
        let usable = entries.compactMap { slot, value -> Slot? in
            if case .usable = value.entry { slot } else { nil }
        }
        let keyIDs = Self.sorted(usable)
        return (keyIDs.isEmpty ? [] : [keyIDs]) + (usable.contains(nil) ? [[]] : [])
    }
}
