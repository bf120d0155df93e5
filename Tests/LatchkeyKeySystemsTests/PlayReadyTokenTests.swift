// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import Foundation
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySystems

/// Private keys that live in a token. Each test has a process of its own: SoftHSM keeps its state in one.
@Suite struct PlayReadyTokenTests {
    @Test func theModelsKeySignsFromTheToken() async {
        await #expect(processExitsWith: .success) {
            let token = try SoftToken()
            let files = try PlayReadyTestAuthority.generate().files()
            let uri = try token.importKey("model", id: "01", pem: try #require(files["model-key.pem"]))
            let provisioning = try PlayReadyProvisioning(
                modelCertificate: try #require(files["model.bcert"]), modelPrivateKeyPEM: Array("\(uri)\n".utf8),
                rootKey: try #require(files["root.pub"]), serverKey: try #require(files["server.pub"]))
            let device = try provisioning.makeDevice()
            // Whoever checks the chain sees no difference.
            try CertificateTrust(rootKey: provisioning.rootKey).check(device.chain)
        }
    }

    @Test func theDevicesKeysAcquireALicenseFromTheToken() async {
        await #expect(processExitsWith: .success) {
            let token = try SoftToken()
            let authority = try PlayReadyTestAuthority.generate()
            let provisioning = try authority.provisioning()
            let signing = Array(try token.makeKey("sign", id: "02").utf8)
            let encryption = Array(try token.makeKey("encrypt", id: "03").utf8)
            let made = try provisioning.makeDevice(signingKey: signing, encryptionKey: encryption)
            let kept = try made.privateKeyPEMs()
            #expect(kept.signing == signing)
            #expect(kept.encryption == encryption)
            let device = try PlayReadyDevice(
                chain: made.chain.serialized, signingKeyPEM: kept.signing, encryptionKeyPEM: kept.encryption)

            let keyID = KeyID(high: 1, low: 2)
            let key = try #require(ContentKey((0..<16).map { UInt8($0) }))
            let header = try WRMHeader(version: .v4_3, keys: [.init(keyID)])
            // Half of all licenses need the second of the two messages that a token leaves open.
            for _ in 0..<12 {
                let exchange = try PlayReadyExchange(
                    header: header, keyring: PlayReadyKeyring(device: device), provisioning: provisioning, clientTime: 1
                )
                let answer = PlayReadyLicenseServer(authority: authority).respond(
                    to: exchange.request, policy: try PlayReadyServerPolicy(query: ""), now: 1, domains: nil
                ) { _ in key }
                #expect(answer.fault == nil)
                let licenses = try exchange.open(response: answer.body).licenses
                #expect(licenses.first?.contentKey.withBytes { Array($0) } == key.withBytes { Array($0) })
            }
        }
    }

    @Test func aDomainIsJoinedFromTheToken() async {
        await #expect(processExitsWith: .success) {
            let token = try SoftToken()
            let authority = try PlayReadyTestAuthority.generate()
            let provisioning = try authority.provisioning()
            let encryption = Array(try token.makeKey("encrypt", id: "04").utf8)
            let device = try provisioning.makeDevice(encryptionKey: encryption)
            let service = try #require(GUID("4C4B5356-0000-0000-0000-000000000001"))
            let account = try #require(GUID("4C4B444D-0000-0000-0000-000000000001"))
            var domains = PlayReadyDomainController(serviceID: service, authority: authority)
            try domains.add(accountID: account, memberLimit: 3, url: "")
            for _ in 0..<6 {
                let exchange = try PlayReadyDomainExchange.join(
                    .init(serviceID: service, accountID: account), device: device, provisioning: provisioning,
                    clientTime: 1)
                let answer = domains.respond(to: exchange.request, .joinDomain, now: 1)
                #expect(try exchange.membership(response: answer.body).accountID == account)
            }
        }
    }

    @Test func whatIsNotInTheTokenIsNamed() async {
        await #expect(processExitsWith: .success) {
            let token = try SoftToken()
            let files = try PlayReadyTestAuthority.generate().files()
            _ = try token.importKey("model", id: "01", pem: try #require(files["model-key.pem"]))
            // The right PIN comes last: with it, OpenSSL's provider opens the token for the rest of the process.
            for uri in ["pkcs11:", "pkcs11:token=none", token.uri("model", pin: "9999"), token.uri("other")] {
                let error = #expect(throws: PlayReadyError.self) {
                    try PlayReadyProvisioning(
                        modelCertificate: try #require(files["model.bcert"]), modelPrivateKeyPEM: Array(uri.utf8),
                        rootKey: try #require(files["root.pub"]), serverKey: try #require(files["server.pub"]))
                }
                #expect(error?.part == .modelPrivateKey)
                #expect(error.map { "\($0)".contains("PKCS #11 URI") } == true)
                #expect(error.map { !"\($0)".contains("9999") && !"\($0)".contains("1234") } == true)
            }
        }
    }

    @Test func onlyAURIAloneIsOne() {
        let uri = Array("pkcs11:object=a?pin-value=1".utf8)
        #expect(P256PrivateKey.tokenURI(in: uri) == uri)
        #expect(P256PrivateKey.tokenURI(in: uri + [0x0A]) == uri)
        #expect(P256PrivateKey.tokenURI(in: uri + Array(" more".utf8)) == nil)
        #expect(P256PrivateKey.tokenURI(in: uri + [0]) == nil)
        #expect(P256PrivateKey.tokenURI(in: Array("-----BEGIN".utf8)) == nil)
    }
}
