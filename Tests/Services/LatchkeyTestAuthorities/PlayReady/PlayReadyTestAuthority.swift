// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection

/// A self-rooted test authority: a root of its own and everything below it that clients and services need.
///
/// No vendor knows it, and it opens nothing that a vendor protects. Immutable and thread-safe; prints without keys.
public struct PlayReadyTestAuthority: Sendable {
    /// The parts, in the order in which they are written.
    enum Part: String, CaseIterable {
        case root, model, server
        case licenseIssuer = "license-issuer"
        case licenseSigner = "license-signer"
        case domainIssuer = "domain-issuer"
        case domainController = "domain-controller"
        case timeServer = "time-server"
        case revocationSigner = "revocation-signer"
    }

    let keys: [Part: P256PrivateKey]
    let chains: [Part: BCertChain]
    let securityLevel: UInt32

    /// A new authority. Takes a few milliseconds. Throws `internalError` where OpenSSL refuses.
    public static func generate(
        securityLevel: UInt32 = 2000, random: RandomSource = .system
    ) throws(PlayReadyError) -> PlayReadyTestAuthority {
        do {
            var keys: [Part: P256PrivateKey] = [:]
            for part in Part.allCases { keys[part] = try P256PrivateKey.generate(random) }
            return try PlayReadyTestAuthority(keys: keys, securityLevel: securityLevel, random: random)
        } catch let error as PlayReadyError {
            throw error
        } catch {
            throw .internalError("no test authority can be made: \(error)")
        }
    }

    /// With these keys, and new certificates for them.
    init(keys: [Part: P256PrivateKey], securityLevel: UInt32, random: RandomSource) throws(PlayReadyError) {
        self.keys = keys
        self.securityLevel = securityLevel
        func key(_ part: Part) throws(PlayReadyError) -> P256PrivateKey {
            guard let key = keys[part] else { throw .provisioning("the test authority has no key “\(part.rawValue)”") }
            return key
        }
        func make(
            _ part: Part, _ kind: BCert.Kind, _ usages: [BCert.Usage], below issuer: Part, _ above: [BCert] = []
        ) throws -> BCertChain {
            let (key, issuer) = (try key(part), try key(issuer))
            let objects = [
                BCert.Basic(
                    id: try random.bytes(16), securityLevel: securityLevel, kind: kind,
                    keyDigest: try Digest.sha256(key.publicKey)
                ).object,
                BCert.Key.object([.init(key.publicKey, usages: usages)]),
                BCert.manufacturerObject(name: "Latchkey", model: "Test authority", number: "1"),
            ]
            let certificate = try BCert.make(objects: objects, issuerKey: issuer.publicKey) { try issuer.sign($0) }
            return try BCertChain([certificate] + above)
        }
        do {
            var chains: [Part: BCertChain] = [:]
            chains[.model] = try make(.model, .issuer, [.issuerDevice], below: .root)
            let issuer = try make(.licenseIssuer, .issuer, [.issuerSignLicense, .issuerSecureTime], below: .root)
            chains[.licenseSigner] = try make(
                .licenseSigner, .licenseSigner, [.signResponse, .signLicense], below: .licenseIssuer,
                issuer.certificates)
            chains[.timeServer] = try make(
                .timeServer, .secureTimeServer, [.signResponse], below: .licenseIssuer, issuer.certificates)
            let domainIssuer = try make(.domainIssuer, .issuer, [.issuerDomain, .issuerServer], below: .root)
            chains[.domainIssuer] = domainIssuer
            chains[.domainController] = try make(
                .domainController, .server, [.signResponse], below: .domainIssuer, domainIssuer.certificates)
            chains[.revocationSigner] = try make(
                .revocationSigner, .revocationListSigner, [.signRevocationList], below: .root)
            self.chains = chains
        } catch let error as PlayReadyError {
            throw error
        } catch {
            throw .internalError("no test authority can be made: \(error)")
        }
    }

