// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Dispatch
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@Suite("Key session", .timeLimit(.minutes(8)))
struct KeySessionTests {
    @Test func manyThreadsDemandAndOneRequestComes() async {
        let requests = Mutex<[KeyLoadingRequest]>([])
        let session = KeySession(loaders: [
            CallbackLoader { request in
                requests.withLock { $0.append(request) }
                return true
            }
        ])
        let watcher = Watcher(session)
        DispatchQueue.concurrentPerform(iterations: 200) { _ in session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2)]))
        }
        let request = await watcher.next { $0.request != nil }?.request
        #expect(request?.keyIDs == [keyID(1), keyID(2)])
        #expect(session.status(of: keyID(1)).requestID == request?.id)
        request?.finishLoading(with: .keys([keyID(1): contentKey(1), keyID(2): contentKey(2)]))
        DispatchQueue.concurrentPerform(iterations: 200) { _ in session.demand(KeyDemand(keyIDs: [keyID(2)])) }
        #expect(watcher.summaries == ["requested 2", "usable 2"])
        #expect(hex(session.status(of: keyID(2)).key) == keyHex(2))
    }

    @Test func anAnswerCountsOnlyOnce() async {
        let session = KeySession()
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        let request = await watcher.next { $0.request != nil }?.request
        #expect(request?.finishLoading(with: .keys([keyID(1): contentKey(1)])) == true)
        #expect(request?.finishLoading(with: .keys([keyID(1): contentKey(2)])) == false)
        #expect(request?.finishLoading(with: .denied("")) == false)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
        #expect(request?.isFinished == true)
        #expect(request?.isCancelled == false)
    }

    @Test func aDenialNamesItselfAndCanBeRetried() async {
        let session = KeySession()
        let watcher = Watcher(session)
        let before = session.revision
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        let first = await watcher.next { $0.request != nil }?.request
        let pending = session.revision
        #expect(pending != before)
        first?.finishLoading(with: .denied("no subscription"))
        #expect(session.revision != pending)
        #expect(session.status(of: keyID(1)).error == .denied("no subscription"))
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        #expect(watcher.summaries.filter { $0.hasPrefix("requested") }.count == 1)
        session.demand(KeyDemand(keyIDs: [keyID(1)], retryFailuresUpTo: session.generation))
        let second = await watcher.next { $0.request != nil }?.request
        #expect(second?.id != first?.id)
        second?.finishLoading(with: .keys([keyID(1): contentKey(1)]))
        #expect(session.status(of: keyID(1)).key != nil)
    }

    @Test func anAnswerWithAnotherKIDFailsAndKeepsTheKey() async {
        let session = KeySession()
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        let request = await watcher.next { $0.request != nil }?.request
        request?.finishLoading(with: .keys([keyID(2): contentKey(2)]))
        await session.told()
        #expect(watcher.summaries.suffix(2) == ["usable 1", "failed 1: key not in response"])
        #expect(session.status(of: keyID(1)).error?.description.contains(keyID(1).description) == true)
        #expect(session.status(of: keyID(2)).key != nil)
    }

    @Test func aThousandKeysAreOneRequest() async {
        let session = KeySession()
        let watcher = Watcher(session)
        let keyIDs = (0..<1_000).map { keyID($0) }
        session.demand(KeyDemand(keyIDs: keyIDs))
        let request = await watcher.next { $0.request != nil }?.request
        #expect(request?.keyIDs == keyIDs)
        var keys = Dictionary(uniqueKeysWithValues: (0..<1_000).map { (keyID($0), contentKey($0)) })
        keys[keyID(999)] = nil
        request?.finishLoading(with: .keys(keys))
        #expect((0..<999).allSatisfy { hex(session.status(of: keyID($0)).key) == keyHex($0) })
        #expect(session.status(of: keyID(999)).error != nil)
        await session.told()
        #expect(watcher.summaries.suffix(2) == ["usable 999", "failed 1: key not in response"])
    }

    @Test func mediaWithoutAKIDIsRequestedOnce() async {
        let session = KeySession()
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: []))
        session.demand(KeyDemand(keyIDs: []))
        let request = await watcher.next { $0.request != nil }?.request
        #expect(request?.keyIDs == [])
        #expect(session.status(of: nil).requestID == request?.id)
        request?.finishLoading(with: .key(contentKey(3)))
        #expect(hex(session.status(of: nil).key) == keyHex(3))
        #expect(watcher.summaries.filter { $0.hasPrefix("requested") }.count == 1)
    }

    @Test func theRequestCarriesWhatTheDemandSays() async {
        let session = KeySession()
        let watcher = Watcher(session)
        let data = InitializationData(
            system: .clearKey, bytes: Array(#"{"kids":["qqqqqqqqqqoAAAAAAAAAAQ"]}"#.utf8), origin: "dash/mpd")
        #expect(data.keyIDs == [keyID(1)])
        session.demand(
            KeyDemand(
                keyIDs: data.keyIDs, keySystem: .clearKey, initializationData: [data], suggestedURL: "https://host/l",
                origin: watcher.id))
        guard case .requested(let request, let origin)? = await watcher.next(where: { $0.request != nil }) else {
            return
        }
        #expect(origin == watcher.id)
        #expect(request.initializationData == [data])
        #expect(request.suggestedURL == "https://host/l")
        #expect(request.keySystem == .clearKey)
        #expect(!request.isRenewal)
        #expect((try? ClearKey.keyIDs(inLicenseRequest: request.challenge)) == [keyID(1)])
    }

    @Test func unknownRequestsAreNotAnswered() {
        let session = KeySession()
        #expect(!session.respond(toRequest: .max, with: .success(.keys([keyID(1): contentKey(1)]))))
        #expect(!session.respond(toRequest: 0, with: .failure(.denied(""))))
        #expect(!session.fail(requestID: .max, with: .denied("")))
        #expect(session.status(of: keyID(1)).isAbsent)
    }

    @Test func eventsComeInOrderToEveryObserverAlsoWhenOneCallsBack() {
        let session = KeySession()
        let first = Mutex<[String]>([])
        let second = Mutex<[String]>([])
        let one = session.observe { [weak session] event in
            first.withLock { $0.append(event.summary) }
            if case .requested(let request, _) = event {
                session?.install([keyID(8): contentKey(8), keyID(9): contentKey(9)])
                request.finishLoading(with: .denied(""))
            }
        }
        let two = session.observe { event in second.withLock { $0.append(event.summary) } }
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        let expected = ["requested 1", "usable 2", "failed 1: denied"]
        #expect(first.withLock(\.self) == expected)
        #expect(second.withLock(\.self) == expected)
        two.cancel()
        session.install([keyID(3): contentKey(3)])
        #expect(first.withLock(\.count) == 4)
        #expect(second.withLock(\.count) == 3)
        one.cancel()
        #expect(one.id != two.id)
    }

    @Test func theFateOfAKeyIsToldOnceObserversHaveHeardOfIt() async throws {
        let session = KeySession()
        let duringEvents = Mutex<[Bool]>([])
        let observation = session.observe { [weak session] event in
            guard event.isFailed, let session else { return }
            duringEvents.withLock { $0.append(session.hasToldFate(of: keyID(1))) }
        }
        defer { observation.cancel() }
        #expect(session.hasToldFate(of: keyID(1)))
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        await session.told()
        #expect(!session.hasToldFate(of: keyID(1)))
        session.fail(requestID: try #require(session.status(of: keyID(1)).requestID), with: .denied(""))
        await session.told()
        #expect(session.hasToldFate(of: keyID(1)))
        // Who asks for it now hears no more of it.
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        #expect(session.hasToldFate(of: keyID(1)))
        #expect(duringEvents.withLock(\.self) == [false])
    }

    @Test func anObservationEndsWithItsLastReference() {
        let session = KeySession()
        let count = Atomic<Int>(0)
        var observation: KeyObservation? = session.observe { _ in count.add(1, ordering: .relaxed) }
        session.install([keyID(1): contentKey(1)])
        #expect(observation != nil)
        observation = nil
        session.install([keyID(2): contentKey(2)])
        #expect(count.load(ordering: .relaxed) == 1)
    }

    /// Readers that keep a key while the revision stands must never keep one past the close.
    @Test func theRevisionNeverHidesAChange() {
        let session = KeySession()
        let stale = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: 4) { worker in
            if worker == 0 {
                for number in 0..<2_000 { session.install([keyID(1): contentKey(number)]) }
                session.close(.sessionClosed(""))
            } else {
                for _ in 0..<2_000 {
                    let revision = session.revision
                    let key = session.status(of: keyID(1)).key
                    let again = session.status(of: keyID(1)).key
                    if session.revision == revision, hex(key) != hex(again) { stale.add(1, ordering: .relaxed) }
                }
            }
        }
        #expect(stale.load(ordering: .relaxed) == 0)
        #expect(session.status(of: keyID(1)).key == nil)
    }

    @Test func everythingAtOnceEndsSound() async {
        let session = KeySession(loaders: [
            CallbackLoader { request in
                let keys = request.keyIDs.reduce(into: [KeyID: ContentKey]()) { $0[$1] = contentKey(1) }
                Task { request.finishLoading(with: .keys(keys)) }
                return true
            }
        ])
        let watcher = Watcher(session)
        DispatchQueue.concurrentPerform(iterations: 400) { worker in
            session.demand(KeyDemand(keyIDs: [keyID(worker % 37), keyID(worker % 11)], retryFailuresUpTo: .max))
            _ = session.status(of: keyID(worker % 37))
            if worker % 50 == 0, let id = session.status(of: keyID(worker % 37)).requestID {
                session.fail(requestID: id, with: .timedOut(""))
            }
        }
        session.demand(KeyDemand(keyIDs: (0..<37).map { keyID($0) }, retryFailuresUpTo: .max))
        var open = Set((0..<37).filter { session.status(of: keyID($0)).key == nil })
        while !open.isEmpty {
            _ = await watcher.next(where: \.isUsable)
            open = open.filter { session.status(of: keyID($0)).key == nil }
        }
        #expect((0..<37).allSatisfy { session.status(of: keyID($0)).key != nil })
    }
}
