// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

@Suite("Key session state")
struct KeySessionStateTests {
    private let start = ContinuousClock.now
    private var later: ContinuousClock.Instant { start + .milliseconds(250) }

    private func demand(
        _ state: inout KeySessionState, _ numbers: [Int?], as id: UInt64, retry: UInt64 = 0
    ) -> KeySessionState.Action {
        state.demand(
            numbers.map { $0.map { keyID($0) } }, keySystem: .clearKey, retryFailuresUpTo: retry, as: id, at: start)
    }

    private func keys(_ numbers: Int...) -> KeySessionState.Keys {
        KeySessionState.Keys(byID: numbers.reduce(into: [:]) { $0[keyID($1)] = contentKey($1) })
    }

    @Test func aDemandRequestsEachMissingKeyOnceInItsOrder() {
        var state = KeySessionState()
        let first = demand(&state, [3, 1, 3, 2], as: 10)
        #expect(first.requested == [keyID(3), keyID(1), keyID(2)])
        #expect(first.changesStatus)
        #expect(state.status(of: keyID(1)).requestID == 10)
        #expect(state.status(of: keyID(4)).isAbsent)

        let second = demand(&state, [1, 4], as: 11)
        #expect(second.requested == [keyID(4)])
        let third = demand(&state, [1, 2, 3, 4], as: 12)
        #expect(third.requested == nil)
        #expect(!third.changesStatus)
    }

    @Test func anAnswerInstallsAllKeysAndSaysHowLongItTook() {
        var state = KeySessionState()
        _ = demand(&state, [1], as: 10)
        let action = state.answer(10, with: keys(1, 2), at: later)
        #expect(action.settled == [10])
        #expect(hex(state.status(of: keyID(1)).key) == keyHex(1))
        #expect(hex(state.status(of: keyID(2)).key) == keyHex(2))
        guard case .usable(let id, let names, let elapsed)? = action.events.first else {
            Issue.record("\(action.events)")
            return
        }
        #expect(id == 10)
        #expect(names == [keyID(1), keyID(2)])
        #expect(elapsed == .milliseconds(250))
        #expect(action.events.count == 1)
    }

    /// The key of media without a KID has its own name beside that, and a name may be replaced.
    @Test(arguments: [nil, KeyError.leaseExpired("no note")])
    func aPlayNoteIsOneForAllNamesOfAKey(error: KeyError?) {
        var state = KeySessionState()
        let note = PlayNote { _ in }
        _ = demand(&state, [nil], as: 10)
        var answer = keys(1)
        answer.terms = KeyTerms()
        answer.terms?.playNotes[keyID(1)] = note
        _ = state.answer(10, with: answer, at: later)
        #expect(state.playNotes(of: nil) == [note])
        _ = state.rename(keyID(1), to: keyID(2))
        #expect(state.playNotes(of: keyID(1)) == [note])
        #expect(state.beginPlayNotes(of: keyID(2)) == [note])
        #expect(state.beginPlayNotes(of: keyID(1)).isEmpty)
        #expect(state.beginPlayNotes(of: nil).isEmpty)
        #expect(state.playNotes(of: nil) == [note])
        let action = state.endPlayNote(note, error)
        #expect(action.changesStatus)
        #expect(
            action.events.map(\.summary)
                == (error == nil
                    ? ["usable 1", "usable 0"] : ["failed 1: lease expired", "failed 0: lease expired"]))
        #expect(state.playNotes(of: nil).isEmpty)
        for name in [nil, keyID(1), keyID(2)] { #expect((state.status(of: name).key == nil) == (error != nil)) }
        // Nothing is left to tell.
        #expect(state.endPlayNote(note, nil).events.isEmpty)
    }

