// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

/// Licenses that travel with the content, whose users may change everything around them.
@Suite struct EmbeddedLicenseTests {
    /// The license that the service gives for key 1, as it came. It is not in the store any more.
    private func takenLicense(_ world: PlayReadyWorld) async throws -> XMRLicense {
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        let parts = try await world.client.parts()
        let record = try #require(try await parts.store.records(for: keyID(1), kind: .license).first)
        try await parts.store.deleteAll(kind: .license)
        return try XMRLicense(reading: Array(record.payload.dropFirst(5)))
    }

    /// Copies in the content are not as many rentals.
    @Test func copiesOfALicenseThatTravelsAreOne() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("firstexp:60")
        let license = try await takenLicense(world)
        let first = try #require(try await world.client.judge(embedded: [license]).judged.first)
        #expect(first.verdict.mayPlay)
        _ = try await world.client.markFirstPlay(first.installed)
        world.pass(61)
        for count in [1, 2, 3] {
            let found = try await world.client.judge(embedded: Array(repeating: license, count: count))
            #expect(found.judged.first?.verdict.status == .expired)
        }
    }

    /// Nothing tells when its time began.
    @Test func aLicenseThatEndsAfterItsStoringDoesNotTravel() async throws {
        let world = try PlayReadyWorld()
        world.service.setPolicy("storeexp:60")
        let found = try await world.client.judge(embedded: [try await takenLicense(world)])
        #expect(found.judged.isEmpty)
        #expect("\(String(describing: found.failure))".contains("after it was stored"))
    }
}
