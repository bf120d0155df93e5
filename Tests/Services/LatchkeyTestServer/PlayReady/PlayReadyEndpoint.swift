// SPDX-License-Identifier: MPL-2.0

import Glibc
import HTTPTypes
import Hummingbird
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestAuthorities
import NIOCore
import Synchronization

/// `POST /playready/PATH`, whatever the path: PlayReady-style licenses, domains, acknowledgements and the time, told apart by
/// SOAPAction. `?cfg=(…)` is the policy of a license (see `PlayReadyServerPolicy`).
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

/// What the PlayReady-style endpoint keeps between requests: domains, and transactions that wait to be acknowledged. In
/// memory only; thread-safe.
final class PlayReadyService: Sendable {
    /// The account that exists from the start, with room for three devices.
    static let accountID = GUID("4C4B444D-0000-0000-0000-000000000001")
    private static let serviceID = GUID("4C4B5356-0000-0000-0000-000000000001")
    private static let memberLimit = 3
    private static let maximumTransactions = 1024

    private struct Content {
        var domains: PlayReadyDomainController
        var transactions: [[UInt8]] = []
    }

    let server: PlayReadyLicenseServer
    private let content: Mutex<Content>

    /// Nil where OpenSSL refuses.
    init?(authority: PlayReadyTestAuthority) {
        guard let account = Self.accountID, let service = Self.serviceID else { return nil }
        server = PlayReadyLicenseServer(authority: authority)
        var domains = PlayReadyDomainController(serviceID: service, authority: authority)
        guard (try? domains.add(accountID: account, memberLimit: Self.memberLimit, url: "")) != nil else { return nil }
        content = Mutex(Content(domains: domains))
    }

    /// Seconds since 1970.
    static var now: UInt32 { UInt32(clamping: time(nil)) }

    var domains: PlayReadyDomainController { content.withLock { $0.domains } }

    func changeDomain(_ request: [UInt8], _ operation: PlayReadyOperation) -> PlayReadyLicenseServer.Answer {
        content.withLock { $0.domains.respond(to: request, operation, now: Self.now) }
    }

    func expectAcknowledgement(of transactionID: [UInt8]) {
        content.withLock { content in
            content.transactions.append(transactionID)
            if content.transactions.count > Self.maximumTransactions { content.transactions.removeFirst() }
        }
    }

    /// Whether the transaction was waiting; it is not any more.
    func acknowledge(_ transactionID: [UInt8]) -> Bool {
        content.withLock { content in
            guard let position = content.transactions.firstIndex(of: transactionID) else { return false }
            content.transactions.remove(at: position)
            return true
        }
    }
}
