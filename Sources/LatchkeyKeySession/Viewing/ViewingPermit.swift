// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection
public import LatchkeyViewingSession
import Synchronization

/// The viewing session that a `KeySession` needs for its keys to be usable.
///
/// A session is set up when the first key is asked for, and before any license is. It is ended when nothing plays any more,
/// and the next key that is asked for brings about another one. When it is lost, the `KeySession` is closed: keys and gates
/// with it. Thread-safe; no method blocks.
public final class ViewingPermit: Sendable {
    private struct State {
        weak var owner: KeySession?
        var current: ViewingSession?
        /// Whether the current one was ever there.
        var wasEstablished = false
        /// Who uses the session, and whether they play.
        var users: [UInt64: Bool] = [:]
        /// Whether what they play is a file, as far as they have said so.
        var files: [UInt64: Bool] = [:]
        /// Tell whether what does not play yet is about to.
        var starts: [UInt64: @Sendable () -> Bool] = [:]
        var isOver = false
        /// The last user has left, and nothing was demanded since.
        var isLeft = false
        /// Sessions that are being ended.
        var ending: [ViewingSession] = []
        /// The pipeline's, and then the application's.
        var pipelineObserver: (@Sendable (ViewingNotice) -> Void)?
        var teardownObserver: (@Sendable (ViewingNotice) -> Void)?

        var isPlaying: Bool { users.isEmpty || users.values.contains(true) }
    }

    private let configuration: ViewingConfiguration
    private let state = Mutex(State())

    init(_ configuration: ViewingConfiguration) { self.configuration = configuration }

    var allowsOffline: Bool { configuration.allowsOffline }

    func setOwner(_ owner: KeySession) { state.withLock { $0.owner = owner } }

    // MARK: What it is like

    /// The session that is there now, for its state and its failure.
    public var session: ViewingSession? { state.withLock(\.current) }
    /// Whether it was ended for a pause, or is about to be.
    package var isReleased: Bool { session?.state.isReleased ?? false }
    /// The server's latest token. A secret.
    public var token: SessionToken? { session?.token }
    /// Where license requests have it.
    public var tokenPlacement: SessionTokenPlacement { configuration.token }
    /// Why playback must not go on, from the moment at which the session is lost. The `KeySession` is closed a moment later.
    var loss: KeyError? {
        guard let state = session?.state, state.isLost, let failure = state.failure else { return nil }
        return Self.loss(failure)
    }

    // MARK: For the application

    /// The application is not in front any more. While media plays the session is kept; a pause counts as in front.
    public func enterBackground() { session?.enterBackground() }

    /// The application is in front again, or its picture is (picture-in-picture). If the session was lost meanwhile, its end
    /// was reported already: play anew.
    public func enterForeground() { session?.enterForeground() }
    /// The machine is about to sleep.
    public func suspend() { session?.suspend() }
    /// The same. Returns when a session that is to be ended for it was ended, or could not be.
    package func suspendAndWait() async {
        guard let session else { return }
        session.suspend()
        await session.settled()
    }

    /// The machine is awake again. One heartbeat tells whether a session that slept too long is there still.
    public func resume() { session?.resume() }

    /// Called when a session could not be ended, even if the `KeySession` has no observers any more. The latest counts.
    public func onTeardownError(_ body: @escaping @Sendable (ViewingNotice) -> Void) {
        let old = state.withLock { state in
            defer { state.teardownObserver = body }
            return state.teardownObserver
        }
        withExtendedLifetime(old) {}
    }

    /// The same for the pipeline that plays last. It is told before the application's own.
    package func onTeardownErrorInPipeline(_ body: @escaping @Sendable (ViewingNotice) -> Void) {
        let old = state.withLock { state in
            defer { state.pipelineObserver = body }
            return state.pipelineObserver
        }
        withExtendedLifetime(old) {}
    }

    /// Whether sessions are being ended, or what went wrong with that is not told yet.
    package var isEnding: Bool { state.withLock { $0.ending.contains { !$0.isClosed } } }

    /// Waits until the sessions that are not used any more are ended, or could not be: `SessionPolicy.teardownWindow`.
    package func ended() async {
        let sessions = state.withLock(\.ending)
        for session in sessions { await session.closed() }
        state.withLock { state in
            state.ending.removeAll { one in one.state.isOver && sessions.contains { $0 === one } }
        }
    }

    // MARK: For the KeySession

