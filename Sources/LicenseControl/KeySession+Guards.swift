// SPDX-License-Identifier: MPL-2.0

public import ProtectionModel
import Synchronization

/// What stands between keys with output rules and the screen.
extension KeySession {
    // MARK: For guards

    /// From now on this guard is answerable for what the licences of this session want of outputs. The session does not
    /// keep it.
    public func join(_ outputGuard: any OutputGuard) {
        let others = core.withLock { core in
            core.guards.removeAll { $0.value == nil || $0.value === outputGuard }
            core.guards.append(WeakOutputGuard(value: outputGuard))
            guardCount.store(core.guards.count, ordering: .releasing)
            // A key that was refused for want of a guard is looked at again.
            statusRevision.add(1, ordering: .releasing)
            return core.guards
        }
        withExtendedLifetime(others) {}
    }

    /// The guard is gone. Keys with output rules are unusable from here on, unless there is another.
    public func leave(_ outputGuard: any OutputGuard) {
        core.withLock { core in
            core.guards.removeAll { $0.value == nil || $0.value === outputGuard }
            guardCount.store(core.guards.count, ordering: .releasing)
            statusRevision.add(1, ordering: .releasing)
        }
    }

    /// Whether some guard is, or may be, in front of this medium's sink.
    public func hasGuard(for media: OutputPolicy.Media) -> Bool {
        core.withLock { $0.guards }.contains { $0.value.map { $0.media == nil || $0.media == media } ?? false }
    }

    /// What the outputs have at least, as far as is known now: unknown outputs, and those that no guard watches, have
    /// nothing. Media that wants more need not be chosen.
    public var outputLevel: OutputRequirement {
        core.withLock { $0.guards }.compactMap { $0.value.map { $0.outputLevel ?? .unprotected } }.min() ?? .unprotected
    }

    /// What the licences of the keys want whose media may be on its way to the screen: for each KID, nil being the key of
    /// media without one. A key without a rule is among them. Empty: nothing protected plays.
    public var outputPoliciesInUse: [KeyID?: OutputPolicy] {
        let now = clock.now()
        return core.withLock { core in
            core.use.slots(at: now).reduce(into: [:]) { $0.updateValue(core.state.policy(of: $1), forKey: $1) }
        }
    }

    /// Closes the keys with rules for this medium, since the outputs have long lacked what these want, or are to end
    /// playback; nil opens them again. Decryptors fail with the reason.
    public func setOutputViolation(_ reason: String?, for media: OutputPolicy.Media) {
        core.withLock { core in
            guard core.use.violations[media] != reason else { return }
            core.use.violations[media] = reason
            statusRevision.add(1, ordering: .releasing)
        }
    }

    // MARK: For decryptors

    /// `user` is about to decrypt media of this kind with a key. Returns why it may not: the key has an output rule and
    /// no guard watches the outputs, or these have long lacked what it wants. Guards hear of the key before this returns.
    public func beginUse(of keyID: KeyID?, for media: OutputPolicy.Media, by user: UInt64) -> KeyError? {
        let now = clock.now()
        let (reason, guards) = core.withLock { core -> (String?, [WeakOutputGuard]) in
            let hasRules = core.state.policy(of: keyID).hasRules(for: media)
            if hasRules, !core.guards.contains(where: { $0.value != nil }) { return (Self.lacksGuard, []) }
            if let reason = core.use.violations[media] { return (reason, []) }
            return (nil, core.use.begin(keyID, by: user, at: now) ? core.guards : [])
        }
        for weak in guards { weak.value?.keysInUseDidChange() }
        let name = keyID.map { "KID \($0)" } ?? "media without a KID"
        // A guard that has just heard of the key may have closed it.
        let late = guards.isEmpty ? nil : core.withLock { $0.use.violations[media] }
        return (reason ?? late).map { .denied("\(name): \($0)") }
    }

    /// Whether there are guards, which have to know of each change of keys. One atomic load.
    public var isGuarded: Bool { guardCount.load(ordering: .acquiring) > 0 }

    /// `user` decrypts nothing any more.
    public func endUse(by user: UInt64) { core.withLock { $0.use.end(user) } }

    private static let lacksGuard =
        "its licence has rules for outputs, and nothing watches them: put latchkeyguard in front of the sink, as in "
        + "video-sink=\"latchkeyguard ! autovideosink\""
}

extension KeySessionState {
    /// What the licence of a key wants of outputs, in full.
    func policy(of slot: Slot) -> OutputPolicy {
        outputPolicies[slot] ?? requirements[slot].map { OutputPolicy(requirement: $0) } ?? .unrestricted
    }
}
