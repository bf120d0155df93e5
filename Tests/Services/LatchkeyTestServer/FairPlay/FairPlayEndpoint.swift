// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import HTTPTypes
import Hummingbird
import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestAuthorities
import NIOCore

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

/// What the query of a request asks the key server for: the terms of the key, and the form of the answer.
struct FairPlayQuery {
    /// How the CKC is written.
    enum Form: String, CaseIterable {
        /// Its bytes.
        case raw
        case base64
        /// `<ckc>` with Base64 in it.
        case xml
        /// `{"ckc":"…"}` with Base64 in it.
        case json

        var contentType: String {
            switch self {
            case .raw: "application/octet-stream"
            case .base64: "text/plain"
            case .xml: "text/xml"
            case .json: "application/json"
            }
        }
    }

    private enum Persist: String, CaseIterable {
        case unlimited, rental, dual
    }

    var form = Form.raw
    var requiresIntegrity = false
    var terms = FairPlayTerms()
    private var offline: (storage: UInt32, playback: UInt32)?

    /// Throws `invalidParameter` for a value that is not known. Parameters that are not known are ignored.
    init(_ request: Request) throws(FairPlayServerError) {
        let parameters = request.uri.queryParameters
        func value<Choice: RawRepresentable & CaseIterable>(
            _ name: String, _ type: Choice.Type
        ) throws(FairPlayServerError) -> Choice? where Choice.RawValue == String {
            guard let text = parameters[Substring(name)] else { return nil }
            guard let choice = Choice(rawValue: String(text)) else {
                let names = Choice.allCases.map(\.rawValue).joined(separator: ", ")
                throw .invalidParameter("“\(name)” is one of \(names)")
            }
            return choice
        }
        func seconds(_ name: String) throws(FairPlayServerError) -> UInt32? {
            guard let text = parameters[Substring(name)] else { return nil }
            guard let number = UInt32(text) else { throw .invalidParameter("“\(name)” is a number of seconds") }
            return number
        }
        form = try value("form", Form.self) ?? .raw
        requiresIntegrity = try value("integrity", Required.self) != nil
        terms.lease = try seconds("lease")
        terms.rental = try seconds("rental")
        terms.outputRequirement = try value("hdcp", HDCP.self)?.requirement
        let (storage, playback) = (try seconds("storage"), try seconds("playback"))
        switch try value("persist", Persist.self) {
        case nil: break
        case .unlimited: terms.persistence = .unlimited
        case .rental:
            guard terms.rental != nil else { throw .invalidParameter("“persist=rental” needs “rental”") }
            terms.persistence = .forRentalDuration
        case .dual:
            guard let storage, let playback else {
                throw .invalidParameter("“persist=dual” needs “storage” and “playback”")
            }
            terms.persistence = .unlimited
            offline = (storage, playback)
        }
    }

    /// The terms for one asset. The stream that a stored key is for is named by the start of the asset identifier.
    func terms(for request: FairPlayServerRequest) -> FairPlayTerms {
        guard let offline else { return terms }
        var result = terms
        let streamID = Array((request.assetIdentifier + [UInt8](repeating: 0, count: 16)).prefix(16))
        result.offlineKey = OfflineKeyTerms(streamID: streamID, storage: offline.storage, playback: offline.playback)
        return result
    }

    private enum Required: String, CaseIterable {
        case required
    }

    private enum HDCP: String, CaseIterable {
        case none
        case type0 = "0"
        case type1 = "1"

        var requirement: OutputRequirement {
            switch self {
            case .none: .unprotected
            case .type0: .hdcpType0
            case .type1: .hdcpType1
            }
        }
    }
}

/// An SPC in one of the forms in which applications send it.
struct FairPlayRequestBody: Equatable {
    /// The most bytes of a body that are read.
    static let maximumSize = SPCContainer.maximumSize * 2

    var spc: [UInt8]
    /// What the body says besides, if it does.
    var assetIdentifier: String?

    private struct Object: Decodable {
        var spc: String
        var assetId: String?
    }

