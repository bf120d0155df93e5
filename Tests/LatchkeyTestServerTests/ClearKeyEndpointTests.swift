// SPDX-License-Identifier: MPL-2.0

import Foundation
import HTTPTypes
import LatchkeyKeySystems
import NIOCore
import LatchkeyProtection
import Testing

@testable import LatchkeyTestServer

@Suite struct ClearKeyEndpointTests {
    private let server: TestServer
    private let keyID: KeyID
    private let otherKeyID: KeyID
    private let unknown: KeyID

    init() throws {
        server = try TestServer()
        keyID = try #require(TestServer.keyID)
        otherKeyID = try #require(TestServer.otherKeyID)
        unknown = try #require(KeyID(hex: "ffffffffffffffffffffffffffffffff"))
    }

    private func post(_ keyIDs: [KeyID], to uri: String = "/clearkey") async throws -> TestResponse {
        try await server.test { client in
            let request = ByteBuffer(bytes: ClearKey.licenseRequest(for: keyIDs))
            return try await client.execute(uri: uri, method: .post, body: request)
        }
    }

    @Test func givesTheKeysThatAreAskedForAndNoOthers() async throws {
        let response = try await post([keyID])
        #expect(response.status == .ok)
        #expect(response.headers[.contentType] == "application/json")
        let keys = try ClearKey.keys(inLicense: response.bytes)
        #expect(Set(keys.keys) == [keyID])
        #expect(try #require(keys[keyID]) == (try #require(TestServer.key)))
        #expect(server.state.log.map(\.kids) == [[keyID.description]])
        #expect(server.state.log.map(\.status) == [200])
    }

    @Test func givesSeveralKeysAtOnce() async throws {
        let keys = try ClearKey.keys(inLicense: try await post([otherKeyID, keyID, keyID]).bytes)
        #expect(Set(keys.keys) == [keyID, otherKeyID])
        #expect(try #require(keys[otherKeyID]) == (try #require(TestServer.otherKey)))
    }

    @Test func namesTheKeyIDsThatHaveNoKey() async throws {
        let response = try await post([keyID, unknown])
        #expect(response.status == .notFound)
        let error = try JSONDecoder().decode(ErrorBody.self, from: Data(response.bytes))
        #expect(error.kids == [unknown.description])
        #expect(error.error.contains(unknown.description))
        #expect(server.state.log.map(\.status) == [404])
    }

    @Test func leavesThemOutWhereItIsAskedTo() async throws {
        let response = try await post([keyID, unknown], to: "/clearkey?missing=omit")
        #expect(response.status == .ok)
        #expect(Set(try ClearKey.keys(inLicense: response.bytes).keys) == [keyID])
    }

    @Test(arguments: ["", "x", "{}", #"{"kids":[]}"#, #"{"kids":["AAAA"]}"#, #"{"kids":[7]}"#])
    func refusesWhatIsNoRequest(body: String) async throws {
        let response = try await server.test { client in
            try await client.execute(uri: "/clearkey", method: .post, body: ByteBuffer(string: body))
        }
        #expect(response.status == .badRequest)
        #expect(try !JSONDecoder().decode(ErrorBody.self, from: Data(response.bytes)).error.isEmpty)
        #expect(server.state.log.map(\.kids) == [nil])
    }

    @Test func refusesABodyAboveTheLimit() async throws {
        let response = try await server.test { client in
            let body = ByteBuffer(repeating: 0x20, count: ClearKey.maximumSize + 1)
            return try await client.execute(uri: "/clearkey", method: .post, body: body)
        }
        #expect(response.status == .contentTooLarge)
    }

    @Test(arguments: [HTTPRequest.Method.get, .head, .put, .delete, .patch, .options])
    func refusesAnotherMethod(method: HTTPRequest.Method) async throws {
        // Not with the live client, which waits for the body of an answer to HEAD.
        let response = try await server.test { try await $0.execute(uri: "/clearkey", method: method) }
        #expect(response.status == .methodNotAllowed)
        #expect(response.headers[.allow] == "POST")
    }
}
