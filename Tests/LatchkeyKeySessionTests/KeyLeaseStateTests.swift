// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySession

@Suite("Leases")
struct KeyLeaseStateTests {
    private let start = ContinuousClock.now

    private func at(_ seconds: Double) -> ContinuousClock.Instant { start + .seconds(seconds) }

    private func keys(_ numbers: [Int], _ terms: KeyTerms?) -> KeySessionState.Keys { keys(numbers, 1, terms) }

    private func keys(_ numbers: [Int], _ key: Int, _ terms: KeyTerms?) -> KeySessionState.Keys {
        KeySessionState.Keys(byID: numbers.reduce(into: [:]) { $0[keyID($1)] = contentKey(key) }, terms: terms)
    }

    /// A state whose request 1 for the numbers was answered at once on these terms.
    private func state(_ numbers: [Int], _ terms: KeyTerms, random: Double = 0) -> KeySessionState {
        var state = KeySessionState()
        _ = state.demand(
            numbers.map { keyID($0) }, keySystem: .fairPlay, retryFailuresUpTo: 0, as: 1, at: start)
        let action = state.answer(1, with: keys(numbers, terms), at: start, random: random)
        #expect(action.begun.map(\.request) == [1])
        return state
    }

    private func advance(_ state: inout KeySessionState, to seconds: Double, id: UInt64 = 50) -> KeySessionState.Action
    {
        var id = id
        return state.advance(to: at(seconds)) {
            defer { id += 1 }
            return id
        }
    }

    @Test func aLeaseIsRenewedAtFourFifthsAndItsKeysStayUsable() {
        var state = state([1, 2], KeyTerms(lease: .seconds(100)))
        #expect(state.deadline == at(80))
        #expect(state.use(keyID(1)).key != nil)
        #expect(advance(&state, to: 79.9).renewals.isEmpty)
        let action = advance(&state, to: 80)
        #expect(action.renewals.map(\.id) == [50])
        #expect(action.renewals.first?.slots == [keyID(1), keyID(2)])
        #expect(!action.changesStatus)
        #expect(state.keySystem(ofRequest: 50) == .some(.fairPlay))
        #expect(state.missing(in: 50) == [keyID(1), keyID(2)])
        #expect(state.deadline == at(100))
        #expect(state.status(of: keyID(1)).key != nil)
        let answered = state.answer(50, with: keys([1, 2], 7, KeyTerms(lease: .seconds(100))), at: at(81))
        #expect(answered.settled == [50])
        #expect(answered.failed.isEmpty)
        #expect(answered.changesStatus)
        #expect(answered.ended.count == 1)
        #expect(hex(state.status(of: keyID(2)).key) == keyHex(7))
        // The new lease counts from the moment that its request was made.
        #expect(state.deadline == at(160))
    }

    @Test func theMomentOfTheRenewalIsSpread() {
        for (random, expected) in [(0.0, 80.0), (0.5, 77.5), (1, 75), (9, 75), (-1, 80)] {
            #expect(state([1], KeyTerms(lease: .seconds(100)), random: random).deadline == at(expected))
        }
        #expect(KeyRenewalPolicy(fraction: 7, jitter: -1).renewal(of: .seconds(10), random: 1) == .seconds(10))
        #expect(KeyRenewalPolicy(fraction: 0.1, jitter: 0.5).renewal(of: .seconds(10), random: 1) == .zero)
    }

