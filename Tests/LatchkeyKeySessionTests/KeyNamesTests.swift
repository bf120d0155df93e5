// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestAuthorities
import Testing

@testable import LatchkeyKeySession

@Suite("Key names", .timeLimit(.minutes(8)))
struct KeyNamesTests {
    private let zero = KeyID(high: 0, low: 0)

    private func name(_ names: inout KeyNames, _ uri: String, _ media: KeyID?, else other: Int) -> KeyNames.Answer {
        names.keyID(forURI: uri, mediaKeyID: media) { keyID(other) }
    }

    @Test func theMediasKeyIDIsTakenWhereItStandsForOneURI() {
        var names = KeyNames()
        #expect(name(&names, "skd://a", keyID(1), else: 91) == .init(keyID: keyID(1)))
        #expect(name(&names, "skd://b", keyID(1), else: 92) == .init(keyID: keyID(92)))
        #expect(name(&names, "skd://c", zero, else: 93) == .init(keyID: keyID(93)))
        #expect(name(&names, "skd://d", nil, else: 94) == .init(keyID: keyID(94)))
        for (uri, number) in [("skd://a", 1), ("skd://b", 92), ("skd://c", 93), ("skd://d", 94)] {
            #expect(name(&names, uri, nil, else: 99) == .init(keyID: keyID(number)))
            #expect(names.uri(of: keyID(number)) == uri)
        }
    }

