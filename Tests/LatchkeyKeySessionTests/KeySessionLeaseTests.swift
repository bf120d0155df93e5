// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

@Suite("Leases of a session", .timeLimit(.minutes(8)))
struct KeySessionLeaseTests {
    /// A loader that answers with the next of its answers, and remembers.
    private final class LeaseLoader: ResourceLoader {
        let name = "lease"
        private let state = Mutex<(requests: [KeyLoadingRequest], calls: [String])>(([], []))
        private let answer: @Sendable (KeyLoadingRequest, Int) -> Result<KeyAnswer, KeyError>?
        private let retries: Bool

        init(
            retries: Bool = false,
            _ answer: @escaping @Sendable (KeyLoadingRequest, Int) -> Result<KeyAnswer, KeyError>?
        ) {
            self.retries = retries
            self.answer = answer
        }

        var requests: [KeyLoadingRequest] { state.withLock(\.requests) }
        var calls: [String] { state.withLock(\.calls) }

        private func note(_ call: String) { state.withLock { $0.calls.append(call) } }

        private func load(_ request: KeyLoadingRequest) -> Bool {
            let count = state.withLock { state in
                state.requests.append(request)
                return state.requests.count
            }
            switch answer(request, count) {
            case .success(let answer): request.finishLoading(with: answer)
            case .failure(let error): request.finishLoading(with: error)
            case nil: break
            }
            return true
        }

        func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
            note("load")
            return load(request)
        }

        func shouldWaitForRenewal(of request: KeyLoadingRequest) -> Bool {
            note("renew")
            return load(request)
        }

        func didCancel(_ request: KeyLoadingRequest) { note("cancel") }

        func shouldRetry(_ request: KeyLoadingRequest, reason: KeyRetryReason) -> Bool {
            note("retry \(reason)?")
            return retries
        }

