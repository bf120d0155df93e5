// SPDX-License-Identifier: MPL-2.0

import Synchronization
import Testing

@testable import LatchkeyHTTP
@testable import LatchkeyLoopbackSupport

/// The module under test has a server of its own.
typealias LoopbackServer = ScriptedServer

extension CurlTransport {
    /// A transport that reaches the loopback servers whatever proxy the environment names.
    static func direct(caFile: String? = nil) -> CurlTransport {
        CurlTransport(settings: CurlSettings(usesProxyEnvironment: false, caFile: caFile))
    }

    /// The response to a GET.
    func get(_ url: String, _ headers: [HTTPHeader] = []) async throws -> HTTPResponse {
        try await send(.patient(url: url, headers: headers))
    }

    /// The error that a request ends with; a test fails where there is none.
    func failure(
        _ request: HTTPRequest, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> HTTPError {
        try #require(
            await #expect(throws: HTTPError.self, sourceLocation: sourceLocation) { try await send(request) },
            sourceLocation: sourceLocation)
    }

    func failure(_ url: String, sourceLocation: SourceLocation = #_sourceLocation) async throws -> HTTPError {
        try await failure(.patient(url: url), sourceLocation: sourceLocation)
    }
}

/// A clock that stands still until it is told otherwise.
final class ManualClock: Sendable {
    private let time = Mutex(ContinuousClock.now)

    var now: ContinuousClock.Instant { time.withLock { $0 } }

    func advance(by duration: Duration) { time.withLock { $0 = $0.advanced(by: duration) } }
}

/// A name that has no address on any network: its first label is one character longer than DNS allows (RFC 1035), so
/// that no name server is asked.
let unresolvableHost = String(repeating: "a", count: 64) + ".invalid"

extension HTTPResponse {
    var text: String { String(decoding: body, as: UTF8.self) }
}

extension HTTPRequest {
    /// For tests that are about something else than time: the threads of Swift's tasks may be busy with other tests.
    static func patient(
        method: String = "GET", url: String, headers: [HTTPHeader] = [], body: [UInt8] = [],
        timeout: Duration = .seconds(50)
    ) -> HTTPRequest {
        var request = HTTPRequest(method: method, url: url, headers: headers, body: body)
        (request.timeout, request.connectTimeout) = (timeout, timeout)
        return request
    }
}
