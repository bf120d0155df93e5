// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
import Synchronization

/// A viewing session at a session server: set up, kept by heartbeats, ended.
///
/// Drives a `SessionState` with a transport and a clock. Thread-safe; no method blocks. It keeps itself alive from `start`
/// until it is over, so that what the server counts is ended; call `stop` when playback ends.
public final class ViewingSession: Sendable {
    /// What observers are told.
    public enum Event: Equatable, Sendable {
        /// Media may be decrypted and shown, or may not.
        case gate(isOpen: Bool)
        /// What the application may want to show or to log.
        case notice(SessionState.Notice)
    }

    /// What a session is made with.
    public struct Configuration: Sendable {
        /// The server, and what it is told.
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

    struct Core {
        var state: SessionState
        var random: any RandomNumberGenerator & Sendable
        var credential: String?
        var termination: String?
        var hasTerminated = false
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
                state: SessionState(policy: configuration.policy), random: random,
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
    /// The server's latest token, for a licence request. A secret.
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

    /// No event is told once this returns, but for one that is being told. An unknown id does nothing.
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

    /// Sets the session up in the place of another one, which the server named when it refused this one.
    public func start(terminating conflict: SessionFailure.Conflict) {
        core.withLock { $0.termination = conflict.terminationCode }
        handle(.start)
    }

    /// Ends the session. Again does nothing.
    public func stop() { handle(.stop) }
    /// Playback stands still. Heartbeats go on until `SessionPolicy.pauseLimit` is over.
    public func pause() { handle(.pause) }
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

    /// A licence brought the session along; it was asked for at `sentAt`, by the session's clock.
    public func adopt(_ grant: SessionGrant, sentAt: Int64) { handle(.adopt(grant, sentAt: sentAt)) }

    /// Waits until the session is there. Throws why it is not, or where the session is stopped meanwhile.
    public func established() async throws(SessionFailure) {
        await wait { state in
            switch state.phase {
            case .active, .grace, .denied, .lost, .closed: true
            case .tearingDown: state.failure != nil
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
}
