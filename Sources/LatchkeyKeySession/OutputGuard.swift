// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection
import Synchronization

/// What stands between keys with output rules and the screen.
extension KeySession {
    // MARK: For guards

    /// From now on this guard is answerable for what the licenses of this session want of outputs. The session does not
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

    /// The guard's sink begins or ceases to take media in its time.
    public func playingDidChange(of outputGuard: any OutputGuard) {
        let now = clock.now()
        let guards = core.withLock { core -> [any OutputGuard] in
            let guards = core.guards.compactMap(\.value)
            core.use.setPlaying(Self.isPlaying(guards), at: now)
            return guards
        }
        // The last reference to one may be here.
        withExtendedLifetime(guards) {}
    }

    /// Whether what is in queues may go on to a sink.
    private static func isPlaying(_ guards: [any OutputGuard]) -> Bool {
        guards.isEmpty || guards.contains { $0.isPlaying }
    }

    private func changeGuards(_ change: (inout [WeakOutputGuard]) -> Void) {
        let now = clock.now()
        // What is removed goes after the lock: the last reference may be here.
        let (guards, before) = core.withLock { core in
            let before = core.guards.compactMap(\.value)
            change(&core.guards)
            core.guards.removeAll { $0.value == nil }
            let guards = core.guards.compactMap(\.value)
            core.use.guardsDidChange(to: guards.map { ObjectIdentifier($0) })
            core.use.setPlaying(Self.isPlaying(guards), at: now)
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

    /// What the licenses of the keys want whose media may be on its way to the screen: for each KID, nil being the key of
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

    /// `user` is about to decrypt media of this kind with a key. Returns why it may not: the key has an output rule and no
    /// guard can watch the outputs, or these have long lacked what it wants. Every guard has acted on the key when this
    /// returns, even if another user has just begun to use it.
    ///
    /// A session does not know pipelines: whether `user`'s pictures come to a guard is for `user` to find out.
    public func beginUse(of keyID: KeyID?, for media: OutputPolicy.Media, by user: UInt64) -> KeyError? {
        let now = clock.now()
        let (reason, notice, guards) = core.withLock { core -> (String?, OutputUse.Notice?, [any OutputGuard]) in
            let policy = core.state.policy(of: keyID)
            let guards = core.guards.compactMap(\.value)
            if policy.hasRules(for: media), !Self.watches(guards, media) {
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

    /// Why a key with rules for outputs of this medium may not be used: no guard watches these.
    func lackOfGuard(for keyID: KeyID, of media: OutputPolicy.Media) -> KeyError? {
        guard hasOutputRules(for: keyID, of: media), !Self.watches(guards, media) else { return nil }
        return .denied("KID \(keyID): \(Self.lacksGuard(for: media))")
    }

    /// Sound without a guard of its own is closed by any other.
    private static func watches(_ guards: [any OutputGuard], _ media: OutputPolicy.Media) -> Bool {
        guards.contains { media == .audio || $0.media != .audio }
    }

    private static func lacksGuard(for media: OutputPolicy.Media) -> String {
        let (name, property) = media == .video ? ("pictures", "video") : ("sound", "audio")
        return "its license has rules for the outputs of \(name), and nothing watches these: put latchkeyguard in "
            + "front of the sink for \(name), as in \(property)-sink=\"latchkeyguard ! auto\(property)sink\""
    }
}

extension KeySessionState {
    /// What the license of a key wants of outputs, in full.
    func policy(of slot: Slot) -> OutputPolicy {
        // Samples may be in queues that were decrypted before the key got another name.
        let slot = outputPolicies[slot] == nil ? slot.flatMap { secondNames[$0] } ?? slot : slot
        return outputPolicies[slot] ?? requirements[slot].map { OutputPolicy(requirement: $0) } ?? .unrestricted
    }
}

extension KeySession {
    /// What the license of a key wants of outputs. Nil: it says nothing, or there is no such key.
    public func outputRequirement(of keyID: KeyID?) -> OutputRequirement? {
        core.withLock { $0.state.requirements[$0.state.current(keyID)] }
    }

    /// What the license of a key says of all kinds of outputs. Nil: it says nothing, or there is no such key.
    public func outputPolicy(of keyID: KeyID?) -> OutputPolicy? {
        core.withLock { $0.state.outputPolicies[$0.state.current(keyID)] }
    }

    /// Why the license of a key allows no digital output for this medium; nil where it does, or says nothing.
    public func refusal(of keyID: KeyID?, for media: OutputPolicy.Media) -> KeyError? {
        guard let reason = outputPolicy(of: keyID)?.refusal(of: media) else { return nil }
        let name = keyID.map { "KID \($0)" } ?? "media without a KID"
        return PlayReadyError.outputProtection("\(name): \(reason)").keyError
    }

    /// Whether the outputs have what the license of this key wants, as far as that was reported. A key with rules for any
    /// output is `pending` until then, and one without is `sufficient`.
    public func externalProtectionStatus(of keyID: KeyID?) -> ExternalProtectionStatus {
        core.withLock { $0.state.externalProtectionStatus(of: keyID) }
    }

    /// Says what outputs there are; the watcher of the outputs calls this. Loaders are notified of each change, on a
    /// task.
    public func setExternalProtectionStatus(_ status: ExternalProtectionStatus, of keyID: KeyID?) {
        let loaders = core.withLock { core -> [any ResourceLoader] in
            guard core.state.externalProtectionStatus(of: keyID) != status,
                core.state.policy(of: keyID).hasRulesForOutputs
            else { return [] }
            core.state.protection[core.state.current(keyID)] = status
            return core.loaders
        }
        guard !loaders.isEmpty else { return }
        Task { for loader in loaders { loader.externalProtectionStatusDidChange(status, of: keyID) } }
    }
}

extension KeySessionState {
    func externalProtectionStatus(of slot: Slot) -> ExternalProtectionStatus {
        policy(of: slot).hasRulesForOutputs ? protection[current(slot)] ?? .pending : .sufficient
    }
}

extension OutputPolicy {
    fileprivate var hasRulesForOutputs: Bool { hasRules(for: .video) || hasRules(for: .audio) }
}

/// Stands in front of a sink and lets nothing pass that the outputs may not show. Thread-safe.
public protocol OutputGuard: AnyObject, Sendable {
    /// What flows through it. Nil: not known yet.
    var media: OutputPolicy.Media? { get }
    /// Whether media may be on its way from decryptors to the sink.
    var isShowing: Bool { get }
    /// Whether the sink takes media in its time. In a pause, what is in queues stays there. Asked under a lock: it must not call
    /// the session. One that does not tell plays.
    var isPlaying: Bool { get }
    /// What all outputs have at least, by the latest reading; nil: unknown.
    var outputLevel: OutputRequirement? { get }
    /// The most pixels a frame may have on the outputs that there are, by what the keys in use want; nil: no limit.
    var maximumPixels: Int? { get }
    /// Other keys are in use than before, see `KeySession.outputPoliciesInUse`. Their samples are decrypted after this
    /// returns, so it must have acted by then.
    func keysInUseDidChange()
    /// Other guards are there, or one knows its medium now. To be acted on soon, on another thread than the caller's.
    func otherGuardsDidChange()
}

extension OutputGuard {
    /// True.
    public var isPlaying: Bool { true }
}

/// Keeps a guard without keeping it alive.
struct WeakOutputGuard {
    weak var value: (any OutputGuard)?
}

/// Whose media may be on its way to the screen, as a value: the keys that decryptors use now, and those that they used a
/// moment ago. And what guards said of them.
struct OutputUse {
    typealias Slot = KeyID?
    typealias Instant = ContinuousClock.Instant

    /// Players queue up to half a minute of decrypted media. Of the time in which something plays.
    static let linger = Duration.seconds(60)

    /// What guards were told of a key, and when.
    struct Notice: Hashable {
        let slot: Slot
        let policy: OutputPolicy
        fileprivate let turn: UInt64
    }

    private var current: [UInt64: Slot] = [:]
    private var past: [Slot: Instant] = [:]
    /// Since when nothing plays. Nil: something does.
    private var heldSince: Instant?
    /// The keys that all guards have acted on, with what their licenses wanted then.
    private var answered: [Slot: OutputPolicy] = [:]
    /// Counts the changes of guards.
    private var turn: UInt64 = 0
    /// Why keys may not be used for a medium, by who says so: outputs have long lacked what the licenses want.
    private var violations: [ObjectIdentifier: [OutputPolicy.Media: String]] = [:]

    /// `user` decrypts media of this key from now on. What guards have to hear of before it does; nil where all of them
    /// have acted on it.
    mutating func begin(_ slot: Slot, wanting policy: OutputPolicy, by user: UInt64, at now: Instant) -> Notice? {
        let now = heldSince ?? now
        if let old = current.updateValue(slot, forKey: user), old != slot { past[old] = now + Self.linger }
        past = past.filter { $0.value > now }
        let inUse = slots(at: now)
        answered = answered.filter { inUse.contains($0.key) }
        return answered[slot] == policy ? nil : Notice(slot: slot, policy: policy, turn: turn)
    }

    /// Every guard has acted on a notice. Those that came since have not.
    mutating func didAnswer(_ notice: Notice) {
        if notice.turn == turn { answered[notice.slot] = notice.policy }
    }

    /// `user` is gone. What it made may be in the queues behind it, unless nothing is shown any more.
    mutating func end(_ user: UInt64, at now: Instant, isShown: Bool) {
        guard let old = current.removeValue(forKey: user), isShown else { return }
        past[old] = (heldSince ?? now) + Self.linger
    }

    /// Nothing is shown any more, so the queues are empty.
    mutating func forgetPast() { past = [:] }

    func slots(at now: Instant) -> Set<Slot> {
        let now = heldSince ?? now
        return Set(current.values).union(past.lazy.filter { $0.value > now }.map(\.key))
    }

    /// Whether something plays. If not, what is in queues stays there, and the time of keys does not go on.
    mutating func setPlaying(_ isPlaying: Bool, at now: Instant) {
        guard let start = heldSince else {
            if !isPlaying { heldSince = now }
            return
        }
        guard isPlaying else { return }
        let pause = max(start.duration(to: now), .zero)
        past = past.mapValues { $0 + pause }
        heldSince = nil
    }

    // MARK: Guards

    /// Others than before; what those say that are gone does not count.
    mutating func guardsDidChange(to guards: [ObjectIdentifier]) {
        turn &+= 1
        answered = [:]
        violations = violations.filter { guards.contains($0.key) }
    }

    /// `reason` is nil if there is none any more. Returns whether that is a change.
    mutating func setViolation(_ reason: String?, for media: OutputPolicy.Media, by owner: ObjectIdentifier) -> Bool {
        guard violations[owner]?[media] != reason else { return false }
        violations[owner, default: [:]][media] = reason
        return true
    }

    /// One of the reasons, the same one as long as there are no others.
    func violation(for media: OutputPolicy.Media) -> String? { violations.values.compactMap { $0[media] }.min() }
}

/// Whether the outputs have the protection that a key's license wants, as AVFoundation's
/// `AVExternalContentProtectionStatus` has it.
public enum ExternalProtectionStatus: Sendable, Hashable, CaseIterable {
    /// Not known yet. The picture waits.
    case pending
    /// They have it, or the license wants none.
    case sufficient
    /// An output lacks it. The picture is held back or changed, as the guard's mode says.
    case insufficient
}