    /// A renewal may bring another license meanwhile.
    @Test func whatBecomesOfAPlayNoteOfBeforeIsNoMatter() {
        var state = KeySessionState()
        let (old, new) = (PlayNote { _ in }, PlayNote { _ in })
        for note in [old, new] {
            var keys = keys(1)
            keys.terms = KeyTerms()
            keys.terms?.playNotes[keyID(1)] = note
            #expect(state.install(keys, at: later).changesStatus)
            #expect(state.beginPlayNotes(of: keyID(1)) == [note])
        }
        #expect(state.endPlayNote(old, .leaseExpired("no note")).events.isEmpty)
        #expect(state.status(of: keyID(1)).key != nil)
        #expect(state.playNotes(of: keyID(1)) == [new])
        #expect(state.endPlayNote(new, nil).events.map(\.summary) == ["usable 1"])
        #expect(state.playNotes(of: keyID(1)).isEmpty)
    }

    /// Nothing would tell media without a KID that such a note is written.
    @Test func aKeyThatIsGoneNeedsNoPlayNote() throws {
        var state = KeySessionState()
        _ = demand(&state, [1], as: 10)
        var answer = keys(1)
        answer.terms = KeyTerms()
        answer.terms?.playNotes[keyID(1)] = PlayNote { _ in }
        _ = state.answer(10, with: answer, at: later)
        #expect(state.playNotes(of: nil).count == 1)
        let key = try #require(state.status(of: keyID(1)).key)
        _ = state.withdraw([keyID(1): key], because: .leaseExpired("the clock was set back"))
        #expect(state.playNotes(of: nil).isEmpty)
        #expect(state.beginPlayNotes(of: nil).isEmpty)
    }

    @Test func keysThatTheAnswerLacksFailByName() {
        var state = KeySessionState()
        _ = demand(&state, [1, 2], as: 10)
        let action = state.answer(10, with: keys(1, 9), at: later)
        #expect(action.events.map(\.summary) == ["usable 2", "failed 1: key not in response"])
        #expect(action.settled == [10])
        #expect(state.status(of: keyID(1)).key != nil)
        let error = state.status(of: keyID(2)).error
        #expect(error?.description.contains(keyID(2).description) == true)
        #expect(error?.description.contains(keyID(1).description) == false)
    }

    @Test func aFailureIsRetriedOnlyByThoseWhoComeAfterIt() {
        var state = KeySessionState()
        #expect(state.generation == 0)
        _ = demand(&state, [1], as: 10)
        #expect(state.fail(10, with: .denied("no"), at: later).isCounted)
        #expect(state.generation == 1)
        #expect(state.status(of: keyID(1)).failureGeneration == 1)
        #expect(demand(&state, [1], as: 11, retry: 0).requested == nil)
        #expect(demand(&state, [1], as: 12, retry: 1).requested == [keyID(1)])
        _ = state.fail(12, with: .denied("still no"), at: later)
        #expect(demand(&state, [1], as: 13, retry: 1).requested == nil)
        #expect(demand(&state, [1], as: 14, retry: 2).requested == [keyID(1)])
        #expect(state.answer(14, with: keys(1), at: later).isCounted)
        #expect(state.status(of: keyID(1)).key != nil)
    }

    @Test func aLateAnswerCountsAndReplacesNothing() {
        var state = KeySessionState()
        _ = demand(&state, [1, 2], as: 10)
        _ = state.fail(10, with: .timedOut(""), at: later)
        _ = state.install(KeySessionState.Keys(byID: [keyID(2): contentKey(77)]), at: later)
        let action = state.answer(10, with: keys(1, 2), at: later)
        #expect(action.isCounted)
        #expect(action.events.map(\.summary) == ["usable 1"])
        #expect(hex(state.status(of: keyID(1)).key) == keyHex(1))
        #expect(hex(state.status(of: keyID(2)).key) == keyHex(77))
        #expect(!state.fail(10, with: .denied(""), at: later).isCounted)
        #expect(state.status(of: keyID(1)).key != nil)
    }

    @Test func aLateAnswerEndsTheRequestThatCameAfterIt() {
        var state = KeySessionState()
        _ = demand(&state, [1], as: 10)
        _ = state.fail(10, with: .timedOut(""), at: later)
        _ = demand(&state, [1], as: 11, retry: state.generation)
        #expect(state.answer(10, with: keys(1), at: later).settled == [11])
        #expect(state.status(of: keyID(1)).key != nil)
    }

