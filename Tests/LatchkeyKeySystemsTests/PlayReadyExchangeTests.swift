// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import Foundation
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

@Suite struct PlayReadyExchangeTests {
    private let kit: PlayReadyTestKit

    init() throws { kit = try PlayReadyTestKit() }

    private func expect(
        _ kind: PlayReadyError, _ location: SourceLocation = #_sourceLocation, _ body: () throws -> Void
    ) {
        let error = #expect(throws: PlayReadyError.self, sourceLocation: location) { try body() }
        #expect(error?.shortDescription == kind.shortDescription, sourceLocation: location)
    }

    @Test(arguments: ["", "cfg=(persist:true)", "cfg=(persist:false)"]) func aLicenseComesBack(query: String) throws {
        var options = PlayReadyExchange.Options()
        options.customData = "a<b>&\"c\" \n é"
        let exchange = try kit.exchange(options: options)
        let answer = try kit.answer(exchange, query)
        #expect(answer.status == 200 && answer.keyIDs == [kit.keyID] && answer.customData == options.customData)
        let opened = try exchange.open(response: answer.body, now: PlayReadyTestKit.now)
        let license = try #require(opened.licenses.first)
        #expect(license.contentKey == kit.key && license.keyID == kit.keyID && license.keyType == .aesCTR)
        #expect(opened.isPersistent == !query.contains("false"))
        let kept = try PlayReadyLicense(reading: license.xmr.bytes, keyring: PlayReadyKeyring(device: kit.device))
        #expect(kept.contentKey == kit.key)
    }

    @Test func everyHeaderVersionIsCarriedUnchanged() throws {
        for version in WRMHeader.Version.allCases {
            let header = try WRMHeader(version: version, keys: [.init(kit.keyID)])
            let exchange = try kit.exchange(header: header)
            #expect(String(decoding: exchange.request, as: UTF8.self).contains(header.text))
            #expect(try exchange.open(response: kit.answer(exchange).body).licenses.count == 1)
        }
    }

    @Test func severalLicensesInOneAnswer() throws {
        let other = try #require(KeyID(hex: "ffeeddccbbaa99887766554433221100"))
        let header = try WRMHeader(version: .v4_2, keys: [.init(kit.keyID), .init(other)])
        let exchange = try kit.exchange(header: header)
        let query =
            "(kid:\(kit.keyID.uuidString),sl:150),(kid:\(other),contentkey:AAECAwQFBgcICQoLDA0ODw==,persist:false)"
        let opened = try exchange.open(response: kit.answer(exchange, query).body)
        #expect(opened.licenses.map(\.keyID) == [kit.keyID, other] && opened.isPersistent)
        #expect(opened.licenses.map(\.terms.cannotPersist) == [false, true])
        #expect(try #require(opened.licenses.last).contentKey == #require(ContentKey(Array(0..<16))))
    }

    @Test func keysForCBCNeedAClientThatCanDoIt() throws {
        let header = try WRMHeader(version: .v4_3, keys: [.init(kit.keyID, algorithm: .aesCBC)])
        let exchange = try kit.exchange(header: header)
        #expect(try exchange.open(response: kit.answer(exchange).body).licenses.first?.keyType == .aesCBC)
        var options = PlayReadyExchange.Options()
        options.features = []
        let answer = try kit.answer(kit.exchange(options: options, header: header))
        #expect(answer.fault?.code == PlayReadyFault.invalidMessage && answer.status == 500)
    }

    @Test func aHeaderMayAskForNoLicense() throws {
        let header = try WRMHeader(version: .v4_3, keys: [.init(kit.keyID)], details: .init(isLicenseRequested: false))
        let exchange = try kit.exchange(header: header)
        #expect(try exchange.open(response: kit.answer(exchange).body).licenses.isEmpty)
    }

    // MARK: - What is refused

    @Test func anAnswerToAnotherRequestIsRefused() throws {
        let (first, second) = (try kit.exchange(), try kit.exchange())
        for query in ["persist:true", "persist:false"] {
            let body = try kit.answer(first, query).body
            expect(.wrongNonce("")) { _ = try second.open(response: body) }
            var options = PlayReadyExchange.Options()
            options.requiresNonce = false
            #expect(try kit.exchange(options: options).open(response: body).licenses.count == 1)
        }
    }

