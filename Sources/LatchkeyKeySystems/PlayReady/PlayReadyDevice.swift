// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A device: its certificate, made locally under the model's, and its two private keys.
///
/// Immutable and thread-safe; prints without keys. It may be made anew at any time and is no identifier of a device.
public struct PlayReadyDevice: Sendable {
    /// The device's certificate, and those above it up to the root.
    public let chain: BCertChain
    let signingKey: P256PrivateKey
    let encryptionKey: P256PrivateKey

    init(chain: BCertChain, signingKey: P256PrivateKey, encryptionKey: P256PrivateKey) throws(PlayReadyError) {
        guard chain.leaf.key(for: .sign) == signingKey.publicKey,
            chain.leaf.key(for: .encryptKey) == encryptionKey.publicKey
        else { throw .provisioning("the device's keys are not those of its certificate") }
        self.chain = chain
        self.signingKey = signingKey
        self.encryptionKey = encryptionKey
    }

    /// Reads what was kept of a device. The PEM texts have no pass phrase and are the caller's to wipe. In the place of
    /// each may be the PKCS #11 URI of a key in a token.
    ///
    /// Throws `provisioning` where something cannot be read or does not belong together.
    public init(chain: [UInt8], signingKeyPEM: [UInt8], encryptionKeyPEM: [UInt8]) throws(PlayReadyError) {
        let (certificates, signingKey, encryptionKey): (BCertChain, P256PrivateKey, P256PrivateKey)
        do {
            certificates = try BCertChain(reading: chain)
            signingKey = try P256PrivateKey.key(pem: signingKeyPEM)
            encryptionKey = try P256PrivateKey.key(pem: encryptionKeyPEM)
        } catch {
            throw .provisioning("the device cannot be read: \(error)")
        }
        try self.init(chain: certificates, signingKey: signingKey, encryptionKey: encryptionKey)
    }

    /// The private keys in PEM (PKCS #8), readable, and for those in a token their URIs: the caller wipes them. Throws
    /// `internalError` where OpenSSL refuses.
    public func privateKeyPEMs() throws(PlayReadyError) -> (signing: [UInt8], encryption: [UInt8]) {
        do throws(CryptoError) {
            return (try signingKey.pem(), try encryptionKey.pem())
        } catch {
            throw .internalError("the device's keys cannot be written: \(error)")
        }
    }

    /// Whether the model of this bundle made the device.
    public func isMade(by provisioning: PlayReadyProvisioning) -> Bool {
        chain.certificates.dropFirst().elementsEqual(provisioning.modelCertificate.certificates)
    }

    /// What the certificate says, such as 150, 2000 or 3000.
    public var securityLevel: UInt32 { chain.leaf.basic.securityLevel }
}

extension PlayReadyDevice: Redacted {
    /// The security level, never keys.
    public var description: String { "PlayReady-style device of security level \(securityLevel)" }
    /// The same; the private keys do not show in `dump`.
    public var shown: KeyValuePairs<String, Any> { ["securityLevel": securityLevel] }
}
