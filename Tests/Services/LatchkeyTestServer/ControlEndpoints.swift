// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import HTTPTypes
import Hummingbird
import LatchkeyProtection

/// `/health`, `/faults` and `/log`: what tests watch and switch.
struct ControlEndpoints: Sendable {
    let state: ServerState

    @Sendable func health(_ request: Request, context: ServerContext) -> Response {
        let response = Response.json(["status": "ok"])
        return request.method == .head ? response.createHeadResponse() : response
    }

    @Sendable func showFaults(_ request: Request, context: ServerContext) -> Response { .json(state.faults) }

    @Sendable func setFaults(_ request: Request, context: ServerContext) async throws -> Response {
        guard let body = try await request.bytes(upTo: 64 * 1024) else {
            return .error(.contentTooLarge, "a list of faults of more than 64 KiB")
        }
        guard JSONNesting.isBounded(body) else { return .error(.badRequest, "JSON that nests too deep") }
        do {
            state.setFaults(try JSONDecoder().decode([FaultRule].self, from: Data(body)))
        } catch let error as FaultError {
            return .error(.badRequest, error.description)
        } catch {
            return .error(
                .badRequest, #"no list of faults: [{"prefix":"/clearkey","fault":"status:503","times":2}, …]"#)
        }
        return Response(status: .noContent)
    }

    @Sendable func removeFaults(_ request: Request, context: ServerContext) -> Response {
        state.setFaults([])
        return Response(status: .noContent)
    }

    @Sendable func showLog(_ request: Request, context: ServerContext) -> Response { .json(state.log) }

    @Sendable func clearLog(_ request: Request, context: ServerContext) -> Response {
        state.clearLog()
        return Response(status: .noContent)
    }
}
