// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySystems

@Suite struct PlayReadyProvisioningTests {
    private let authority: PlayReadyTestAuthority

    init() throws { authority = try PlayReadyTestAuthority.generate() }

    @Test func anAuthorityIsWrittenAndRead() throws {
        let files = try authority.files()
        let again = try PlayReadyTestAuthority.read(files: files)
        #expect(again.rootKey == authority.rootKey && again.serverKey == authority.serverKey)
        var broken = files
        broken["root-key.pem"] = nil
        #expect(throws: PlayReadyError.self) { try PlayReadyTestAuthority.read(files: broken) }
        let provisioning = try PlayReadyProvisioning(
            modelCertificate: try #require(files["model.bcert"]),
            modelPrivateKeyPEM: try #require(files["model-key.pem"]),
            rootKey: try #require(files["root.pub"]), serverKey: try #require(files["server.pub"]))
        let device = try provisioning.makeDevice(features: [.secureClock])
        try CertificateTrust(rootKey: authority.rootKey).check(device.chain)
        #expect(device.securityLevel == 2000 && device.chain.leaf.has(.secureClock))
        let pems = try device.privateKeyPEMs()
        let kept = try PlayReadyDevice(
            chain: device.chain.serialized, signingKeyPEM: pems.signing, encryptionKeyPEM: pems.encryption)
        #expect(kept.encryptionKey.publicKey == device.encryptionKey.publicKey)
        #expect(throws: PlayReadyError.self) {
            try PlayReadyDevice(
                chain: device.chain.serialized, signingKeyPEM: pems.encryption, encryptionKeyPEM: pems.signing)
        }
    }

    @Test func aBundleThatDoesNotBelongTogetherIsRefused() throws {
        let files = try authority.files()
        let other = try PlayReadyTestAuthority.generate().files()
        let names = ["model.bcert", "model-key.pem", "root.pub", "server.pub"]
        func provision(_ change: (inout [String: [UInt8]]) -> Void) throws {
            var files = files
            change(&files)
            let parts = names.map { files[$0] ?? [] }
            _ = try PlayReadyProvisioning(
                modelCertificate: parts[0], modelPrivateKeyPEM: parts[1], rootKey: parts[2], serverKey: parts[3])
        }
        #expect(throws: Never.self) { try provision { _ in } }
        for name in names.dropLast() {
            let error = #expect(throws: PlayReadyError.self, "\(name)") { try provision { $0[name] = other[name] } }
            #expect(error?.action == .configure)
        }
        for name in names {
            #expect(throws: PlayReadyError.self, "\(name)") { try provision { $0[name] = [1, 2, 3] } }
        }
        // A certificate that may issue other things.
        #expect(throws: PlayReadyError.self) {
            try provision {
                $0["model.bcert"] = $0["domain-issuer.bcert"]
                $0["model-key.pem"] = $0["domain-issuer-key.pem"]
            }
        }
    }

    /// Certificates under the model's: each with one thing wrong.
    @Test func whatACertificateMayNotDoIsRefused() throws {
        let (model, root) = (try authority.signer(.model), CertificateTrust(rootKey: authority.rootKey))
        let key = try P256PrivateKey.generate(.system)
        func check(
            kind: BCert.Kind = .device, level: UInt32 = 2000, expiry: UInt32 = BCert.Basic.noExpiry,
            usage: BCert.Usage = .sign, digestOf: [UInt8]? = nil, signer: P256PrivateKey? = nil, above: [BCert]? = nil,
            now: UInt32? = nil
        ) throws {
            let basic = BCert.Basic(
                id: [UInt8](repeating: 1, count: 16), securityLevel: level, kind: kind,
                keyDigest: try Digest.sha256(digestOf ?? key.publicKey), expiry: expiry)
            let leaf = try BCert.make(
                objects: [basic.object, BCert.Key.object([.init(key.publicKey, usages: [usage])])],
                issuerKey: model.key.publicKey
            ) { try (signer ?? model.key).sign($0) }
            try root.check(BCertChain([leaf] + (above ?? model.chain.certificates)), now: now)
        }
        #expect(throws: Never.self) { try check() }
        #expect(throws: Never.self) { try check(level: 150) }
        #expect(throws: Never.self) { try check(expiry: 10, now: 9) }
        #expect(throws: Never.self) { try check(kind: .issuer, usage: .issuerDevice) }
        let wrong: [() throws -> Void] = [
            { try check(kind: .domain) }, { try check(kind: .licenseSigner) }, { try check(kind: .application) },
            { try check(kind: .issuer, usage: .issuerDomain) }, { try check(level: 2001) },
            { try check(expiry: 10, now: 10) }, { try check(digestOf: [1]) }, { try check(signer: key) },
            { try check(above: []) }, { try check(above: authority.signer(.domainIssuer).chain.certificates) },
        ]
        for (index, body) in wrong.enumerated() {
            let error = #expect(throws: PlayReadyError.self, "case \(index)") { try body() }
            #expect(error?.isSameKind(as: .untrustedCertificate("")) == true, "case \(index)")
        }
    }
}
