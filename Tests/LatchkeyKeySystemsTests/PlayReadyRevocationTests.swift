// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyContainers
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

@Suite struct PlayReadyRevocationTests {
    private let authority: PlayReadyTestAuthority
    private let model: (certificate: [UInt8], key: [UInt8])
    private let keyID = KeyID(high: 7, low: 7)
    private static let now: UInt32 = 1_700_000_000

    init() throws {
        authority = try PlayReadyTestAuthority.generate()
        let files = try authority.files()
        model = (try #require(files["model.bcert"]), try #require(files["model-key.pem"]))
    }

    private func provisioning(
        _ lists: [RevocationList] = [], timeKey: [UInt8]? = nil
    ) throws(PlayReadyError) -> PlayReadyProvisioning {
        try PlayReadyProvisioning(
            modelCertificate: model.certificate, modelPrivateKeyPEM: model.key, rootKey: authority.rootKey,
            serverKey: authority.serverKey, timeKey: timeKey, revocationLists: lists.map(\.bytes))
    }

    private func exchange(_ provisioning: PlayReadyProvisioning) throws -> PlayReadyExchange {
        try PlayReadyExchange(
            header: WRMHeader(version: .v4_3, keys: [.init(keyID)]),
            keyring: PlayReadyKeyring(device: provisioning.makeDevice()), provisioning: provisioning,
            clientTime: Self.now)
    }

    private func answer(_ exchange: PlayReadyExchange, _ query: String = "") throws -> [UInt8] {
        let key = try #require(ContentKey([UInt8](repeating: 3, count: 16)))
        return PlayReadyLicenseServer(authority: authority).respond(
            to: exchange.request, policy: try PlayReadyServerPolicy(query: query), now: Self.now
        ) { _ in key }.body
    }

    private func expect(
        _ kind: PlayReadyError, _ location: SourceLocation = #_sourceLocation, _ body: () throws -> Void
    ) {
        let error = #expect(throws: PlayReadyError.self, sourceLocation: location) { try body() }
        #expect(error?.isSameKind(as: kind) == true, sourceLocation: location)
    }

    @Test func aListIsReadAsItWasWritten() throws {
        let list = try authority.revocationList(version: 9, revoking: ["license-signer", "domain-controller"])
        let again = try RevocationList(reading: list.bytes)
        #expect(again == list && again.version == 9 && again.keyDigests.count == 2)
        #expect(list.bytes.starts(with: Array("LKRL".utf8) + [0, 0, 0, 1] + list.id.guidOrderBytes + [0, 0, 0, 9]))
        for size in 0..<list.bytes.count {
            #expect(throws: FormatError.self) { try RevocationList(reading: list.bytes.prefix(size)) }
        }
        #expect(throws: FormatError.self) { try RevocationList(reading: list.bytes + [0]) }
        // As many digests as four bytes can say take no memory.
        var hostile = list.bytes
        hostile.replaceSubrange(28..<32, with: [0xFF, 0xFF, 0xFF, 0xFF])
        #expect(throws: FormatError.self) { try RevocationList(reading: hostile) }
    }

    @Test func theSignerOfAnAnswerIsRevoked() throws {
        for part in ["license-signer", "license-issuer"] {
            let list = try authority.revocationList(version: 1, revoking: [part])
            let exchange = try exchange(try provisioning([list]))
            let body = try answer(exchange)
            expect(.certificateRevoked("")) { _ = try exchange.open(response: body) }
        }
        let other = try authority.revocationList(version: 1, revoking: ["domain-controller"])
        let exchange = try exchange(try provisioning([other]))
        #expect(try exchange.open(response: answer(exchange)).licenses.count == 1)
    }

    @Test func aListThatComesWithTheAnswerCountsAlready() throws {
        let exchange = try exchange(try provisioning())
        let revoked = try answer(exchange, "revoke:license-signer")
        expect(.certificateRevoked("")) { _ = try exchange.open(response: revoked) }
        #expect(exchange.revocationLists(in: revoked).map(\.version) == [1])
        let harmless = try exchange.open(response: answer(exchange, "revoke:time-server,crl:4"))
        #expect(harmless.licenses.count == 1 && harmless.revocationLists.map(\.version) == [4])
    }

    @Test func theChallengeTellsTheVersionsAndTheServiceSendsNewerListsOnly() throws {
        let list = try authority.revocationList(version: 4, revoking: ["time-server"])
        let exchange = try exchange(try provisioning([list]))
        let text = String(decoding: exchange.request, as: UTF8.self)
        #expect(text.contains("<ListID>\(SOAP.base64(list.id.guidOrderBytes))</ListID><Version>4</Version>"))
        #expect(try exchange.open(response: answer(exchange, "revoke:time-server,crl:4")).revocationLists.isEmpty)
        let newer = try answer(exchange, "revoke:time-server,crl:5")
        #expect(try exchange.open(response: newer).revocationLists.map(\.version) == [5])
    }

    @Test func listsOfOthersAreOfNoUse() throws {
        let other = try PlayReadyTestAuthority.generate()
        let foreign = try other.revocationList(version: 9, revoking: ["license-signer"])
        expect(.provisioning("")) { _ = try provisioning([foreign]) }
        let list = try authority.revocationList(version: 2, revoking: ["license-signer"])
        var altered = list.bytes
        altered[altered.count - 1] ^= 1
        expect(.provisioning("")) {
            _ = try PlayReadyProvisioning(
                modelCertificate: model.certificate, modelPrivateKeyPEM: model.key, rootKey: authority.rootKey,
                serverKey: authority.serverKey, revocationLists: [altered])
        }
        // Somebody of the same root who may not sign lists.
        let signer = try authority.signer(.licenseSigner)
        let usurped = try RevocationList.make(
            id: PlayReadyTestAuthority.revocationListID, version: 9, keyDigests: [], chain: signer.chain
        ) { try signer.key.sign($0) }
        expect(.provisioning("")) { _ = try provisioning([usurped]) }
        // An older list does not take the place of a newer one.
        let merged = try provisioning([list]).adding([
            foreign, usurped, try authority.revocationList(version: 1, revoking: []),
        ])
        #expect(merged.revocations.lists == [list])
        let newer = try authority.revocationList(version: 3, revoking: [])
        #expect(try provisioning([list]).adding([newer]).revocations.lists == [newer])
    }

    @Test func theVersionThatLicensesAskForIsThatOfItsList() throws {
        let id = try #require(PlayReadyRevocations.revocationInformationID)
        let list = try authority.revocationList(version: 30, revoking: [], id: id)
        #expect(try provisioning([list]).revocations.informationVersion == 30)
        #expect(try provisioning().revocations.informationVersion == nil)
    }

    @Test func aTimeKeyStandsForTheRoot() throws {
        let other = try PlayReadyTestAuthority.generate()
        for (key, isOther) in [(nil, false), (other.rootKey, true)] as [([UInt8]?, Bool)] {
            let provisioning = try provisioning(timeKey: key)
            let exchange = try PlayReadyTimeExchange(
                device: provisioning.makeDevice(), provisioning: provisioning, clientTime: Self.now)
            let own = PlayReadyLicenseServer(authority: authority).time(exchange.request, now: Self.now)
            if isOther {
                expect(.untrustedCertificate("")) { _ = try exchange.time(response: own.body) }
            } else {
                #expect(try exchange.time(response: own.body) == Self.now)
            }
        }
        expect(.provisioning("")) { _ = try provisioning(timeKey: [1, 2, 3]) }
    }

    @Test func aRevokedTimeServiceTellsNoTime() throws {
        let list = try authority.revocationList(version: 1, revoking: ["time-server"])
        let provisioning = try provisioning([list])
        let exchange = try PlayReadyTimeExchange(
            device: provisioning.makeDevice(), provisioning: provisioning, clientTime: Self.now)
        let answer = PlayReadyLicenseServer(authority: authority).time(exchange.request, now: Self.now)
        expect(.certificateRevoked("")) { _ = try exchange.time(response: answer.body) }
    }
}
