// SPDX-License-Identifier: MPL-2.0

import KeySystems
import MediaFormats
import ProtectionModel
import TestSupport
import Testing

/// Client and server together. What each does alone is in the tests of the golden files.
@Suite struct FairPlayExchangeTests {
    @Test(arguments: SPCContainer.Version.allCases)
    func theKeyComesOverUnchanged(version: SPCContainer.Version) throws {
        let exchange = try FairPlayTestKit.exchange(version)
        #expect(try SPCContainer(reading: exchange.request).version == version)
        let answer = try FairPlayTestKit.answer(exchange)
        #expect(answer.request.assetIdentifier == FairPlayTestKit.contentIdentifier)
        #expect(answer.request.transactionIdentifier == exchange.transactionIdentifier)
        #expect(answer.request.hasIntegrity)
        let license = try exchange.open(response: answer.ckc)
        #expect(try #require(license.contentKey) == (try FairPlayTestKit.key().key))
        #expect(license.initializationVector?.bytes == FairPlayTestKit.ivBytes)
        #expect(license.leaseDuration == nil)
        #expect(license.rentalDuration == nil)
        #expect(license.persistence == .notAllowed)
        #expect(license.outputRequirement == nil)
        #expect(license.returnedBlocks.map(\.tag).contains(.transactionIdentifier))
        #expect(license.otherBlocks.isEmpty)
    }
}
