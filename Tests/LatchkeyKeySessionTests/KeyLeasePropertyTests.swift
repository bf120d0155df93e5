// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySession

@Suite("Leases, any course of events")
struct KeyLeasePropertyTests {
    private let start = ContinuousClock.now

    private func keys(_ slots: [KeyID?], _ number: Int, _ lease: Duration) -> KeySessionState.Keys {
        KeySessionState.Keys(
            byID: slots.reduce(into: [:]) { keys, slot in if let slot { keys[slot] = contentKey(number) } },
            terms: KeyTerms(lease: lease))
    }

    /// Keys that are read now and then and whose renewals are answered before the lease ends never have a gap.
    @Test(arguments: 1...20) func noGapWhileRenewalsSucceed(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var state = KeySessionState()
        let slots: [KeyID?] = (0..<5).map { keyID($0) }
        _ = state.demand(slots, keySystem: nil, retryFailuresUpTo: 0, as: 1, at: start)
        _ = state.answer(1, with: keys(slots, 0, .seconds(10)), at: start, random: 0.5)
        var now = start
        var nextID: UInt64 = 2
        var answers: [(id: UInt64, at: ContinuousClock.Instant)] = []
        var renewals = 0
        for step in 0..<2_000 {
            now += .milliseconds(Int64.random(in: 1...200, using: &random))
            let action = state.advance(to: now) {
                defer { nextID += 1 }
                return nextID
            }
            #expect(!action.changesStatus, "a key went at step \(step)")
            for renewal in action.renewals {
                renewals += 1
                answers.append((renewal.id, now + .milliseconds(Int64.random(in: 0...500, using: &random))))
            }
            for (id, _) in answers.filter({ $0.at <= now }) {
                let missing = state.missing(in: id)
                if Int.random(in: 0..<4, using: &random) == 0 {
                    // A failure is no gap either: the next attempt succeeds.
                    _ = state.fail(id, with: .network(""), at: now)
                    let again = state.renew(Set(missing), keySystem: nil, as: nextID, at: now)
                    #expect(again.isCounted)
                    _ = state.answer(nextID, with: keys(missing, step, .seconds(10)), at: now, random: 0.5)
                    nextID += 1
                } else {
                    let lease = Duration.seconds(Int64.random(in: 5...20, using: &random))
                    #expect(state.answer(id, with: keys(missing, step, lease), at: now, random: 0.5).isCounted)
                }
            }
            answers.removeAll { $0.at <= now }
            for slot in slots { #expect(state.use(slot).key != nil) }
        }
        #expect(renewals > 10)
    }

    /// Whatever happens: a key is not usable past its end, each request ends once, and the deadline is never missed.
    @Test(arguments: 1...20) func anyOrderKeepsTheTableSound(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var state = KeySessionState(limits: .init(slots: 64, pending: 16, settledRequests: 8))
        var now = start
        var nextID: UInt64 = 1
        var ends: [KeyID: ContinuousClock.Instant?] = [:]
        var starts: [UInt64: ContinuousClock.Instant] = [:]
        var open: Set<UInt64> = []
        var over: Set<UInt64> = []
        var expiries = 0
        for _ in 0..<1_500 {
            let slots: [KeyID?] = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                keyID(Int.random(in: 0..<12, using: &random))
            }
            let id = open.union(over).randomElement(using: &random) ?? 0
            var action = KeySessionState.Action()
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<25:
                action = state.demand(
                    slots, keySystem: nil, retryFailuresUpTo: state.generation, as: nextID, at: now)
                if action.requested != nil {
                    open.insert(nextID)
                    starts[nextID] = now
                }
                nextID += 1
            case 25..<55:
                let lease = Duration.seconds(Int64.random(in: 0...20, using: &random))
                let keys = keys(state.missing(in: id) + slots, Int(nextID), lease)
                let before = keys.byID.keys.filter { state.status(of: $0).key != nil }
                let isLate = !open.contains(id)
                action = state.answer(id, with: keys, at: now, random: Double.random(in: 0...1, using: &random))
                if action.events.contains(where: \.isUsable) {
                    for keyID in keys.byID.keys where !isLate || !before.contains(keyID) {
                        ends[keyID] = (starts[id] ?? now) + lease
                    }
                }
            case 55..<60:
                action = state.fail(id, with: .denied(""), at: now)
            case 60..<65:
                action = state.retry(id, as: nextID, at: now)
                if action.requested != nil {
                    open.insert(nextID)
                    starts[nextID] = now
                }
                nextID += 1
            case 65..<70:
                action = state.renew(Set(slots), keySystem: nil, as: nextID, at: now)
                nextID += 1
            case 70..<73:
                action = state.install(
                    KeySessionState.Keys(byID: slots.reduce(into: [:]) { $0[$1!] = contentKey(1) }), at: now)
                for case let keyID? in slots { ends[keyID] = .some(nil) }
            default:
                now += .milliseconds(Int64.random(in: 0...4_000, using: &random))
                action = state.advance(to: now) {
                    defer { nextID += 1 }
                    return nextID
                }
                #expect(state.deadline.map { $0 > now } ?? true)
                for slot in slots { _ = state.use(slot) }
            }
            for renewal in action.renewals {
                open.insert(renewal.id)
                starts[renewal.id] = now
            }
            for id in action.settled {
                #expect(open.remove(id) != nil, "request \(id) ended twice")
                over.insert(id)
            }
            expiries += action.events.count { $0.isExpired }
            for number in 0..<12 where state.status(of: keyID(number)).key != nil {
                guard case .some(let end?) = ends[keyID(number)] else { continue }
                #expect(end > now, "a key is usable past its end")
            }
            for id in open { #expect(!state.missing(in: id).isEmpty) }
            for id in over { #expect(state.missing(in: id).isEmpty) }
        }
        #expect(expiries > 5)
        #expect(Set(state.close(.sessionClosed(""), at: now).settled) == open)
    }
}
