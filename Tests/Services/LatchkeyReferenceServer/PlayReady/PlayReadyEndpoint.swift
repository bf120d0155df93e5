// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestServices
import HTTPTypes
import Hummingbird
import LatchkeyKeySystems
import NIOCore
import LatchkeyProtection

/// `POST /playready/PATH`, whatever the path: PlayReady-style licences, domains, acknowledgements and the time, told apart by
/// SOAPAction. `?cfg=(…)` is the policy of a licence (see `PlayReadyServerPolicy`).
struct PlayReadyEndpoint: Sendable {
    static let maximumSize = 1024 * 1024

    let service: PlayReadyService
    let keys: [KeyID: ContentKey]
    let state: ServerState

    @Sendable func respond(to request: Request, context: ServerContext) async throws -> Response {
        guard let body = try await request.bytes(upTo: Self.maximumSize) else {
            return .error(.contentTooLarge, "a PlayReady-style request of more than \(Self.maximumSize) bytes")
        }
        guard let name = HTTPField.Name("SOAPAction"), let action = request.headers[name],
            let operation = PlayReadyOperation(soapAction: action)
        else { return .error(.badRequest, "the header field SOAPAction names no operation") }
        state.update(context.logEntry) { $0.operation = operation.rawValue }
        let answer: PlayReadyLicenseServer.Answer
        switch operation {
        case .acquireLicense:
            let policy: PlayReadyServerPolicy
            do throws(PlayReadyServerPolicy.ParseError) {
                policy = try PlayReadyServerPolicy(query: request.uri.queryParameters["cfg"].map { String($0) } ?? "")
            } catch {
                return .error(.badRequest, "cfg: \(error)")
            }
            let keys = keys
            answer = service.server.respond(
                to: body, policy: policy, now: PlayReadyService.now, domains: service.domains
            ) { keys[$0] }
            if answer.fault == nil, let id = policy.transactionID { service.expectAcknowledgement(of: id) }
        case .acknowledgeLicense:
            answer = service.server.acknowledge(body, now: PlayReadyService.now) { service.acknowledge($0) }
        case .joinDomain, .leaveDomain: answer = service.changeDomain(body, operation)
        case .getTime: answer = service.server.time(body, now: PlayReadyService.now)
        }
        if !answer.keyIDs.isEmpty { state.update(context.logEntry) { $0.kids = answer.keyIDs.map(\.description) } }
        return Response(
            status: answer.fault == nil ? .ok : .internalServerError,
            headers: [.contentType: PlayReadyOperation.contentType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: answer.body)))
    }
}
