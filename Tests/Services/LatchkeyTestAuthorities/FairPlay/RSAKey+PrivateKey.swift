// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyKeySystems

/// What the owner of the private half does.
extension RSAKey {
    /// A new key pair with the public exponent 65537.
    static func generate(bits: Int) throws(CryptoError) -> RSAKey {
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "RSA", nil) else { throw .last() }
        defer { EVP_PKEY_CTX_free(context) }
        var handle: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_set_rsa_keygen_bits(context, Int32(truncatingIfNeeded: bits)) == 1,
            EVP_PKEY_generate(context, &handle) == 1, let handle, let key = RSAKey(taking: handle)
        else { throw .last() }
        return key
    }

    /// Reads a private key in PEM, without a pass phrase.
    static func key(privateKeyPEM text: [UInt8]) throws(CryptoError) -> RSAKey {
        guard let key = RSAKey(taking: try PrivateKeyPEM.handle(of: text)) else { throw CryptoError(reason: 0) }
        return key
    }

    /// The private key in PEM (PKCS #8), readable: the caller wipes it.
    func privateKeyPEM() throws(CryptoError) -> [UInt8] {
        try PrivateKeyPEM.text(of: handle)
    }

    /// Whether the public halves are equal.
    func isSame(as other: RSAKey) -> Bool { EVP_PKEY_eq(handle, other.handle) == 1 }

    /// Undoes `wrap`.
    func unwrap(_ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        guard let context = EVP_PKEY_CTX_new_from_pkey(nil, handle, nil) else { throw .last() }
        defer { EVP_PKEY_CTX_free(context) }
        var size = 0
        // SAFETY: the first call, without a target, says how many bytes the second may write at most.
        guard EVP_PKEY_decrypt_init(context) == 1,
            EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_OAEP_PADDING) == 1,
            EVP_PKEY_CTX_set_rsa_oaep_md(context, EVP_sha1()) == 1,
            EVP_PKEY_CTX_set_rsa_mgf1_md(context, EVP_sha1()) == 1,
            EVP_PKEY_decrypt(context, nil, &size, bytes, bytes.count) == 1
        else { throw .last() }
        var output = [UInt8](repeating: 0, count: size)
        guard EVP_PKEY_decrypt(context, &output, &size, bytes, bytes.count) == 1, size <= output.count else {
            throw .last()
        }
        output.removeSubrange(size...)
        return output
    }
}