    /// Whether a session may begin. Not if the last playback has ended, and no key was demanded since: what is under way still, as
    /// the renewal of a lease, brings about no other session, which nothing would end.
    func isWanted(byDemand: Bool) -> Bool {
        state.withLock { state in
            if byDemand { state.isLeft = false }
            return !state.isLeft
        }
    }

    /// Sees to it that there is a session, or one on its way; `unlessLeft`: not behind the end of the last playback.
    func begin(unlessLeft: Bool = false) {
        var released: (session: ViewingSession, isPlaying: Bool)?
        let (begun, old) = state.withLock { state -> (ViewingSession?, ViewingSession?) in
            guard !state.isOver, !(unlessLeft && state.isLeft) else { return (nil, nil) }
            state.isLeft = false
            if let current = state.current {
                switch current.state.phase {
                case .closed: break
                case .denied where !state.wasEstablished: break
                // One that was there and is lost closes the `KeySession` in a moment. Another session would hide that.
                default:
                    // Ended for a pause.
                    if current.state.isReleased { released = (current, state.isPlaying) }
                    return (nil, nil)
                }
            }
            let session = configuration.makeSession(configuration.session)
            defer { state.current = session }
            state.wasEstablished = false
            return (session, state.current)
        }
        old?.stop()
        if let released {
            // A pipeline may need a key before it plays, as at its start and behind a seek.
            let (session, isPlaying) = released
            if isPlaying { session.startAgain() } else { session.startAgainWhenAskedToPlay() }
        }
        guard let begun else { return }
        begun.observe { [weak self, weak begun] event in
            if let self, let begun { self.receive(event, from: begun) }
        }
        begun.onPauseLimit { [weak self] in self?.isAskedToPlay ?? false }
        tell(begun, told: true)
        begun.start()
    }

    /// Waits until the session is there. Throws why it is not.
    func established() async throws(KeyError) {
        guard let session else { throw .sessionClosed("the viewing session is over") }
        do throws(SessionFailure) {
            try await session.established()
        } catch {
            let wasEstablished = self.state.withLock { $0.current === session && $0.wasEstablished }
            let state = session.state
            let isLost = wasEstablished && (state.isLost || state.phase == .denied)
            throw isLost ? Self.loss(error) : Self.refusal(error)
        }
    }

    /// Whether a key may be refused because the server has ended the session, which is not known here yet.
    var mayBeLost: Bool { session?.canBeChecked ?? false }

    /// Asks the server whether it has the session. True if another session takes the place of one that is lost: what was
    /// refused may be asked for again.
    func check() async -> Bool {
        guard let session else { return false }
        let generation = session.state.generation
        await session.check()
        let state = session.state
        return state.generation != generation && state.phase != .denied
    }

    /// The `KeySession` is closed or gone.
    func close() {
        let ended = state.withLock { state in
            state.isOver = true
            return state.current
        }
        if let ended { end(ended) }
    }

    // MARK: Who plays

    func enter(_ user: UInt64) { change { $0[user] = false } }
    func setPlaying(_ isPlaying: Bool, _ user: UInt64) { change { if $0[user] != nil { $0[user] = isPlaying } } }

    func onPauseLimit(_ user: UInt64, isAskedToPlay body: @escaping @Sendable () -> Bool) {
        let old = state.withLock { state -> (@Sendable () -> Bool)? in
            guard state.users[user] != nil else { return nil }
            defer { state.starts[user] = body }
            return state.starts[user]
        }
        withExtendedLifetime(old) {}
    }

    /// Whether a user is about to play. Asks without the lock: the answers look at pipelines.
    private var isAskedToPlay: Bool {
        let starts = state.withLock { Array($0.starts.values) }
        return starts.contains { $0() }
    }

    /// Whether all that is played are files on this device: nothing that has not been said so.
    var playsFilesOnly: Bool { state.withLock { !$0.files.isEmpty && $0.files.values.allSatisfy(\.self) } }

    func setPlaysFile(_ isFile: Bool, _ user: UInt64) {
        let owner = state.withLock { state -> KeySession? in
            guard state.users[user] != nil, state.files.updateValue(isFile, forKey: user) != isFile else { return nil }
            return state.owner
        }
        owner?.playedFilesDidChange()
    }

    /// Whether the URL is that of an MP4 or PIFF file on this device. A manifest on disk may name media on servers: what reads
    /// it tells (`KeyPlayback.note(playsFiles:)`).
    package static func isFile(_ url: String) -> Bool {
        let endings = [
            ".mp4", ".m4v", ".m4a", ".m4s", ".mov", ".qt", ".3gp", ".cmfv", ".cmfa", ".ismv", ".isma",
        ]
        let path = url.prefix { $0 != "?" && $0 != "#" }.lowercased()
        return URIReference(url).scheme?.lowercased() == "file"
            && endings.contains(where: path.hasSuffix)
    }

