// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyProtection
public import LatchkeyHTTP
import Synchronization

/// A viewing session at a session server: set up, kept by heartbeats, ended.
///
/// Drives a `SessionState` with a transport and a clock. Thread-safe; no method blocks. It keeps itself alive from `start`
/// until it is over, so that what the server counts is ended; call `stop` when playback ends.
public final class ViewingSession: Sendable {
    /// What observers get.
    public enum Event: Equatable, Sendable {
        /// Media may be decrypted and shown, or may not.
        case gate(isOpen: Bool)
        /// What the application may want to show or to log.
        case notice(SessionState.Notice)
    }

    /// What a session is made with.
    public struct Configuration: Sendable {
        /// The server, and what it gets.
        public var service: SessionService
        /// Times and numbers of retries.
        public var policy = SessionPolicy()
        /// Nil: nothing outlives a crash.
        public var records: SessionRecords?
        /// Whether the oldest session is ended where the server refuses this one and offers that.
        public var stopsOldest = false
        /// Asked when the server refuses the credential; nil for none that is new.
        public var newCredential: (@Sendable () async -> String?)?

        /// The usual policy, without records: a crash leaves the session to the server's own timeout.
        public init(_ service: SessionService) {
            self.service = service
            policy.endsUnconfirmed = service.adapter.knowsClientSession
        }
    }

    /// A generator of any kind, for functions that want one of a known type.
    struct RandomNumbers: RandomNumberGenerator, Sendable {
        var source: any RandomNumberGenerator & Sendable

        mutating func next() -> UInt64 { source.next() }
    }

    struct Core {
        var state: SessionState
        var random: RandomNumbers
        var credential: String?
        var termination: String?
        var hasTerminated = false
        /// Asked when the limit of a pause is over.
        var isAskedToPlay: (@Sendable () -> Bool)?
        /// Whether a task asks that now and then, since a pause has ended the session.
        var looksForPlay = false
        /// As it was written down last.
        var record: SessionRecord?
        var timer: (deadline: Int64, task: Task<Void, Never>)?
        var exchanges: [UInt32: Task<Void, Never>] = [:]
        /// To be done, in order.
        var actions: [Action] = []
        /// The number of the action that was wanted last.
        var lastAction: UInt64 = 0
        var isActing = false
        var observers: [(id: UInt64, body: @Sendable (Event) -> Void)] = []
        var waiters: [Waiter] = []
        var lastID: UInt64 = 0
    }

    /// What an event makes the session do, and its state after that.
    struct Action: Sendable {
        let number: UInt64
        let wanted: SessionState.Action
        let state: SessionState
    }

    struct Waiter: Sendable {
        let id: UInt64
        /// `lastAction` when it began to wait.
        let since: UInt64
        let isMet: @Sendable (SessionState) -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    let core: Mutex<Core>
    let configuration: Configuration
    let transport: any HTTPTransport
    let clock: SessionClock
    /// Random; names this session to the server, together with the number of the setup.
    let name: String

    /// By the system's clock and random numbers. Sends nothing before `start`.
    public convenience init(_ configuration: Configuration, transport: any HTTPTransport = CurlTransport.shared) {
        self.init(configuration, transport: transport, clock: .system, random: SystemRandomNumberGenerator())
    }

    /// With time and randomness of one's own.
    public init(
        _ configuration: Configuration, transport: any HTTPTransport, clock: SessionClock,
        random: any RandomNumberGenerator & Sendable
    ) {
        var random = random
        let digits = (0..<2).map { _ in String(random.next(), radix: 16) }
        name = digits.map { String(repeating: "0", count: 16 - $0.count) + $0 }.joined()
        self.configuration = configuration
        self.transport = transport
        self.clock = clock
        core = Mutex(
            Core(
                state: SessionState(policy: configuration.policy), random: RandomNumbers(source: random),
                credential: configuration.service.credential))
    }

    // MARK: What it is like

    /// Whether media may be decrypted and shown now.
    public var isOpen: Bool {
        let now = clock.now()
        return core.withLock { $0.state.isOpen(at: now) }
    }

    /// A copy, as things stand; it does not change by itself.
    public var state: SessionState { core.withLock(\.state) }
    /// The server's latest token, for a license request. A secret.
    public var token: SessionToken? { core.withLock(\.state.token) }
    /// Why the session was denied or lost.
    public var failure: SessionFailure? { core.withLock(\.state.failure) }

