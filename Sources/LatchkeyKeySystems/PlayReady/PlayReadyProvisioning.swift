// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyProtection

/// What an integrator provisions: the model's certificate and private key, and the public keys of those that are
/// trusted. Latchkey ships none of them.
///
/// Immutable and thread-safe; prints without keys.
public struct PlayReadyProvisioning: Sendable {
    /// What an error is about.
    public enum Part: Hashable, Sendable {
        /// Those of the bundle, by the name of the argument that brings them.
        case modelCertificate, modelPrivateKey, rootKey, serverKey, timeKey, revocationList
    }

    /// From the model up to one that the root signed. The model is an issuer.
    public let modelCertificate: BCertChain
    /// P-256, x and y, 64 bytes: what all chains go back to.
    public let rootKey: [UInt8]
    /// P-256, x and y, 64 bytes: what challenges are encrypted for.
    public let serverKey: [UInt8]
    /// P-256, x and y, 64 bytes: what the time service's chain goes back to. Nil: to `rootKey`.
    public let timeKey: [UInt8]?
    /// Who is not to be trusted any more.
    public internal(set) var revocations: PlayReadyRevocations
    let modelKey: P256PrivateKey

    /// Checks and takes a bundle. The PEM text has no pass phrase and is the caller's to wipe. In its place may be the
    /// PKCS #11 URI (`pkcs11:…`, RFC 7512) of a key that stays in a token. `timeKey` is for a time service that does not
    /// go back to the root. `revocationLists` are as `RevocationList` has them.
    ///
    /// Throws `provisioning` where a part cannot be read, the private key is not the model's, or the model's certificate
    /// or a revocation list does not go back to the root.
    public init(
        modelCertificate: [UInt8], modelPrivateKeyPEM: [UInt8], rootKey: [UInt8], serverKey: [UInt8],
        timeKey: [UInt8]? = nil, revocationLists: [[UInt8]] = []
    ) throws(PlayReadyError) {
        let key = try Self.privateKey(pem: modelPrivateKeyPEM)
        try self.init(
            modelCertificate: modelCertificate, modelKey: key, rootKey: rootKey, serverKey: serverKey,
            timeKey: timeKey, revocationLists: revocationLists)
    }

    /// Checks that this is a point of P-256. Throws `provisioning`.
    public static func checkTimeKey(_ key: [UInt8]) throws(PlayReadyError) {
        guard P256.isPoint(key) else {
            throw .provisioning("the time key is no point of P-256 in 64 bytes", part: .timeKey)
        }
    }

    /// Checks that these bytes are a revocation list. Whose it is, the bundle as a whole shows. Throws `provisioning`.
    public static func checkRevocationList(_ bytes: [UInt8]) throws(PlayReadyError) {
        do throws(FormatError) {
            _ = try RevocationList(reading: bytes)
        } catch {
            throw .provisioning("the revocation list cannot be read: \(error)", part: .revocationList)
        }
    }

    /// Checks that these bytes are a certificate for issuing devices. Whose it is, the bundle as a whole shows. Throws
    /// `provisioning`.
    public static func checkModelCertificate(_ bytes: [UInt8]) throws(PlayReadyError) {
        _ = try model(in: bytes)
    }

    /// Checks that this is a private key of P-256 in PEM. Throws `provisioning`.
    public static func checkPrivateKey(pem: [UInt8]) throws(PlayReadyError) { _ = try privateKey(pem: pem) }

    private static func privateKey(pem: [UInt8]) throws(PlayReadyError) -> P256PrivateKey {
        do throws(CryptoError) {
            return try P256PrivateKey.key(pem: pem)
        } catch {
            let problem =
                P256PrivateKey.tokenURI(in: pem) == nil
                ? "the model's private key is no P-256 key in PEM"
                : "no token gives a P-256 key for the PKCS #11 URI of the model's private key; check token, object and PIN "
                    + "(a pin-source file has no line break at its end)"
            throw .provisioning("\(problem): \(error)", part: .modelPrivateKey)
        }
    }

    /// Checks that both are points of P-256. Throws `provisioning`.
    public static func checkPublicKeys(root: [UInt8], server: [UInt8]) throws(PlayReadyError) {
        guard P256.isPoint(root) else {
            throw .provisioning("the root key is no point of P-256 in 64 bytes", part: .rootKey)
        }
        guard P256.isPoint(server) else {
            throw .provisioning("the server key is no point of P-256 in 64 bytes", part: .serverKey)
        }
    }

