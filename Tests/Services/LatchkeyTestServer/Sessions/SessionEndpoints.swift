// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import Glibc
import HTTPTypes
import Hummingbird
import LatchkeyKeySystems
import LatchkeyProtection
import NIOCore
import Synchronization

/// `/sessions` and `/terminate/sessions`: viewing sessions with heartbeats, in two styles.
///
/// The first is Latchkey's own: the client names the session, tokens rotate, errors are
/// `{"errorCode":1007,"message":"…","conflicts":[…]}`. The second has places instead of tokens, 409 with conflicts,
/// `X-Terminate` and 410. Both count the same sessions.
final class SessionEndpoints: Sendable {
    let settings: SessionSettings
    let book: Mutex<SessionBook>
    private let start = ContinuousClock.now
    let now: @Sendable () -> Duration

    /// `now` is for tests: the time since the start.
    init(settings: SessionSettings, now: (@Sendable () -> Duration)? = nil) {
        self.settings = settings
        book = Mutex(SessionBook(settings: settings))
        let start = start
        self.now = now ?? { ContinuousClock.now - start }
    }

    // MARK: Latchkey's own style

    private struct Setup: Decodable {
        var sessionId: String
        var accountId: String
        var deviceId: String?
        var deviceGroup: String?
        var contentId: String?
        var terminate: String?
    }

    private struct Beat: Decodable { var token: String }

    private struct Grant: Encodable {
        var token: String
        var heartbeatInterval: Int
        var missedHeartbeats: Int
    }

    struct Failure: Encodable {
        struct Conflict: Encodable {
            var sessionId: String
            var deviceId: String
            var terminationCode: String
        }

        var errorCode: Int
        var message: String
        var conflicts: [Conflict]?
    }

    @Sendable func setUp(_ request: Request, context: ServerContext) async throws -> Response {
        if let refusal = checkCredential(request, "Bearer") { return refusal }
        guard let setup: Setup = try await Self.body(of: request), Self.isName(setup.sessionId),
            !setup.accountId.isEmpty
        else { return failure(.badRequest, 1000, "a setup names sessionId and accountId") }
        do throws(SessionBook.Refusal) {
            return grant(
                try open(
                    setup.sessionId, account: setup.accountId, device: setup.deviceId, group: setup.deviceGroup,
                    content: setup.contentId, terminating: setup.terminate), .created)
        } catch {
            return answer(error, isSetup: true)
        }
    }

    @Sendable func beat(_ request: Request, context: ServerContext) async throws -> Response {
        if let refusal = checkCredential(request, "Bearer") { return refusal }
        guard let id = Self.identifier(context), let beat: Beat = try await Self.body(of: request) else {
            return failure(.badRequest, 1000, "a heartbeat has a token")
        }
        do throws(SessionBook.Refusal) {
            let now = now()
            return grant(
                try book.withLock { book throws(SessionBook.Refusal) in
                    try book.beat(id, token: beat.token, next: Self.random(), now: now)
                }, .ok)
        } catch {
            return answer(error, isSetup: false)
        }
    }

    @Sendable func tearDown(_ request: Request, context: ServerContext) -> Response {
        if let refusal = checkCredential(request, "Bearer") { return refusal }
        do throws(SessionBook.Refusal) {
            try end(Self.identifier(context) ?? "", .teardown)
            return Response(status: .noContent)
        } catch {
            return answer(error, isSetup: false)
        }
    }

    private func grant(_ session: SessionBook.Session, _ status: HTTPResponse.Status) -> Response {
        .json(
            Grant(
                token: session.token, heartbeatInterval: settings.interval, missedHeartbeats: settings.missedBeats),
            status: status, headers: [.cacheControl: "no-store"])
    }

    private func answer(_ refusal: SessionBook.Refusal, isSetup: Bool) -> Response {
        switch refusal {
        case .limit(let sessions):
            failure(
                .forbidden, 1007, "\(sessions.count) sessions run already, which is as many as are allowed", sessions)
        case .tokenUnknown: failure(.forbidden, 1006, "the token is not this session's latest")
        case .over(let end): failure(.gone, 1007, "the session is over: \(end.rawValue)")
        case .sessionUnknown: failure(.notFound, 1007, "there is no such session")
        case .nameTaken: failure(.conflict, 1018, "another account has a session of this name")
        case .full: failure(.serviceUnavailable, 4001, "too many sessions")
        }
    }

    func failure(
        _ status: HTTPResponse.Status, _ code: Int, _ message: String, _ conflicts: [SessionBook.Session]? = nil
    ) -> Response {
        .json(
            Failure(
                errorCode: code, message: message,
                conflicts: conflicts?.map {
                    .init(sessionId: $0.id, deviceId: $0.device, terminationCode: $0.terminationCode)
                }),
            status: status, headers: [.cacheControl: "no-store"])
    }