    /// Tells every event from now on, one at a time and in order, on a task. `body` must not block.
    @discardableResult
    public func observe(_ body: @escaping @Sendable (Event) -> Void) -> UInt64 {
        core.withLock { core in
            core.lastID += 1
            core.observers.append((core.lastID, body))
            return core.lastID
        }
    }

    /// No event is sent once this returns, except for one that is being sent. An unknown id does nothing.
    public func removeObserver(_ id: UInt64) {
        // The body may own something whose end calls the session, so it goes after the lock.
        _ = core.withLock { core in
            let removed = core.observers.filter { $0.id == id }
            core.observers.removeAll { $0.id == id }
            return removed
        }
    }

    // MARK: What happens to it

    /// Sets the session up. What an earlier process or session left over at the server is ended first, for at most a
    /// second, so that it does not stand in the way.
    public func start() {
        Task {
            await makeWay()
            handle(.start)
        }
    }

    /// Sets a session up again that a long pause has ended.
    package func startAgain() { handle(.start) }

    /// The same as soon as what stands still is about to play. Looks twice a second until then, or until the session is not
    /// ended for a pause any more. A second call changes nothing.
    package func startAgainWhenAskedToPlay() {
        let isFirst = core.withLock { core in
            defer { core.looksForPlay = true }
            return !core.looksForPlay
        }
        guard isFirst else { return }
        Task { [clock] in
            while self.isStillReleased() {
                let next = clock.now() + Self.lookInterval
                let isAskedToPlay = self.core.withLock { core -> (@Sendable () -> Bool)? in core.isAskedToPlay }
                if isAskedToPlay?() == true {
                    self.handle(.awaitPlay)
                    self.handle(.start)
                }
                guard self.isStillReleased(), (try? await clock.sleep(next)) != nil else { return }
            }
        }
    }

    /// If not, nothing looks any more.
    private func isStillReleased() -> Bool {
        core.withLock { core in
            core.looksForPlay = core.state.isReleased
            return core.looksForPlay
        }
    }

    /// Sets the session up in the place of another one, which the server named when it refused this one.
    public func start(terminating conflict: SessionFailure.Conflict) {
        core.withLock { $0.termination = conflict.terminationCode }
        handle(.start)
    }

    /// Ends the session. Again does nothing.
    public func stop() { handle(.stop) }
    /// Playback stands still. Heartbeats go on until `SessionPolicy.pauseLimit` is over.
    public func pause() { handle(.pause) }

    /// `body` is asked each time `SessionPolicy.pauseLimit` is over, on a task: whether what stands still is about to play. Then it
    /// is no pause, and the limit begins anew. It is also asked for `startAgainWhenAskedToPlay`. The latest counts.
    package func onPauseLimit(isAskedToPlay body: @escaping @Sendable () -> Bool) {
        let old = core.withLock { core in
            defer { core.isAskedToPlay = body }
            return core.isAskedToPlay
        }
        withExtendedLifetime(old) {}
    }

    /// Playback goes on; sets a session up again that a long pause has ended.
    public func play() { handle(.play) }
    /// What plays keeps the session, as in front.
    public func enterBackground() { handle(.background) }
    /// The application is in front again, or its picture is (picture-in-picture). The same as `play` for a session that was
    /// ended meanwhile.
    public func enterForeground() { handle(.foreground) }
    /// The machine is about to sleep.
    public func suspend() { handle(.suspend) }
    /// The machine is awake again.
    public func resume() { handle(.resume) }

    /// Whether `check` would ask the server, or wait for what it says to a heartbeat that is under way.
    package var canBeChecked: Bool {
        let now = clock.now()
        return core.withLock { $0.state.canBeChecked(at: now) }
    }

    /// Asks the server now whether it has the session still, and waits for the answer, for two seconds at most. Observers have
    /// got what follows from the answer when this returns.
    package func check() async {
        handle(.check)
        let waiting = Task { await wait { $0.pending?.kind != .beat } }
        let end = clock.now() + SessionPolicy.checkPatience
        let limit = Task { [clock] in
            try? await clock.sleep(end)
            waiting.cancel()
        }
        await waiting.value
        limit.cancel()
    }

    /// A license brought the session along; it was asked for at `sentAt`, by the session's clock.
    public func adopt(_ grant: SessionGrant, sentAt: Int64) { handle(.adopt(grant, sentAt: sentAt)) }

