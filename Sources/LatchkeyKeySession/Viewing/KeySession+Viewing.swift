// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
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
        guard let viewing else { return }
        // What is stored plays on meanwhile.
        if needsNoViewing { viewing.begin() } else { beginViewing(retryFailuresUpTo: generation) }
        try await viewing.established()
    }

    /// Whether the content is stored on this device: then its stored keys need no viewing session, where the configuration
    /// allows that. What has to be asked of a server brings one about.
    package func setContentIsStored(_ isStored: Bool) {
        guard let viewing, viewing.allowsOffline else { return }
        let begins = perform { core -> (KeySessionState.Action, Bool) in
            core.contentIsStored = isStored
            switch (core.gate, isStored) {
            case (.closed, true), (.opening, true), (.refused, true):
                var action = KeySessionState.Action(events: core.setGate(.unneeded), changesStatus: true)
                action.events += core.state.usableKeyIDs.map { .usable(requestID: nil, $0, elapsed: .zero) }
                return (action, false)
            case (.unneeded, false):
                let action = KeySessionState.Action(events: core.setGate(.closed), changesStatus: true)
                return (action, !core.state.entries.isEmpty)
            default: return (KeySessionState.Action(), false)
            }
        }
        if begins { beginViewing(retryFailuresUpTo: generation) }
    }

    /// Whether what plays is stored on this device.
    var needsNoViewing: Bool { core.withLock { core in if case .unneeded = core.gate { true } else { false } } }

    /// Has a viewing session set up, if one is wanted before this loader is asked; false if none is.
    func beginViewing(for loader: any ResourceLoader) -> Bool {
        guard let viewing, needsNoViewing, !loader.isLocal else { return false }
        viewing.begin()
        return true
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
            var action = KeySessionState.Action(events: core.setGate(gate), changesStatus: true)
            if case .open = gate {
                action.events += core.state.usableKeyIDs.map { .usable(requestID: nil, $0, elapsed: .zero) }
            }
            return (action, ())
        }
    }

    /// Nobody plays any more. What begins then may be clear at first, and is not withheld.
    func endViewing() {
        perform { core in
            guard core.state.closure == nil else { return (KeySessionState.Action(), ()) }
            let gate = core.contentIsStored ? ViewingGate.unneeded : .closed
            core.wasOpen = false
            return (KeySessionState.Action(events: core.setGate(gate), changesStatus: true), ())
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
            guard !core.contentIsStored else {
                // What is stored plays on; what was asked for fails.
                var action = KeySessionState.Action(events: core.setGate(.unneeded), changesStatus: true)
                action.events += core.state.usableKeyIDs.map { .usable(requestID: nil, $0, elapsed: .zero) }
                return (action, ())
            }
            core.state.generation += 1
            let gate = ViewingGate.refused(error, generation: core.state.generation)
            var action = KeySessionState.Action(events: core.setGate(gate), changesStatus: true)
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
