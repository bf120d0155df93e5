// SPDX-License-Identifier: MPL-2.0

/// Sends requests and waits for their responses. Thread-safe: requests may be under way at the same time.
public protocol HTTPTransport: Sendable {
    /// The response, whatever its status, after redirects.
    ///
    /// Never blocks a thread. Ends with `HTTPError.cancelled` soon after the calling task is cancelled.
    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse
}
