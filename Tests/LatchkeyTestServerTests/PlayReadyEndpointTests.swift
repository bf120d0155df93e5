// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import HTTPTypes
import LatchkeyKeySystems
import NIOCore
import LatchkeyProtection
import Testing

@testable import LatchkeyTestServer

@Suite struct PlayReadyEndpointTests {
    private let server: TestServer
    private let provisioning: PlayReadyProvisioning
    private let device: PlayReadyDevice
    private let header: WRMHeader

    init() throws {
        let authority = try PlayReadyTestAuthority.generate()
        server = try TestServer(playReadyAuthority: authority)
        provisioning = try authority.provisioning()
        device = try provisioning.makeDevice()
        header = try WRMHeader(version: .v4_0, keys: [.init(try #require(TestServer.keyID))])
    }

    private func post(
        _ body: [UInt8], _ operation: PlayReadyOperation, query: String = ""
    ) async throws -> (status: HTTPResponse.Status, body: [UInt8]) {
        let name = try #require(HTTPField.Name("SOAPAction"))
        let response = try await server.test { client in
            try await client.execute(
                uri: "/playready/rightsmanager.asmx\(query)", method: .post, headers: [name: operation.soapAction],
                body: ByteBuffer(bytes: body))
        }
        return (response.status, response.bytes)
    }

    private func exchange(_ memberships: [PlayReadyMembership] = []) throws -> PlayReadyExchange {
        try PlayReadyExchange(
            header: header, keyring: PlayReadyKeyring(device: device, memberships: memberships),
            provisioning: provisioning, clientTime: PlayReadyService.now)
    }

    @Test func givesALicense() async throws {
        let exchange = try exchange()
        let response = try await post(exchange.request, .acquireLicense, query: "?cfg=(persist:false,ucvopl:270)")
        #expect(response.status == .ok)
        let license = try #require(try exchange.open(response: response.body).licenses.first)
        #expect(license.contentKey == (try #require(TestServer.key)))
        #expect(license.terms.cannotPersist && license.terms.outputLevels?.uncompressedDigitalVideo == 270)
        #expect(server.state.log.map(\.kids) == [[license.keyID.description]])
    }

    @Test func joinsADomainAcknowledgesAndTellsTheTime() async throws {
        let account = try #require(PlayReadyService.accountID)
        let query = "?cfg=(domain:\(account),tid:AAEC)"
        let first = try exchange()
        let refusal = try await post(first.request, .acquireLicense, query: query)
        #expect(refusal.status == .internalServerError)
        let fault = try #require(PlayReadyFault(response: refusal.body))
        #expect(fault.action == .joinDomain)
        let join = try PlayReadyDomainExchange.join(
            .init(fault: fault), device: device, provisioning: provisioning, clientTime: 0)
        let membership = try join.membership(response: try await post(join.request, .joinDomain).body)

        let second = try exchange([membership])
        let answer = try second.open(response: try await post(second.request, .acquireLicense, query: query).body)
        let id = try #require(answer.transactionID)
        for isFirst in [true, false] {
            let message = try PlayReadyAcknowledgement(
                transactionID: id, device: device, provisioning: provisioning, clientTime: 0)
            let response = try await post(message.request, .acknowledgeLicense)
            #expect(response.status == (isFirst ? .ok : .internalServerError))
            if isFirst { try message.confirm(response: response.body) }
        }
        let time = try PlayReadyTimeExchange(device: device, provisioning: provisioning, clientTime: 0)
        let now = try time.time(response: try await post(time.request, .getTime).body)
        #expect(now <= PlayReadyService.now && now > PlayReadyService.now - 600)
        let leave = try PlayReadyDomainExchange.leave(
            membership, device: device, provisioning: provisioning, clientTime: 0)
        try leave.confirmLeaving(response: try await post(leave.request, .leaveDomain).body)
    }

    @Test func refusesWhatItDoesNotKnow() async throws {
        #expect(try await post([], .acquireLicense).status == .internalServerError)
        #expect(try await post(exchange().request, .acquireLicense, query: "?cfg=(x:y)").status == .badRequest)
        let plain = try await server.test { client in
            try await client.execute(uri: "/playready/rightsmanager.asmx", method: .post, body: ByteBuffer())
        }
        #expect(plain.status == .badRequest)
    }
}