    private static func model(in bytes: [UInt8]) throws(PlayReadyError) -> BCertChain {
        let chain: BCertChain
        do throws(FormatError) {
            chain = try BCertChain(reading: bytes)
        } catch {
            throw .provisioning("the model's certificate cannot be read: \(error)", part: .modelCertificate)
        }
        guard chain.leaf.basic.kind == BCert.Kind.issuer.rawValue, chain.leaf.key(for: .issuerDevice) != nil else {
            throw .provisioning("the model's certificate is none for issuing devices", part: .modelCertificate)
        }
        return chain
    }

    package init(
        modelCertificate: [UInt8], modelKey: P256PrivateKey, rootKey: [UInt8], serverKey: [UInt8],
        timeKey: [UInt8]? = nil, revocationLists: [[UInt8]] = []
    ) throws(PlayReadyError) {
        if let timeKey { try Self.checkTimeKey(timeKey) }
        try Self.checkPublicKeys(root: rootKey, server: serverKey)
        let chain = try Self.model(in: modelCertificate)
        guard chain.leaf.key(for: .issuerDevice) == modelKey.publicKey else {
            throw .provisioning("the private key is not that of the model's certificate", part: .modelPrivateKey)
        }
        do throws(PlayReadyError) {
            try CertificateTrust(rootKey: rootKey).check(chain)
        } catch {
            throw .provisioning("the model's certificate: \(error)", part: .modelCertificate)
        }
        self.modelCertificate = chain
        self.modelKey = modelKey
        self.rootKey = rootKey
        self.serverKey = serverKey
        self.timeKey = timeKey
        var revocations = PlayReadyRevocations(rootKey: rootKey)
        for list in revocationLists {
            do throws(PlayReadyError) {
                try revocations.take(list)
            } catch {
                throw .provisioning("\(error)", part: .revocationList)
            }
        }
        self.revocations = revocations
    }

    /// Makes a device: new keys, and a certificate that the model's key signs. Takes about a millisecond.
    ///
    /// `signingKey` and `encryptionKey` are the device's private keys if they exist already, each as PEM or as the PKCS #11
    /// URI of one in a token; the caller wipes them. `features` are what the device has; a secure clock among them is a
    /// promise of the caller. Throws `internalError` if OpenSSL refuses.
    public func makeDevice(
        features: [BCert.Feature] = [.antiRollbackClock, .playReady3], signingKey: [UInt8]? = nil,
        encryptionKey: [UInt8]? = nil, random: RandomSource = .system
    ) throws(PlayReadyError) -> PlayReadyDevice {
        do {
            let signing = try signingKey.map { try P256PrivateKey.key(pem: $0) } ?? P256PrivateKey.generate(random)
            let encryption =
                try encryptionKey.map { try P256PrivateKey.key(pem: $0) } ?? P256PrivateKey.generate(random)
            let model = modelCertificate.leaf
            var objects = [
                BCert.Basic(
                    id: try random.bytes(16), securityLevel: model.basic.securityLevel, kind: .device,
                    keyDigest: try Digest.sha256(signing.publicKey), clientID: try random.bytes(16)
                ).object,
                BCert.deviceObject(), BCert.featuresObject(features),
                BCert.Key.object([
                    .init(signing.publicKey, usages: [.sign]), .init(encryption.publicKey, usages: [.encryptKey]),
                ]),
            ]
            if let manufacturer = model.objects.first(where: { $0.tag == .manufacturer }) {
                objects.append(manufacturer)
            }
            let leaf = try BCert.make(objects: objects, issuerKey: modelKey.publicKey) { try modelKey.sign($0) }
            return try PlayReadyDevice(
                chain: BCertChain([leaf] + modelCertificate.certificates), signingKey: signing,
                encryptionKey: encryption)
        } catch let error as PlayReadyError {
            throw error
        } catch {
            throw .internalError("no device can be made: \(error)")
        }
    }
}

extension PlayReadyProvisioning: Redacted {
    /// Says nothing of keys and certificates.
    public var description: String { "PlayReady-style provisioning" }
}
