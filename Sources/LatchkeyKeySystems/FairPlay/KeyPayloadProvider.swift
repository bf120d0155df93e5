// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Makes and opens the part of an exchange that holds keys, and hides how.
///
/// A vendor's kit that shows neither its derivation function nor the session key plugs in here: it makes the blocks
/// that carry the session key, and it opens what the key server made with them. `DerivedKeyPayloadProvider` is the
/// open form of it. Thread-safe, as requests are made at the same time.
///
/// ```swift
/// struct KitProvider: KeyPayloadProvider {
///     func makeKeyPayload(deviceIdentifier: [UInt8], random: RandomSource) throws -> any KeyPayload {
///         KitPayload(handle: try VendorKit.begin())  // its `requestBlocks` come out of the kit ready-made
///     }
/// }
/// ```
public protocol KeyPayloadProvider: Sendable {
    /// The keys of one new request. `deviceIdentifier` are the 20 bytes of the anonymised device identifier (HU).
    ///
    /// Called on any thread, also on several at once. The text of an error is not shown.
    func makeKeyPayload(deviceIdentifier: [UInt8], random: RandomSource) throws -> any KeyPayload

    /// Whether its key servers are this project's own, which know this project's own blocks. False by default.
    var isOfTestAuthority: Bool { get }
}

extension KeyPayloadProvider {
    /// False: a payload is real unless it says otherwise.
    public var isOfTestAuthority: Bool { false }
}

/// The keys of one request, and of its answer. Thread-safe. The text of its errors is not shown.
public protocol KeyPayload: Sendable {
    /// The blocks of the SPC that carry the keys: [SK..R1], its integrity, R2 and the AR seed.
    var requestBlocks: [TLLV] { get }

    /// Decrypts the payload of the CKC. `iv` has 16 bytes, `payload` a multiple of 16; the result has as many.
    func decryptResponse(_ payload: [UInt8], iv: [UInt8]) throws -> [UInt8]

    /// Whether these are the 44 bytes of R1 that the request had.
    func isEcho(ofR1 bytes: [UInt8]) -> Bool

    /// The content key out of 16 bytes that the session key encrypts. The IV of the content comes with them; the
    /// exchange adds it to the key.
    func decryptContentKey(_ bytes: [UInt8], iv: InitializationVector) throws -> ContentKey

    /// The code for `PayloadIntegrity` of a CKC: HMAC-SHA-256 with the key of the CKC's payload. Nil where the kit
    /// gives none; a CKC that has a code is refused then.
    func authenticationCode(of message: [UInt8]) throws -> [UInt8]?
}

extension KeyPayload {
    /// Nil: without a code of its own. Never throws.
    public func authenticationCode(of message: [UInt8]) throws -> [UInt8]? { nil }
}

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

extension DerivedKeyPayloadProvider: Redacted {
    /// The type of the derivation function, never the application secret key.
    public var description: String { "key payload provider with \(type(of: derivation))" }
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

/// How the key that guards the session key comes from the application's secret key: DASk = D(R2, ASk).
///
/// The function of a vendor, and the application secret key that goes with it, are secrets which this project neither
/// has nor wants. A licensee brings a type of its own:
///
/// ```swift
/// struct LicensedDerivation: DerivationFunction {
///     func derive(r2: [UInt8], ask: [UInt8]) throws -> [UInt8] { try VendorKit.derive(r2, ask) }
/// }
/// let provider = DerivedKeyPayloadProvider(derivation: LicensedDerivation(), ask: applicationSecretKey)
/// ```
///
/// If the vendor's kit hides more than this function, `KeyPayloadProvider` is the place to plug it in.
public protocol DerivationFunction: Sendable {
    /// 16 bytes. `r2` has 21 bytes, `ask` 16. Called on any thread, also on several at once. The text of an error is
    /// not shown, because it might hold a secret.
    func derive(r2: [UInt8], ask: [UInt8]) throws -> [UInt8]
}

/// The project's own function, for its test authority and for nothing else:
/// AES-128-ECB(key ASk, the first 16 bytes of SHA-1(R2)).
///
/// It is no vendor's function and works with no vendor's key server.
public struct TestDerivationFunction: DerivationFunction {
    /// It has no settings.
    public init() {}

