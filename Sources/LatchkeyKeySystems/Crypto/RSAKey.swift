// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL

/// An RSA key, with or without its private half. Immutable and thread-safe.
package final class RSAKey: @unchecked Sendable {
    // SAFETY: OpenSSL's keys are reference-counted and may be read by several threads; nothing here changes one.
    package let handle: OpaquePointer

    /// Takes the reference over. Nil, and the reference given up, for a key that is not RSA.
    package init?(taking handle: OpaquePointer) {
        guard EVP_PKEY_is_a(handle, "RSA") == 1 else {
            EVP_PKEY_free(handle)
            return nil
        }
        self.handle = handle
    }

    deinit { EVP_PKEY_free(handle) }

    /// In bits, of the modulus.
    package var bits: Int { Int(EVP_PKEY_get_bits(handle)) }

    /// Whether the public halves are equal.
    package func isSame(as other: RSAKey) -> Bool { EVP_PKEY_eq(handle, other.handle) == 1 }

    /// A new key pair with the public exponent 65537.
    package static func generate(bits: Int) throws(CryptoError) -> RSAKey {
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "RSA", nil) else { throw .last() }
        defer { EVP_PKEY_CTX_free(context) }
        var handle: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_set_rsa_keygen_bits(context, Int32(truncatingIfNeeded: bits)) == 1,
            EVP_PKEY_generate(context, &handle) == 1, let handle, let key = RSAKey(taking: handle)
        else { throw .last() }
        return key
    }

    /// RSA-OAEP with SHA-1 for the label and the mask, and an empty label. OpenSSL draws the seed by itself.
    func wrap(_ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        try run(bytes, EVP_PKEY_encrypt_init, EVP_PKEY_encrypt)
    }

    /// Undoes `wrap`. Needs the private half.
    package func unwrap(_ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        try run(bytes, EVP_PKEY_decrypt_init, EVP_PKEY_decrypt)
    }

    private func run(
        _ bytes: [UInt8], _ begin: (OpaquePointer?) -> Int32,
        _ act: (
            OpaquePointer?, UnsafeMutablePointer<UInt8>?, UnsafeMutablePointer<Int>?, UnsafePointer<UInt8>?, Int
        ) -> Int32
    ) throws(CryptoError) -> [UInt8] {
        guard let context = EVP_PKEY_CTX_new_from_pkey(nil, handle, nil) else { throw .last() }
        defer { EVP_PKEY_CTX_free(context) }
        var size = 0
        // SAFETY: the first call, without a target, says how many bytes the second may write at most.
        guard begin(context) == 1, EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_OAEP_PADDING) == 1,
            EVP_PKEY_CTX_set_rsa_oaep_md(context, EVP_sha1()) == 1,
            EVP_PKEY_CTX_set_rsa_mgf1_md(context, EVP_sha1()) == 1,
            act(context, nil, &size, bytes, bytes.count) == 1
        else { throw .last() }
        var output = [UInt8](repeating: 0, count: size)
        guard act(context, &output, &size, bytes, bytes.count) == 1, size <= output.count else { throw .last() }
        output.removeSubrange(size...)
        return output
    }
}

extension RSAKey {
    /// Reads a private key in PEM, without a pass phrase.
    package static func key(privateKeyPEM text: [UInt8]) throws(CryptoError) -> RSAKey {
        guard let key = RSAKey(taking: try PrivateKeyPEM.handle(of: text)) else { throw CryptoError(reason: 0) }
        return key
    }

    /// The private key in PEM (PKCS #8), readable: the caller wipes it.
    package func privateKeyPEM() throws(CryptoError) -> [UInt8] {
        try PrivateKeyPEM.text(of: handle)
    }
}
