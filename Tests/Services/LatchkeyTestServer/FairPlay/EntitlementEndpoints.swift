// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import Hummingbird
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestAuthorities
import NIOCore
import Synchronization

/// `GET, POST /entitlement`: a URL with a token, for users who may play. `POST /token/…`: a CKC for an SPC, once for each
/// token.
///
/// In the manner of token services: the client never sees the key server, only a URL. With `device=enforce` the token
/// is bound to the device (the SPC's anonymised device identifier) on which the user played first.
final class EntitlementEndpoints: Sendable {
    private let server: FairPlayKeyServer
    private let keys: ContentIdentifierKeys
    private let state: ServerState
    private let isThere: Bool
    private let book = Mutex(EntitlementBook())
    private let start = ContinuousClock.now

    init(settings: ServerSettings, state: ServerState) {
        server = FairPlayKeyServer(authorities: settings.fairPlayAuthorities)
        keys = ContentIdentifierKeys(settings.keysFileEntries)
        isThere = !settings.fairPlayAuthorities.isEmpty
        self.state = state
    }

    @Sendable func entitle(_ request: Request, context: ServerContext) -> Response {
        let query = request.uri.queryParameters
        guard let cid = query["cid"], !cid.isEmpty else { return .error(.badRequest, "“cid”, the content, is missing") }
        guard let user = query["user"], !user.isEmpty else { return .error(.unauthorized, "“user” is missing") }
        guard keys[Array(cid.utf8)] != nil else { return .error(.notFound, "no content “\(cid)”") }
        guard let authority = request.head.authority else { return .error(.badRequest, "no host") }
        let token = Hex.encode((0..<16).map { _ in UInt8.random(in: 0...255) })
        do throws(EntitlementBook.Refusal) {
            try book.withLock { book throws(EntitlementBook.Refusal) in
                try book.issue(
                    token, for: Array(cid.utf8), to: String(user), enforcesDevice: query["device"] == "enforce",
                    now: ContinuousClock.now - start)
            }
        } catch {
            return .error(.forbidden, Self.text(error))
        }
        let encoded = PercentEncoding.encode(String(cid))
        return Response(
            status: .ok, headers: [.contentType: "text/uri-list", .cacheControl: "no-store"],
            body: ResponseBody(
                byteBuffer: ByteBuffer(string: "http://\(authority)/token/rights?token=\(token)&cid=\(encoded)\r\n")))
    }

    @Sendable func redeem(_ request: Request, context: ServerContext) async throws -> Response {
        guard isThere else { return .error(.notFound, "no test authority: start the server with --fairplay DIR") }
        guard let body = try await request.bytes(upTo: FairPlayRequestBody.maximumSize) else {
            return .error(.contentTooLarge, "a request of more than \(FairPlayRequestBody.maximumSize) bytes")
        }
        let token = request.uri.queryParameters["token"].map { String($0) } ?? ""
        // Players without a rule of their own take the whole key URI for the content identifier.
        let wholeURI = Array("\(request.head.authority ?? "")\(request.uri.string)".utf8)
        var refusal: EntitlementBook.Refusal?
        var content: [UInt8] = []
        do throws(FairPlayServerError) {
            let opened = try server.open(body)
            state.update(context.logEntry) { $0.deviceID = Hex.encode(opened.deviceIdentifier) }
            do throws(EntitlementBook.Refusal) {
                content = try book.withLock { book throws(EntitlementBook.Refusal) in
                    try book.redeem(token, device: opened.deviceIdentifier, now: ContinuousClock.now - start) {
                        opened.assetIdentifier == $0 || opened.assetIdentifier == wholeURI
                    }
                }.contentIdentifier
            } catch {
                refusal = error
            }
            if let refusal { return .error(.forbidden, Self.text(refusal)) }
            let answer = try server.respond(to: body, now: ContinuousClock.now - start) { _ in self.keys[content] }
            return Response(
                status: .ok, headers: [.contentType: "application/octet-stream", .cacheControl: "no-store"],
                body: ResponseBody(byteBuffer: ByteBuffer(bytes: answer.ckc)))
        } catch {
            return .json(ErrorBody(error: error.description, code: error.code), status: .badRequest)
        }
    }

    private static func text(_ refusal: EntitlementBook.Refusal) -> String {
        switch refusal {
        case .unknownToken: "the token is not known, was used, or is too old"
        case .otherContent: "the token is for other content"
        case .otherDevice: "the token is for another device of this user"
        case .noDevice: "the user has no device yet; play once without “device=enforce”"
        }
    }
}

/// Who may have which key, as an entitlement server knows it: tokens that were handed out, and the device of each user.
/// A value: the time and the tokens' names come from outside.
struct EntitlementBook {
    /// How long a token can be redeemed.
    static let lifetime = Duration.seconds(300)
    /// Tokens that are remembered. Above this, the oldest are forgotten.
    static let limit = 10_000

    enum Refusal: Error, Equatable {
        /// Nobody handed it out, it was redeemed before, or its time is over.
        case unknownToken
        /// It is for other content.
        case otherContent
        /// It is bound to another device.
        case otherDevice
        /// It is to be bound to the user's device, and the user has played on none yet.
        case noDevice
    }

    struct Token: Equatable {
        let contentIdentifier: [UInt8]
        let user: String
        /// The only device that may redeem it; nil: any, and it becomes the user's where there is none yet.
        let device: [UInt8]?
        let end: Duration
    }

    private var tokens: [String: Token] = [:]
    private var order: [String] = []
    private var devices: [String: [UInt8]] = [:]

    /// Hands out a token. With `enforcesDevice` it is bound to the device that the user played on first.
    mutating func issue(
        _ name: String, for contentIdentifier: [UInt8], to user: String, enforcesDevice: Bool, now: Duration
    ) throws(Refusal) {
        if enforcesDevice, devices[user] == nil { throw .noDevice }
        if order.count >= Self.limit {
            for old in order.prefix(Self.limit / 2) { tokens[old] = nil }
            order.removeFirst(Self.limit / 2)
        }
        tokens[name] = Token(
            contentIdentifier: contentIdentifier, user: user, device: enforcesDevice ? devices[user] : nil,
            end: now + Self.lifetime)
        order.append(name)
    }

    /// Takes a token in, and notes the device of a user who had none. A token that is refused stays good.
    mutating func redeem(
        _ name: String, device: [UInt8], now: Duration, isContent: ([UInt8]) -> Bool
    ) throws(Refusal) -> Token {
        guard let token = tokens[name], now < token.end else { throw .unknownToken }
        guard isContent(token.contentIdentifier) else { throw .otherContent }
        if let bound = token.device, bound != device { throw .otherDevice }
        tokens[name] = nil
        if devices[token.user] == nil, devices.count < Self.limit { devices[token.user] = device }
        return token
    }
}