    /// Waits until the session is there. Throws why it is not, or where the session is stopped meanwhile.
    public func established() async throws(SessionFailure) {
        await wait { state in
            switch state.phase {
            case .active, .grace, .denied, .lost, .closed: true
            // Another one may be wanted, which is set up then.
            case .tearingDown: state.failure != nil && !state.startsAgain
            case .idle, .settingUp, .verifying, .dormant: false
            }
        }
        let state = state
        if state.phase == .active || state.phase == .grace { return }
        throw state.failure ?? SessionFailure(.refused, message: "the session was ended")
    }

    /// Waits until no teardown is under way.
    public func settled() async { await wait { $0.phase != .tearingDown } }

    /// Waits until the session is over, and everything that belongs to it is done.
    public func closed() async { await wait { $0.isOver } }
    /// Whether `closed` has nothing to wait for: observers have got all events, too.
    package var isClosed: Bool { core.withLock { $0.state.isOver && !$0.isActing } }
}

extension ViewingSession {
    /// How long a setup waits for what is ended before it.
    static let turn: Int64 = 1_000
    /// The time between two looks whether playback is about to go on.
    static let lookInterval: Int64 = 500

    func write(_ change: SessionState.RecordChange) {
        switch change {
        case .write(let generation, let token, let reference):
            let record = SessionRecord(
                url: configuration.service.url, session: identifier(generation), reference: reference,
                token: configuration.service.adapter.endsWithToken ? token : nil,
                owner: configuration.records?.process)
            // A new token alone changes nothing in most records.
            let isNew = core.withLock { core in
                defer { core.record = record }
                return core.record != record
            }
            if isNew { configuration.records?.write(record) }
            Self.endAtExit
            Self.open.withLock { $0[identifier(generation)] = self }
        case .remove(let generation):
            configuration.records?.remove(identifier(generation))
            Self.open.withLock { _ = $0.removeValue(forKey: identifier(generation)) }
        case .leave(let generation): leaveRecord(of: generation)
        }
    }

    /// This process is done with the session, and the server may not be.
    private func leaveRecord(of generation: UInt32) {
        let session = identifier(generation)
        Self.open.withLock { _ = $0.removeValue(forKey: session) }
        guard let records = configuration.records, var record = records.record(session) else { return }
        record.owner = nil
        records.write(record)
    }

    /// A process that ends without having stopped its sessions ends them all the same, unless it is killed. That takes
    /// as long as the answers, and two seconds at most.
    private static let endAtExit: Void = {
        atexit {
            let sessions = ViewingSession.open.withLock { Array($0.values) }
            for session in sessions { session.stop() }
            for _ in 0..<400 where ViewingSession.open.withLock({ !$0.isEmpty }) { usleep(5_000) }
        }
    }()

    /// Sessions of this process that a server may count, by name.
    private static let open = Mutex<[String: ViewingSession]>([:])

    /// Ends what was left over at the server, and waits for sessions of this process that are being ended: a server that
    /// allows one session would refuse this one for its predecessor.
    private func makeWay() async {
        let url = configuration.service.url
        let ending = Self.open.withLock { open in
            open.values.filter { $0 !== self && $0.configuration.service.url == url }
        }.filter { $0.state.phase == .tearingDown }
        let end = clock.now() + Self.turn
        // What takes longer goes on by itself.
        let work = Task {
            await withTaskGroup(of: Void.self) { group in
                for session in ending { group.addTask { await session.wait { $0.phase != .tearingDown } } }
                group.addTask { await self.endOrphans() }
            }
        }
        let (turns, turn) = AsyncStream<Void>.makeStream()
        let limit = Task { [clock] in
            try? await clock.sleep(end)
            turn.finish()
        }
        Task {
            await work.value
            turn.finish()
        }
        for await _ in turns {}
        limit.cancel()
    }

