// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection
import Synchronization

extension ViewingSession {
    /// Changes the state under the lock, then acts.
    func handle(_ event: SessionState.Event) {
        let now = clock.now()
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
        if isCurrent { handle(.tick) }
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
            return service.reply(to: request.kind, try await transport.send(message))
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
        func open(_ random: inout some RandomNumberGenerator, _ state: inout SessionState) -> SessionState.Action {
            state.handle(event, at: now, random: &random)
        }
        return open(&random, &state)
    }

    /// `state` is that after the action of this number. To those who began to wait later, it says nothing.
    mutating func takeWaiters(for state: SessionState, after number: UInt64) -> [ViewingSession.Waiter] {
        let met = waiters.filter { $0.since <= number && $0.isMet(state) }
        waiters.removeAll { waiter in met.contains { $0.id == waiter.id } }
        return met
    }
}
