// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementTestSupport
import LatchkeyHTTP
import LatchkeyManifests
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements
@testable import LatchkeyKeySession

/// Keys at their own URI, whose server has a problem.
@Suite(.timeLimit(.minutes(8)))
struct IdentityKeyTests {
    /// What the server does, one after the other; the last for ever.
    enum Answer: Sendable {
        case status(Int), refused, truncated, key, shortKey, keyBefore(String)
    }

    private final class Server: HTTPTransport {
        private let answers: [Answer]
        private let count = Mutex(0)

        init(_ answers: [Answer]) { self.answers = answers }

        var asked: Int { count.withLock(\.self) }

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            let number = count.withLock { count in
                defer { count += 1 }
                return count
            }
            switch answers[min(number, answers.count - 1)] {
            case .status(let status): return HTTPResponse(status: status, url: request.url)
            case .refused: throw .refused(request.url)
            case .truncated: throw .truncated(request.url)
            case .key: return HTTPResponse(status: 200, body: Array(1...16), url: request.url)
            case .shortKey: return HTTPResponse(status: 200, body: Array(1...15), url: request.url)
            case .keyBefore(let rest):
                return HTTPResponse(status: 200, body: Array(1...16) + Array(rest.utf8), url: request.url)
            }
        }
    }

    /// Time that passes in pauses alone.
    private final class Time: Sendable {
        private let start = ContinuousClock.now
        private let slept = Mutex<[Duration]>([])

        var pauses: [Duration] { slept.withLock(\.self) }
        var now: ContinuousClock.Instant { start + pauses.reduce(.zero, +) }
        func sleep(_ duration: Duration) { slept.withLock { $0.append(duration) } }
    }

    /// What becomes of a request, how often the server was asked, and the pauses between.
    private func outcome(
        _ answers: [Answer], timeout: Duration = .seconds(10)
    ) async throws -> (failure: HLSFailure?, asked: Int, pauses: [Duration]) {
        let (server, time, session) = (Server(answers), Time(), KeySession())
        let origin = HLSOrigin(transport: server)
        let loader = IdentityKeyLoader(
            origin: origin, timeout: timeout, now: { time.now }, sleep: { time.sleep($0) })
        session.addLoader(loader)
        defer { withExtendedLifetime(origin) { session.removeLoader(loader) } }
        let keys = HLSKeys(session: session, timeout: .seconds(240))
        do throws(HLSFailure) {
            let key = try await keys.contentKey(for: HLSKey(method: .aes128, uri: "https://a.test/key?token=secret"))
            #expect(key.withBytes { Array($0) } == Array(1...16))
            return (nil, server.asked, time.pauses)
        } catch {
            return (error, server.asked, time.pauses)
        }
    }

    @Test(arguments: [
        [Answer.key], [.status(500), .key], [.status(503), .refused, .key],
        [.truncated, .status(502), .status(500), .key],
    ])
    func problemsThatPassDoNotEndPlayback(_ answers: [Answer]) async throws {
        let outcome = try await outcome(answers)
        #expect(outcome.failure == nil && outcome.asked == answers.count)
        #expect(outcome.pauses == Array(IdentityKeyLoader.pauses.prefix(answers.count - 1)))
    }

    @Test(arguments: [Answer.status(500), .refused])
    func problemsThatStayAreTold(_ answer: Answer) async throws {
        let outcome = try await outcome([answer])
        #expect(outcome.asked == IdentityKeyLoader.pauses.count + 1 && outcome.pauses == IdentityKeyLoader.pauses)
        let text = try #require(outcome.failure).text
        #expect(text.contains("https://a.test/key") && !text.contains("secret"))
    }

    @Test(arguments: [Answer.status(401), .status(403), .status(404), .status(410), .status(429), .shortKey])
    func refusalsAreFinal(_ answer: Answer) async throws {
        let outcome = try await outcome([answer, .key])
        #expect(outcome.failure != nil && outcome.asked == 1 && outcome.pauses.isEmpty)
    }

    /// As of a key that is kept as a line of text. GStreamer's own demuxer takes the first 16 bytes, whatever is behind them.
    @Test(arguments: [
        ("\n", true), ("\r\n", true), ("\n\n", false), ("\r", false), (" ", false), ("\n12345678", false),
    ])
    func aLineEndBehindAKeyIsNoPartOfIt(rest: String, isKey: Bool) async throws {
        let outcome = try await outcome([.keyBefore(rest)])
        #expect((outcome.failure == nil) == isKey && outcome.asked == 1 && outcome.pauses.isEmpty)
    }

    // MARK: Several KIDs beside one URI

    private static let key = HLSKey(method: .aes128, uri: "https://a.test/key")

    /// Answers when the test says so.
    private final class HeldServer: HTTPTransport {
        let gate = AsyncStream.makeStream(of: Void.self)
        private let count = Mutex(0)

        var asked: Int { count.withLock(\.self) }

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            count.withLock { $0 += 1 }
            var iterator = gate.stream.makeAsyncIterator()
            _ = await iterator.next()
            return HTTPResponse(status: 200, body: Array(1...16), url: request.url)
        }
    }

    /// Returns when no request for these keys is under way.
    private static func answers(to keyIDs: [KeyID], in session: KeySession) async {
        let (changes, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observation = session.observe { _ in signal.yield() }
        defer { observation.cancel() }
        signal.yield()
        for await _ in changes {
            let isAwaited = keyIDs.contains { keyID in
                if case .pending = session.status(of: keyID) { true } else { false }
            }
            if !isAwaited { return }
        }
    }

    /// It counts as a refusal: the server has time, and brings no key.
    @Test(arguments: [Answer.status(204), .status(300), .shortKey])
    func anAnswerWithoutAKeyIsThatOfTheURI(_ answer: Answer) async throws {
        let (server, time, session) = (Server([answer, .key]), Time(), KeySession())
        let origin = HLSOrigin(transport: server)
        let loader = IdentityKeyLoader(
            origin: origin, timeout: .seconds(10), now: { time.now }, sleep: { time.sleep($0) })
        session.addLoader(loader)
        defer { withExtendedLifetime(origin) { session.removeLoader(loader) } }
        let keys = HLSKeys(session: session, timeout: .seconds(240))
        for number in [1, 2] as [UInt64] {
            let keyID = keys.keyID(of: Self.key, mediaKeyID: KeyID(high: 7, low: number))
            keys.demand(Self.key, as: keyID)
            await Self.answers(to: [keyID], in: session)
            #expect(!session.isAtHand(keyID))
        }
        #expect(server.asked == 1)
    }

    /// One request brings the answer for both, also if the second comes behind it. Another playback asks anew, for a key that was
    /// refused or for another one.
    @Test(arguments: [(0, 1), (9, 3)] as [(UInt64, UInt64)])
    func aRefusalIsThatOfTheURI(observer: UInt64, number: UInt64) async throws {
        let (server, time, session) = (Server([.status(403), .key]), Time(), KeySession())
        let origin = HLSOrigin(transport: server)
        let loader = IdentityKeyLoader(
            origin: origin, timeout: .seconds(10), now: { time.now }, sleep: { time.sleep($0) })
        session.addLoader(loader)
        defer { withExtendedLifetime(origin) { session.removeLoader(loader) } }
        let keys = HLSKeys(session: session, timeout: .seconds(240))
        for number in [1, 2] as [UInt64] {
            let keyID = keys.keyID(of: Self.key, mediaKeyID: KeyID(high: 7, low: number))
            keys.demand(Self.key, as: keyID)
            await Self.answers(to: [keyID], in: session)
            guard case .failed(let error, _) = session.status(of: keyID) else {
                throw TestFailure("it is not refused")
            }
            #expect(error.isSameKind(as: .serverStatus("")))
        }
        #expect(server.asked == 1)
        let next = HLSKeys(session: session, timeout: .seconds(240))
        next.setObserver(observer)
        let keyID = next.keyID(of: Self.key, mediaKeyID: KeyID(high: 7, low: number))
        next.demand(Self.key, as: keyID)
        await Self.answers(to: [keyID], in: session)
        #expect(session.isAtHand(keyID) && server.asked == 2)
    }

    @Test func aServerThatHasNoTimeForOneMayHaveSomeForTheNext() async throws {
        let (server, time, session) = (Server([.status(429), .key]), Time(), KeySession())
        let origin = HLSOrigin(transport: server)
        let loader = IdentityKeyLoader(
            origin: origin, timeout: .seconds(10), now: { time.now }, sleep: { time.sleep($0) })
        session.addLoader(loader)
        defer { withExtendedLifetime(origin) { session.removeLoader(loader) } }
        let keys = HLSKeys(session: session, timeout: .seconds(240))
        let keyIDs = ([1, 2] as [UInt64]).map { number in
            keys.keyID(of: Self.key, mediaKeyID: KeyID(high: 7, low: number))
        }
        for keyID in keyIDs {
            keys.demand(Self.key, as: keyID)
            await Self.answers(to: [keyID], in: session)
        }
        #expect(keyIDs.map { session.isAtHand($0) } == [false, true] && server.asked == 2)
    }

    @Test func aKeyComesOnceForAllThatWaitForIt() async throws {
        let (server, session) = (HeldServer(), KeySession())
        let origin = HLSOrigin(transport: server)
        let loader = IdentityKeyLoader(origin: origin, timeout: .seconds(240))
        let requests = Mutex<[KeyLoadingRequest]>([])
        let observation = session.observe { event in
            if case .requested(let request, _) = event { requests.withLock { $0.append(request) } }
        }
        let keys = HLSKeys(session: session, timeout: .seconds(240))
        let keyIDs = ([1, 2] as [UInt64]).map { number in
            keys.keyID(of: Self.key, mediaKeyID: KeyID(high: 7, low: number))
        }
        for keyID in keyIDs { keys.demand(Self.key, as: keyID) }
        let open = requests.withLock(\.self)
        #expect(open.count == 2 && open.allSatisfy { loader.shouldWaitForLoading(of: $0) })
        server.gate.continuation.yield()
        await Self.answers(to: keyIDs, in: session)
        #expect(keyIDs.allSatisfy { session.isAtHand($0) } && server.asked == 1)
        withExtendedLifetime((origin, observation)) {}
    }

    /// No one waits for the key any more.
    @Test func theKeyTimeoutEndsTheTries() async throws {
        let outcome = try await outcome([.status(503)], timeout: .milliseconds(600))
        #expect(outcome.failure != nil && outcome.asked == 2 && outcome.pauses == [.milliseconds(250)])
    }
}
