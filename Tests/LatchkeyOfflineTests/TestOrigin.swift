// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization

/// An origin in memory, with ranges and validators, that counts what is asked of it. Thread-safe.
final class TestOrigin: HTTPTransport {
    struct Request: Hashable, Sendable {
        var url: String
        var range: ClosedRange<Int>?
    }

    private struct State {
        var files: [String: [UInt8]] = [:]
        var validators: [String: String] = [:]
        var requests: [Request] = []
        var times: [(whole: Duration, stall: Duration?)] = []
        var running = 0
        var most = 0
        var isOff = false
        var fault: (@Sendable (Request) -> HTTPResponse?)?
        var gate: (@Sendable (Request) async -> Void)?
        var knowsRanges = true
        var breaksAfter: Int?
    }

    private let state: Mutex<State>

    init(_ files: [String: [UInt8]]) {
        state = Mutex(State(files: files))
    }

    var requests: [Request] { state.withLock { $0.requests } }
    /// How long each request may take, and how long nothing may come.
    var times: [(whole: Duration, stall: Duration?)] { state.withLock { $0.times } }
    /// The most at one time.
    var most: Int { state.withLock { $0.most } }

    func forget() { state.withLock { $0.requests = [] } }
    func switchOff() { state.withLock { $0.isOff = true } }
    func switchOn() { state.withLock { $0.isOff = false } }
    func change(_ url: String, _ bytes: [UInt8], validator: String) {
        state.withLock { state in
            state.files[url] = bytes
            state.validators[url] = validator
        }
    }
    func fail(_ fault: (@Sendable (Request) -> HTTPResponse?)?) { state.withLock { $0.fault = fault } }
    /// Answers the next `count` requests, and those behind them with 404.
    func failRequests(after count: Int) {
        let asked = Mutex(0)
        fail { request in
            asked.withLock { asked in
                asked += 1
                return asked > count ? HTTPResponse(status: 404, url: request.url) : nil
            }
        }
    }
    func hold(_ gate: (@Sendable (Request) async -> Void)?) { state.withLock { $0.gate = gate } }
    func forgetRanges() { state.withLock { $0.knowsRanges = false } }
    /// The next answer ends behind so many bytes.
    func breakAnswer(after count: Int) { state.withLock { $0.breaksAfter = count } }

    func send(
        _ request: HTTPRequest, through gate: HTTPBodyGate?, to receiver: @escaping HTTPBodyReceiver
    ) async throws(HTTPError) -> HTTPResponse {
        var response = try await send(request)
        guard 200...299 ~= response.status, !response.body.isEmpty else { return response }
        let body = response.body
        response.body = []
        let limit = state.withLock { state in
            defer { state.breaksAfter = nil }
            return state.breaksAfter ?? body.count
        }
        let end = min(limit, body.count)
        // In pieces that are no blocks.
        for start in stride(from: 0, to: end, by: 300) {
            receiver(response, Array(body[start..<min(start + 300, end)]))
        }
        guard end == body.count else { throw .truncated(request.url) }
        return response
    }

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        let range = request.headers.first { $0.name == "Range" }.flatMap { LoopbackRange($0.value) }
        var asked = Request(url: request.url)
        if case .closed(let bytes)? = range { asked.range = bytes }
        let (isOff, gate) = state.withLock { state in
            state.requests.append(asked)
            state.times.append((request.timeout, request.stallTimeout))
            state.running += 1
            state.most = max(state.most, state.running)
            return (state.isOff, state.gate)
        }
        defer { state.withLock { $0.running -= 1 } }
        await gate?(asked)
        if Task.isCancelled { throw .cancelled(request.url) }
        guard !isOff else { throw .refused(request.url) }
        return state.withLock { state in
            if let answer = state.fault?(asked) { return answer }
            guard let file = state.files[request.url] else { return HTTPResponse(status: 404, url: request.url) }
            let tag = HTTPHeader(name: "ETag", value: state.validators[request.url] ?? "\"1\"")
            guard state.knowsRanges, let range else {
                return HTTPResponse(status: 200, headers: [tag], body: file, url: request.url)
            }
            guard let bounds = range.bounds(in: file.count) else { return HTTPResponse(status: 416, url: request.url) }
            let text = "bytes \(bounds.lowerBound)-\(bounds.upperBound - 1)/\(file.count)"
            return HTTPResponse(
                status: 206, headers: [tag, HTTPHeader(name: "Content-Range", value: text)], body: Array(file[bounds]),
                url: request.url)
        }
    }
}
