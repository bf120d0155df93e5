// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyViewingSession
import LatchkeyTestSupport
import Testing

/// One session, and a server, records and a clock around it. What the state machine promises is checked at each step.
struct SessionWorld {
    /// What a promise looked like when it was broken.
    struct Broken: Error, CustomStringConvertible {
        let description: String
    }

    var state: SessionState
    var now: Int64 = 1_000_000
    var random: SeededGenerator
    /// Generations that the server counts.
    var held: Set<UInt32> = []
    /// Generations that are written down.
    var records: Set<UInt32> = []
    /// Those of them that the next start sees to.
    var left: Set<UInt32> = []
    /// The request that is under way, as the outside sees it.
    var underWay: SessionState.Request?
    /// Every request that was ever sent, the latest few.
    var sent: [SessionState.Request] = []
    var lastAction = SessionState.Action()
    var isGateOpen = false
    var established = 0
    var events = 0
    var tokens = 0
    var notices: [SessionState.Notice] = []
    /// When the latest accepted request was sent.
    var acceptedAt: Int64 = .min

    init(policy: SessionPolicy = SessionPolicy(), seed: UInt64 = 1) {
        state = SessionState(policy: policy)
        random = SeededGenerator(seed: seed)
    }

    @discardableResult
    mutating func handle(_ event: SessionState.Event) throws -> SessionState.Action {
        let before = state
        let action = state.handle(event, at: now, random: &random)
        lastAction = action
        events += 1
        notices += action.notices
        established += action.notices.count { $0 == .established }
        if let gate = action.gate {
            try check((gate == .opened) != isGateOpen, "a gate changes only where it was not so already")
            isGateOpen = gate == .opened
        }
        try check(isGateOpen == state.isOpen, "who watches the changes knows the gate")
        for change in action.records {
            switch change {
            case .write(let generation, _, _): records.insert(generation)
            case .remove(let generation): records.remove(generation)
            case .leave(let generation):
                try check(records.contains(generation), "only what is written down is left")
                left.insert(generation)
            }
        }
        if let cancelled = action.cancels {
            try check(cancelled == underWay, "only what is under way is cancelled")
            underWay = nil
        }
        if case .reply(let request, _) = event, request == underWay { underWay = nil }
        if let request = action.send {
            try check(underWay == nil, "two requests are under way: \(String(describing: underWay)), \(request)")
            underWay = request
            sent.append(request)
            if sent.count > 64 { sent.removeFirst() }
            if request.kind == .setup {
                try check(records.contains(request.generation), "a setup is written down first")
            }
        }
        try check(state.pending == underWay, "the state knows what is under way")
        try checkOldAnswer(event, before)
        try check(state.generation >= before.generation, "generations only grow")
        if before.isOver { try check(state.isOver && action == .init(), "an end is an end") }
        return action
    }

    /// An answer to anything but what was under way changes nothing but the clock.
    private func checkOldAnswer(_ event: SessionState.Event, _ before: SessionState) throws {
        guard case .reply(let request, _) = event, request != before.pending, now < before.deadline ?? .max else {
            return
        }
        var expected = before
        expected.now = max(expected.now, now)
        try check(state == expected, "an old answer changes the state from \(before) to \(state)")
        try check(
            lastAction.send == nil && lastAction.records.isEmpty && lastAction.notices.isEmpty, "… or has effects")
    }

    /// Lets time pass up to `time`, with ticks when they are due.
    mutating func advance(to time: Int64) throws {
        while let deadline = state.deadline, deadline <= time {
            now = max(now, deadline)
            try handle(.tick)
            if let next = state.deadline { try check(next > now, "a tick at \(now) leaves \(next) due: \(state)") }
        }
        now = max(now, time)
    }

    /// The server's answer to what is under way.
    mutating func answer(_ reply: SessionState.Reply? = nil) throws {
        guard let request = underWay else { throw Broken(description: "nothing is under way") }
        switch request.kind {
        case .setup:
            if case .failed? = reply { break }
            held.insert(request.generation)
        case .beat: break
        case .teardown:
            if case .failed? = reply { break }
            held.remove(request.generation)
        }
        tokens += 1
        let granted = SessionState.Reply.granted(
            SessionGrant(token: SessionToken("token \(tokens)"), reference: "session \(request.generation)"))
        if case .failed? = reply {} else if request.kind != .teardown { acceptedAt = request.sentAt }
        try handle(.reply(to: request, reply ?? granted))
    }

    func check(_ isKept: Bool, _ text: @autoclosure () -> String) throws {
        if !isKept { throw Broken(description: text()) }
    }
}
