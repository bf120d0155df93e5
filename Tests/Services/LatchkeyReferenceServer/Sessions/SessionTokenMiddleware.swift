// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import HTTPTypes
import Hummingbird
import LatchkeyKeySystems
import NIOCore
import LatchkeyProtection

/// Looks for the token of a viewing session in licence requests: in the field `X-Session-Token`, also behind commas, in the
/// query's `sessionToken`, or in the body's member of that name. The log says whose it was. Where licences need a session, a
/// request without one gets 403 and the code 1006.
struct SessionTokenMiddleware: RouterMiddleware {
    let state: ServerState
    let sessions: SessionEndpoints

    private struct Body: Decodable { var sessionToken: String }

    private static let name = "sessionToken"
    private static let field: HTTPField.Name? = HTTPField.Name("X-Session-Token")

    func handle(
        _ request: Request, context: ServerContext, next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        guard let limit = Self.limit(of: request) else { return try await next(request, context) }
        var request = request
        var tokens = (Self.field.flatMap { request.headers[$0] } ?? "").split(separator: ",").map { $0.trimmed() }
        tokens += request.uri.queryParameters[values: Substring(Self.name)].map { String($0) }
        if request.headers[.contentType]?.hasPrefix("application/json") == true {
            guard let body = try await request.keepBytes(upTo: limit) else {
                return .error(.contentTooLarge, "a license request of more than \(limit) bytes")
            }
            if JSONNesting.isBounded(body), let object = try? JSONDecoder().decode(Body.self, from: Data(body)) {
                tokens.append(object.sessionToken)
            }
        }
        let session = sessions.session(ofTokens: tokens)
        state.update(context.logEntry) { $0.session = session }
        guard session != nil || !sessions.settings.guardsLicences else {
            return sessions.failure(.forbidden, 1006, "a licence needs the token of a session")
        }
        return try await next(request, context)
    }

    /// The most bytes that the endpoint of a license request takes; nil for other requests.
    private static func limit(of request: Request) -> Int? {
        guard request.method == .post else { return nil }
        switch ServerEndpoint(path: request.uri.path) {
        case .clearKey: return ClearKey.maximumSize
        case .fairPlay: return FairPlayRequestBody.maximumSize
        case .playReady: return PlayReadyEndpoint.maximumSize
        default: return nil
        }
    }
}
