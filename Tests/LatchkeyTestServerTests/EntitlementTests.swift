// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Foundation
import HTTPTypes
import LatchkeyKeySystems
import LatchkeyContainers
import NIOCore
import LatchkeyProtection
import Testing

@testable import LatchkeyTestServer

@Suite struct EntitlementTests {
    private static let authority = try? FairPlayTestAuthority.generate(.v1)
    private static let device = [UInt8](repeating: 1, count: 20)
    private static let otherDevice = [UInt8](repeating: 2, count: 20)

    private let server: ServerApplication
    private let authority: FairPlayTestAuthority

    init() throws {
        authority = try #require(Self.authority)
        let lines = "skd://movie/1 00000000000000000000000000000001 000000000000000000000000000000f1"
        let settings = ServerSettings(
            keysFileEntries: try KeysFile(contents: Array(lines.utf8), name: "test").entries,
            fairPlayAuthorities: [authority])
        server = try #require(ServerApplication(settings: settings.patient))
    }

    /// Runs `body` with a function that sends requests to one server.
    private func test(
        _ body:
            @escaping @Sendable (
                _ send: @Sendable (String, HTTPRequest.Method, [UInt8]) async throws -> TestResponse
            ) async throws -> Void
    ) async throws {
        try await withTestClient(of: server) { client in
            try await body { uri, method, bytes in
                try await client.execute(uri: uri, method: method, body: ByteBuffer(bytes: bytes))
            }
        }
    }

    private func exchange(_ identifier: String = "movie/1", device: [UInt8]) throws -> FairPlayExchange {
        var options = FairPlayExchange.Options()
        options.deviceIdentifier = device
        return try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: Array(identifier.utf8), options: options,
            provider: authority.provider)
    }

    /// The path and query of a token URL.
    private static func path(_ response: TestResponse) throws -> String {
        #expect(response.status == .ok)
        #expect(response.headers[.contentType] == "text/uri-list")
        let text = response.text.trimmingCharacters(in: .whitespacesAndNewlines)
        let start = try #require(text.range(of: "/token/")).lowerBound
        #expect(text.hasPrefix("http://"))
        return String(text[start...])
    }

    @Test func aTokenGetsOneKey() async throws {
        let exchange = try exchange(device: Self.device)
        try await test { send in
            let path = try Self.path(try await send("/entitlement?cid=movie%2F1&user=anna", .get, []))
            #expect(path.hasSuffix("&cid=movie%2F1"))
            let answer = try await send(path, .post, exchange.request)
            #expect(answer.status == .ok)
            let key = try #require(try exchange.open(response: answer.bytes).contentKey)
            #expect(key.withBytes { Hex.encode($0) } == "00000000000000000000000000000001")
            #expect(try await send(path, .post, exchange.request).status == .forbidden)
        }
    }

    @Test func theFirstPlaybackBindsTheDevice() async throws {
        let (first, second) = (try exchange(device: Self.device), try exchange(device: Self.device))
        let (foreign, late) = (try exchange(device: Self.otherDevice), try exchange(device: Self.otherDevice))
        try await test { send in
            let enforced = "/entitlement?cid=movie%2F1&user=anna&device=enforce"
            #expect(try await send(enforced, .post, []).status == .forbidden)
            let open = try Self.path(try await send("/entitlement?cid=movie%2F1&user=anna", .post, []))
            #expect(try await send(open, .post, first.request).status == .ok)
            let bound = try Self.path(try await send(enforced, .post, []))
            let refused = try await send(bound, .post, foreign.request)
            #expect(refused.status == .forbidden)
            #expect(refused.text.contains("another device"))
            #expect(try await send(bound, .post, second.request).status == .ok)
            // Another user's device is free.
            let other = try Self.path(try await send("/entitlement?cid=movie%2F1&user=otto", .get, []))
            #expect(try await send(other, .post, late.request).status == .ok)
        }
    }

    @Test func whatIsWrongIsRefused() async throws {
        let (exchange, other) = (
            try exchange(device: Self.device), try self.exchange("another", device: Self.device)
        )
        try await test { send in
            #expect(try await send("/entitlement?user=anna", .get, []).status == .badRequest)
            #expect(try await send("/entitlement?cid=movie%2F1", .get, []).status == .unauthorized)
            #expect(try await send("/entitlement?cid=unknown&user=anna", .get, []).status == .notFound)
            #expect(try await send("/entitlement?cid=a&user=b", .put, []).status == .methodNotAllowed)
            #expect(try await send("/token/rights?token=none", .post, exchange.request).status == .forbidden)
            #expect(try await send("/token/rights", .get, []).status == .methodNotAllowed)
            let path = try Self.path(try await send("/entitlement?cid=movie%2F1&user=anna", .get, []))
            #expect(try await send(path, .post, [1, 2, 3]).status == .badRequest)
            let refused = try await send(path, .post, other.request)
            #expect(refused.status == .forbidden)
            #expect(refused.text.contains("other content"))
            // Refusals leave the token good.
            #expect(try await send(path, .post, exchange.request).status == .ok)
        }
    }

    @Test func tokensEndAndAreForgotten() throws {
        var book = EntitlementBook()
        try book.issue("a", for: [1], to: "anna", enforcesDevice: false, now: .zero)
        #expect(throws: EntitlementBook.Refusal.unknownToken) {
            try book.redeem("a", device: [1], now: EntitlementBook.lifetime) { _ in true }
        }
        for number in 0...EntitlementBook.limit {
            try book.issue("t\(number)", for: [1], to: "anna", enforcesDevice: false, now: .zero)
        }
        #expect(throws: EntitlementBook.Refusal.unknownToken) {
            try book.redeem("t0", device: [1], now: .zero) { _ in true }
        }
        #expect(try book.redeem("t\(EntitlementBook.limit)", device: [1], now: .zero) { $0 == [1] }.user == "anna")
        #expect(throws: EntitlementBook.Refusal.noDevice) {
            try book.issue("x", for: [1], to: "otto", enforcesDevice: true, now: .zero)
        }
    }
}
