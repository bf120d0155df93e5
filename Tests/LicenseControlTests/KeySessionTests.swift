// SPDX-License-Identifier: MPL-2.0

import Dispatch
import Foundation
import KeySystems
import LicenseControl
import ProtectionModel
import Synchronization
import Testing

@Suite("Key session", .timeLimit(.minutes(1)))
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
        DispatchQueue.concurrentPerform(iterations: 200) { _ in session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2)])) }
        let request = await watcher.next { $0.request != nil }?.request
        #expect(request?.keyIDs == [keyID(1), keyID(2)])
        #expect(session.status(of: keyID(1)).requestID == request?.id)
        request?.finishLoading(with: .keys([keyID(1): contentKey(1), keyID(2): contentKey(2)]))
        DispatchQueue.concurrentPerform(iterations: 200) { _ in session.demand(KeyDemand(keyIDs: [keyID(2)])) }
        #expect(watcher.summaries == ["requested 2", "usable 2"])
        #expect(hex(session.status(of: keyID(2)).key) == keyHex(2))
    }

    @Test func loadersAreAskedInOrderUntilOneTakesIt() async {
        let asked = Mutex<[String]>([])
        func loader(_ name: String, takes: Bool) -> CallbackLoader {
            CallbackLoader(name: name) { request in
                asked.withLock { $0.append(name) }
                if takes { request.finishLoading(with: .keys([keyID(1): contentKey(1)])) }
                return takes
            }
        }
        let session = KeySession(loaders: [loader("session 1", takes: false)])
        session.addLoader(loader("session 2", takes: true))
        session.addLoader(loader("session 3", takes: true))
        let watcher = Watcher(session)
        session.demand(
            KeyDemand(keyIDs: [keyID(1)], loaders: [loader("own 1", takes: false), loader("own 2", takes: false)]))
        _ = await watcher.next(where: \.isUsable)
        #expect(asked.withLock(\.self) == ["own 1", "own 2", "session 1", "session 2"])
    }

    @Test func loadersAreNotAskedOnTheDemandingThread() async {
        let threads = Signal<UInt>()
        let session = KeySession(loaders: [
            CallbackLoader { _ in
                threads.send(UInt(pthread_self()))
                return false
            }
        ])
        let demanding = Signal<UInt>()
        let mayEnd = DispatchSemaphore(value: 0)
        let thread = Thread {
            session.demand(KeyDemand(keyIDs: [keyID(1)]))
            demanding.send(UInt(pthread_self()))
            mayEnd.wait()
        }
        thread.start()
        let asking = await threads.wait()
        let caller = await demanding.wait()
        mayEnd.signal()
        #expect(asking != nil)
        #expect(asking != caller)
    }

    @Test func aRequestThatNobodyTakesWaitsForTheApplication() async throws {
        let session = KeySession(loaders: [CallbackLoader { _ in false }])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], origin: 42))
        guard case .untaken(let request, let origin)? = await watcher.next(where: \.isUntaken) else {
            Issue.record("no event")
            return
        }
        #expect(origin == 42)
        #expect(session.status(of: keyID(1)).requestID == request.id)
        #expect(!request.isFinished)
        #expect(session.respond(toRequest: request.id, with: .success(.keys([keyID(1): contentKey(1)]))))
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
        #expect(request.isFinished)
        #expect(watcher.summaries == ["requested 1", "untaken 1", "usable 1"])
    }

    @Test func aLoaderThatComesLaterIsOfferedWhatNobodyTook() async {
        let session = KeySession()
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isUntaken)
        session.addLoader(CallbackLoader { $0.finishLoading(with: .keys([keyID(1): contentKey(1)])) })
        _ = await watcher.next(where: \.isUsable)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
    }

    @Test func theLoadersOfASecondDemandSeeTheRequestOfTheFirst() async {
        let session = KeySession()
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isUntaken)
        let loader = CallbackLoader { $0.finishLoading(with: .keys([keyID(1): contentKey(1)])) }
        session.demand(KeyDemand(keyIDs: [keyID(1)], loaders: [loader]))
        _ = await watcher.next(where: \.isUsable)
        #expect(watcher.summaries == ["requested 1", "untaken 1", "usable 1"])
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
        #expect(watcher.summaries.suffix(2) == ["usable 1", "failed 1: key not in response"])
        #expect(session.status(of: keyID(1)).error?.description.contains(keyID(1).description) == true)
        #expect(session.status(of: keyID(2)).key != nil)
    }

    @Test func keysAfterTheDeadlineCount() async {
        let told = Signal<UInt64>()
        let taken = Signal<KeyLoadingRequest>()
        let session = KeySession(loaders: [
            CallbackLoader(onCancel: { told.send($0.id) }) { request in
                taken.send(request)
                return true
            }
        ])
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        guard let request = await taken.wait() else { return }
        #expect(session.fail(requestID: request.id, with: .timedOut("10 s")))
        #expect(!session.fail(requestID: request.id, with: .timedOut("10 s")))
        #expect(await told.wait() == request.id)
        #expect(request.isCancelled)
        #expect(session.status(of: keyID(1)).error == .timedOut("10 s"))
        #expect(request.finishLoading(with: .keys([keyID(1): contentKey(1)])))
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
    }

    @Test func closingCancelsAndTellsTheLoaderThatTookIt() async {
        let told = Signal<UInt64>()
        let taken = Signal<KeyLoadingRequest>()
        let session = KeySession(loaders: [
            CallbackLoader(onCancel: { told.send($0.id) }) { request in
                taken.send(request)
                return true
            }
        ])
        let watcher = Watcher(session)
        session.install([keyID(7): contentKey(7)])
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        guard let request = await taken.wait() else { return }
        let revision = session.revision
        session.close(.sessionClosed("the viewer left"))
        #expect(session.revision != revision)
        #expect(session.status(of: keyID(7)).key == nil)
        #expect(await told.wait() == request.id)
        #expect(request.isCancelled)
        #expect(!request.finishLoading(with: .keys([keyID(1): contentKey(1)])))
        #expect(!session.respond(toRequest: request.id, with: .success(.keys([keyID(1): contentKey(1)]))))
        session.install([keyID(1): contentKey(1)])
        session.install(keyWithoutID: contentKey(1))
        #expect(session.status(of: keyID(1)).error == .sessionClosed("the viewer left"))
        #expect(session.status(of: nil).key == nil)
        session.demand(KeyDemand(keyIDs: [keyID(2)]))
        #expect(
            watcher.summaries == [
                "usable 1", "requested 1", "failed 1: session closed", "closed: session closed",
                "failed 1: session closed",
            ])
    }

    @Test func aLoaderThatTakesACancelledRequestIsTold() async {
        let told = Signal<KeyLoadingRequest>()
        let session = KeySession()
        session.addLoader(
            CallbackLoader(onCancel: { told.send($0) }) { [weak session] _ in
                session?.close(.sessionClosed(""))
                return true
            })
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        let request = await told.wait()
        #expect(request?.keyIDs == [keyID(1)])
        #expect(request?.isCancelled == true)
    }

    @Test func theLoaderIsToldWhenSomebodyElseAnswers() async {
        let told = Signal<UInt64>()
        let taken = Signal<KeyLoadingRequest>()
        let session = KeySession(loaders: [
            CallbackLoader(onCancel: { told.send($0.id) }) { request in
                taken.send(request)
                return true
            }
        ])
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        let request = await taken.wait()
        session.install([keyID(1): contentKey(1)])
        #expect(await told.wait() == request?.id)
        #expect(request?.isCancelled == true)
    }

    @Test func aSessionThatGoesCancelsItsRequests() async {
        let told = Signal<UInt64>()
        let taken = Signal<KeyLoadingRequest>()
        let loader = CallbackLoader(onCancel: { told.send($0.id) }) { request in
            taken.send(request)
            return true
        }
        var session: KeySession? = KeySession(loaders: [loader])
        weak let gone = session
        let watcher = session.map { Watcher($0) }
        session?.demand(KeyDemand(keyIDs: [keyID(1)]))
        let request = await taken.wait()
        session = nil
        #expect(await told.wait() == request?.id)
        #expect(gone == nil)
        #expect(request?.isCancelled == true)
        #expect(request?.missingKeyIDs == [])
        #expect(request?.finishLoading(with: .keys([keyID(1): contentKey(1)])) == false)
        watcher?.cancel()
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
        guard case .requested(let request, let origin)? = await watcher.next(where: { $0.request != nil }) else { return }
        #expect(origin == watcher.id)
        #expect(request.initializationData == [data])
        #expect(request.suggestedURL == "https://host/l")
        #expect(request.keySystem == .clearKey)
        #expect(!request.isRenewal)
        #expect((try? ClearKey.keyIDs(inLicenseRequest: request.challenge)) == [keyID(1)])
    }

    @Test func aLicenceIsOpenedByTheKeySystem() async {
        let session = KeySession()
        let watcher = Watcher(session)
        let license = ClearKey.license(for: [keyID(1): contentKey(1)])
        session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: .clearKey))
        let first = await watcher.next { $0.request != nil }?.request
        first?.finishLoading(with: .license(license))
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))

        session.demand(KeyDemand(keyIDs: [keyID(2)], keySystem: .clearKey))
        let second = await watcher.next { $0.request != nil }?.request
        #expect(session.respond(toRequest: second?.id ?? 0, with: .success(.license(Array("<html>".utf8)))))
        #expect(session.status(of: keyID(2)).error?.isSameKind(as: .malformedResponse("")) == true)

        session.demand(KeyDemand(keyIDs: [keyID(3)], keySystem: .fairPlay))
        let third = await watcher.next { $0.request != nil }?.request
        #expect(third?.challenge == [])
        third?.finishLoading(with: .license(license))
        #expect(session.status(of: keyID(3)).error?.description.contains("fairplay") == true)
    }

    @Test func aLoaderCanHandOverPartAndLeaveTheRest() async {
        let seen = Mutex<[KeyID]>([])
        let session = KeySession(loaders: [
            CallbackLoader { request in
                request.provide([keyID(1): contentKey(1)])
                return false
            },
            CallbackLoader { request in
                seen.withLock { $0 = request.missingKeyIDs }
                return request.finishLoading(with: .keys([keyID(2): contentKey(2)]))
            },
        ])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2)]))
        _ = await watcher.next(where: \.isUsable)
        _ = await watcher.next(where: \.isUsable)
        #expect(seen.withLock(\.self) == [keyID(2)])
        #expect(session.status(of: keyID(1)).key != nil)
        #expect(session.status(of: keyID(2)).key != nil)
        #expect(watcher.summaries == ["requested 2", "usable 1", "usable 1"])
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
