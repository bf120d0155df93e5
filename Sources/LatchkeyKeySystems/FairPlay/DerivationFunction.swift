// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// How the key that guards the session key comes from the application's secret key: DASk = D(R2, ASk).
///
/// The function of a vendor, and the application secret key that goes with it, are secrets which this project neither
/// has nor wants. Whoever is licensed to use them brings a type of their own:
///
/// ```swift
/// struct LicensedDerivation: DerivationFunction {
///     func derive(r2: [UInt8], ask: [UInt8]) throws -> [UInt8] { try VendorKit.derive(r2, ask) }
/// }
/// let provider = DerivedKeyPayloadProvider(derivation: LicensedDerivation(), ask: applicationSecretKey)
/// ```
///
/// Where the vendor's kit hides more than this function, `KeyPayloadProvider` is the place to plug it in.
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