    /// AES-128-ECB of the first 16 bytes of SHA-1(R2), with the ASk as key. Throws `CryptoError` for an ASk of another
    /// size.
    public func derive(r2: [UInt8], ask: [UInt8]) throws -> [UInt8] {
        guard let key = ContentKey(ask) else { throw CryptoError(reason: 0) }
        return try AES.ecb(.encrypt, key: key, Array(try Digest.sha1(r2).prefix(16)))
    }
}

/// What [SK..R1] holds, in clear: session key 16, anonymised device identifier (HU) 20, R1 44 bytes, and behind them 16
/// bytes of integrity. Its owner wipes it.
package struct SessionSecrets {
    static let deviceIdentifierSize = 20
    private static let r1Size = 44
    package static let r2Size = 21
    /// In bytes, of the block's value: an IV and the four parts.
    package static let sealedSize = 16 + 16 + deviceIdentifierSize + r1Size + 16

    private(set) var sk: [UInt8]
    package private(set) var deviceIdentifier: [UInt8]
    package private(set) var r1: [UInt8]

    /// A new session key and a new R1.
    package init(deviceIdentifier: [UInt8], random: RandomSource) throws(CryptoError) {
        guard deviceIdentifier.count == Self.deviceIdentifierSize else { throw CryptoError(reason: 0) }
        sk = try random.bytes(16)
        self.deviceIdentifier = deviceIdentifier
        r1 = try random.bytes(Self.r1Size)
    }

    /// Opens the value of [SK..R1]. Nil where it is not 112 bytes long, or the bytes at its end are not `integrity`.
    package init?(sealed: [UInt8], dask: ContentKey, integrity: [UInt8]) throws(CryptoError) {
        guard sealed.count == Self.sealedSize else { return nil }
        var clear = try AES.cbc(.decrypt, key: dask, iv: Array(sealed.prefix(16)), Array(sealed.dropFirst(16)))
        defer { wipe(&clear) }
        guard isEqualInConstantTime(Array(clear.suffix(16)), integrity) else { return nil }
        sk = Array(clear[..<16])
        deviceIdentifier = Array(clear[16..<36])
        r1 = Array(clear[36..<80])
    }

    /// The value of [SK..R1]: the IV and AES-128-CBC over the four parts, with DASk.
    package func sealed(dask: ContentKey, iv: [UInt8], integrity: [UInt8]) throws(CryptoError) -> [UInt8] {
        var clear: [UInt8] = []
        defer { wipe(&clear) }
        // A sum of arrays, or one that grows, would leave copies behind.
        clear.reserveCapacity(Self.sealedSize)
        for part in [sk, deviceIdentifier, r1, integrity] { clear += part }
        return iv + (try AES.cbc(.encrypt, key: dask, iv: iv, clear))
    }

    package func sessionKey() throws(CryptoError) -> ContentKey {
        guard let key = ContentKey(sk) else { throw CryptoError(reason: 0) }
        return key
    }

    /// The key of the CKC's payload: AES-128-ECB(key the first 16 bytes of SHA-1(R1), AR seed).
    package static func responseKey(r1: [UInt8], seed: [UInt8]) throws(CryptoError) -> ContentKey {
        var digest = try Digest.sha1(r1)
        defer { wipe(&digest) }
        guard let key = ContentKey(digest.prefix(16)) else { throw CryptoError(reason: 0) }
        var bytes = try AES.ecb(.encrypt, key: key, seed)
        defer { wipe(&bytes) }
        guard let result = ContentKey(bytes) else { throw CryptoError(reason: 0) }
        return result
    }

    package mutating func wipeAll() {
        wipe(&sk)
        wipe(&r1)
        deviceIdentifier.removeAll()
    }
}
