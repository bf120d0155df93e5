// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import Synchronization

/// What stands between keys with output rules and the screen.
extension KeySession {
    // MARK: For guards

    /// From now on this guard is answerable for what the licences of this session want of outputs. The session does not
    /// keep it.
    public func join(_ outputGuard: any OutputGuard) {
        changeGuards { guards in
            guards.removeAll { $0.value === outputGuard }
            guards.append(WeakOutputGuard(value: outputGuard))
        }
    }

    /// The guard is gone, and what it said of violations. Keys with output rules are unusable from here on, unless there
    /// is another.
    public func leave(_ outputGuard: any OutputGuard) {
        changeGuards { $0.removeAll { $0.value === outputGuard } }
        if !isShown { core.withLock { $0.use.forgetPast() } }
    }

    /// The guard knows what it stands in front of, or something else than before.
    public func mediaDidChange(of outputGuard: any OutputGuard) { changeGuards { _ in } }

    /// Pictures of a decryptor have another way than before. All look at their keys again.
    public func pictureRouteDidChange() { statusRevision.add(1, ordering: .releasing) }

    /// Nothing goes to the guard's sink any more until it starts again.
    public func didStop(_ outputGuard: any OutputGuard) {
        if !isShown { core.withLock { $0.use.forgetPast() } }
    }

    private func changeGuards(_ change: (inout [WeakOutputGuard]) -> Void) {
        // What is removed goes after the lock: the last reference may be here.
        let (guards, before) = core.withLock { core in
            let before = core.guards.compactMap(\.value)
            change(&core.guards)
            core.guards.removeAll { $0.value == nil }
            let guards = core.guards.compactMap(\.value)
            core.use.guardsDidChange(to: guards.map { ObjectIdentifier($0) })
            guardCount.store(guards.count, ordering: .releasing)
            // A key that was refused for want of a guard is looked at again, and one that another guard let pass.
            statusRevision.add(1, ordering: .releasing)
            return (guards, before)
        }
        for outputGuard in guards { outputGuard.otherGuardsDidChange() }
        withExtendedLifetime(before) {}
    }

    /// Whether this medium is known to flow through a guard.
    public func hasGuard(for media: OutputPolicy.Media) -> Bool { guards.contains { $0.media == media } }

    /// Whether the license of a key has rules for outputs of this medium.
    public func hasOutputRules(for keyID: KeyID?, of media: OutputPolicy.Media) -> Bool {
        core.withLock { $0.state.policy(of: keyID).hasRules(for: media) }
    }

    private var guards: [any OutputGuard] { core.withLock { $0.guards.compactMap(\.value) } }

    private var isShown: Bool { guards.contains { $0.isShowing } }

    /// The most pixels that frames of the keys in use may have on the outputs that there are; nil: no limit. A lower
    /// variant can be chosen before frames have to lose detail.
    public var maximumPixels: Int? { guards.compactMap(\.maximumPixels).min() }

    /// What the outputs have at least, as far as is known now: unknown outputs, and those that no guard watches, have
    /// nothing. Media that wants more need not be chosen.
    public var outputLevel: OutputRequirement {
        guards.map { $0.outputLevel ?? .unprotected }.min() ?? .unprotected
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
    /// playback; nil opens them again, unless another guard closes them. Decryptors fail with the reason. Ends with the
    /// guard.
    public func setOutputViolation(
        _ reason: String?, for media: OutputPolicy.Media, by outputGuard: any OutputGuard
    ) {
        core.withLock { core in
            guard core.guards.contains(where: { $0.value === outputGuard }),
                core.use.setViolation(reason, for: media, by: ObjectIdentifier(outputGuard))
            else { return }
            statusRevision.add(1, ordering: .releasing)
        }
    }

    /// Why guards have closed keys with rules for pictures or, failing that, for sound; nil where none has.
    public var outputViolation: String? {
        core.withLock { $0.use.violation(for: .video) ?? $0.use.violation(for: .audio) }
    }

    // MARK: For decryptors

    /// `user` is about to decrypt media of this kind with a key. Returns why it may not: the key has an output rule and
    /// no guard can watch the outputs, or these have long lacked what it wants. Every guard has acted on the key when this
    /// returns, also where somebody else has just begun to use it.
    ///
    /// A session does not know pipelines: whether `user`'s pictures come to a guard is for `user` to find out.
    public func beginUse(of keyID: KeyID?, for media: OutputPolicy.Media, by user: UInt64) -> KeyError? {
        let now = clock.now()
        let (reason, notice, guards) = core.withLock { core -> (String?, OutputUse.Notice?, [any OutputGuard]) in
            let policy = core.state.policy(of: keyID)
            let guards = core.guards.compactMap(\.value)
            // Sound without a guard of its own is closed here by any other.
            if policy.hasRules(for: media), !guards.contains(where: { media == .audio || $0.media != .audio }) {
                return (Self.lacksGuard(for: media), nil, guards)
            }
            if let reason = core.use.violation(for: media) { return (reason, nil, guards) }
            return (nil, core.use.begin(keyID, wanting: policy, by: user, at: now), guards)
        }
        let name = keyID.map { "KID \($0)" } ?? "media without a KID"
        if let reason { return .denied("\(name): \(reason)") }
        guard let notice else { return nil }
        for outputGuard in guards { outputGuard.keysInUseDidChange() }
        // A guard that has just heard of the key may have closed it.
        let late = core.withLock { core in
            core.use.didAnswer(notice)
            return core.use.violation(for: media)
        }
        return late.map { .denied("\(name): \($0)") }
    }

    /// Whether there are guards, which have to know of each change of keys. One atomic load.
    public var isGuarded: Bool { guardCount.load(ordering: .acquiring) > 0 }

    /// `user` decrypts nothing any more.
    public func endUse(by user: UInt64) {
        let (now, isShown) = (clock.now(), isShown)
        core.withLock { $0.use.end(user, at: now, isShown: isShown) }
    }

    private static func lacksGuard(for media: OutputPolicy.Media) -> String {
        let (name, property) = media == .video ? ("pictures", "video") : ("sound", "audio")
        return "its license has rules for the outputs of \(name), and nothing watches these: put latchkeyguard in "
            + "front of the sink for \(name), as in \(property)-sink=\"latchkeyguard ! auto\(property)sink\""
    }
}

extension KeySessionState {
    /// What the licence of a key wants of outputs, in full.
    func policy(of slot: Slot) -> OutputPolicy {
        // Samples may be in queues that were decrypted before the key got another name.
        let slot = outputPolicies[slot] == nil ? slot.flatMap { secondNames[$0] } ?? slot : slot
        return outputPolicies[slot] ?? requirements[slot].map { OutputPolicy(requirement: $0) } ?? .unrestricted
    }
}