    @Test func anotherRootIsRefused() throws {
        let other = try PlayReadyTestKit()
        let exchange = try kit.exchange()
        // A server that can open the challenge, but whose certificates go back to another root.
        var keys = other.authority.keys
        keys[.server] = kit.authority.keys[.server]
        let strange = try PlayReadyTestAuthority(keys: keys, securityLevel: 2000, random: .system)
        let refusal = try kit.answer(exchange, from: PlayReadyLicenseServer(authority: strange))
        #expect(refusal.fault?.code == PlayReadyFault.invalidMessage)
        let foreign = try PlayReadyExchange(
            header: kit.header, keyring: PlayReadyKeyring(device: other.device), provisioning: other.provisioning,
            clientTime: 0)
        let body = try other.answer(foreign).body
        expect(.untrustedCertificate("")) { _ = try exchange.open(response: body) }
    }

    @Test func aCertificateForSomethingElseIsRefused() throws {
        let exchange = try kit.exchange()
        let element =
            "<Version>1</Version><Licenses></Licenses><LicenseNonce>\(SOAP.base64(exchange.nonce))</LicenseNonce>"
        for part in [PlayReadyTestAuthority.Part.timeServer, .domainController] {
            let body = try kit.authority.signer(part).response(
                .acquireLicense, namespace: SOAP.protocols, content: element)
            expect(.untrustedCertificate("")) { _ = try exchange.open(response: body) }
        }
        let signer = try kit.authority.signer(.licenseSigner)
        let body = try ServiceSigner(chain: signer.chain, key: kit.authority.key(.timeServer)).response(
            .acquireLicense, namespace: SOAP.protocols, content: element)
        expect(.invalidSignature("")) { _ = try exchange.open(response: body) }
    }

    @Test(arguments: ["LicenseNonce", "License", "ResponseID", "SigningCertificateChain", "CustomData"])
    func aChangedPartOfTheAnswerIsRefused(name: String) throws {
        let exchange = try kit.exchange()
        var text = String(decoding: try kit.answer(exchange, "customdata:word").body, as: UTF8.self)
        let start = try #require(text.range(of: "<\(name)>")).upperBound
        let character = text[start]
        text.replaceSubrange(start...start, with: character == "A" ? "B" : "A")
        expect(.invalidSignature("")) { _ = try exchange.open(response: Array(text.utf8)) }
    }

    @Test func aMissingSignatureIsRefusedUnlessAllowed() throws {
        var options = PlayReadyExchange.Options()
        options.requiresSignature = false
        for isStrict in [true, false] {
            let exchange = try isStrict ? kit.exchange() : kit.exchange(options: options)
            var text = String(decoding: try kit.answer(exchange).body, as: UTF8.self)
            let start = try #require(text.range(of: "<Signature ")).lowerBound
            let end = try #require(text.range(of: "</Signature>")).upperBound
            text.removeSubrange(start..<end)
            if isStrict {
                expect(.signatureMissing("")) { _ = try exchange.open(response: Array(text.utf8)) }
            } else {
                #expect(try exchange.open(response: Array(text.utf8)).licenses.count == 1)
            }
        }
    }

    /// The signed element stays in the document, but another one stands where a careless reader would look.
    @Test func aSecondElementIsRefused() throws {
        let exchange = try kit.exchange()
        let text = String(decoding: try kit.answer(exchange).body, as: UTF8.self)
        let forged = "<LicenseResponse Id=\"SignedData\"><Licenses></Licenses></LicenseResponse>"
        for place in ["<Response ", "</Response>", "<soap:Body>"] {
            let index = try #require(text.range(of: place)).lowerBound
            var changed = text
            changed.insert(contentsOf: forged, at: index)
            expect(.invalidSignature("")) { _ = try exchange.open(response: Array(changed.utf8)) }
        }
    }

    /// The license's own code is the last line, where the answer's signature is not looked at.
    @Test func anAlteredLicenseIsRefused() throws {
        let exchange = try kit.exchange()
        let opened = try exchange.open(response: kit.answer(exchange, "firstexp:60,sl:150,ucvopl:300").body)
        let bytes = try #require(opened.licenses.first).xmr.bytes
        let keyring = PlayReadyKeyring(device: kit.device)
        var accepted: [Int] = []
        for position in bytes.indices {
            var changed = bytes
            changed[position] ^= 0x11
            if (try? PlayReadyLicense(reading: changed, keyring: keyring)) != nil { accepted.append(position) }
        }
        // The flags of the signature object itself, which the signature cannot cover.
        #expect(accepted == [bytes.count - 28, bytes.count - 27])
    }

