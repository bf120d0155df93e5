// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import HTTPTypes
import Hummingbird
import LatchkeyKeySystems
import NIOCore
import LatchkeyProtection

/// `POST /clearkey`: a W3C ClearKey license for a W3C ClearKey request.
///
/// A KID without a key makes the whole answer a 404 that names it. With `?missing=omit` the license has the other keys
/// instead, as license services do that grant some of the keys.
struct ClearKeyEndpoint: Sendable {
    let keys: [KeyID: ContentKey]
    let state: ServerState

    @Sendable func respond(to request: Request, context: ServerContext) async throws -> Response {
        guard let body = try await request.bytes(upTo: ClearKey.maximumSize) else {
            return .error(.contentTooLarge, "a ClearKey request of more than \(ClearKey.maximumSize) bytes")
        }
        let wanted: [KeyID]
        do throws(KeyError) {
            wanted = try ClearKey.keyIDs(inLicenseRequest: body)
        } catch {
            return .error(.badRequest, error.description)
        }
        state.update(context.logEntry) { $0.kids = wanted.map(\.description) }

        let missing = wanted.filter { keys[$0] == nil }.map(\.description)
        let omitsMissing = request.uri.queryParameters["missing"] == "omit"
        guard missing.isEmpty || omitsMissing else {
            return .error(.notFound, "no key for KID \(missing.joined(separator: ", "))", kids: missing)
        }
        var license = ClearKey.license(for: keys.filter { wanted.contains($0.key) })
        defer { wipe(&license) }
        return Response(
            status: .ok, headers: [.contentType: "application/json", .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: license)))
    }
}