    @Test func theEndMakesTheKeysUnusableAndSaysSo() {
        var state = state([1, 2], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        let generation = state.generation
        _ = advance(&state, to: 80)
        let action = advance(&state, to: 100)
        #expect(action.changesStatus)
        #expect(action.settled == [50])
        #expect(action.failed == [50])
        #expect(action.events.map(\.summary) == ["renewal failed 2: lease expired", "expired 2 in use"])
        #expect(state.status(of: keyID(1)).error?.isSameKind(as: .leaseExpired("")) == true)
        #expect(state.status(of: keyID(1)).error?.description.contains(keyID(2).description) == true)
        #expect(state.generation == generation + 1)
        #expect(state.deadline == nil)
        // Not asked for again by the stream that had it, but by the next one.
        #expect(
            state.demand([keyID(1)], keySystem: nil, retryFailuresUpTo: generation, as: 60, at: at(101)).requested
                == nil)
        #expect(
            state.demand([keyID(1)], keySystem: nil, retryFailuresUpTo: generation + 1, as: 61, at: at(101)).requested
                == [keyID(1)])
    }

    @Test func theAnswerThatComesAfterTheEndCounts() {
        var state = state([1], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        _ = advance(&state, to: 80)
        _ = advance(&state, to: 100)
        #expect(state.answer(50, with: keys([1], 3, KeyTerms(lease: .seconds(100))), at: at(105)).isCounted)
        #expect(hex(state.status(of: keyID(1)).key) == keyHex(3))
        #expect(state.deadline == at(160))
        #expect(!state.answer(50, with: keys([1], 4, KeyTerms(lease: .seconds(10))), at: at(106)).isCounted)
    }

    @Test func aKeyThatNobodyReadIsForgottenInSilence() {
        var state = state([1], KeyTerms(lease: .seconds(100)))
        #expect(advance(&state, to: 80).renewals.isEmpty)
        #expect(state.deadline == at(100))
        let generation = state.generation
        #expect(advance(&state, to: 100).events.map(\.summary) == ["expired 1"])
        #expect(state.status(of: keyID(1)).isAbsent)
        #expect(state.generation == generation)
        #expect(state.demand([keyID(1)], keySystem: nil, retryFailuresUpTo: 0, as: 9, at: at(101)).requested != nil)
    }

    @Test func aRenewalThatFailsIsTriedAgainWhileThereIsTime() {
        var state = state([1], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        _ = advance(&state, to: 80, id: 50)
        let failed = state.fail(50, with: .network("down"), at: at(80))
        #expect(failed.events.map(\.summary) == ["renewal failed 1: network"])
        #expect(!failed.changesStatus)
        #expect(state.deadline == at(90))
        #expect(advance(&state, to: 90, id: 51).renewals.map(\.id) == [51])
        _ = state.fail(51, with: .network("down"), at: at(92))
        #expect(state.deadline == at(96))
        _ = advance(&state, to: 96, id: 52)
        _ = state.fail(52, with: .network("down"), at: at(98.5))
        // Three quarters of a second are too little.
        #expect(state.deadline == at(100))
        #expect(state.status(of: keyID(1)).key != nil)
        #expect(advance(&state, to: 100).events.map(\.summary) == ["expired 1 in use"])
    }

    @Test func whatARenewalLacksKeepsItsLease() {
        var state = state([1, 2], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        _ = advance(&state, to: 80)
        let action = state.answer(50, with: keys([2], 5, nil), at: at(80))
        #expect(action.events.map(\.summary) == ["usable 1", "renewal failed 1: key not in response"])
        #expect(state.deadline == at(90))
        _ = advance(&state, to: 100)
        #expect(state.status(of: keyID(1)).error != nil)
        #expect(hex(state.status(of: keyID(2)).key) == keyHex(5))
    }

    @Test func aRentalEndsOnlyWhatHasNotBegun() {
        var unused = state([1], KeyTerms(rental: .seconds(50)))
        #expect(advance(&unused, to: 50).events.map(\.summary) == ["expired 1"])
        #expect(unused.status(of: keyID(1)).isAbsent)
        var used = state([1], KeyTerms(rental: .seconds(50)))
        _ = used.use(keyID(1))
        #expect(advance(&used, to: 50).events.isEmpty)
        #expect(used.status(of: keyID(1)).key != nil)
        #expect(used.deadline == nil)
    }

    @Test func noDurationIsTooLong() {
        let longest = Duration.seconds(Int64.max)
        let state = state([1], KeyTerms(lease: longest, rental: longest, expiry: longest))
        #expect(state.deadline.map { $0 > at(1_000_000_000) } == true)
    }

    @Test func anExpiryIsNotRenewed() {
        var state = state([1], KeyTerms(expiry: .seconds(50)))
        _ = state.use(keyID(1))
        #expect(state.deadline == at(50))
        #expect(advance(&state, to: 49).renewals.isEmpty)
        #expect(advance(&state, to: 50).events.map(\.summary) == ["expired 1 in use"])
    }

    @Test func theEarlierOfLeaseAndExpiryCounts() {
        #expect(KeyTerms(lease: .seconds(5), expiry: .seconds(3)).end == .seconds(3))
        #expect(KeyTerms(lease: .seconds(2), expiry: .seconds(3)).end == .seconds(2))
        #expect(KeyTerms(rental: .seconds(2)).end == nil)
        #expect(!KeyTerms(outputRequirement: .hdcpType1).isLimited)
    }

    @Test(arguments: [
        KeyTerms(lease: .zero), KeyTerms(lease: .seconds(-1)), KeyTerms(rental: .zero), KeyTerms(expiry: .seconds(9)),
    ]) func anAnswerWithoutTimeFails(terms: KeyTerms) {
        var state = KeySessionState()
        _ = state.demand([keyID(1)], keySystem: nil, retryFailuresUpTo: 0, as: 1, at: start)
        // The request took longer than the answer allows.
        #expect(
            state.answer(1, with: keys([1], terms), at: at(10)).events.map(\.summary) == ["failed 1: lease expired"])
        #expect(!state.install(keys([1], KeyTerms(lease: .zero)), at: at(10)).isCounted)
        #expect(state.deadline == nil)
    }

    @Test func aKeyFromElsewhereEndsLeaseAndRenewal() {
        var state = state([1], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        _ = advance(&state, to: 80)
        let action = state.install(keys([1], 9, nil), at: at(81))
        #expect(action.settled == [50])
        #expect(action.failed.isEmpty)
        #expect(state.deadline == nil)
        #expect(advance(&state, to: 1000).events.isEmpty)
        #expect(hex(state.status(of: keyID(1)).key) == keyHex(9))
    }

    @Test func aRenewalOnDemandTakesUsableKeysOnly() {
        var state = state([1, 2], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        let action = state.renew([keyID(1), keyID(5)], keySystem: .fairPlay, as: 60, at: at(10))
        #expect(action.renewals.map(\.slots) == [[keyID(1)]])
        #expect(!state.renew([keyID(1)], keySystem: nil, as: 61, at: at(10)).isCounted)
        // The lease waits for this renewal, then goes on with the key that was not in it.
        #expect(state.deadline == at(100))
        _ = state.answer(60, with: keys([1], 4, KeyTerms(lease: .seconds(100))), at: at(12))
        #expect(state.deadline == at(80))
        #expect(advance(&state, to: 80, id: 70).renewals.map(\.slots) == [[keyID(2)]])
    }

    @Test func aKeyWithoutALeaseCanBeRenewedToo() {
        var state = KeySessionState()
        _ = state.install(keys([1], nil), at: start)
        #expect(state.renew([keyID(1)], keySystem: .fairPlay, as: 60, at: start).isCounted)
        #expect(state.keySystem(ofRequest: 60) == .some(.fairPlay))
        #expect(state.fail(60, with: .denied(""), at: start).events.map(\.summary) == ["renewal failed 1: denied"])
        #expect(state.status(of: keyID(1)).key != nil)
        #expect(state.renew([keyID(1)], keySystem: nil, as: 61, at: start).isCounted)
    }

    /// What an application installed, under the same KID or for media without one, is not the license's.
    @Test func onlyTheKeysOfALicenseAreWithdrawn() {
        var state = KeySessionState()
        _ = state.install(keys([1], 1, nil), at: start)
        _ = state.install(keys([2], 7, nil), at: start)
        _ = state.install(.init(withoutID: contentKey(7)), at: start)
        let error = KeyError.leaseExpired("")
        let action = state.withdraw([keyID(1): contentKey(1), keyID(2): contentKey(2)], because: error)
        #expect(action.events.map(\.summary).count == 1 && action.changesStatus)
        #expect(state.status(of: keyID(1)).key == nil)
        #expect(hex(state.status(of: keyID(2)).key) == keyHex(7))
        #expect(hex(state.status(of: nil).key) == keyHex(7))
        #expect(!state.withdraw([keyID(2): contentKey(2)], because: error).changesStatus)
    }

    @Test func theKeyOfMediaWithoutAKIDIsWithdrawnWithItsLicense() {
        var state = KeySessionState()
        _ = state.demand([nil], keySystem: .playReady, retryFailuresUpTo: 0, as: 1, at: start)
        _ = state.answer(1, with: keys([1], nil), at: start)
        #expect(state.status(of: nil).key != nil)
        #expect(state.withdraw([keyID(1): contentKey(1)], because: .leaseExpired("")).changesStatus)
        #expect(state.status(of: nil).key == nil)
    }

    @Test func aRenewalOfAKeyThatIsWithdrawnFails() {
        var state = state([1], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        #expect(advance(&state, to: 80).renewals.map(\.id) == [50])
        let action = state.withdraw([keyID(1): contentKey(1)], because: .leaseExpired(""))
        #expect(action.settled == [50] && action.failed == [50])
    }

    @Test func anObsoleteAnswerIsTold() {
        var state = state([1], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        #expect(!state.isObsolete(keys([1], KeyTerms(lease: .seconds(1))), for: 1))
        _ = advance(&state, to: 80)
        #expect(state.isObsolete(keys([1], KeyTerms(lease: .seconds(20))), for: 50))
        #expect(!state.isObsolete(keys([1], KeyTerms(lease: .seconds(21))), for: 50))
        #expect(!state.isObsolete(keys([1], nil), for: 50))
    }

    @Test func aRetryTakesThePlaceOfTheRequest() {
        var state = KeySessionState()
        _ = state.demand([keyID(1), keyID(2)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 1, at: start)
        _ = state.install(keys([2], nil), at: start)
        let action = state.retry(1, as: 2, at: at(1))
        #expect(action.requested == [keyID(1)])
        #expect(action.settled == [1])
        #expect(action.failed.isEmpty)
        #expect(state.status(of: keyID(1)).requestID == 2)
        #expect(state.retry(1, as: 3, at: at(1)).requested == nil)
        #expect(state.answer(2, with: keys([1], nil), at: at(2)).settled == [2])
    }

    @Test func aRetriedRenewalStaysOne() {
        var state = state([1], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        _ = advance(&state, to: 80)
        #expect(state.retry(50, as: 51, at: at(81)).requested == [keyID(1)])
        #expect(state.status(of: keyID(1)).key != nil)
        #expect(state.deadline == at(100))
        _ = state.answer(51, with: keys([1], 2, KeyTerms(lease: .seconds(100))), at: at(82))
        #expect(state.deadline == at(161))
        #expect(hex(state.status(of: keyID(1)).key) == keyHex(2))
    }

    @Test func aNewNameTakesTheLeaseAlong() {
        var state = state([1], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        #expect(state.rename(keyID(1), to: keyID(2)).isCounted)
        _ = advance(&state, to: 80)
        #expect(state.missing(in: 50) == [keyID(2)])
        #expect(state.rename(keyID(2), to: keyID(3)).isCounted)
        #expect(state.missing(in: 50) == [keyID(3)])
        // The loader knows the older name.
        #expect(state.answer(50, with: keys([2], 6, KeyTerms(lease: .seconds(100))), at: at(81)).settled == [50])
        #expect(hex(state.status(of: keyID(3)).key) == keyHex(6))
        // What has an older name uses the lease all the same.
        _ = state.use(keyID(1))
        #expect(advance(&state, to: 180).events.map(\.summary) == ["expired 1 in use"])
        #expect(state.status(of: keyID(3)).error != nil)
    }

    /// Also if the key equals the new name, and might have stood in a playlist.
    @Test(arguments: [true, false]) func aKeyThatEqualsItsNewNameKeepsItsLease(isInURI: Bool) throws {
        let key = try #require(ContentKey(keyID(2).bytes))
        var state = KeySessionState()
        let keys = KeySessionState.Keys(byID: [keyID(1): key], terms: KeyTerms(lease: .seconds(100)))
        _ = state.install(keys, at: start)
        _ = state.use(keyID(1))
        #expect(advance(&state, to: 80).renewals.map(\.id) == [50])
        #expect(state.rename(keyID(1), to: keyID(2), isInURI: isInURI).isCounted)
        #expect(state.missing(in: 50) == [keyID(2)])
        for name in [1, 2] { #expect(hex(state.status(of: keyID(name)).key) == hex(key)) }
        #expect(advance(&state, to: 100).events.map(\.summary).contains("expired 1 in use"))
    }

    /// A key that stands in a playlist, and is its KID, is none: a renewal of it that was asked for ends, too.
    @Test func theRenewalOfAKeyIDInAPlaylistEnds() throws {
        let key = try #require(ContentKey(keyID(2).bytes))
        var state = KeySessionState()
        _ = state.install(KeySessionState.Keys(byID: [keyID(1): key]), at: start)
        #expect(state.renew([keyID(1)], keySystem: nil, as: 60, at: start).renewals.map(\.id) == [60])
        let action = state.rename(keyID(1), to: keyID(2), isInURI: true)
        #expect(action.settled == [60] && action.failed == [60])
        for name in [1, 2] { #expect(state.status(of: keyID(name)).isAbsent) }
    }

    @Test func closingEndsLeases() {
        var state = state([1], KeyTerms(lease: .seconds(100)))
        _ = state.use(keyID(1))
        _ = advance(&state, to: 80)
        let action = state.close(.sessionClosed(""), at: at(81))
        #expect(action.settled == [50])
        #expect(action.ended.count == 1)
        #expect(state.deadline == nil)
        #expect(advance(&state, to: 200).events.isEmpty)
    }
}