    /// Ends the sessions that earlier processes left behind at this server. What cannot be ended is tried again at later
    /// starts, a few times.
    public func endOrphans() async {
        guard let records = configuration.records else { return }
        for var record in records.orphans(of: configuration.service.url) {
            if Task.isCancelled { return }
            let request = SessionState.Request(
                kind: .teardown, generation: 0, number: 0, sentAt: clock.now(),
                timeout: configuration.policy.requestTimeout, token: record.token, reference: record.reference)
            var service = configuration.service
            service.credential = core.withLock(\.credential)
            let canEnd = record.reference != nil || record.token != nil || service.adapter.knowsClientSession
            let reply = canEnd ? await Self.exchange(request, session: record.session, service, transport) : nil
            switch reply {
            case nil, .granted?: records.remove(record.session)
            case .failed(let failure)? where failure.kind == .ended: records.remove(record.session)
            case .failed?:
                if Task.isCancelled { return }
                record.attempts += 1
                if record.attempts < SessionRecords.maximumAttempts {
                    records.write(record)
                } else {
                    records.remove(record.session)
                }
            }
        }
    }
}

/// The time that viewing sessions live by. Tests bring their own.
public struct SessionClock: Sendable {
    /// Milliseconds. Never goes back, and goes on while the machine sleeps.
    public var now: @Sendable () -> Int64
    /// Waits without a thread until that time, and throws when the task is cancelled.
    public var sleep: @Sendable (_ time: Int64) async throws -> Void

    /// Both are called from any thread; `sleep` waits for a time of `now`, not for a duration.
    public init(
        now: @escaping @Sendable () -> Int64, sleep: @escaping @Sendable (_ time: Int64) async throws -> Void
    ) {
        self.now = now
        self.sleep = sleep
    }

    /// `CLOCK_BOOTTIME`, which goes on while the machine sleeps.
    public static let system = SessionClock(
        now: { milliseconds },
        sleep: { time in
            let wait = max(0, time - milliseconds)
            try await Task.sleep(for: .milliseconds(wait), tolerance: .zero, clock: .continuous)
        })

    private static var milliseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) &* 1000 &+ Int64(time.tv_nsec) / 1_000_000
    }
}

extension ViewingSession {
    /// Changes the state under the lock, then acts. `time`: when it happened; nil: now.
    func handle(_ event: SessionState.Event, at time: Int64? = nil) {
        let now = time ?? clock.now()
        let startsActing = core.withLock { core in
            let action = core.advance(event, now)
            setTimer(&core)
            // Waiters look at the state after what it wants is done.
            core.lastAction += 1
            core.actions.append(Action(number: core.lastAction, wanted: action, state: core.state))
            defer { core.isActing = true }
            return !core.isActing
        }
        if startsActing { Task { await act() } }
    }

    /// Does what is wanted, in order, until nothing is left.
    private func act() async {
        while let next = nextAction() {
            let action = next.wanted
            if let gate = action.gate { tell(.gate(isOpen: gate == .opened)) }
            for change in action.records { write(change) }
            if let request = action.cancels {
                core.withLock { $0.exchanges.removeValue(forKey: request.number) }?.cancel()
            }
            if let request = action.send { send(request) }
            if let stray = action.dispose { dispose(of: stray) }
            if action.wantsCredential { askForCredential() }
            // Who is to go on at the cost of another one is not refused yet.
            if stopOldest(action) { continue }
            for notice in action.notices { tell(.notice(notice)) }
            wake(next)
        }
    }

    private func nextAction() -> Action? {
        let (next, met) = core.withLock { core -> (Action?, [Waiter]) in
            if !core.actions.isEmpty { return (core.actions.removeFirst(), []) }
            core.isActing = false
            // Those who came since the last action was done.
            return (nil, core.takeWaiters(for: core.state, after: core.lastAction))
        }
        for waiter in met { waiter.continuation.resume() }
        return next
    }

    private func tell(_ event: Event) {
        for observer in core.withLock(\.observers) { observer.body(event) }
    }

    // MARK: Time

    private func setTimer(_ core: inout Core) {
        let deadline = core.state.deadline
        guard deadline != core.timer?.deadline else { return }
        core.timer?.task.cancel()
        core.timer = deadline.map { deadline in
            let task = Task { [clock] in
                guard (try? await clock.sleep(deadline)) != nil, !Task.isCancelled else { return }
                self.timerFired(deadline)
            }
            return (deadline, task)
        }
    }

    private func timerFired(_ deadline: Int64) {
        let isCurrent = core.withLock { core in
            guard core.timer?.deadline == deadline else { return false }
            core.timer = nil
            return true
        }
        if isCurrent { tick() }
    }

    /// Time has come to a deadline.
    func tick() {
        let now = clock.now()
        let isAskedToPlay = core.withLock { core -> (@Sendable () -> Bool)? in
            core.state.isPauseOver(at: now) ? core.isAskedToPlay : nil
        }
        if isAskedToPlay?() == true { handle(.awaitPlay) }
        // At the same time: a moment later, the limit may be over.
        handle(.tick, at: now)
    }

