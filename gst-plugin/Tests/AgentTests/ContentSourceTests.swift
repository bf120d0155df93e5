// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection
import Synchronization
import Testing

@testable import Latchkey

/// A network that fails while content is looked at.
@Suite struct ContentSourceTests {
    private static let url = "https://media.example/a.mp4?token=secret"

    enum Step {
        /// The first bytes come, and then this happens.
        case breaks(HTTPError)
        case fails(HTTPError)
        case answers(Int)
    }

    /// Answers by a script, whose last step counts for all that follows.
    private final class Network: HTTPTransport {
        private let script: [Step]
        private let count = Mutex(0)
        private let last = Mutex<HTTPRequest?>(nil)

        init(_ script: [Step]) { self.script = script }

        var requestCount: Int { count.withLock { $0 } }
        var lastRequest: HTTPRequest? { last.withLock { $0 } }

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            var body: [UInt8] = []
            return try take(request) { _, piece in body += piece }.with(body)
        }

        func send(
            _ request: HTTPRequest, through gate: HTTPBodyGate?, to receiver: @escaping HTTPBodyReceiver
        ) async throws(HTTPError) -> HTTPResponse {
            try take(request, receiver)
        }

        private func take(
            _ request: HTTPRequest, _ receiver: (HTTPResponse, [UInt8]) -> Void
        ) throws(HTTPError) -> HTTPResponse {
            last.withLock { $0 = request }
            let index = count.withLock { count in
                defer { count += 1 }
                return min(count, script.count - 1)
            }
            switch script[index] {
            case .breaks(let error):
                receiver(HTTPResponse(status: 206, url: request.url), [1, 2])
                throw error
            case .fails(let error): throw error
            case .answers(let status):
                let head = HTTPResponse(status: status, url: request.url)
                if 200..<300 ~= status {
                    receiver(head, [1, 2])
                    receiver(head, [3])
                }
                return head
            }
        }
    }

    private final class Clock: Sendable {
        private let start = ContinuousClock.now
        private let slept = Mutex<[Duration]>([])

        var pauses: [Duration] { slept.withLock { $0 } }
        var now: ContinuousClock.Instant { start + pauses.reduce(.zero, +) }

        func sleep(_ pause: Duration) { slept.withLock { $0.append(pause) } }
    }

    private struct Run {
        var bytes: [UInt8]?
        var error: AgentError?
        var requestCount: Int
        var pauses: [Duration]
        var outages: [String]
    }

    private func run(_ script: [Step], limit: Duration = .seconds(300), isPart: Bool = true) async -> Run {
        let (network, clock) = (Network(script), Clock())
        let outages = Mutex<[String]>([])
        var source = ContentSource(transport: network)
        source.outageLimit = limit
        source.onOutage = { outage in outages.withLock { $0.append("\(outage)") } }
        source.now = { clock.now }
        source.sleep = { clock.sleep($0) }
        var run = Run(requestCount: 0, pauses: [], outages: [])
        do throws(AgentError) {
            let answer =
                isPart
                ? try await source.part(Self.url, offset: 0, count: 65_536)
                : try await source.whole(Self.url, limit: 65_536)
            run.bytes = answer.bytes
        } catch {
            run.error = error
        }
        run.requestCount = network.requestCount
        run.pauses = clock.pauses
        run.outages = outages.withLock { $0 }
        return run
    }

    /// The connection breaks in the first bytes, and the network comes back after some attempts.
    @Test(arguments: [true, false]) func anOutageIsWaitedFor(isPart: Bool) async {
        let run = await run(
            [
                .breaks(.truncated(Self.url)), .fails(.refused(Self.url)), .fails(.unresolvedHost(Self.url)),
                .fails(.truncated(Self.url)), .fails(.tls(Self.url)), .answers(503), .answers(200),
            ], isPart: isPart)
        #expect(run.bytes == [1, 2, 3], "\(run)")
        #expect(run.requestCount == 7)
        #expect(run.pauses == Array(repeating: .seconds(1), count: 6))
        #expect(run.outages.count == 1 && run.outages[0].hasPrefix("unreachable: "), "\(run.outages)")
        #expect(run.outages.allSatisfy { !$0.contains("secret") }, "\(run.outages)")
    }

    /// A connection that stays, and brings nothing more.
    @Test func aSilentConnectionIsGivenUp() async {
        let run = await run([.breaks(.timedOut(Self.url)), .answers(200)])
        #expect(run.bytes == [1, 2, 3] && run.requestCount == 2, "\(run)")
    }

    @Test func anOutageLastsNoLongerThanItMay() async {
        let run = await run([.breaks(.truncated(Self.url))], limit: .seconds(3))
        #expect(run.error?.code == .unreachable, "\(run)")
        #expect(run.requestCount == 4 && run.pauses.count == 3 && run.outages.count == 1)
        let busy = await self.run([.breaks(.truncated(Self.url)), .answers(502)], limit: .seconds(3))
        #expect(busy.error?.httpStatus == 502 && busy.requestCount == 4, "\(busy)")
    }

    /// What was never there is not waited for.
    @Test func nothingIsWaitedForBeforeSomethingCame() async {
        let steps: [Step] = [
            .fails(.refused(Self.url)), .fails(.unresolvedHost(Self.url)), .fails(.timedOut(Self.url)),
            .fails(.truncated(Self.url)), .fails(.untrusted(Self.url)), .answers(404), .answers(403), .answers(503),
        ]
        for step in steps {
            let run = await run([step])
            #expect(run.error != nil && run.requestCount == 1 && run.pauses.isEmpty && run.outages.isEmpty, "\(step)")
        }
    }

    /// What stays as it is ends an outage, too.
    @Test func whatDoesNotPassIsNotWaitedFor() async {
        let steps: [(Step, AgentError.Code)] = [
            (.answers(404), .serverError), (.fails(.untrusted(Self.url)), .unreachable),
            (.fails(.tooLarge(Self.url)), .invalidContent), (.fails(.cancelled(Self.url)), .cancelled),
        ]
        for (step, code) in steps {
            let run = await run([.breaks(.truncated(Self.url)), step])
            #expect(run.error?.code == code && run.requestCount == 2 && run.pauses.count == 1, "\(step): \(run)")
        }
    }

    @Test func withoutALimitThereIsOneAttempt() async {
        let run = await run([.breaks(.truncated(Self.url)), .answers(200)], limit: .zero)
        #expect(run.error?.code == .unreachable && run.requestCount == 1 && run.outages.isEmpty, "\(run)")
        var source = ContentSource(transport: Network([.breaks(.truncated(Self.url)), .answers(200)]))
        source.outageLimit = .seconds(300)
        #expect(source.once.outageLimit == .zero && source.outageLimit == .seconds(300))
    }

    /// Bytes that come, however slowly, are waited for, and what is silent is given up as before.
    @Test(arguments: [(300, 300, 20), (3, 20, 20), (0, 20, nil)])
    func aSlowNetworkIsNoOutage(limit: Int, timeout: Int, stallTimeout: Int?) async throws {
        let network = Network([.answers(200)])
        var source = ContentSource(transport: network)
        source.outageLimit = .seconds(limit)
        _ = try await source.whole(Self.url, limit: 8)
        let request = try #require(network.lastRequest)
        #expect(request.timeout == .seconds(timeout) && request.stallTimeout == stallTimeout.map { .seconds($0) })
    }

    @Test func aWaitEndsWithItsAgent() async throws {
        let core = AgentCore(contentURL: Self.url, type: .mp4, configuration: Agent.Configuration())
        try await core.sleep(.zero)
        core.release()
        await #expect(throws: CancellationError.self) { try await core.sleep(.zero) }
    }

    /// And not only after the limit.
    @Test(.timeLimit(.minutes(8))) func aWaitEndsWithItsTask() async {
        var source = ContentSource(transport: Network([.breaks(.truncated(Self.url))]))
        source.outageLimit = .seconds(3600)
        let (waits, waiting) = AsyncStream.makeStream(of: Void.self)
        source.sleep = { _ in
            waiting.yield()
            try await Task.sleep(for: .seconds(3600))
        }
        let task = Task { [source] () -> AgentError.Code? in
            do throws(AgentError) {
                _ = try await source.part(Self.url, offset: 0, count: 8)
                return nil
            } catch {
                return error.code
            }
        }
        for await _ in waits { break }
        task.cancel()
        #expect(await task.value == .cancelled)
    }
}

extension HTTPResponse {
    fileprivate func with(_ body: [UInt8]) -> HTTPResponse {
        var response = self
        response.body = body
        return response
    }
}