    @Test func aKeyIDThatComesLaterReplacesAMadeOneOnce() {
        var names = KeyNames()
        #expect(name(&names, "skd://a", nil, else: 91) == .init(keyID: keyID(91)))
        #expect(name(&names, "skd://a", keyID(1), else: 92) == .init(keyID: keyID(1), replaced: keyID(91)))
        for number in [91, 1] { #expect(names.uri(of: keyID(number)) == "skd://a") }
    }

    @Test func tracksMayHaveKeysOfTheirOwnUnderOneURI() {
        var names = KeyNames()
        #expect(name(&names, "skd://a", keyID(1), else: 91) == .init(keyID: keyID(1)))
        #expect(name(&names, "skd://a", keyID(2), else: 92) == .init(keyID: keyID(2)))
        #expect(name(&names, "skd://a", keyID(1), else: 93) == .init(keyID: keyID(1)))
        #expect(name(&names, "skd://a", keyID(2), else: 94) == .init(keyID: keyID(2)))
        #expect(name(&names, "skd://a", nil, else: 95) == .init(keyID: keyID(1)))
        #expect(name(&names, "skd://a", zero, else: 96) == .init(keyID: keyID(1)))
        #expect(name(&names, "skd://b", keyID(2), else: 97) == .init(keyID: keyID(97)))
        #expect(names.uri(of: keyID(1)) == "skd://a")
        #expect(names.uri(of: keyID(2)) == "skd://a")
        for number in 0..<KeyNames.otherLimit * 2 { _ = name(&names, "skd://a", keyID(1000 + number), else: 98) }
        #expect(names.uri(of: keyID(1000)) == "skd://a")
        #expect(names.uri(of: keyID(1000 + KeyNames.otherLimit)) == nil)
    }

    /// As from the third period of keys on, or if media repeats a KID: the URI of the playlist counts.
    @Test func keyIDsOfGroupsStandForTheURIOfTheirTrack() {
        var names = KeyNames()
        func expect(_ cases: [(group: Int, track: Int, keyID: Int, newURI: String?)]) {
            for (group, track, number, newURI) in cases {
                let found = names.keyID(ofGroup: keyID(group), inTrackOf: keyID(track))
                #expect(found.keyID == keyID(number) && found.newURI == newURI, "\(group) in \(track): \(found)")
            }
        }
        _ = name(&names, "skd://a", keyID(1), else: 91)
        _ = name(&names, "skd://b", keyID(1), else: 92)
        expect([
            (2, 1, 2, "skd://a"), (2, 92, 2, "skd://b"), (1, 92, 92, nil), (92, 1, 1, nil), (2, 7, 2, nil),
            (1, 7, 1, nil),
        ])
        #expect(names.keyID(ofGroup: zero, inTrackOf: keyID(92)).keyID == keyID(92))
        // The made KID is still that of the sample entry.
        #expect(name(&names, "skd://b", keyID(2), else: 93) == .init(keyID: keyID(2), replaced: keyID(92)))
        for track in [2, 92] {
            expect([(2, track, 2, nil), (1, track, 2, nil), (3, track, 3, "skd://b"), (2, 1, 1, nil)])
        }
        for number in 0..<KeyNames.otherLimit { _ = name(&names, "skd://b", keyID(1000 + number), else: 98) }
        expect([(1000, 92, 1000, nil), (3, 92, 3, nil)])
        // Both are forgotten together.
        for number in 0...KeyNames.limit { _ = name(&names, "skd://\(number)", nil, else: 5_000 + number) }
        expect([(1, 92, 1, nil), (3, 92, 3, nil)])
    }

    /// What was said of a key holds for a KID that comes later.
    @Test(arguments: [nil, 1]) func laterKeyIDsTakeWhatWasSaid(media: Int?) {
        var names = KeyNames()
        let first = name(&names, "skd://a", media.map { keyID($0) }, else: 91).keyID
        let data = InitializationData(system: .playReady, bytes: [1, 2, 3], origin: "hls/m3u8")
        var demand = KeyDemand(keyIDs: [first], keySystem: .playReady, initializationData: [data])
        names.complete(&demand)
        for number in [2, 3] {
            _ = name(&names, "skd://a", keyID(number), else: 92)
            var later = KeyDemand(keyIDs: [keyID(number)])
            names.complete(&later)
            #expect(later.keySystem == .playReady && later.initializationData == [data])
        }
    }

    @Test func whatADemandSaysOfAKeyHoldsForThoseThatSayNothing() {
        func completed(_ names: inout KeyNames, _ demand: KeyDemand) -> KeyDemand {
            var demand = demand
            names.complete(&demand)
            return demand
        }
        let data = InitializationData(system: .playReady, bytes: [1, 2, 3], origin: "hls/m3u8")
        var names = KeyNames()
        _ = name(&names, "skd://a", keyID(1), else: 91)
        _ = name(&names, "skd://a", keyID(2), else: 92)
        // Nothing is known yet, and of keys that no playlist names nothing is remembered.
        #expect(completed(&names, KeyDemand(keyIDs: [keyID(1)])).keySystem == nil)
        for number in [1, 3] {
            let full = KeyDemand(keyIDs: [keyID(number)], keySystem: .playReady, initializationData: [data])
            #expect(completed(&names, full).initializationData == [data])
        }
        let known = completed(&names, KeyDemand(keyIDs: [keyID(1)], retryFailuresUpTo: 7, origin: 8))
        #expect(known.keySystem == .playReady && known.initializationData == [data])
        #expect(known.retryFailuresUpTo == 7 && known.origin == 8)
        for other in [[keyID(2)], [keyID(3)], [keyID(1), keyID(2)], []] {
            let demand = completed(&names, KeyDemand(keyIDs: other))
            #expect(demand.keySystem == nil && demand.initializationData.isEmpty)
        }
        // Who says something is not corrected.
        let own = completed(&names, KeyDemand(keyIDs: [keyID(1)], keySystem: .fairPlay))
        #expect(own.keySystem == .fairPlay && own.initializationData.isEmpty)
    }

    @Test func oldNamesAreForgotten() {
        var names = KeyNames()
        for number in 0...KeyNames.limit { _ = name(&names, "skd://\(number)", nil, else: number + 1) }
        #expect(names.uri(of: keyID(1)) == nil)
        #expect(names.uri(of: keyID(KeyNames.limit + 1)) == "skd://\(KeyNames.limit)")
    }

    /// A live playlist with long URIs, or with long descriptions of its keys, that has other keys at each refresh.
    @Test(arguments: [(60_000, 0), (20, 60_000)]) func oldNamesAreForgottenByTheirSize(uri: Int, data: Int) {
        var names = KeyNames()
        let (padding, count) = (String(repeating: "a", count: uri), 2_000)
        for number in 1...count {
            let keyID = keyID(number)
            #expect(name(&names, "skd://\(number)/\(padding)", nil, else: number).keyID == keyID)
            let bytes = [UInt8](repeating: 0, count: data)
            var demand = KeyDemand(
                keyIDs: [keyID], keySystem: .fairPlay,
                initializationData: [InitializationData(system: .fairPlay, bytes: bytes, origin: "hls/m3u8")])
            names.complete(&demand)
            #expect(names.uri(of: keyID) != nil)
            // One entry is in beside what is allowed.
            #expect(names.size <= KeyNames.sizeLimit + 130_000)
        }
        #expect(names.uri(of: keyID(1)) == nil)
        // The newest quarter of what is allowed stays, and with it what was said of its keys.
        let kept = count - KeyNames.sizeLimit / 4 / 60_000
        #expect(names.uri(of: keyID(kept)) != nil)
        var demand = KeyDemand(keyIDs: [keyID(kept)])
        names.complete(&demand)
        #expect(demand.keySystem == .fairPlay)
        // Each that is forgotten gives back what it took.
        for number in 0...KeyNames.limit * 2 { _ = name(&names, "skd://\(number)", nil, else: count + number + 1) }
        #expect(names.size <= KeyNames.limit * 300)
    }

    /// All URIs are short and known, and then each gets a description.
    @Test func descriptionsAloneAreBounded() {
        var names = KeyNames()
        for number in 1...2_000 { _ = name(&names, "skd://\(number)", nil, else: number) }
        for number in 1...2_000 {
            let bytes = [UInt8](repeating: 0, count: 60_000)
            var demand = KeyDemand(
                keyIDs: [keyID(number)], keySystem: .fairPlay,
                initializationData: [InitializationData(system: .fairPlay, bytes: bytes, origin: "hls/m3u8")])
            names.complete(&demand)
            #expect(names.size <= KeyNames.sizeLimit + 70_000)
        }
    }

    @Test func aStateMovesWhatItKnowsToTheNewKeyID() {
        var state = KeySessionState()
        let now = ContinuousClock.now
        _ = state.demand([keyID(1), keyID(2)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 7, at: now)
        #expect(state.rename(keyID(1), to: keyID(11)).changesStatus)
        for number in [1, 11] { #expect(state.status(of: keyID(number)).requestID == 7) }
        #expect(state.missing(in: 7) == [keyID(11), keyID(2)])
        #expect(!state.rename(keyID(2), to: keyID(11)).isCounted)
        #expect(!state.rename(keyID(5), to: keyID(6)).isCounted)

        // Whoever answers may know the key by its old name only.
        let answer = KeySessionState.Keys(byID: [keyID(1): contentKey(1), keyID(2): contentKey(2)])
        #expect(state.answer(7, with: answer, at: now).settled == [7])
        #expect(hex(state.status(of: keyID(11)).key) == keyHex(1))
        #expect(state.rename(keyID(11), to: keyID(12)).changesStatus)
        for number in [1, 11, 12] { #expect(hex(state.status(of: keyID(number)).key) == keyHex(1)) }
        // Each of two that are known answers for itself.
        #expect(hex(state.status(of: keyID(2)).key) == keyHex(2))
        // That of a key which was never asked for answers as the other, too.
        _ = state.demand([keyID(6)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 8, at: now)
        for number in [5, 6] { #expect(state.status(of: keyID(number)).requestID == 8) }
        // So does that of a key which is there already.
        _ = state.install(KeySessionState.Keys(byID: [keyID(8): contentKey(8)]), at: now)
        #expect(state.rename(keyID(7), to: keyID(8)).changesStatus)
        for number in [7, 8] { #expect(hex(state.status(of: keyID(number)).key) == keyHex(8)) }
    }

    /// A decryptor may have had the made KID before the media's was known.
    @Test func aKeyAnswersToEachOfItsNames() async throws {
        var policy = OutputPolicy.unrestricted
        policy.digitalVideo = .block
        let session = KeySession()
        let watcher = Watcher(session)
        let made = session.keyID(forURI: "skd://a")
        session.demand(KeyDemand(keyIDs: [made], keySystem: .fairPlay))
        let requested = await watcher.next { $0.request != nil }
        let request = try #require(requested?.request)
        #expect(session.keyID(forURI: "skd://a", mediaKeyID: keyID(1)) == keyID(1))
        for name in [made, keyID(1)] {
            #expect(session.status(of: name).requestID == request.id)
            #expect(session.keyURI(of: name) == "skd://a")
            #expect(Set(session.names(of: [name])) == [made, keyID(1)])
            // It is under way.
            session.demand(KeyDemand(keyIDs: [name], keySystem: .fairPlay))
            #expect(session.status(of: name).requestID == request.id)
        }
        #expect(session.isMade(made) && !session.isMade(keyID(1)))
        var terms = KeyTerms()
        terms.outputPolicies[keyID(1)] = policy
        session.install([keyID(1): try #require(ContentKey(hex: keyHex(1)))], terms: terms)
        for name in [made, keyID(1)] {
            #expect(hex(session.status(of: name).key) == keyHex(1))
            #expect(session.isAtHand(name))
            #expect(session.outputPolicy(of: name) == policy)
            #expect(session.hasOutputRules(for: name, of: .video))
        }
    }

    /// What the license wants of outputs comes under the name of the request, and holds under the name that counts now.
    @Test func rulesForOutputsFollowTheKeyToItsNewKeyID() {
        let now = ContinuousClock.now
        var policy = OutputPolicy.unrestricted
        policy.digitalVideo = .block
        func keys(_ number: Int, isNamed: Bool = true) -> KeySessionState.Keys {
            var terms = KeyTerms()
            terms.outputPolicies[keyID(number)] = policy
            return isNamed
                ? KeySessionState.Keys(byID: [keyID(number): contentKey(1)], terms: terms)
                : KeySessionState.Keys(withoutID: contentKey(1), terms: terms)
        }
        func asked() -> KeySessionState {
            var state = KeySessionState()
            _ = state.demand([keyID(1)], keySystem: .playReady, retryFailuresUpTo: 0, as: 7, at: now)
            return state
        }
        for isNamed in [true, false] {
            var before = asked()
            _ = before.answer(7, with: keys(1, isNamed: isNamed), at: now)
            _ = before.rename(keyID(1), to: keyID(11))
            #expect(before.policy(of: keyID(11)) == policy, "renamed behind the answer")
            #expect(before.policy(of: keyID(1)) == policy, "what was decrypted before is in queues")

            var between = asked()
            _ = between.rename(keyID(1), to: keyID(11))
            _ = between.answer(7, with: keys(1, isNamed: isNamed), at: now)
            #expect(between.policy(of: keyID(11)) == policy, "renamed in front of the answer")

            var twice = asked()
            _ = twice.rename(keyID(1), to: keyID(11))
            _ = twice.rename(keyID(11), to: keyID(12))
            _ = twice.answer(7, with: keys(1, isNamed: isNamed), at: now)
            #expect(twice.policy(of: keyID(12)) == policy, "renamed twice")
        }
        // New terms for a license that plays, such as those of its first play.
        var later = asked()
        _ = later.rename(keyID(1), to: keyID(11))
        _ = later.answer(7, with: KeySessionState.Keys(byID: [keyID(1): contentKey(1)]), at: now)
        #expect(later.policy(of: keyID(11)) == .unrestricted)
        _ = later.install(keys(1), at: now)
        #expect(later.policy(of: keyID(11)) == policy)
        #expect(hex(later.status(of: keyID(1)).key) == keyHex(1))

        // An answer that comes late, under whatever name.
        var late = asked()
        _ = late.rename(keyID(1), to: keyID(11))
        _ = late.fail(7, with: .denied("no"), at: now)
        _ = late.answer(7, with: keys(1), at: now)
        #expect(late.policy(of: keyID(11)) == policy)

        // Two licenses of which one says nothing: the other's rules stay its own.
        var two = KeySessionState()
        _ = two.demand([keyID(1), keyID(2)], keySystem: .playReady, retryFailuresUpTo: 0, as: 7, at: now)
        var both = keys(1)
        both.byID[keyID(2)] = contentKey(2)
        _ = two.answer(7, with: both, at: now)
        #expect(two.policy(of: keyID(2)) == .unrestricted)
    }

    /// Its one license names a KID, the media none.
    @Test func rulesForOutputsHoldForMediaWithoutAKeyID() {
        var policy = OutputPolicy.unrestricted
        policy.digitalVideo = .block
        var terms = KeyTerms()
        terms.outputPolicies[keyID(1)] = policy
        let now = ContinuousClock.now
        var state = KeySessionState()
        _ = state.demand([nil], keySystem: .playReady, retryFailuresUpTo: 0, as: 7, at: now)
        let keys = KeySessionState.Keys(byID: [keyID(1): contentKey(1)], terms: terms)
        #expect(state.answer(7, with: keys, at: now).settled == [7])
        #expect(state.policy(of: nil) == policy)
        #expect(state.policy(of: keyID(1)) == policy)
    }

    @Test func aMadeKeyIDIsKnownAsOne() {
        var names = KeyNames()
        _ = name(&names, "skd://a", nil, else: 91)
        _ = name(&names, "skd://b", keyID(1), else: 92)
        _ = name(&names, "skd://c", keyID(1), else: 93)
        #expect(names.isMade(keyID(91)))
        #expect(!names.isMade(keyID(1)))
        #expect(names.isMade(keyID(93)))
        #expect(!names.isMade(keyID(7)))
        _ = name(&names, "skd://a", keyID(2), else: 94)
        _ = name(&names, "skd://a", keyID(3), else: 95)
        #expect(names.isMade(keyID(91)))
        for number in [2, 3] { #expect(!names.isMade(keyID(number))) }
    }

    @Test func aFailureIsNotPassedOn() {
        var state = KeySessionState()
        let now = ContinuousClock.now
        _ = state.demand([keyID(1)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 7, at: now)
        _ = state.fail(7, with: .denied("no"), at: now)
        #expect(state.rename(keyID(1), to: keyID(11)).changesStatus)
        #expect(state.status(of: keyID(1)).isAbsent)
        #expect(state.status(of: keyID(11)).isAbsent)
        // Nobody retries failures, and it is asked for all the same: once.
        let again = state.demand([keyID(11)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 8, at: now)
        #expect(again.requested == [keyID(11)])
        #expect(!state.isUntold(8))
        _ = state.fail(8, with: .denied("no"), at: now)
        let third = state.demand([keyID(11)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 9, at: now)
        #expect(third.requested == nil)
        #expect(state.status(of: keyID(11)).error == .denied("no"))
    }

    /// A request that tells no KID would say the same once more.
    @Test func aRefusalOfARequestWithoutAKeyIDIsPassedOn() {
        let now = ContinuousClock.now
        for (error, isPassedOn) in [(KeyError.serverStatus("403"), true), (.cancelled("the pipeline stopped"), false)] {
            var state = KeySessionState()
            _ = state.demand([keyID(1)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 7, at: now)
            state.noteSaysNoKeyID(7)
            _ = state.fail(7, with: error, at: now)
            #expect(state.rename(keyID(1), to: keyID(11)).changesStatus)
            for number in [1, 11] { #expect(state.status(of: keyID(number)).error == (isPassedOn ? error : nil)) }
            let again = state.demand([keyID(11)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 8, at: now)
            #expect(again.requested == (isPassedOn ? nil : [keyID(11)]))
            // The next playback asks once more.
            let next = state.demand(
                [keyID(11)], keySystem: .fairPlay, retryFailuresUpTo: state.generation, as: 9, at: now)
            #expect(next.requested == (isPassedOn ? [keyID(11)] : nil))
        }
    }

    @Test func whoAnswersMayNotKnowOfANewName() {
        var state = KeySessionState()
        let now = ContinuousClock.now
        _ = state.demand([keyID(1), keyID(2)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 7, at: now)
        #expect(!state.isUntold(7))
        #expect(!state.isUntold(6))
        _ = state.rename(keyID(1), to: keyID(11))
        #expect(state.isUntold(7))
        state.note(7, says: keyID(1))
        #expect(state.isUntold(7))
        state.note(7, says: keyID(11))
        #expect(!state.isUntold(7))
        // What came under the old name counts, so nothing is to be asked again.
        _ = state.rename(keyID(2), to: keyID(12))
        #expect(state.isUntold(7))
        _ = state.install(KeySessionState.Keys(byID: [keyID(12): contentKey(2)]), for: 7, at: now)
        #expect(!state.isUntold(7))
        #expect(state.missing(in: 7) == [keyID(11)])

        // A request that says no KID would say the same under another name.
        _ = state.demand([keyID(3)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 8, at: now)
        state.noteSaysNoKeyID(8)
        _ = state.rename(keyID(3), to: keyID(13))
        #expect(!state.isUntold(8))

        // The second one is under the new name.
        _ = state.demand([keyID(4)], keySystem: .fairPlay, retryFailuresUpTo: 0, as: 9, at: now)
        _ = state.rename(keyID(4), to: keyID(14))
        #expect(state.isUntold(9))
        #expect(state.retry(9, as: 10, at: now).requested == [keyID(14)])
        #expect(!state.isUntold(9))
        #expect(!state.isUntold(10))
    }

    @Test func aRequestThatNobodyTookIsOfferedAgainUnderItsNewKeyID() async throws {
        let keys = try StaticKeys.parse(property: "\(keyID(1)):\(keyHex(1))")
        let session = KeySession(loaders: [StaticKeyLoader(keys)])
        let watcher = Watcher(session)
        let made = session.keyID(forURI: "skd://a")
        session.demand(KeyDemand(keyIDs: [made], keySystem: .fairPlay))
        let untaken = await watcher.next(where: \.isUntaken)
        guard case .untaken(let request, _)? = untaken else { return }
        #expect(request.keyURI == "skd://a")
        #expect(session.keyID(forURI: "skd://a", mediaKeyID: keyID(1)) == keyID(1))
        _ = await watcher.next(where: \.isUsable)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
        #expect(session.keyURI(of: keyID(1)) == "skd://a")
        #expect(session.keyURI(of: made) == "skd://a")
    }

    /// The media says its KID before a loader does: the refusal is of that KID, so the request is not made again.
    @Test func aRefusalOfTheMediasKeyIDIsFinal() async throws {
        final class Naming: ResourceLoader {
            let name = "naming"
            let keySystems: Set<KeySystem>? = nil
            func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
                _ = request.session?.keyID(forURI: "skd://a", mediaKeyID: keyID(1))
                return false
            }
        }
        let transport = FakeTransport { request, _ throws(HTTPError) in
            HTTPResponse(status: 403, body: [], url: request.url)
        }
        let clearKey = ClearKeyLoader(url: "https://license.example/ck", transport: transport)
        let session = KeySession(loaders: [Naming(), clearKey])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [session.keyID(forURI: "skd://a")], keySystem: .clearKey))
        _ = await watcher.next { $0.isFailed }
        #expect(session.status(of: keyID(1)).error?.isRefusal == true)
        #expect(try transport.requests.map { try ClearKey.keyIDs(inLicenseRequest: $0.body) } == [[keyID(1)]])
    }

    @Test func theKeyOfAPlaylistIsThatOfAGroup() async throws {
        let keys = try StaticKeys.parse(
            file: Array("skd://b \(keyHex(3)) 000102030405060708090a0b0c0d0e0f".utf8), name: "keys")
        let session = KeySession(loaders: [StaticKeyLoader(keys)])
        let watcher = Watcher(session)
        #expect(session.keyID(forURI: "skd://a", mediaKeyID: keyID(1)) == keyID(1))
        let made = session.keyID(forURI: "skd://b", mediaKeyID: keyID(1))
        session.demand(KeyDemand(keyIDs: [made], keySystem: .fairPlay))
        _ = await watcher.next(where: \.isUsable)
        for (group, expected) in [(2, 2), (2, 2), (1, 2)] {
            #expect(session.keyID(ofGroup: keyID(group), inTrackOf: made) == keyID(expected))
            #expect(hex(session.status(of: keyID(2)).key) == keyHex(3))
        }
        // What is there under a KID is not replaced.
        session.install([keyID(4): try #require(ContentKey(hex: keyHex(4)))])
        #expect(session.keyID(ofGroup: keyID(4), inTrackOf: made) == keyID(4))
        #expect(session.keyURI(of: keyID(4)) == nil)
        #expect(session.keyID(ofGroup: keyID(5), inTrackOf: keyID(6)) == keyID(5))
    }

    /// A `data:` URI may have the KID in place of the key, and only the media tells: a sample group, or an init segment.
    @Test(arguments: [true, false], [2, 3]) func theKeyIDIsNoKey(isGroup: Bool, data: Int) throws {
        let session = KeySession()
        let made = session.keyID(forURI: "data:,a")
        let key = try #require(ContentKey(keyID(data).bytes))
        session.install([made: key])
        let found =
            isGroup
            ? session.keyID(ofGroup: keyID(2), inTrackOf: made) : session.keyID(forURI: "data:,a", mediaKeyID: keyID(2))
        #expect(found == keyID(2))
        for name in [made, keyID(2)] { #expect(hex(session.status(of: name).key) == (data == 3 ? hex(key) : nil)) }
    }

    /// What a loader or a license brought is the key, whatever it equals.
    @Test(arguments: ["skd://a", "data:text/plain;base64,AA", "data:,a"]) func aKeyMayEqualItsKeyID(uri: String) throws
    {
        let session = KeySession()
        let made = session.keyID(forURI: uri)
        let key = try #require(ContentKey(keyID(2).bytes))
        session.install([made: key], terms: uri == "data:,a" ? KeyTerms(outputRequirement: .unprotected) : nil)
        #expect(session.keyID(forURI: uri, mediaKeyID: keyID(2)) == keyID(2))
        for name in [made, keyID(2)] { #expect(hex(session.status(of: name).key) == hex(key)) }
    }

    @Test(arguments: ["skd://a", "*"]) func staticKeysAreFoundByURI(subject: String) async throws {
        let keys = try StaticKeys.parse(
            file: Array("\(subject) \(keyHex(3)) 000102030405060708090a0b0c0d0e0f".utf8), name: "keys")
        let session = KeySession(loaders: [StaticKeyLoader(keys)])
        let watcher = Watcher(session)
        let keyID = session.keyID(forURI: "skd://a")
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
        _ = await watcher.next(where: \.isUsable)
        let key = session.status(of: keyID).key
        #expect(hex(key) == keyHex(3))
        #expect(key?.initializationVector == InitializationVector(Array(0..<16)))
    }
}