    // MARK: Shared

    func open(
        _ id: String, account: String, device: String?, group: String?, content: String?, terminating code: String?
    ) throws(SessionBook.Refusal) -> SessionBook.Session {
        let now = now()
        return try book.withLock { book throws(SessionBook.Refusal) in
            try book.setUp(
                id, account: account, device: device ?? "", group: group ?? "", content: content ?? "",
                terminating: code, token: Self.random(), terminationCode: Self.random(), now: now)
        }
    }

    /// The session whose token a license request has.
    func session(ofTokens tokens: [String]) -> String? {
        guard !tokens.isEmpty else { return nil }
        let now = now()
        return book.withLock { $0.touch(tokens, now: now) }
    }

    func end(_ id: String, _ end: SessionBook.End) throws(SessionBook.Refusal) {
        let now = now()
        try book.withLock { book throws(SessionBook.Refusal) in try book.end(id, end, now: now) }
    }

    func checkCredential(_ request: Request, _ scheme: String) -> Response? {
        guard let credential = settings.credential, request.headers[.authorization] != "\(scheme) \(credential)" else {
            return nil
        }
        return failure(.unauthorized, 1003, "the credential is not good")
    }

    static func identifier(_ context: ServerContext) -> String? { context.parameters.get("session") }

    /// Names that need no encoding in a path, and are not endless.
    private static func isName(_ text: String) -> Bool {
        (1...256).contains(text.utf8.count)
            && !text.utf8.contains { $0 <= 0x20 || $0 >= 0x7F || $0 == UInt8(ascii: "/") }
    }

    static func random() -> String { Hex.encode((0..<16).map { _ in UInt8.random(in: 0...255) }) }

    static func body<Value: Decodable>(of request: Request) async throws -> Value? {
        guard let bytes = try await request.bytes(upTo: 16 * 1024), JSONNesting.isBounded(bytes) else { return nil }
        return try? JSONDecoder().decode(Value.self, from: Data(bytes))
    }
}

extension SessionEndpoints {
    func add(to router: Router<ServerContext>) {
        router.post("/sessions", use: setUp)
        router.post("/sessions/:session/heartbeat", use: beat)
        router.delete("/sessions/:session", use: tearDown)
        router.post("/terminate/sessions/:session/:account", use: setUpPlace)
        router.post("/terminate/sessions/:session", use: beatPlace)
        router.delete("/terminate/sessions/:session", use: tearDownPlace)
        router.post("/session-end", use: administer)
        router.get("/session-metrics", use: metrics)
    }
}

extension SessionEndpoints {
    /// `POST /session-end?session=ID` or `?account=ID`: what an administrator does.
    @Sendable func administer(_ request: Request, context: ServerContext) -> Response {
        let query = request.uri.queryParameters
        let now = now()
        let ended = book.withLock { book in
            let chosen = book.live(at: now).filter { session in
                query["session"].map { $0 == session.id } ?? query["account"].map { $0 == session.account } ?? false
            }
            return chosen.count { session in
                do throws(SessionBook.Refusal) {
                    try book.end(session.id, .administrator, now: now)
                    return true
                } catch {
                    return false
                }
            }
        }
        return .json(["ended": ended])
    }

    /// `GET /session-metrics`: counters, in the text format of Prometheus.
    @Sendable func metrics(_ request: Request, context: ServerContext) -> Response {
        let now = now()
        let (active, counters) = book.withLock { ($0.live(at: now), $0.counters) }
        var lines = [
            "latchkey_sessions_active \(active.count)",
            "latchkey_session_accounts_active \(Set(active.map(\.account)).count)",
            "latchkey_session_setups_total \(counters.setups)",
            "latchkey_session_setups_refused_total \(counters.refusals)",
            "latchkey_session_heartbeats_total \(counters.beats)",
            "latchkey_session_heartbeats_late_total \(counters.lateBeats)",
            "latchkey_session_heartbeats_refused_total \(counters.refusedBeats)",
        ]
        for (end, label) in [
            (SessionBook.End.teardown, "teardown"), (.expired, "expired"), (.terminated, "terminated"),
            (.administrator, "administrator"),
        ] {
            lines.append("latchkey_sessions_ended_total{reason=\"\(label)\"} \(counters.ends[end] ?? 0)")
        }
        return Response(
            status: .ok, headers: [.contentType: "text/plain; version=0.0.4"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: lines.joined(separator: "\n") + "\n")))
    }
}

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

/// Looks for the token of a viewing session in license requests: in the field `X-Session-Token`, also behind commas, in the
/// query's `sessionToken`, or in the body's member of that name. The log says whose it was. Where licenses need a session, a
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
        guard session != nil || !sessions.settings.guardsLicenses else {
            return sessions.failure(.forbidden, 1006, "a license needs the token of a session")
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