    @Test func aLicenseOfAnotherDeviceIsRefused() throws {
        let exchange = try kit.exchange()
        let license = try #require(try exchange.open(response: kit.answer(exchange).body).licenses.first)
        let other = PlayReadyKeyring(device: try kit.provisioning.makeDevice())
        expect(.otherDevice("")) { _ = try PlayReadyLicense(license.xmr, keyring: other) }
    }

    @Test func leavesOfARootAreRefusedByName() throws {
        let issue = PlayReadyLicenseIssue(keyID: kit.keyID, key: kit.key, type: .aesCTR, terms: XMRTerms())
        var terms = issue.terms
        terms.uplink = .init(keyID: kit.keyID)
        terms.key = .init(keyID: kit.keyID, cipher: .chained, data: [UInt8](repeating: 0, count: 16))
        let leaf = try XMRLicense.make(rightsID: GUID(kit.keyID), objects: terms.objects) { _ in
            [UInt8](repeating: 0, count: 16)
        }
        expect(.unsupportedLicense("")) {
            _ = try PlayReadyLicense(leaf, keyring: PlayReadyKeyring(device: kit.device))
        }
    }

    /// 0x51 makes a root whose keys alternate; built here by hand.
    @Test func scalableRootsAreOpened() throws {
        for counter in 0...255 {
            let integrity = [UInt8](repeating: UInt8(counter), count: 16)
            let content = kit.key.withBytes { Array($0) }
            let x = zip(integrity, content).flatMap { [$0, $1] }
            guard let point = try P256.Point(x: x), let integrityKey = ContentKey(integrity) else { continue }
            var terms = XMRTerms()
            terms.auxiliaryKeys = [.init(location: 0, key: [UInt8](repeating: 3, count: 16))]
            let receiver = kit.device.encryptionKey.publicKey
            terms.boundKey = receiver
            terms.key = .init(
                keyID: kit.keyID, type: .keyExchange, data: try P256.encrypt(point, for: receiver, random: .system))
            let root = try XMRLicense.make(rightsID: GUID(kit.keyID), objects: terms.objects) {
                try AES.cmac(key: integrityKey, $0)
            }
            let opened = try PlayReadyLicense(root, keyring: PlayReadyKeyring(device: kit.device))
            #expect(opened.contentKey == kit.key)
            return
        }
        Issue.record("no point was found")
    }

    @Test func theServiceRefusesWhatTheDeviceDidNotSign() throws {
        let exchange = try kit.exchange()
        let text = String(decoding: exchange.request, as: UTF8.self)
        let stranger = try kit.exchange()
        let other = String(decoding: stranger.request, as: UTF8.self)
        for name in ["ClientTime", "LicenseNonce", "CLIENTVERSION"] {
            let start = try #require(text.range(of: "<\(name)>")).upperBound
            var changed = text
            changed.replaceSubrange(start...start, with: text[start] == "7" ? "8" : "7")
            #expect(kit.server.respond(to: Array(changed.utf8), now: 0) { _ in kit.key }.fault != nil)
        }
        // The signature of another request of the same device.
        func signature(_ text: String) throws -> Range<String.Index> {
            try #require(text.range(of: "<Signature "))
                .lowerBound..<(try #require(text.range(of: "</Signature>")).upperBound)
        }
        var changed = text
        changed.replaceSubrange(try signature(text), with: other[try signature(other)])
        #expect(kit.server.respond(to: Array(changed.utf8), now: 0) { _ in kit.key }.fault?.code == 0x8004_C601)
    }

    @Test func controlCharactersInCustomDataAreRefused() {
        var options = PlayReadyExchange.Options()
        options.customData = "a\u{0}b"
        expect(.malformedRequest("")) { _ = try kit.exchange(options: options) }
    }

    @Test(arguments: ["", "x", "<a/>", "<html>error</html>"]) func otherAnswersAreRefused(text: String) throws {
        let exchange = try kit.exchange()
        expect(.malformedResponse("")) { _ = try exchange.open(response: Array(text.utf8)) }
    }

    @Test func nothingPrintsAKey() throws {
        let exchange = try kit.exchange()
        let opened = try exchange.open(response: kit.answer(exchange).body)
        var text = ""
        dump((exchange, opened, kit.authority, kit.device, kit.provisioning), to: &text)
        let secret = SOAP.base64(try kit.device.encryptionKey.scalarBytes())
        for hidden in ["606162", "96, 97, 98, 99", secret, SOAP.base64(exchange.nonce)] {
            #expect(!text.contains(hidden))
        }
    }
}
