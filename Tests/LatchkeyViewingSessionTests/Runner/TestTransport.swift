// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization

/// A transport whose answers the test gives.
final class TestTransport: HTTPTransport {
    /// A request that waits for its answer. A cancelled one ends with `HTTPError.cancelled`.
    struct Exchange: Sendable {
        let request: HTTPRequest
        let server: String
        let answer: AsyncStream<Result<HTTPResponse, HTTPError>>.Continuation

        func respond(_ status: Int, _ body: String = "", headers: [HTTPHeader] = []) {
            answer.yield(
                .success(HTTPResponse(status: status, headers: headers, body: Array(body.utf8), url: request.url)))
        }

        func fail(_ error: HTTPError) { answer.yield(.failure(error)) }

        var body: String { String(decoding: request.body, as: UTF8.self) }
        /// `POST /sessions` and the like, behind the server's URL.
        var line: String { "\(request.method) \(request.url.dropFirst(server.count))" }
    }

    /// Another server for each test: sessions of one server wait for each other.
    let url = "https://sessions.example/\(UInt64.random(in: 0 ... .max))"

    private let exchanges: AsyncStream<Exchange>
    private let source: AsyncStream<Exchange>.Continuation
    private let sent = Mutex<[String]>([])

    init() { (exchanges, source) = AsyncStream.makeStream() }

    /// Every request so far, as `Exchange.line`.
    var lines: [String] { sent.withLock { $0 } }

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        let (answers, answer) = AsyncStream<Result<HTTPResponse, HTTPError>>.makeStream()
        let exchange = Exchange(request: request, server: url, answer: answer)
        sent.withLock { $0.append(exchange.line) }
        source.yield(exchange)
        for await result in answers { return try result.get() }
        throw .cancelled(request.url)
    }

    /// The next request that was sent.
    func next() async -> Exchange {
        for await exchange in exchanges { return exchange }
        fatalError("the stream of a test does not end")
    }
}
