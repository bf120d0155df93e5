// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A device secret that stays in a token, a TPM or a trusted application: only keys derived from it come out.
///
/// `derive` is given the purpose and returns 32 bytes: an HMAC-SHA-256 of the purpose under a key of the token, say. It
/// is called on the thread of the store and may take its time. It throws a `LicenseStoreError`, `secretMissing` where
/// the token holds no key yet and it was not asked to make one.
public struct TokenDeviceSecret: DeviceSecret {
    /// Derives the bytes of a key from a secret, for a purpose; with `creating`, makes the secret where there is none.
    public typealias Derivation = @Sendable (_ purpose: String, _ creating: Bool) throws(LicenseStoreError) -> [UInt8]

    private let derive: Derivation

    /// `derive` is kept as long as the secret.
    public init(derive: @escaping Derivation) { self.derive = derive }

    /// Throws what the closure throws, `secretUnusable` for another number of bytes than 32, `cryptography` without
    /// memory.
    public func key(for purpose: String, creating: Bool) throws(LicenseStoreError) -> SealingKey {
        var bytes = try derive("latchkey " + purpose, creating)
        defer { wipe(&bytes) }
        guard bytes.count == SealingKey.size else {
            throw .secretUnusable("the token gave \(bytes.count) bytes, not \(SealingKey.size)")
        }
        guard let key = SealingKey(bytes) else { throw .cryptography("no memory is left for a key") }
        return key
    }
}
