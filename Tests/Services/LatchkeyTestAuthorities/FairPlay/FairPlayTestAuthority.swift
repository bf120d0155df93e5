// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection

/// A self-rooted test authority: an application certificate that it signed itself, the private key of it, and an
/// application secret key, all made by Latchkey.
///
/// No vendor knows it, and it opens nothing that a vendor protects. It stands in for what an integrator gets from one.
/// Immutable and thread-safe; prints without keys.
public struct FairPlayTestAuthority: Sendable {
    /// X.509 in DER, as clients need it.
    public let certificate: [UInt8]
    /// That of the SPCs that are made for the certificate.
    public let version: SPCContainer.Version
    /// The application secret key (ASk).
    public let ask: ContentKey
    /// SHA-1 of `certificate`, 20 bytes: how an SPC names it.
    let certificateHash: [UInt8]
    let privateKey: RSAKey

    /// A new key pair (RSA-1024 for version 1, RSA-2048 for version 2) and a certificate for it. Takes up to a second.
    ///
    /// With `ask`, two authorities for the two versions share one application secret key. Throws `invalidCertificate`
    /// where OpenSSL refuses.
    public static func generate(
        _ version: SPCContainer.Version, ask: ContentKey? = nil, random: RandomSource = .system
    ) throws(FairPlayError) -> FairPlayTestAuthority {
        do throws(CryptoError) {
            let key = try RSAKey.generate(bits: version.wrappedKeySize * 8)
            let certificate = try X509Certificate.selfSigned(
                key: key, commonName: "\(FairPlayCertificate.testAuthorityName), SPC version \(version.rawValue)",
                random: random)
            let newASk = try newASk(random)
            return FairPlayTestAuthority(
                certificate: certificate.der, version: version, ask: ask ?? newASk,
                certificateHash: try Digest.sha1(certificate.der), privateKey: key)
        } catch {
            throw .invalidCertificate("no test authority can be made: \(error)")
        }
    }

    /// Reads what was written before: the certificate in DER, and the private key in PEM without a pass phrase. The
    /// caller's copy of the private key is the caller's to wipe.
    ///
    /// Throws `invalidCertificate` where one cannot be read, they do not belong together, or the key is neither of 1024
    /// nor of 2048 bits.
    public static func read(
        certificate der: [UInt8], privateKeyPEM: [UInt8], ask: ContentKey
    ) throws(FairPlayError) -> FairPlayTestAuthority {
        guard let certificate = X509Certificate(der: der) else {
            throw .invalidCertificate("the bytes are no X.509 certificate in DER with an RSA key")
        }
        let version = SPCContainer.Version.allCases.first {
            $0.wrappedKeySize * 8 == certificate.publicKey.bits
        }
        guard let version else {
            throw .invalidCertificate("an RSA key of \(certificate.publicKey.bits) bits; 1024 and 2048 are possible")
        }
        let (key, hash): (RSAKey, [UInt8])
        do throws(CryptoError) {
            (key, hash) = (try RSAKey.key(privateKeyPEM: privateKeyPEM), try Digest.sha1(der))
        } catch {
            throw .invalidCertificate("the private key cannot be read: \(error)")
        }
        guard certificate.publicKey.isSame(as: key) else {
            throw .invalidCertificate("the private key is not that of the certificate")
        }
        return FairPlayTestAuthority(
            certificate: der, version: version, ask: ask, certificateHash: hash, privateKey: key)
    }

    /// The private key in PEM (PKCS #8), readable: the caller wipes it. Throws `invalidCertificate` where OpenSSL
    /// refuses.
    public func privateKeyPEM() throws(FairPlayError) -> [UInt8] {
        do throws(CryptoError) {
            return try privateKey.privateKeyPEM()
        } catch {
            throw .invalidCertificate("the private key cannot be written: \(error)")
        }
    }

    /// What a client of this authority takes, with the project's test derivation.
    public var provider: DerivedKeyPayloadProvider {
        DerivedKeyPayloadProvider(derivation: TestDerivationFunction(), ask: ask)
    }

    private static func newASk(_ random: RandomSource) throws(CryptoError) -> ContentKey {
        var bytes = try random.bytes(ContentKey.size)
        defer { wipe(&bytes) }
        guard let ask = ContentKey(bytes) else { throw CryptoError(reason: 0) }
        return ask
    }
}

extension FairPlayTestAuthority: Redacted {
    /// The version alone.
    public var description: String { "test authority for SPC version \(version.rawValue)" }
    /// The version; private key and application secret key do not show in `dump`.
    public var shown: KeyValuePairs<String, Any> { ["version": version] }
}
