// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization

/// What one guard element knows and decides: the session's rules against the facts about outputs. Thread-safe.
final class GuardPost: OutputGuard {
    let session: KeySession
    private let settings: GuardSettings
    private let provider: any OutputProvider
    /// Where HDCP is asked for; nil where this process may not.
    private let request: (any HDCPAsking)?
    private let element: WeakElement
    private let knownMedia = Mutex<OutputPolicy.Media?>(nil)
    private let playing = Atomic(false)
    private let state: Mutex<State>
    /// Held while a decision is made and obeyed: an older one must not come after a newer.
    private let turn = Monitor()
    private let watch = Mutex<OutputWatch?>(nil)

    private struct State {
        var stability: OutputStability
        var evaluator: OutputEvaluator
        var time: Duration = .zero
        /// What the element obeys. Nil: another post's.
        var decision: OutputDecision? = .allow
        /// Since when something is blocked; nil: nothing is.
        var blockedSince: Duration?
        /// What HDCP was asked for, and of which outputs.
        var asked: (requirement: OutputRequirement, facts: [OutputFacts])?
        var askingError: String?
        var isEnded = false
        /// The watch's thread is to tell the decision: no bus took it, as the element is not in its pipeline yet, or it was made on
        /// a thread that must not post.
        var isUntold = false

        init(_ evaluator: OutputEvaluator) {
            self.evaluator = evaluator
            stability = OutputStability(delay: .milliseconds(500))
        }
    }

    init(_ session: KeySession, settings: GuardSettings, element: ElementReference) throws(OutputSettingError) {
        self.session = session
        self.settings = settings
        state = Mutex(State(try settings.evaluator()))
        provider = try settings.provider()
        request = try settings.asker(provider)
        self.element = WeakElement(element)
    }

    var media: OutputPolicy.Media? { knownMedia.withLock { $0 } }

    /// What the element stands in front of, as far as that is known. Any thread.
    func setMedia(_ media: OutputPolicy.Media?) {
        let isNews = knownMedia.withLock { known in
            defer { known = media }
            return known != media
        }
        if isNews { session.mediaDidChange(of: self) }
    }

    /// Whether the user has not changed anything since. What the application tells of outputs comes in other ways.
    func hasSettings(_ other: GuardSettings) -> Bool {
        var (mine, others) = (settings, other)
        (mine.told, others.told) = (nil, nil)
        mine.hdmiMode = state.withLock { $0.evaluator.hdmiMode }.rawValue
        return mine == others
    }

    var isPlaying: Bool { playing.load(ordering: .acquiring) }

    /// The element begins or ceases to play. Any thread.
    func setPlaying(_ isPlaying: Bool) {
        playing.store(isPlaying, ordering: .releasing)
        session.playingDidChange(of: self)
    }

    var isShowing: Bool { element.map { ($0 as? GuardElement)?.canFlush } == true }

    var outputLevel: OutputRequirement? { state.withLock { $0.stability.facts.first?.level } }

    var maximumPixels: Int? { state.withLock { $0.decision?.limit } }

    /// The element is stopped, until it starts again.
    func didStop() { session.didStop(self) }

    /// `replacing`: the element obeys another post's decision so far.
    func begin(replacing: Bool) {
        // Who chooses variants now asks before the watch's thread has read anything, and so may the first frame.
        (provider as? WaylandOutputs)?.waitForAnswer()
        let facts = provider.read()
        state.withLock { state in
            _ = state.stability.read(facts, at: .zero)
            if replacing { state.decision = nil }
        }
        session.join(self)
        let watch = OutputWatch(provider, interval: GuardSettings.pollInterval) { [weak self] facts, time in
            self?.read(facts, at: time)
        }
        self.watch.withLock { $0 = watch }
    }

    func end() {
        session.leave(self)
        state.withLock { ($0.isEnded, $0.isUntold) = (true, false) }
        let watch = watch.withLock { watch in
            defer { watch = nil }
            return watch
        }
        watch?.stop()
        // The application may destroy its window then.
        for window in [provider as? WaylandOutputs, request as? WaylandOutputs] { window?.stop() }
    }

    func keysInUseDidChange() { decide() }

    /// The element joins as its state changes: the locks of bins around it are held, and an application that answers a message at
    /// once may wait for these. What is decided counts when this returns, and the watch's thread tells it.
    func didJoin() { decide(isToldLater: true) }

    func otherGuardsDidChange() { wakeWatch() }

    /// The application tells the outputs. They count when this returns; false where others are watched.
    func set(_ facts: OutputFacts) -> Bool {
        guard let outputs = provider as? ApplicationOutputs else { return false }
        outputs.set(facts)
        decide { state in _ = state.stability.read(outputs.read(), at: state.time) }
        return true
    }

    /// What the application makes of outputs counts when this returns. As `obey`, not on a thread of the sink behind. `isJoining`:
    /// as in `didJoin`.
    func setMode(_ mode: HDMIMode, isJoining: Bool = false) {
        decide(isToldLater: isJoining) { $0.evaluator.hdmiMode = mode }
    }

    private func read(_ facts: OutputFacts, at time: Duration) {
        decide { state in
            state.time = max(state.time, time)
            // The application may have told something else since the watch has looked.
            let facts = (provider as? ApplicationOutputs)?.read() ?? facts
            _ = state.stability.read(facts, at: state.time)
        }
        tellUntold()
    }