    /// `contentType` may have parameters. Without one, and for a type that is not known, the bytes decide. What starts
    /// with a zero is an SPC whatever the type says.
    ///
    /// Forms: the bytes of the SPC (`application/octet-stream`); `spc=…&assetId=…`, with the SPC in Base64 and escaped
    /// or not (`application/x-www-form-urlencoded`); `{"spc":"…","assetId":"…"}` (`application/json`); Base64 alone
    /// (`text/plain`).
    init(_ body: [UInt8], contentType: String?) throws(FairPlayServerError) {
        let type = contentType?.split(separator: ";").first?.trimmed().lowercased()
        // An SPC starts with its version, which is below 2^24; text has no zeros. curl calls every body a form.
        if body.first == 0 || type == "application/octet-stream" {
            self.init(spc: body)
            return
        }
        switch type {
        case "application/x-www-form-urlencoded": try self.init(form: body)
        case "application/json": try self.init(json: body)
        case "text/plain": try self.init(base64: body)
        default:
            if body.first == UInt8(ascii: "{") {
                try self.init(json: body)
            } else if body.starts(with: "spc=".utf8) || body.contains(UInt8(ascii: "&")) {
                try self.init(form: body)
            } else {
                try self.init(base64: body)
            }
        }
    }

    private init(spc: [UInt8], assetIdentifier: String? = nil) {
        self.spc = spc
        self.assetIdentifier = assetIdentifier
    }

    private init(base64 body: [UInt8]) throws(FairPlayServerError) {
        self.init(spc: try Self.decode(String(decoding: body, as: UTF8.self)))
    }

    private init(json body: [UInt8]) throws(FairPlayServerError) {
        guard JSONNesting.isBounded(body), let object = try? JSONDecoder().decode(Object.self, from: Data(body)) else {
            throw .malformedRequest("the body is no JSON object with a text “spc”")
        }
        self.init(spc: try Self.decode(object.spc), assetIdentifier: object.assetId)
    }

    private init(form body: [UInt8]) throws(FairPlayServerError) {
        var fields: [String: String] = [:]
        for field in String(decoding: body, as: UTF8.self).split(separator: "&") {
            let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = parts.first.map(String.init), parts.count == 2,
                let value = PercentEncoding.decodeText(parts[1])
            else { throw .malformedRequest("the body is no form with a field “spc”") }
            guard fields.updateValue(value, forKey: name) == nil else {
                throw .invalidParameter("the form has the field “\(name)” twice")
            }
        }
        // A plus sign stays one: in Base64 that was not escaped it is a digit.
        guard let text = fields["spc"] else { throw .malformedRequest("the body is no form with a field “spc”") }
        self.init(spc: try Self.decode(text), assetIdentifier: fields["assetId"])
    }

    private static func decode(_ text: String) throws(FairPlayServerError) -> [UInt8] {
        guard let bytes = Base64.decode(text.filter { !$0.isWhitespace }) else {
            throw .malformedRequest("the SPC is not in Base64")
        }
        return bytes
    }
}

/// The keys of a keys file, as a key server finds them by content identifier.
struct ContentIdentifierKeys: Sendable {
    private let bySubject: [KeysFile.Subject: KeysFile.Entry]

    /// Of several entries for the same subject the last counts.
    init(_ entries: [KeysFile.Entry]) {
        bySubject = Dictionary(entries.map { ($0.subject, $0) }, uniquingKeysWith: { $1 })
    }

    /// The key for a content identifier.
    ///
    /// Applications make it out of the key's URI in different ways, so that the first of these lines counts: the KID of
    /// the media; the identifier as a URI; with `skd://` or `skd:` in front of it; as a KID, in digits or in 16 bytes;
    /// `*`. Without an IV in the line, the IV is zeros.
    subscript(identifier: [UInt8], mediaKeyID mediaKeyID: KeyID? = nil) -> FairPlayKeyServer.Key? {
        var subjects: [KeysFile.Subject] = mediaKeyID.map { [.keyID($0)] } ?? []
        if let text = String(validating: identifier, as: UTF8.self) {
            subjects += [text, "skd://\(text)", "skd:\(text)"].map { KeysFile.Subject(uri: $0) }
            if let keyID = KeyID(hex: text) { subjects.append(.keyID(keyID)) }
        }
        if let keyID = KeyID(identifier) { subjects.append(.keyID(keyID)) }
        subjects.append(.unnamed)
        return subjects.lazy.compactMap { bySubject[$0] }.first.map {
            FairPlayKeyServer.Key(
                key: $0.key,
                initializationVector: $0.key.initializationVector ?? InitializationVector(high: 0, low: 0))
        }
    }
}
