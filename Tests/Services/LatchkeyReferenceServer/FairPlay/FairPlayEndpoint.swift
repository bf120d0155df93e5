// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestServices
import FoundationEssentials
import HTTPTypes
import Hummingbird
import LatchkeyKeySystems
import NIOCore
import LatchkeyProtection

/// `POST /fairplay/…`: a CKC for an SPC. `GET /fairplay/certificate`: what the SPC is to be made for.
struct FairPlayEndpoint: Sendable {
    private let authorities: [FairPlayTestAuthority]
    private let server: FairPlayKeyServer
    private let keys: ContentIdentifierKeys
    private let state: ServerState
    private let start = ContinuousClock.now

    init(settings: ServerSettings, state: ServerState) {
        authorities = settings.fairPlayAuthorities
        server = FairPlayKeyServer(authorities: authorities)
        keys = ContentIdentifierKeys(settings.keysFileEntries)
        self.state = state
    }

    @Sendable func certificate(_ request: Request, context: ServerContext) -> Response {
        let number = request.uri.queryParameters["version"] ?? "1"
        guard let version = UInt32(number).flatMap({ SPCContainer.Version(rawValue: $0) }) else {
            return .error(.badRequest, "“version” is 1 (RSA-1024) or 2 (RSA-2048)")
        }
        guard let authority = authorities.first(where: { $0.version == version }) else { return Self.notThere }
        let response = Response(
            status: .ok, headers: [.contentType: "application/x-x509-ca-cert"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: authority.certificate)))
        return request.method == .head ? response.createHeadResponse() : response
    }

    @Sendable func respond(to request: Request, context: ServerContext) async throws -> Response {
        guard !authorities.isEmpty else { return Self.notThere }
        guard let body = try await request.bytes(upTo: FairPlayRequestBody.maximumSize) else {
            return .error(.contentTooLarge, "a request of more than \(FairPlayRequestBody.maximumSize) bytes")
        }
        do throws(FairPlayServerError) {
            let query = try FairPlayQuery(request)
            let message = try FairPlayRequestBody(body, contentType: request.headers[.contentType])
            let answer = try server.respond(
                to: message.spc, now: ContinuousClock.now - start, requiresIntegrity: query.requiresIntegrity,
                terms: { query.terms(for: $0) },
                key: { request throws(FairPlayServerError) in
                    note(request, context)
                    try Self.check(message.assetIdentifier, against: request)
                    return keys[request.assetIdentifier, mediaKeyID: request.mediaKeyID]
                })
            return Self.response(answer.ckc, in: query.form)
        } catch {
            return .json(ErrorBody(error: error.description, code: error.code), status: Self.status(for: error))
        }
    }

    private static let notThere = Response.error(.notFound, "no test authority: start the server with --fairplay DIR")

    /// A body may name the asset besides the SPC; both have to mean the same.
    private static func check(
        _ identifier: String?, against request: FairPlayServerRequest
    ) throws(FairPlayServerError) {
        if let identifier, Array(identifier.utf8) != request.assetIdentifier {
            throw .invalidParameter("“assetId” is not the asset identifier of the SPC")
        }
    }

    private static func status(for error: FairPlayServerError) -> HTTPResponse.Status {
        if error.isReplay { return .conflict }
        if error.isSameKind(as: .keyNotFound("")) { return .notFound }
        return error.isSameKind(as: .responseNotMade("")) ? .internalServerError : .badRequest
    }

    private static func response(_ ckc: [UInt8], in form: FairPlayQuery.Form) -> Response {
        let base64 = Data(ckc).base64EncodedString()
        let body =
            switch form {
            case .raw: ByteBuffer(bytes: ckc)
            case .base64: ByteBuffer(string: base64)
            case .xml: ByteBuffer(string: "<ckc>\(base64)</ckc>")
            case .json: ByteBuffer(string: #"{"ckc":"\#(base64)"}"#)
            }
        return Response(
            status: .ok, headers: [.contentType: form.contentType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: body))
    }

    private func note(_ request: FairPlayServerRequest, _ context: ServerContext) {
        state.update(context.logEntry) {
            $0.assetID =
                String(validating: request.assetIdentifier, as: UTF8.self) ?? Hex.encode(request.assetIdentifier)
            $0.deviceID = Hex.encode(request.deviceIdentifier)
        }
    }
}