    @Test func lateAnswersAreRememberedForAWhile() {
        var state = KeySessionState(limits: .init(settledRequests: 2))
        for id in UInt64(1)...3 {
            _ = demand(&state, [Int(id)], as: id)
            _ = state.fail(id, with: .timedOut(""), at: later)
        }
        #expect(!state.answer(1, with: keys(1), at: later).isCounted)
        #expect(state.answer(2, with: keys(2), at: later).isCounted)
        #expect(state.keySystem(ofRequest: 1) == nil)
        #expect(state.keySystem(ofRequest: 3) == .some(.clearKey))
        #expect(!state.answer(99, with: keys(9), at: later).isCounted)
        #expect(state.status(of: keyID(9)).isAbsent)
    }

    @Test func installedKeysEndTheRequestsThatLackNothingElse() {
        var state = KeySessionState()
        _ = demand(&state, [1, 2], as: 10)
        #expect(state.install(keys(1), at: later).settled.isEmpty)
        #expect(state.missing(in: 10) == [keyID(2)])
        #expect(state.install(keys(2), at: later).settled == [10])
        #expect(state.missing(in: 10).isEmpty)
    }

    @Test func theSameKeyAgainChangesNoStatusAndAnotherDoes() {
        var state = KeySessionState()
        #expect(state.install(keys(1), at: start).changesStatus)
        let same = state.install(keys(1), at: start)
        #expect(!same.changesStatus)
        #expect(same.events.map(\.summary) == ["usable 1"])
        #expect(state.install(KeySessionState.Keys(byID: [keyID(1): contentKey(2)]), at: start).changesStatus)
        #expect(hex(state.status(of: keyID(1)).key) == keyHex(2))
    }

    @Test func mediaWithoutAKIDGetsTheOnlyKey() {
        var state = KeySessionState()
        #expect(demand(&state, [nil], as: 10).requested == [nil])
        #expect(state.answer(10, with: keys(1), at: later).settled == [10])
        #expect(hex(state.status(of: nil).key) == keyHex(1))
        #expect(hex(state.status(of: keyID(1)).key) == keyHex(1))
    }

    @Test func mediaWithoutAKIDGetsTheKeyWithoutID() {
        var state = KeySessionState()
        _ = demand(&state, [nil], as: 10)
        var answer = keys(1, 2)
        answer.withoutID = contentKey(3)
        #expect(state.answer(10, with: answer, at: later).events.map(\.summary) == ["usable 2"])
        #expect(hex(state.status(of: nil).key) == keyHex(3))
    }

    @Test func mediaWithoutAKIDFailsWhenTheAnswerIsNotClear() {
        var state = KeySessionState()
        _ = demand(&state, [nil], as: 10)
        let action = state.answer(10, with: keys(1, 2), at: later)
        #expect(action.events.map(\.summary) == ["usable 2", "failed 0: key not in response"])
        #expect(state.status(of: nil).error?.description.contains("2 keys") == true)
    }

    @Test func aKeyWithoutIDAnswersARequestForOneKIDButNotForTwo() {
        var state = KeySessionState()
        let key = KeySessionState.Keys(withoutID: contentKey(5))
        _ = demand(&state, [1], as: 10)
        _ = state.answer(10, with: key, at: later)
        #expect(hex(state.status(of: keyID(1)).key) == keyHex(5))
        _ = demand(&state, [2, 3], as: 11)
        _ = state.answer(11, with: key, at: later)
        #expect(state.status(of: keyID(2)).error != nil)
        #expect(state.status(of: nil).isAbsent)
    }

    @Test func closingFailsEverythingForGood() {
        var state = KeySessionState()
        _ = demand(&state, [1, 2], as: 10)
        _ = demand(&state, [3], as: 11)
        _ = state.install(keys(4), at: start)
        let action = state.close(.denied("left the room"), at: later)
        #expect(action.settled == [10, 11])
        let expected = ["failed 2: session closed", "failed 1: session closed", "closed: denied"]
        #expect(action.events.map(\.summary) == expected)
        for number in 1...5 {
            let error = state.status(of: keyID(number)).error
            #expect(error?.isSameKind(as: .sessionClosed("")) == true)
            #expect(error?.description.contains("left the room") == true)
        }
        #expect(!state.answer(10, with: keys(1), at: later).isCounted)
        #expect(!state.install(keys(1), at: later).isCounted)
        #expect(!state.fail(10, with: .denied(""), at: later).isCounted)
        #expect(state.close(.denied(""), at: later).events.isEmpty)
        let demanded = demand(&state, [1, 8], as: 12, retry: .max)
        #expect(demanded.requested == nil)
        #expect(demanded.events.map(\.summary) == ["failed 2: session closed"])
        #expect(state.status(of: keyID(4)).key == nil)
    }

