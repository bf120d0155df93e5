// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import HTTPTypes
import Hummingbird
import NIOCore
import LatchkeyProtection
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

    /// The session whose token a licence request has.
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
