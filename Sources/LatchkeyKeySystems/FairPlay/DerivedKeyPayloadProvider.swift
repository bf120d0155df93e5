// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// The keys of an exchange, made with a derivation function and an application secret key. Prints without the key.
public struct DerivedKeyPayloadProvider: KeyPayloadProvider {
    private let derivation: any DerivationFunction
    private let ask: ContentKey

    /// `ask` is the application secret key, 16 bytes.
    public init(derivation: any DerivationFunction, ask: ContentKey) {
        self.derivation = derivation
        self.ask = ask
    }

    /// Whether the derivation function is that of the test authority.
    public var isOfTestAuthority: Bool { derivation is TestDerivationFunction }

    /// Takes a random R2 and derives a fresh key from it. Throws `CryptoError`, and what the derivation function
    /// throws.
    public func makeKeyPayload(deviceIdentifier: [UInt8], random: RandomSource) throws -> any KeyPayload {
        let r2 = try random.bytes(SessionSecrets.r2Size)
        let dask = try derivation.key(r2: r2, ask: ask)
        var secrets = try SessionSecrets(deviceIdentifier: deviceIdentifier, random: random)
        defer { secrets.wipeAll() }
        let seed = try random.bytes(16)
        let integrity = try random.bytes(16)
        let blocks = [
            try TLLV(
                .sessionKeyAndR1,
                try secrets.sealed(dask: dask, iv: try random.bytes(16), integrity: integrity), random: random.bytes),
            try TLLV(.sessionKeyAndR1Integrity, integrity, random: random.bytes),
            try TLLV(.antiReplaySeed, seed, random: random.bytes),
            try TLLV(.r2, r2, random: random.bytes),
        ]
        return DerivedKeyPayload(
            requestBlocks: blocks, sessionKey: try secrets.sessionKey(),
            responseKey: try SessionSecrets.responseKey(r1: secrets.r1, seed: seed),
            r1Digest: try Digest.sha256(secrets.r1))
    }
}

extension DerivedKeyPayloadProvider: CustomStringConvertible, CustomReflectable {
    /// The type of the derivation function, never the application secret key.
    public var description: String { "key payload provider with \(type(of: derivation))" }
    /// Empty: the provider holds the application secret key.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension DerivationFunction {
    /// DASk.
    package func key(r2: [UInt8], ask: ContentKey) throws -> ContentKey {
        var askBytes = ask.withBytes { Array($0) }
        defer { wipe(&askBytes) }
        var bytes = try derive(r2: r2, ask: askBytes)
        defer { wipe(&bytes) }
        guard let key = ContentKey(bytes) else { throw CryptoError(reason: 0) }
        return key
    }
}

/// R1 is needed for a comparison only, so that its digest is kept and not R1 itself.
private struct DerivedKeyPayload: KeyPayload {
    let requestBlocks: [TLLV]
    let sessionKey: ContentKey
    let responseKey: ContentKey
    let r1Digest: [UInt8]

    func decryptResponse(_ payload: [UInt8], iv: [UInt8]) throws -> [UInt8] {
        try AES.cbc(.decrypt, key: responseKey, iv: iv, payload)
    }

    func isEcho(ofR1 bytes: [UInt8]) -> Bool {
        guard let digest = try? Digest.sha256(bytes) else { return false }
        return isEqualInConstantTime(digest, r1Digest)
    }

    func decryptContentKey(_ bytes: [UInt8], iv: InitializationVector) throws -> ContentKey {
        var clear = try AES.ecb(.decrypt, key: sessionKey, bytes)
        defer { wipe(&clear) }
        guard let key = ContentKey(clear) else { throw CryptoError(reason: 0) }
        return key
    }

    func authenticationCode(of message: [UInt8]) throws -> [UInt8]? {
        try responseKey.withBytes { try Digest.hmac(key: $0, message) }
    }
}