    @Test func tooManyPendingKeysAreRefused() {
        var state = KeySessionState(limits: .init(slots: 100, pending: 10))
        #expect(demand(&state, Array(0..<10), as: 1).requested?.count == 10)
        let refused = demand(&state, [50], as: 2)
        #expect(refused.requested == nil)
        #expect(refused.events.map(\.summary) == ["failed 1: malformed request"])
        #expect(state.status(of: keyID(50)).error?.isSameKind(as: .malformedRequest("")) == true)
        _ = state.fail(1, with: .denied(""), at: later)
        #expect(state.status(of: keyID(50)).isAbsent)
        #expect(demand(&state, [50], as: 3).requested == [keyID(50)])
    }

    @Test func oldKeysAreForgottenBeforeTheTableGrowsTooLarge() {
        var state = KeySessionState(limits: .init(slots: 100, pending: 10))
        _ = demand(&state, [1_000_000], as: 1)
        for number in 0..<1_000 { _ = state.install(keys(number), at: start) }
        let kept = (0..<1_000).filter { state.status(of: keyID($0)).key != nil }
        #expect((40...100).contains(kept.count))
        #expect(kept == Array((1_000 - kept.count)..<1_000))
        #expect(state.status(of: keyID(1_000_000)).requestID == 1)
    }

    @Test(arguments: 1...20) func anyOrderOfEventsKeepsTheTableSound(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var state = KeySessionState(limits: .init(slots: 24, pending: 8, settledRequests: 4))
        var requested: [UInt64: [KeyID?]] = [:]
        var settled: Set<UInt64> = []
        var nextID: UInt64 = 1
        for _ in 0..<500 {
            let numbers = (0..<Int.random(in: 0...4, using: &random)).map { _ in Int.random(in: 0..<40, using: &random)
            }
            let id = UInt64.random(in: 0...nextID, using: &random)
            let generation = state.generation
            let action: KeySessionState.Action
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<45:
                action = demand(
                    &state, numbers.isEmpty ? [nil] : numbers, as: nextID, retry: .random(in: 0...9_999, using: &random)
                )
                if let slots = action.requested { requested[nextID] = slots }
                nextID += 1
            case 45..<70:
                action = state.answer(id, with: keys(of: numbers), at: later)
            case 70..<85:
                action = state.install(keys(of: numbers), for: Bool.random(using: &random) ? id : nil, at: later)
            default:
                action = state.fail(id, with: .denied(""), at: later)
            }
            #expect(state.generation >= generation)
            for id in action.settled {
                #expect(requested[id] != nil)
                #expect(settled.insert(id).inserted, "request \(id) ended twice")
            }
            // Whoever waits, waits for a request that is open and lacks that key; and the other way round.
            for slot in (0..<40).map({ Optional(keyID($0)) }) + [nil] {
                guard let id = state.status(of: slot).requestID else { continue }
                #expect(!settled.contains(id))
                #expect(state.missing(in: id).contains(slot))
            }
            for id in requested.keys where !settled.contains(id) {
                #expect(!state.missing(in: id).isEmpty)
            }
            for id in settled { #expect(state.missing(in: id).isEmpty) }
        }
        #expect(settled.count > 10)
        let open = Set(requested.keys).subtracting(settled)
        #expect(Set(state.close(.sessionClosed(""), at: later).settled) == open)
    }

    private func keys(of numbers: [Int]) -> KeySessionState.Keys {
        KeySessionState.Keys(byID: numbers.reduce(into: [:]) { $0[keyID($1)] = contentKey($1) })
    }
}
