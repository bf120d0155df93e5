// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import Hummingbird
import Logging

/// The requests that the server handled, for tests that count them. Holds no keys, no bodies and no queries.
public struct RequestLog: Sendable {
    /// One request, as `GET /log` shows it.
    public struct Entry: Codable, Hashable, Sendable {
        /// Of HTTP: `GET`, `POST`.
        public var method: String
        /// As it came in, without the query.
        public var path: String
        /// Absent while there is no answer.
        public var status: Int?
        /// The KIDs of a license request, as 32 hexadecimal digits each.
        public var kids: [String]?
        /// What a PlayReady-style service is asked for: AcquireLicense, JoinDomain, …
        public var operation: String?
        /// The asset identifier of an SPC, in hexadecimal digits where it is no UTF-8.
        public var assetID: String?
        /// The anonymised device identifier of an SPC, 40 hexadecimal digits.
        public var deviceID: String?
        /// The viewing session whose token came with a license request.
        public var session: String?
        /// The faults that were put on the answer.
        public var faults: [String]?
    }

    typealias ID = Int

    /// Older entries are dropped above this number.
    static let capacity = 10_000

    private(set) var entries: [Entry] = []
    private var firstID: ID = 0

    mutating func begin(method: String, path: String) -> ID {
        if entries.count == Self.capacity {
            entries.removeFirst(Self.capacity / 10)
            firstID += Self.capacity / 10
        }
        entries.append(Entry(method: method, path: path))
        return firstID + entries.count - 1
    }

    /// Does nothing where the entry was dropped or cleared since.
    mutating func update(_ id: ID, _ change: (inout Entry) -> Void) {
        guard entries.indices.contains(id - firstID) else { return }
        change(&entries[id - firstID])
    }

    mutating func clear() {
        firstID += entries.count
        entries.removeAll()
    }
}

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
