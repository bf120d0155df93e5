// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection
import LatchkeyViewingSession

/// Sends requests over another transport, those to the configured licence service with the viewing session's token as it
/// is at that moment.
struct SessionTokenTransport: HTTPTransport {
    let base: any HTTPTransport
    let permit: ViewingPermit

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        guard request.mayCarrySessionToken, let token = permit.token else { return try await base.send(request) }
        var request = request
        do throws(KeyError) {
            try permit.tokenPlacement.add(token, to: &request)
        } catch {
            throw .invalidRequest(error.reason)
        }
        var response = try await base.send(request)
        response.sentSecrets.append(token.text)
        return response
    }
}

extension KeySession {
    /// The transport for loaders of this session: with a session server, licence requests carry the session's token.
    public func transport(over base: any HTTPTransport) -> any HTTPTransport {
        guard let permit = viewing else { return base }
        return SessionTokenTransport(base: base, permit: permit)
    }
}
