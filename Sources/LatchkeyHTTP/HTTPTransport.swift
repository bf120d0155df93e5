// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// Sends requests and waits for their responses. Thread-safe: requests may be under way at the same time.
public protocol HTTPTransport: Sendable {
    /// The response, whatever its status, after redirects.
    ///
    /// Never blocks a thread. Ends with `HTTPError.cancelled` soon after the calling task is cancelled.
    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse

    /// The same, but the body of a success (200 to 299) goes to `receiver` piece by piece as it arrives, and is empty in
    /// what this returns. Without a body, `receiver` is not called.
    ///
    /// `receiver` gets the head and a piece that is not empty, in order, on the transport's own thread; it must not block.
    /// While `gate` is closed, none comes, and the other side soon sends none: the time for that counts into the timeout
    /// of the request, but not as a stall. Where this throws, an error may come behind pieces. Transports that have nothing
    /// of their own for this give the whole body as one piece.
    func send(
        _ request: HTTPRequest, through gate: HTTPBodyGate?, to receiver: @escaping HTTPBodyReceiver
    ) async throws(HTTPError) -> HTTPResponse
}

/// Takes a body piece by piece, with the head in front of it, whose own body is empty.
public typealias HTTPBodyReceiver = @Sendable (HTTPResponse, [UInt8]) -> Void

extension HTTPTransport {
    /// As it arrives, without anything that holds it back.
    public func send(
        _ request: HTTPRequest, to receiver: @escaping HTTPBodyReceiver
    ) async throws(HTTPError) -> HTTPResponse { try await send(request, through: nil, to: receiver) }

    /// The whole body as one piece.
    public func send(
        _ request: HTTPRequest, through gate: HTTPBodyGate?, to receiver: @escaping HTTPBodyReceiver
    ) async throws(HTTPError) -> HTTPResponse {
        var response = try await send(request)
        guard 200...299 ~= response.status else { return response }
        var body: [UInt8] = []
        swap(&body, &response.body)
        if !body.isEmpty { receiver(response, body) }
        return response
    }
}

/// Holds a body back while its receiver has no room for more. For one exchange at a time. Thread-safe.
public final class HTTPBodyGate: Sendable {
    private struct State {
        var isClosed = false
        /// What a transport waits with; nil: nothing waits.
        var resume: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    /// An open one.
    public init() {}

    /// No further piece comes before `open`. Called by the receiver itself; from elsewhere, one may be on its way.
    public func close() { state.withLock { $0.isClosed = true } }

    /// Pieces come again. Of an open gate, nothing.
    public func open() {
        let resume = state.withLock { state in
            state.isClosed = false
            defer { state.resume = nil }
            return state.resume
        }
        resume?()
    }

    /// For transports that have a piece to hand over: whether it has to wait. `resume` is called then, once, when it may
    /// come, on the thread that opens the gate.
    public func holds(_ resume: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            if state.isClosed { state.resume = resume }
            return state.isClosed
        }
    }
}