        func didSucceed(_ request: KeyLoadingRequest) { note("succeeded") }
        func didFail(_ request: KeyLoadingRequest, with error: KeyError) { note("failed: \(error.shortDescription)") }
    }

    private func lease(_ seconds: Int, key number: Int = 1) -> Result<KeyAnswer, KeyError> {
        .success(.limited(.keys([keyID(1): contentKey(number)]), KeyTerms(lease: .seconds(seconds))))
    }

    @Test func theTimerRenewsAndReplacesTheKeyWithoutAGap() async {
        let clock = ManualClock()
        let loader = LeaseLoader { [self] _, count in lease(10, key: count) }
        let session = KeySession(loaders: [loader], clock: clock.clock)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: .fairPlay, suggestedURL: "https://host/"))
        _ = await watcher.next(where: \.isUsable)
        for round in 1...5 {
            #expect(hex(session.status(of: keyID(1)).key) == keyHex(round))
            let revision = session.revision
            clock.advance(by: .seconds(8))
            #expect(session.status(of: keyID(1)).key != nil)
            _ = await watcher.next(where: \.isUsable)
            #expect(session.revision != revision)
        }
        #expect(loader.requests.map(\.isRenewal) == [false, true, true, true, true, true])
        #expect(Set(loader.requests.map(\.suggestedURL)) == ["https://host/"])
        #expect(Set(loader.requests.map(\.keySystem)) == [.fairPlay])
        #expect(loader.requests.first?.status == .renewed)
        #expect(loader.requests.last?.status == .receivedResponse)
        #expect(loader.calls.prefix(4) == ["load", "succeeded", "renew", "succeeded"])
        #expect(!watcher.events.contains { $0.isExpired })
    }

    @Test func theEndComesFromTheTimer() async {
        let clock = ManualClock()
        let loader = LeaseLoader { [self] request, _ in request.isRenewal ? nil : lease(10) }
        let session = KeySession(loaders: [loader], clock: clock.clock)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isUsable)
        #expect(session.status(of: keyID(1)).key != nil)
        clock.advance(by: .seconds(8))
        _ = await watcher.next { $0.request?.isRenewal == true }
        let revision = session.revision
        clock.advance(by: .seconds(2))
        let event = await watcher.next(where: \.isExpired)
        guard case .expired(let keyIDs, let error, let wasInUse)? = event else { return }
        #expect(keyIDs == [keyID(1)])
        #expect(error.isSameKind(as: .leaseExpired("")))
        #expect(wasInUse)
        #expect(session.revision != revision)
        #expect(session.status(of: keyID(1)).error?.isSameKind(as: .leaseExpired("")) == true)
    }

    @Test func aLateTimerDoesNotLendAKey() async {
        let clock = ManualClock()
        var slow = clock.clock
        slow.sleep = { _ in
            let (never, continuation) = AsyncStream.makeStream(of: Void.self)
            for await _ in never {}
            withExtendedLifetime(continuation) {}
        }
        let session = KeySession(loaders: [], clock: slow)
        session.install([keyID(1): contentKey(1)], terms: KeyTerms(lease: .seconds(10)))
        #expect(session.status(of: keyID(1)).key != nil)
        clock.advance(by: .seconds(10))
        #expect(session.status(of: keyID(1)).error?.isSameKind(as: .leaseExpired("")) == true)
    }

    @Test func noTimerOutlivesItsSession() async {
        let clock = ManualClock()
        let ended = Signal<Bool>()
        var watched = clock.clock
        let sleep = watched.sleep
        watched.sleep = { deadline in
            do {
                try await sleep(deadline)
            } catch {
                ended.send(true)
                throw error
            }
        }
        var session: KeySession? = KeySession(loaders: [], clock: watched)
        session?.install([keyID(1): contentKey(1)], terms: KeyTerms(lease: .seconds(10)))
        session = nil
        #expect(await ended.wait() == true)
        #expect(clock.sleepers == 0)
    }

    @Test func renewingOnDemandNeedsNoLease() async {
        let loader = LeaseLoader { request, count in
            .success(.keys([keyID(1): contentKey(count)]))
        }
        let session = KeySession(loaders: [loader])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isUsable)
        guard let request = loader.requests.first else { return }
        #expect(request.status == .receivedResponse)
        #expect(session.renewExpiringResponseData(for: request))
        _ = await watcher.next(where: \.isUsable)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(2))
        #expect(request.status == .renewed)
        let other = KeySession()
        #expect(!other.renewExpiringResponseData(for: request))
    }

    @Test func aTimeoutIsRetriedWhileTheLoaderWants() async {
        let loader = LeaseLoader(retries: true) { [self] _, count in
            count < 3 ? .failure(.timedOut("")) : lease(10)
        }
        let session = KeySession(loaders: [loader])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isUsable)
        #expect(loader.requests.map(\.attempt) == [1, 2, 3])
        #expect(loader.requests.map(\.status) == [.retried, .retried, .receivedResponse])
        #expect(watcher.summaries == ["requested 1", "requested 1", "requested 1", "usable 1"])
    }

    @Test func retriesEnd() async {
        let loader = LeaseLoader(retries: true) { [self] _, _ in lease(0) }
        let session = KeySession(loaders: [loader])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isFailed)
        #expect(loader.requests.count == KeyLoadingRequest.maximumAttempts)
        #expect(loader.requests.last?.status == .failed)
        #expect(session.status(of: keyID(1)).error?.isSameKind(as: .leaseExpired("")) == true)
        #expect(loader.calls.contains("retry receivedResponseWithExpiredLease?"))
        #expect(loader.calls.last == "failed: lease expired")
    }

    @Test func aDenialIsNotRetried() async {
        let loader = LeaseLoader(retries: true) { _, _ in .failure(.denied("no")) }
        let session = KeySession(loaders: [loader])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isFailed)
        #expect(loader.calls == ["load", "failed: denied"])
        #expect(loader.requests.first?.status == .failed)
    }

    @Test func anObsoleteRenewalIsNotTaken() async {
        let clock = ManualClock()
        let loader = LeaseLoader { [self] request, _ in lease(request.isRenewal ? 1 : 100) }
        let session = KeySession(loaders: [loader], clock: clock.clock)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isUsable)
        _ = session.status(of: keyID(1))
        clock.advance(by: .seconds(80))
        _ = await watcher.next { $0.summary == "renewal failed 1: lease expired" }
        #expect(loader.calls.contains("retry receivedObsoleteContentKey?"))
        clock.advance(by: .seconds(2))
        #expect(session.status(of: keyID(1)).key != nil)
    }

    @Test func aSecondFinishIsLogged() async {
        let log = Mutex<[String]>([])
        var configuration = KeySessionConfiguration()
        configuration.log = { line in log.withLock { $0.append(line) } }
        let session = KeySession(configuration: configuration)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        guard let request = await watcher.next(where: { $0.request != nil })?.request else { return }
        #expect(request.status == .requestingResponse)
        #expect(request.finishLoading(with: .keys([keyID(1): contentKey(1)])))
        #expect(log.withLock(\.self) == [])
        #expect(!request.finishLoading(with: .denied("")))
        #expect(!request.finishLoading(with: .keys([keyID(1): contentKey(2)])))
        let lines = log.withLock(\.self)
        #expect(lines.count == 2)
        #expect(lines.allSatisfy { $0.contains("key request \(request.id)") && !$0.contains(keyHex(2)) })
        #expect(request.status == .receivedResponse)
    }

    @Test func anAnswerThatCannotBeOpenedMakesTheRequestFail() async {
        let loader = LeaseLoader { _, _ in .success(.license([1, 2, 3])) }
        let session = KeySession(loaders: [loader])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: .clearKey))
        _ = await watcher.next(where: \.isFailed)
        #expect(loader.requests.first?.status == .failed)
        #expect(loader.calls == ["load", "failed: malformed response"])
    }

    @Test func anAnswerWithoutTheKeyFailsToo() async {
        let loader = LeaseLoader { _, _ in .success(.keys([keyID(2): contentKey(2)])) }
        let session = KeySession(loaders: [loader])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isFailed)
        #expect(loader.requests.first?.status == .failed)
        #expect(loader.calls.last == "failed: key not in response")
    }

    @Test func aCancelledRequestSaysSo() async {
        let loader = LeaseLoader { _, _ in nil }
        let session = KeySession(loaders: [loader])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        guard let request = await watcher.next(where: { $0.request != nil })?.request else { return }
        session.fail(requestID: request.id, with: .cancelled(""))
        #expect(request.status == .cancelled)
    }
}
