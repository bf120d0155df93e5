// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection
import Testing

@Suite("Ends of requests and sessions", .timeLimit(.minutes(8)))
struct KeySessionEndTests {
    @Test func keysAfterTheDeadlineAreKeptAndAnswerNobody() async {
        let loader = HoldingLoader()
        let session = KeySession(loaders: [loader])
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        guard let request = await loader.taken.wait() else { return }
        #expect(session.fail(requestID: request.id, with: .timedOut("10 s")))
        #expect(!session.fail(requestID: request.id, with: .timedOut("10 s")))
        #expect(await loader.told.wait() == request.id)
        #expect(request.isCancelled)
        #expect(session.status(of: keyID(1)).error == .timedOut("10 s"))
        #expect(request.isFinished)
        #expect(!request.finishLoading(with: .keys([keyID(1): contentKey(1)])))
        #expect(request.isFinished)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
    }

    @Test func closingCancelsAndTellsTheLoaderThatTookIt() async {
        let loader = HoldingLoader()
        let session = KeySession(loaders: [loader])
        let watcher = Watcher(session)
        session.install([keyID(7): contentKey(7)])
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        guard let request = await loader.taken.wait() else { return }
        let revision = session.revision
        session.close(.sessionClosed("the viewer left"))
        #expect(session.revision != revision)
        #expect(session.status(of: keyID(7)).key == nil)
        #expect(await loader.told.wait() == request.id)
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
        let loader = HoldingLoader()
        let session = KeySession(loaders: [loader])
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        let request = await loader.taken.wait()
        session.install([keyID(1): contentKey(1)])
        #expect(await loader.told.wait() == request?.id)
        #expect(request?.isCancelled == true)
        #expect(request?.finishLoading(with: .keys([keyID(1): contentKey(2)])) == false)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
    }

    @Test func aSessionThatGoesCancelsItsRequests() async {
        let loader = HoldingLoader()
        var session: KeySession? = KeySession(loaders: [loader])
        weak let gone = session
        let watcher = session.map { Watcher($0) }
        session?.demand(KeyDemand(keyIDs: [keyID(1)]))
        let request = await loader.taken.wait()
        session = nil
        #expect(await loader.told.wait() == request?.id)
        #expect(gone == nil)
        #expect(request?.isCancelled == true)
        #expect(request?.missingKeyIDs == [])
        #expect(request?.finishLoading(with: .keys([keyID(1): contentKey(1)])) == false)
        watcher?.cancel()
    }
}

/// Takes every request and never answers it.
private final class HoldingLoader: ResourceLoader {
    let name = "holding"
    let taken = Signal<KeyLoadingRequest>()
    /// The ids of those that were cancelled.
    let told = Signal<UInt64>()

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        taken.send(request)
        return true
    }

    func didCancel(_ request: KeyLoadingRequest) { told.send(request.id) }
}
