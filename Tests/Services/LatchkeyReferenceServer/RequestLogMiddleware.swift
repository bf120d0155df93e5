// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import Hummingbird
import Logging

/// Writes each request into the log, but for those that read and control the server itself.
struct RequestLogMiddleware: RouterMiddleware {
    let state: ServerState

    func handle(
        _ request: Request, context: ServerContext, next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        let path = request.uri.path
        guard !ServerEndpoint.isControl(path) else { return try await next(request, context) }
        var context = context
        let entry = state.begin(method: request.method.rawValue, path: path)
        context.logEntry = entry
        let response: Response
        do {
            response = try await next(request, context)
        } catch let error as any HTTPResponseError {
            response = try error.response(from: request, context: context)
        }
        state.update(entry) { $0.status = response.status.code }
        context.logger.info("\(request.method.rawValue) \(path) \(response.status.code)")
        return response
    }
}
