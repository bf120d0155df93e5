// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import Hummingbird
import NIOCore

/// The paths of the server and the methods that each takes.
enum ServerEndpoint: String, CaseIterable {
    case clearKey = "/clearkey"
    case fairPlayCertificate = "/fairplay/certificate"
    case fairPlay = "/fairplay/"
    case entitlement = "/entitlement"
    case token = "/token/"
    case playReady = "/playready/rightsmanager.asmx"
    case sessions = "/sessions"
    case session = "/sessions/"
    case terminate = "/terminate/sessions/"
    case sessionEnd = "/session-end"
    case sessionMetrics = "/session-metrics"
    case media = "/media/"
    case health = "/health"
    case faults = "/faults"
    case log = "/log"

    var methods: [HTTPRequest.Method] {
        switch self {
        case .clearKey, .fairPlay, .token, .playReady, .sessions, .sessionEnd: [.post]
        case .session, .terminate: [.post, .delete]
        case .sessionMetrics: [.get]
        case .entitlement: [.get, .post]
        case .media, .health, .fairPlayCertificate: [.get, .head]
        case .faults: [.get, .put, .delete]
        case .log: [.get, .delete]
        }
    }

    init?(path: String) {
        if let endpoint = Self(rawValue: path) {
            self = endpoint
        } else if let endpoint = [Self.media, .fairPlay, .token, .session, .terminate].first(where: {
            path.hasPrefix($0.rawValue)
        }) {
            self = endpoint
        } else {
            return nil
        }
    }

    /// Whether the path reads or changes the server's own state.
    static func isControl(_ path: String) -> Bool {
        [faults, log, sessionEnd, sessionMetrics].contains { $0.rawValue == path }
    }
}

/// Answers 405 where a path is known and the method is not. The router alone would answer 404.
struct MethodMiddleware: RouterMiddleware {
    func handle(
        _ request: Request, context: ServerContext, next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        guard let endpoint = ServerEndpoint(path: request.uri.path), !endpoint.methods.contains(request.method) else {
            return try await next(request, context)
        }
        let allowed = endpoint.methods.map(\.rawValue).joined(separator: ", ")
        return .error(
            .methodNotAllowed, "\(endpoint.rawValue) takes \(allowed), not \(request.method.rawValue)",
            headers: [.allow: allowed])
    }
}

/// What the middleware and the endpoints know of one request.
struct ServerContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The client's connection, for faults that break it.
    let channel: any Channel
    /// The request's place in the log; nil for the endpoints that control the server.
    var logEntry: RequestLog.ID?

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }
}
