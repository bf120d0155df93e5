// SPDX-License-Identifier: MPL-2.0

import Glibc
import HTTPTypes
import Hummingbird
import NIOCore
import Synchronization

/// The style with places: 409 with conflicts, `X-Terminate` and 410.
extension SessionEndpoints {
    private struct Device: Decodable {
        var deviceId: String?
        var contentId: String?
    }

    private struct Conflicts: Encodable { var conflicts: [Conflict] }

    /// What a session was set up with is in `attributes`.
    private struct Conflict: Encodable {
        var sessionId: String
        var terminationCode: String
        var attributes: [String: String]

        init(_ session: SessionBook.Session) {
            sessionId = session.id
            terminationCode = session.terminationCode
            attributes = ["deviceId": session.device]
        }
    }

    @Sendable func setUpPlace(_ request: Request, context: ServerContext) async throws -> Response {
        if let refusal = checkCredential(request, "Basic") { return refusal }
        guard let account = context.parameters.get("account") else { return .error(.badRequest, "no account") }
        let device: Device? = try await Self.body(of: request)
        do throws(SessionBook.Refusal) {
            let session = try open(
                Self.random(), account: account, device: device?.deviceId, group: nil, content: device?.contentId,
                terminating: Self.terminate.flatMap { request.headers[$0] })
            return place(session, headers: [.location: "/terminate/sessions/\(session.id)"])
        } catch {
            guard case .limit(let sessions) = error else { return .error(.serviceUnavailable, "too many sessions") }
            return .json(Conflicts(conflicts: sessions.map(Conflict.init)), status: .conflict)
        }
    }

    @Sendable func beatPlace(_ request: Request, context: ServerContext) -> Response {
        if let refusal = checkCredential(request, "Basic") { return refusal }
        do throws(SessionBook.Refusal) {
            let now = now()
            let id = Self.identifier(context) ?? ""
            return place(
                try book.withLock { book throws(SessionBook.Refusal) in
                    try book.beat(id, token: nil, next: Self.random(), now: now)
                })
        } catch {
            return over(error)
        }
    }

    @Sendable func tearDownPlace(_ request: Request, context: ServerContext) -> Response {
        if let refusal = checkCredential(request, "Basic") { return refusal }
        do throws(SessionBook.Refusal) {
            try end(Self.identifier(context) ?? "", .teardown)
            return Response(status: .accepted)
        } catch {
            return over(error)
        }
    }

    private func place(_ session: SessionBook.Session, headers: HTTPFields = [:]) -> Response {
        var headers = headers
        let date = time(nil) + settings.clockSkew
        headers[OwnDateHandler.field] = Self.text(date)
        headers[.expires] = Self.text(date + settings.interval * settings.missedBeats)
        return Response(status: .accepted, headers: headers)
    }

    private func over(_ refusal: SessionBook.Refusal) -> Response {
        struct Message: Encodable { var message: String }
        guard case .over(let end) = refusal else {
            return .json(Message(message: "no such session"), status: .notFound)
        }
        return .json(Message(message: "the session is over: \(end.rawValue)"), status: .gone)
    }

    private static let terminate: HTTPField.Name? = HTTPField.Name("X-Terminate")

    /// An HTTP date (RFC 9110, 5.6.7).
    private static func text(_ seconds: time_t) -> String {
        var seconds = seconds
        var parts = tm()
        gmtime_r(&seconds, &parts)
        // SAFETY: strftime writes at most the capacity, and returns how much that was.
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) {
            guard let start = $0.baseAddress else { return "" }
            let count = strftime(start, $0.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
            return String(decoding: $0[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
    }
}