    /// The last one to go ends the session.
    func leave(_ user: UInt64) {
        // What it keeps goes after the lock.
        let start = state.withLock { $0.starts.removeValue(forKey: user) }
        defer { withExtendedLifetime(start) {} }
        let (isLast, session, owner) = state.withLock { state -> (Bool, ViewingSession?, KeySession?) in
            let wasPlaying = state.isPlaying
            state.files[user] = nil
            guard state.users.removeValue(forKey: user) != nil else { return (false, nil, nil) }
            guard state.users.isEmpty else {
                return (false, wasPlaying == state.isPlaying ? nil : state.current, nil)
            }
            defer { (state.current, state.isLeft) = (nil, true) }
            // From now on, so that an agent that is released meanwhile waits for it.
            if let current = state.current { state.ending.append(current) }
            return (true, state.current, state.owner)
        }
        guard isLast else {
            // Those that are left are paused.
            if let session { tell(session) }
            return
        }
        owner?.endViewing()
        if let session { end(session) }
    }

    private func end(_ session: ViewingSession) {
        state.withLock { state in
            state.ending.removeAll { $0 === session || $0.isClosed }
            state.ending.append(session)
        }
        session.stop()
    }

    private func change(_ body: (inout [UInt64: Bool]) -> Void) {
        let session = state.withLock { state -> ViewingSession? in
            let wasPlaying = state.isPlaying
            body(&state.users)
            if !state.users.isEmpty { state.isLeft = false }
            return wasPlaying == state.isPlaying ? nil : state.current
        }
        if let session { tell(session) }
    }

    /// Tells the session whether media plays. Several users may change that at once, and the session is told without the lock:
    /// so this looks again after each call, and what is told last is how things stand. `told`: what the session knows.
    private func tell(_ session: ViewingSession, told: Bool? = nil) {
        var told = told
        while let isPlaying = state.withLock({ state -> Bool? in state.current === session ? state.isPlaying : nil }),
            isPlaying != told
        {
            if isPlaying { session.play() } else { session.pause() }
            told = isPlaying
        }
    }

    // MARK: What happens to the session

    private func receive(_ event: ViewingSession.Event, from session: ViewingSession) {
        let (owner, isCurrent, wasEstablished) = state.withLock { state in
            let isCurrent = state.current === session
            if isCurrent, event == .gate(isOpen: true) { state.wasEstablished = true }
            return (state.owner, isCurrent, state.wasEstablished)
        }
        if case .notice(.teardownError(let failure)) = event {
            let notice = ViewingNotice(.teardownError, failure)
            owner?.log("the viewing session could not be ended, and is left for the next start: \(failure)")
            owner?.tell(notice)
            let (inPipeline, ofApplication) = state.withLock { ($0.pipelineObserver, $0.teardownObserver) }
            inPipeline?(notice)
            ofApplication?(notice)
            return
        }
        guard let owner else { return }
        switch event {
        case .gate(true): if isCurrent { owner.setGate(.open) }
        case .gate(false):
            guard isCurrent else { return }
            // A lost session closes everything in a moment, and nothing must bring about another one until then.
            let failure = session.state.phase == .dormant ? nil : session.failure
            owner.setGate(failure.map { .refused(Self.loss($0), generation: .max) } ?? .closed)
        case .notice(.setupError(let failure)):
            guard isCurrent else { return }
            owner.tell(ViewingNotice(.setupError, failure))
            if wasEstablished { owner.close(Self.loss(failure)) } else { owner.refuse(Self.refusal(failure)) }
        case .notice(.heartbeatError(let failure, let isFinal)):
            guard isCurrent else { return }
            owner.tell(ViewingNotice(.heartbeatError(isFinal: isFinal), failure))
            if isFinal { owner.close(Self.loss(failure)) }
        case .notice(.teardownError), .notice(.established), .notice(.released), .notice(.closed): break
        }
    }

    static func refusal(_ failure: SessionFailure) -> KeyError {
        let text = "no viewing session: \(failure)"
        switch failure.kind {
        case .unknown: return failure.status == nil ? .network(text) : .serverStatus(text)
        case .insecure: return .network(text)
        case .limit, .credential, .ended, .refused, .expired: return .denied(text)
        }
    }

    static func loss(_ failure: SessionFailure) -> KeyError {
        .sessionClosed("the viewing session is lost: \(failure)")
    }
}

