// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyProtection

/// The private keys that open licenses: the device's, and those of the domains that it is a member of.
///
/// Immutable and thread-safe; prints without keys.
public struct PlayReadyKeyring: Sendable {
    /// The device that licenses are bound to.
    public let device: PlayReadyDevice
    /// The domains that licenses may be bound to instead.
    public let memberships: [PlayReadyMembership]

    /// Of two memberships in one domain, both sets of keys are tried.
    public init(device: PlayReadyDevice, memberships: [PlayReadyMembership] = []) {
        self.device = device
        self.memberships = memberships
    }

    /// The key whose public half is `publicKey`, or the device's where the license does not say.
    func key(for publicKey: [UInt8]?) -> P256PrivateKey? {
        guard let publicKey else { return device.encryptionKey }
        let keys = [device.encryptionKey] + memberships.flatMap { $0.keys.map(\.key) }
        return keys.first { $0.publicKey == publicKey }
    }
}

/// A license whose signature was checked, with its content key.
///
/// Whether it may be used now is what `PlayReadyPolicy` says. Immutable and thread-safe; prints without keys.
public struct PlayReadyLicense: Sendable {
    /// The license as it came, with its signature.
    public let xmr: XMRLicense
    /// What it says about playing.
    public let terms: XMRTerms
    /// The KID of the content key.
    public let keyID: KeyID
    /// For what is decrypted: AES-CTR or AES-CBC.
    public let keyType: XMRTerms.KeyType
    /// The content key, 16 bytes, in locked memory.
    public let contentKey: ContentKey

    /// Opens a license: finds the private key, unwraps integrity key and content key, and checks the signature.
    ///
    /// Throws `malformedResponse` for bytes that are no license, `unsupportedLicense` for objects or a way of wrapping
    /// that this client does not know, `domainRequired` and `domainKeyMissing` for a domain's license without its key,
    /// `otherDevice` for another device's, and `alteredLicense` where the signature does not fit.
    public init(_ xmr: XMRLicense, keyring: PlayReadyKeyring) throws(PlayReadyError) {
        let terms: XMRTerms
        do throws(FormatError) {
            terms = try XMRTerms(xmr)
        } catch {
            let isUnknown = error.isSameKind(as: .unsupported(""))
            throw isUnknown ? .unsupportedLicense(error.reason) : .malformedResponse(error.description)
        }
        guard let wrapped = terms.key else { throw .unsupportedLicense("it has no content key") }
        try Self.checkSupport(wrapped, terms)
        guard let key = keyring.key(for: terms.boundKey) else { throw Self.missingKey(terms, keyring) }
        let keys: (integrity: ContentKey, content: ContentKey)
        do throws(CryptoError) {
            keys = try key.decrypt(wrapped.data) { secret throws(CryptoError) in
                let keys = try Self.keys(in: secret, isScalable: !terms.auxiliaryKeys.isEmpty)
                let code = try AES.cmac(key: keys.integrity, Array(xmr.signedBytes))
                return isEqualInConstantTime(code, xmr.signature) ? keys : nil
            }
        } catch {
            throw .alteredLicense("the signature of the license for KID \(wrapped.keyID) does not fit")
        }
        self.xmr = xmr
        self.terms = terms
        keyID = wrapped.keyID
        keyType = wrapped.type
        contentKey = keys.content
    }

    /// The same from bytes, as a store has them. Throws the same errors.
    public init(reading bytes: [UInt8], keyring: PlayReadyKeyring) throws(PlayReadyError) {
        let xmr: XMRLicense
        do throws(FormatError) {
            xmr = try XMRLicense(reading: bytes)
        } catch {
            throw .malformedResponse(error.description)
        }
        try self.init(xmr, keyring: keyring)
    }

    private static func checkSupport(_ wrapped: XMRTerms.WrappedKey, _ terms: XMRTerms) throws(PlayReadyError) {
        if wrapped.cipher == .chained || wrapped.cipher == .ecc256Symmetric || terms.uplink != nil {
            // How a leaf's key hangs on its root is not public.
            let root = terms.uplink.map { " on root KID \($0.keyID)" } ?? ""
            throw .unsupportedLicense(
                "that for KID \(wrapped.keyID) is a leaf\(root), and how its key hangs on the root's is not public")
        }
        guard wrapped.cipher == .ecc256, wrapped.data.count == P256.cipherSize else {
            throw .unsupportedLicense("its key is wrapped in way \(wrapped.cipher.rawValue)")
        }
        guard wrapped.type == .aesCTR || wrapped.type == .aesCBC || wrapped.type == .keyExchange else {
            throw .unsupportedLicense("its key is of type \(wrapped.type.rawValue)")
        }
    }

    /// A scalable root license has both keys in alternating bytes, every other one in halves.
    private static func keys(
        in secret: borrowing [UInt8], isScalable: Bool
    ) throws(CryptoError) -> (integrity: ContentKey, content: ContentKey) {
        let (step, second) = isScalable ? (2, 1) : (1, 16)
        var (first, last): ([UInt8], [UInt8]) = ([], [])
        defer {
            wipe(&first)
            wipe(&last)
        }
        // As they grow, parts of the keys would be left behind.
        first.reserveCapacity(ContentKey.size)
        last.reserveCapacity(ContentKey.size)
        for index in 0..<ContentKey.size {
            first.append(secret[index * step])
            last.append(secret[second + index * step])
        }
        guard let integrity = ContentKey(first), let content = ContentKey(last) else { throw CryptoError(reason: 0) }
        return (integrity, content)
    }

    private static func missingKey(_ terms: XMRTerms, _ keyring: PlayReadyKeyring) -> PlayReadyError {
        guard let domain = terms.domain else { return .otherDevice("get a new license for this device") }
        let isMember = keyring.memberships.contains { $0.accountID == domain.accountID }
        return isMember
            ? .domainKeyMissing("join domain \(domain.accountID) again, for revision \(domain.revision)")
            : .domainRequired("join domain \(domain.accountID)")
    }
}

extension PlayReadyLicense: Redacted {
    /// Rights id and KID, never the key.
    public var description: String { "license \(xmr.rightsID) for KID \(keyID)" }
    /// The same two; the content key does not show in `dump`.
    public var shown: KeyValuePairs<String, Any> { ["rightsID": xmr.rightsID, "keyID": keyID] }
}
