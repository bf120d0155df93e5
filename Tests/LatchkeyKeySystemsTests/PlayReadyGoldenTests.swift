// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
@testable import LatchkeyTestAuthorities
import Foundation
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

@Suite struct PlayReadyGoldenTests {
    @Test func trustsTheGoldenChains() throws {
        let trust = CertificateTrust(rootKey: try PlayReadyGolden.publicKey("root"))
        for name in ["chain-device.bin", "chain-server.bin"] {
            try trust.check(BCertChain(reading: PlayReadyGolden.file(name)), now: 2_000_000_000)
        }
        let other = CertificateTrust(rootKey: try PlayReadyGolden.publicKey("model"))
        #expect(throws: PlayReadyError.self) {
            try other.check(BCertChain(reading: PlayReadyGolden.file("chain-device.bin")))
        }
    }

    /// All but the signature's own random number is the same as in the file.
    @Test func makesTheGoldenChallenge() throws {
        func withoutSignature(_ text: String) throws -> [String] {
            let parts = text.components(separatedBy: "<SignatureValue>")
            #expect(parts.count == 2)
            return [parts[0], String(try #require(parts.last?.dropFirst(88)))]
        }
        let made = String(decoding: try PlayReadyGolden.exchange().request, as: UTF8.self)
        #expect(try withoutSignature(made) == withoutSignature(PlayReadyGolden.text("challenge.xml")))
    }

    @Test func opensTheGoldenChallenge() throws {
        let request = try ServiceRequest(
            PlayReadyGolden.file("challenge.xml"), .acquireLicense,
            serverKey: PlayReadyGolden.privateKey("server encrypt"),
            trust: CertificateTrust(rootKey: PlayReadyGolden.publicKey("root")), now: 0)
        #expect(request.nonce == (try PlayReadyGolden.bytes(PlayReadyGolden.known().nonce)))
        #expect(request.chain.serialized == (try PlayReadyGolden.file("chain-device.bin")))
        #expect(request.features == ["AESCBC"] && request.clientTime == 1_446_224_160)
        #expect(request.text("CustomData") == "User=<Jürgen> & co")
        let header = try WRMHeader(element: try #require(request.element.descendant("ContentHeader", "WRMHEADER")))
        #expect(header.text == (try PlayReadyGolden.text("header-4.2.xml")))
    }

    @Test func opensTheGoldenResponses() throws {
        let known = try PlayReadyGolden.known()
        let key = try #require(ContentKey(hex: known.contentKey))
        let answer = try PlayReadyGolden.exchange().open(
            response: PlayReadyGolden.file("response.xml"), now: 1_446_224_170)
        #expect(answer.licenses.count == 1 && answer.isPersistent && answer.customData == "hello")
        let license = try #require(answer.licenses.first)
        #expect(license.contentKey == key && license.keyID.description == known.keyID)
        #expect(answer.transactionID == (try PlayReadyGolden.bytes(known.transaction)))
        #expect(Array(answer.revocationListData.values) == [Array("list data".utf8)])
        #expect(answer.revocationLists.isEmpty)
        let temporary = try PlayReadyGolden.exchange().open(response: PlayReadyGolden.file("response-temporary.xml"))
        #expect(try #require(temporary.licenses.first).contentKey == key && !temporary.isPersistent)
    }

    @Test func issuesTheGoldenLicense() throws {
        let known = try PlayReadyGolden.known()
        let golden = try XMRLicense(reading: PlayReadyGolden.file("license.bin"))
        let issue = PlayReadyLicenseIssue(
            keyID: try #require(KeyID(hex: known.keyID)), key: try #require(ContentKey(hex: known.contentKey)),
            type: .aesCTR, terms: try XMRTerms(golden))
        let made = try issue.license(
            rightsID: PlayReadyGolden.bytes(known.rightsID), receiver: PlayReadyGolden.publicKey("device encrypt"),
            random: PlayReadyGolden.random([
                PlayReadyGolden.bytes(known.integrityKey), PlayReadyGolden.scalarBytes("license k"),
            ]))
        #expect(made == golden)
    }

    /// Every byte of it is under a signature, or makes it unreadable; what is not, is not used.
    @Test func aChangedAnswerIsRefusedOrSaysTheSame() throws {
        var random = SeededGenerator(seed: 5)
        let bytes = try PlayReadyGolden.file("response.xml")
        let exchange = try PlayReadyGolden.exchange()
        let good = try exchange.open(response: bytes)
        var accepted: [Int] = []
        for position in stride(from: 0, to: bytes.count, by: 3) {
            var changed = bytes
            changed[position] ^= UInt8.random(in: 1...127, using: &random)
            guard let answer = try? exchange.open(response: changed) else { continue }
            accepted.append(position)
            #expect(answer.licenses.map(\.xmr) == good.licenses.map(\.xmr) && answer.customData == good.customData)
        }
        let text = try PlayReadyGolden.text("response.xml")
        let start = try #require(text.range(of: "<LicenseResponse"))
        let first = text.utf8.distance(from: text.startIndex, to: start.lowerBound)
        let end = try #require(text.range(of: "</LicenseResponse>"))
        let last = text.utf8.distance(from: text.startIndex, to: end.upperBound)
        #expect(accepted.allSatisfy { !(first..<last).contains($0) })
    }

    @Test(arguments: [UInt64(1), 2, 3]) func damagedMessagesThrowOrAreReadAndNeverTrap(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let exchange = try PlayReadyGolden.exchange()
        let (request, response) = (
            try PlayReadyGolden.file("challenge.xml"), try PlayReadyGolden.file("response.xml")
        )
        let (key, trust) = (
            try PlayReadyGolden.privateKey("server encrypt"),
            CertificateTrust(rootKey: try PlayReadyGolden.publicKey("root"))
        )
        var lax = PlayReadyExchange.Options()
        (lax.requiresNonce, lax.requiresSignature) = (false, false)
        let laxExchange = try PlayReadyGolden.exchange(options: lax)
        var refused = 0
        for _ in 0..<200 {
            let changed = random.mutate(response)
            if (try? exchange.open(response: changed)) == nil { refused += 1 }
            _ = try? laxExchange.open(response: changed)
            _ = try? ServiceRequest(random.mutate(request), .acquireLicense, serverKey: key, trust: trust, now: 0)
        }
        #expect(refused > 150)
    }
}
