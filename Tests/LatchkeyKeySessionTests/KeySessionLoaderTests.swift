// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Dispatch
import Foundation
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@Suite("Key session and its loaders", .timeLimit(.minutes(8)))
struct KeySessionLoaderTests {
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
        await session.told()
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

    @Test func aLicenseIsOpenedByTheKeySystem() async {
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
}
