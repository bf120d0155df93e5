// SPDX-License-Identifier: MPL-2.0

import COpenSSL
import ProtectionModel

/// AES-256-GCM with a nonce of 12 bytes and a tag of 16.
enum AESGCM {
    static let keySize = 32
    static let nonceSize = 12
    static let tagSize = 16

    /// Ciphertext and tag.
    static func seal(
        _ bytes: [UInt8], key: [UInt8], nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        guard let sealed = try run(bytes, key: key, nonce: nonce, header: header, tag: nil) else { throw .last() }
        return sealed
    }

    /// The clear bytes, or nil where key, nonce, header or bytes are not those that were sealed.
    static func open(
        _ sealed: [UInt8], key: [UInt8], nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CryptoError) -> [UInt8]? {
        guard sealed.count >= tagSize else { return nil }
        let tag = Array(sealed.suffix(tagSize))
        return try run(Array(sealed.dropLast(tagSize)), key: key, nonce: nonce, header: header, tag: tag)
    }

    /// Encrypts and appends the tag where `tag` is nil; else decrypts, and gives nil where the tag does not fit.
    private static func run(
        _ bytes: [UInt8], key: [UInt8], nonce: [UInt8], header: [UInt8], tag: [UInt8]?
    ) throws(CryptoError) -> [UInt8]? {
        guard key.count == keySize, nonce.count == nonceSize, let size = Int32(exactly: bytes.count),
            let headerSize = Int32(exactly: header.count)
        else { throw CryptoError(reason: 0) }
        guard let context = EVP_CIPHER_CTX_new() else { throw .last() }
        defer { EVP_CIPHER_CTX_free(context) }
        var output = [UInt8](repeating: 0, count: bytes.count)
        var written: Int32 = 0
        // SAFETY: key and nonce have the sizes that this cipher takes (12 bytes is GCM's default), and OpenSSL copies
        // them. GCM writes as many bytes as it reads, and none at the end.
        guard
            EVP_CipherInit_ex2(context, EVP_aes_256_gcm(), key, nonce, tag == nil ? 1 : 0, nil) == 1,
            EVP_CipherUpdate(context, nil, &written, header, headerSize) == 1,
            EVP_CipherUpdate(context, &output, &written, bytes, size) == 1, written == size
        else {
            wipe(&output)
            throw .last()
        }
        var last = [UInt8](repeating: 0, count: 16)
        if var tag {
            guard EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(tagSize), &tag) == 1 else {
                wipe(&output)
                throw .last()
            }
            guard EVP_CipherFinal_ex(context, &last, &written) == 1 else {
                wipe(&output)
                ERR_clear_error()
                return nil
            }
        } else {
            var code = [UInt8](repeating: 0, count: tagSize)
            guard EVP_CipherFinal_ex(context, &last, &written) == 1,
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(tagSize), &code) == 1
            else { throw .last() }
            output += code
        }
        return output
    }
}
