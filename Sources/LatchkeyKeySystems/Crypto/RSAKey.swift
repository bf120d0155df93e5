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

    /// RSA-OAEP with SHA-1 for the label and the mask, and an empty label. OpenSSL draws the seed by itself.
    func wrap(_ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        guard let context = EVP_PKEY_CTX_new_from_pkey(nil, handle, nil) else { throw .last() }
        defer { EVP_PKEY_CTX_free(context) }
        var size = 0
        // SAFETY: the first call, without a target, says how many bytes the second may write at most.
        guard EVP_PKEY_encrypt_init(context) == 1,
            EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_OAEP_PADDING) == 1,
            EVP_PKEY_CTX_set_rsa_oaep_md(context, EVP_sha1()) == 1,
            EVP_PKEY_CTX_set_rsa_mgf1_md(context, EVP_sha1()) == 1,
            EVP_PKEY_encrypt(context, nil, &size, bytes, bytes.count) == 1
        else { throw .last() }
        var output = [UInt8](repeating: 0, count: size)
        guard EVP_PKEY_encrypt(context, &output, &size, bytes, bytes.count) == 1, size <= output.count else {
            throw .last()
        }
        output.removeSubrange(size...)
        return output
    }
}