    // MARK: Requests

    private func send(_ request: SessionState.Request) {
        core.withLock { core in
            core.exchanges[request.number] = Task {
                let reply = await self.reply(to: request)
                self.core.withLock { _ = $0.exchanges.removeValue(forKey: request.number) }
                if !Task.isCancelled { self.handle(.reply(to: request, reply)) }
            }
        }
    }

    private func reply(to request: SessionState.Request) async -> SessionState.Reply {
        let (service, termination) = core.withLock { core in
            var service = configuration.service
            service.credential = core.credential
            return (service, request.kind == .setup ? core.termination : nil)
        }
        let reply = await Self.exchange(
            request, session: identifier(request.generation), service, termination: termination, transport)
        if request.kind == .setup, case .granted = reply { core.withLock { $0.termination = nil } }
        return reply
    }

    static func exchange(
        _ request: SessionState.Request, session: String, _ service: SessionService, termination: String? = nil,
        _ transport: any HTTPTransport
    ) async -> SessionState.Reply {
        let message: HTTPRequest
        do throws(KeyError) {
            message = try service.request(request, session: session, termination: termination)
        } catch {
            return .failed(SessionFailure(.refused, message: error.description))
        }
        do throws(HTTPError) {
            return service.reply(
                to: request.kind, try await transport.send(message),
                hiding: service.secrets(of: request, in: message, termination: termination))
        } catch {
            return service.reply(to: request.kind, error)
        }
    }

    /// The session's name at the server: each setup begins another one.
    func identifier(_ generation: UInt32) -> String { "\(name)-\(generation)" }

    private func dispose(of stray: SessionState.Stray) {
        Task {
            let request = SessionState.Request(
                kind: .teardown, generation: stray.generation, number: 0, sentAt: clock.now(),
                timeout: configuration.policy.requestTimeout, token: stray.token, reference: stray.reference)
            _ = await reply(to: request)
        }
    }

    private func askForCredential() {
        guard let newCredential = configuration.newCredential else { return handle(.credential(isNew: false)) }
        Task {
            let credential = await newCredential()
            if let credential { core.withLock { $0.credential = credential } }
            handle(.credential(isNew: credential != nil))
        }
    }

    /// Once, where that is wanted and the server offers it. Whether it does.
    private func stopOldest(_ action: SessionState.Action) -> Bool {
        guard configuration.stopsOldest else { return false }
        for case .setupError(let failure) in action.notices where failure.kind == .limit {
            guard let oldest = failure.conflicts.first(where: { $0.terminationCode != nil }) else { continue }
            let isFirst = core.withLock { core in
                defer { core.hasTerminated = true }
                return !core.hasTerminated
            }
            guard isFirst else { continue }
            start(terminating: oldest)
            return true
        }
        return false
    }

    // MARK: Waiting

    func wait(_ isMet: @escaping @Sendable (SessionState) -> Bool) async {
        let id = core.withLock { core in
            core.lastID += 1
            return core.lastID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDone = core.withLock { core in
                    if isMet(core.state), !core.isActing || Task.isCancelled { return true }
                    if Task.isCancelled { return true }
                    core.waiters.append(
                        Waiter(id: id, since: core.lastAction, isMet: isMet, continuation: continuation))
                    return false
                }
                if isDone { continuation.resume() }
            }
        } onCancel: {
            let waiters = core.withLock { core in
                let mine = core.waiters.filter { $0.id == id }
                core.waiters.removeAll { $0.id == id }
                return mine
            }
            for waiter in waiters { waiter.continuation.resume() }
        }
    }

    private func wake(_ action: Action) {
        for waiter in core.withLock({ $0.takeWaiters(for: action.state, after: action.number) }) {
            waiter.continuation.resume()
        }
    }
}

extension ViewingSession.Core {
    mutating func advance(_ event: SessionState.Event, _ now: Int64) -> SessionState.Action {
        state.handle(event, at: now, random: &random)
    }

    /// `state` is that after the action of this number. To those who began to wait later, it says nothing.
    mutating func takeWaiters(for state: SessionState, after number: UInt64) -> [ViewingSession.Waiter] {
        let met = waiters.filter { $0.since <= number && $0.isMet(state) }
        waiters.removeAll { waiter in met.contains { $0.id == waiter.id } }
        return met
    }
}