    /// P-256, x and y: what clients have to trust.
    public var rootKey: [UInt8] { keys[.root]?.publicKey ?? [] }
    /// P-256, x and y: what clients encrypt challenges for.
    public var serverKey: [UInt8] { keys[.server]?.publicKey ?? [] }

    /// What a client of this authority is provisioned with. Throws `provisioning` where a part is missing, which none
    /// of `generate` and `read` leaves out.
    public func provisioning() throws(PlayReadyError) -> PlayReadyProvisioning {
        guard let chain = chains[.model], let key = keys[.model] else { throw .provisioning("no model") }
        return try PlayReadyProvisioning(
            modelCertificate: chain.serialized, modelKey: key, rootKey: rootKey, serverKey: serverKey)
    }

    /// The files of the authority by name, private keys in PEM among them: what `read` takes, and, for clients,
    /// `model.bcert`, `model-key.pem`, `root.pub` and `server.pub`. The caller wipes them. Throws `internalError` where
    /// OpenSSL refuses.
    public func files() throws(PlayReadyError) -> [String: [UInt8]] {
        var files = ["root.pub": rootKey, "server.pub": serverKey]
        for (part, chain) in chains { files["\(part.rawValue).bcert"] = chain.serialized }
        do throws(CryptoError) {
            for (part, key) in keys { files["\(part.rawValue)-key.pem"] = try key.pem() }
        } catch {
            throw .internalError("the keys cannot be written: \(error)")
        }
        return files
    }

    /// Reads what `files` wrote: the private keys; certificates for services are made anew. Throws `provisioning` where
    /// a key is missing or cannot be read.
    public static func read(
        files: [String: [UInt8]], securityLevel: UInt32 = 2000, random: RandomSource = .system
    ) throws(PlayReadyError) -> PlayReadyTestAuthority {
        var keys: [Part: P256PrivateKey] = [:]
        for part in Part.allCases {
            let name = "\(part.rawValue)-key.pem"
            do throws(CryptoError) {
                if part == .revocationSigner, files[name] == nil {
                    // Authorities of earlier versions have none; nobody keeps its key.
                    keys[part] = try P256PrivateKey.generate(random)
                    continue
                }
                keys[part] = try P256PrivateKey.key(pem: files[name] ?? [])
            } catch {
                throw .provisioning("\(name) is no P-256 key in PEM")
            }
        }
        return try PlayReadyTestAuthority(keys: keys, securityLevel: securityLevel, random: random)
    }

    /// A revocation list that names certificates of this authority (`license-signer`, say: `files` has the names).
    ///
    /// Throws `provisioning` for a name that it does not have.
    public func revocationList(
        version: UInt32, revoking names: [String], id: GUID = PlayReadyTestAuthority.revocationListID
    ) throws(PlayReadyError) -> RevocationList {
        let signer = try signer(.revocationSigner)
        var digests: [[UInt8]] = []
        for name in Set(names).sorted() {
            guard let key = Part(rawValue: name).flatMap({ keys[$0]?.publicKey }),
                let digest = try? Digest.sha256(key)
            else { throw .provisioning("the test authority has no “\(name)”") }
            digests.append(digest)
        }
        do {
            return try RevocationList.make(id: id, version: version, keyDigests: digests, chain: signer.chain) {
                try signer.key.sign($0)
            }
        } catch {
            throw .internalError("no revocation list can be made: \(error)")
        }
    }

    /// The id of the authority's list.
    public static let revocationListID = GUID(KeyID(high: 0x4C4B_524C_0000_0000, low: 1))

    func signer(_ part: Part) throws(PlayReadyError) -> ServiceSigner {
        guard let chain = chains[part], let key = keys[part] else { throw .provisioning("no “\(part.rawValue)”") }
        return ServiceSigner(chain: chain, key: key)
    }

    func key(_ part: Part) throws(PlayReadyError) -> P256PrivateKey {
        guard let key = keys[part] else { throw .provisioning("no key “\(part.rawValue)”") }
        return key
    }
}

extension PlayReadyTestAuthority: Redacted {
    /// Says nothing of keys.
    public var description: String { "PlayReady-style test authority" }
}