    /// On the watch's thread.
    private func tellUntold() {
        guard state.withLock({ $0.isUntold }) else { return }
        element.withElement { element in
            guard element.reference.hasListener else { return }
            let decision = state.withLock { state in
                defer { state.isUntold = false }
                return state.isUntold ? state.decision : nil
            }
            guard let decision else { return }
            tell(decision, on: element.reference)
            AdaptiveBin.limitQualities(around: element.reference)
            // What was decided meanwhile may have been told before.
            state.withLock { state in
                if state.decision != decision { state.isUntold = !state.isEnded }
            }
        }
    }

    private func decide(isToldLater: Bool = false, after change: (inout sending State) -> Void = { _ in }) {
        guard
            let (news, blanks) = turn.withLock({
                state.withLock { change(&$0) }
                return decideInTurn()
            })
        else { return }
        // Whoever hears of it may answer at once: nothing is held then.
        element.withElement { element in
            if blanks { (element as? GuardElement)?.blankSoon() }
            let isTold = !isToldLater && element.reference.hasListener
            state.withLock { $0.isUntold = !isTold && !$0.isEnded }
            guard !isToldLater else { return }
            tell(news, on: element.reference)
            AdaptiveBin.limitQualities(around: element.reference)
        }
        if isToldLater { wakeWatch() }
    }

    private func wakeWatch() { watch.withLock { $0 }?.poke() }

    /// The element is in its pipeline, which hears of what was decided before. Players put their sinks there late.
    func didEnterPipeline(_ element: ElementReference) {
        guard state.withLock({ $0.isUntold }) else { return }
        AdaptiveBin.limitQualities(around: element)
        wakeWatch()
    }

    /// The decision, where it is another one than before, and whether the screen is to be blanked.
    private func decideInTurn() -> (OutputDecision, blanks: Bool)? {
        let policies = session.outputPoliciesInUse
        let (facts, evaluator, isEnded) = state.withLock { ($0.stability.facts, $0.evaluator, $0.isEnded) }
        guard !isEnded else { return nil }
        let decision = evaluator.decide(Array(policies.values), facts: facts)
        let isBlocked = decision.isVideoBlocked || decision.isAudioBlocked
        let (before, blockedFor) = state.withLock { state in
            defer { state.decision = decision }
            state.blockedSince = isBlocked ? state.blockedSince ?? state.time : nil
            return (state.decision, state.blockedSince.map { state.time - $0 })
        }
        var blanks = false
        if decision != before {
            element.withElement { element in
                guard let element = element as? GuardElement, element.currentPost === self else { return }
                blanks = element.apply(decision)
            }
        }
        report(decision, blockedFor, policies, facts, evaluator)
        ask(decision.request, of: facts)
        return decision != before ? (decision, blanks) : nil
    }

    /// To the session: the status of each key, and which are to be closed.
    private func report(
        _ decision: OutputDecision, _ blockedFor: Duration?, _ policies: [KeyID?: OutputPolicy],
        _ facts: [OutputFacts], _ evaluator: OutputEvaluator
    ) {
        for (keyID, policy) in policies {
            var own = evaluator.decide([policy], facts: facts)
            // It holds whatever the outputs are.
            own.maximumFrame = nil
            let status: ExternalProtectionStatus =
                own.isUnrestricted ? .sufficient : facts.isPending ? .pending : .insufficient
            session.setExternalProtectionStatus(status, of: keyID)
        }
        let lasts = decision.endsPlayback || settings.violationTimeout.map { blockedFor ?? .zero >= $0 } ?? false
        let reason = decision.reasons.joined(separator: "; ")
        let closesVideo = decision.isVideoBlocked && lasts && media != .audio
        session.setOutputViolation(closesVideo ? reason : nil, for: .video, by: self)
        // Sound that no guard stands in front of ends in the decryptor.
        let isClosed = decision.isAudioBlocked && (media == .audio ? lasts : !session.hasGuard(for: .audio))
        session.setOutputViolation(isClosed ? reason : nil, for: .audio, by: self)
    }

    private func tell(_ decision: OutputDecision, on element: ElementReference) {
        let status =
            decision.isVideoBlocked || decision.isAudioBlocked
            ? "blocked" : decision.isUnrestricted ? "allowed" : "limited"
        element.post(
            "latchkey-output-protection",
            [
                ("status", .string(status)), ("video", .boolean(!decision.isVideoBlocked)),
                ("audio", .boolean(!decision.isAudioBlocked)),
                ("max-pixels", .uint64(UInt64(max(decision.limit ?? 0, 0)))),
                ("reasons", .strings(decision.reasons)),
            ])
    }

    /// Asks again whenever the outputs are others, and where it did not work.
    private func ask(_ requirement: OutputRequirement, of facts: [OutputFacts]) {
        guard let request, requirement != .unprotected else { return }
        let isNew = state.withLock { state in
            defer { state.asked = (requirement, facts) }
            return state.asked.map { $0.requirement != requirement || $0.facts != facts } ?? true
        }
        guard isNew || request.mayFailLater else { return }
        let error = request.ask(requirement).map { "\($0)" }
        let isNews = state.withLock { state in
            if error != nil { state.asked = nil }
            defer { state.askingError = error }
            return error != state.askingError
        }
        if let error, isNews { GuardElement.log.log(.warning, nil, "HDCP is not requested: \(error)") }
    }
}

extension OutputDecision {
    /// In pixels; nil: none.
    fileprivate var limit: Int? {
        [maximumPixels, maximumFrame.map { OutputDecision.pixels($0.width, $0.height) }].compactMap(\.self).min()
    }
}

extension [OutputFacts] {
    /// Whether a link may still become what is wanted: it is asked, or nothing was read yet, or what was read is not
    /// confirmed.
    fileprivate var isPending: Bool {
        count > 1
            || contains { facts in
                guard case .outputs(let outputs) = facts else { return false }
                return outputs.contains { $0.protection == .requested }
            }
    }
}