/// A playback with a `KeySession`. While at least one exists, the viewing session is kept. Ends with `end()` or when
/// the last reference to it goes. Thread-safe.
public final class PlaybackUse: Sendable {
    private let id: UInt64
    private let permit: ViewingPermit

    init(_ permit: ViewingPermit, id: UInt64) {
        self.permit = permit
        self.id = id
        permit.enter(id)
    }

    deinit { end() }

    /// Whether it plays, or is paused. Not at first.
    public func setPlaying(_ isPlaying: Bool) { permit.setPlaying(isPlaying, id) }

    /// While it does not play, `isAskedToPlay` is asked each time the limit of a pause is over: a start may take longer than that,
    /// and is no pause. After that, it is asked while a key is wanted. On any thread. The latest counts.
    package func onPauseLimit(isAskedToPlay: @escaping @Sendable () -> Bool) {
        permit.onPauseLimit(id, isAskedToPlay: isAskedToPlay)
    }

    /// Whether what it plays is a file on this device. As long as all that is played are, stored keys need no viewing session,
    /// where the configuration allows that. Before the first demand for a key of it.
    package func setPlaysFile(_ isFile: Bool) { permit.setPlaysFile(isFile, id) }

    /// Gives the use up. A second call does nothing.
    public func end() { permit.leave(id) }
}

/// Whether the viewing session lets keys be used.
enum ViewingGate {
    /// There is no session server.
    case unguarded
    /// No session is wanted, or it is not there at the moment.
    case closed
    /// What plays is stored here, with keys that are: no server has to be asked.
    case unneeded
    case opening
    case open
    /// No session, until a caller retries failures of this generation. `.max`: the session is lost, for good.
    case refused(KeyError, generation: UInt64)

    /// Whether keys may be used, and what they have decrypted may be shown.
    var isOpen: Bool {
        switch self {
        case .unguarded, .unneeded, .open: true
        case .closed, .opening, .refused: false
        }
    }

    /// How a key stands whose status in the session is this.
    func hold(_ status: KeyStatus) -> KeyStatus {
        // The session is lost: no key fails for another reason.
        if case .refused(let error, let generation) = self, generation == .max {
            return .failed(error, generation: generation)
        }
        guard case .usable = status else { return status }
        switch self {
        case .unguarded, .unneeded, .open: return status
        case .closed: return .absent
        case .opening: return .pending(requestID: 0)
        case .refused(let error, let generation): return .failed(error, generation: generation)
        }
    }

    /// Whether who retries failures up to that generation brings about a session.
    func begins(retryFailuresUpTo limit: UInt64) -> Bool {
        switch self {
        case .closed: true
        case .refused(_, let generation): generation <= limit
        case .unguarded, .unneeded, .opening, .open: false
        }
    }
}

/// What went wrong with the viewing session, for the application. Thread-safe; all observers share one.
public final class ViewingNotice: Sendable {
    /// Which of the session's exchanges it was.
    public enum Kind: Sendable, Hashable {
        /// There is no session, and so no license.
        case setupError
        /// `isFinal`: the session is lost, and playback ends.
        case heartbeatError(isFinal: Bool)
        /// The server may count the session on. The next start tries to end it.
        case teardownError
    }

    /// Decides whether playback can go on.
    public let kind: Kind
    /// With the HTTP status, the server's code and its words, and the sessions that are in the way.
    public let failure: SessionFailure
    private let isClaimed = Atomic<Bool>(false)

    init(_ kind: Kind, _ failure: SessionFailure) {
        self.kind = kind
        self.failure = failure
    }

    /// True for the first caller: one of several observers notifies the application.
    public func claim() -> Bool { !isClaimed.exchange(true, ordering: .acquiringAndReleasing) }
}

/// The session server of a `KeySession`, and how license requests show its token.
public struct ViewingConfiguration: Sendable {
    /// Server, policy and records.
    public var session: ViewingSession.Configuration
    /// How license requests show that a session is there.
    public var token: SessionTokenPlacement
    /// Whether content that is stored here, with keys that are stored too, plays without a session.
    public var allowsOffline = true
    /// Makes a session that is not started. Tests bring their own transport and clock.
    public var makeSession: @Sendable (ViewingSession.Configuration) -> ViewingSession = { ViewingSession($0) }

    /// The session is made with libcurl and the system's clock, unless `makeSession` says otherwise.
    public init(_ session: ViewingSession.Configuration, token: SessionTokenPlacement = SessionTokenPlacement()) {
        self.session = session
        self.token = token
    }
}
