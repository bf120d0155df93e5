// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
package import LatchkeyProtection

/// AES-256-GCM under one key, with a nonce of 12 bytes and a tag of 16.
///
/// Not thread-safe: it keeps a context of OpenSSL.
package final class AESGCM {
    package static let nonceSize = 12
    package static let tagSize = 16

    private let key: SealingKey
    private let cipher: OpaquePointer
    private let context: OpaquePointer

    package init(_ key: SealingKey) throws(CryptoError) {
        guard let cipher = EVP_CIPHER_fetch(nil, "AES-256-GCM", nil) else { throw .last() }
        guard let context = EVP_CIPHER_CTX_new() else {
            EVP_CIPHER_free(cipher)
            throw .last()
        }
        self.key = key
        self.cipher = cipher
        self.context = context
    }

    deinit {
        EVP_CIPHER_CTX_free(context)
        EVP_CIPHER_free(cipher)
    }

    /// Ciphertext and tag.
    package func seal(
        _ bytes: [UInt8], nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: bytes.count + Self.tagSize)
        var rest = [UInt8](repeating: 0, count: 16)
        var tag = [UInt8](repeating: 0, count: Self.tagSize)
        var written: Int32 = 0
        guard start(nonce: nonce, header: header, encrypts: true), update(bytes, into: &output),
            // SAFETY: GCM writes nothing at the end; the tag has the size that is asked for.
            EVP_CipherFinal_ex(context, &rest, &written) == 1,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(Self.tagSize), &tag) == 1
        else { throw .last() }
        output.replaceSubrange(bytes.count..., with: tag)
        return output
    }

    /// The clear bytes, or nil where key, nonce, header or bytes are not those that were sealed.
    package func open(
        _ sealed: [UInt8], nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CryptoError) -> [UInt8]? {
        guard sealed.count >= Self.tagSize else { return nil }
        let bytes = Array(sealed.dropLast(Self.tagSize))
        var tag = Array(sealed.suffix(Self.tagSize))
        var output = [UInt8](repeating: 0, count: bytes.count)
        var rest = [UInt8](repeating: 0, count: 16)
        var written: Int32 = 0
        guard start(nonce: nonce, header: header, encrypts: false), update(bytes, into: &output),
            // SAFETY: OpenSSL copies the 16 bytes of the tag.
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(Self.tagSize), &tag) == 1
        else {
            wipe(&output)
            throw .last()
        }
        // SAFETY: GCM writes nothing at the end.
        guard EVP_CipherFinal_ex(context, &rest, &written) == 1 else {
            wipe(&output)
            ERR_clear_error()
            return nil
        }
        return output
    }

    private func start(nonce: [UInt8], header: [UInt8], encrypts: Bool) -> Bool {
        guard nonce.count == Self.nonceSize, let headerSize = Int32(exactly: header.count) else { return false }
        var written: Int32 = 0
        return key.withBytes { key in
            // SAFETY: key and nonce have the sizes that this cipher takes (12 bytes is GCM's default), and OpenSSL
            // copies them. A null output takes the header in.
            EVP_CipherInit_ex2(
                context, cipher, key.baseAddress?.assumingMemoryBound(to: UInt8.self), nonce, encrypts ? 1 : 0, nil)
                == 1 && EVP_CipherUpdate(context, nil, &written, header, headerSize) == 1
        }
    }

    /// `output` has room for as many bytes, and may have more.
    private func update(_ bytes: [UInt8], into output: inout [UInt8]) -> Bool {
        guard !bytes.isEmpty else { return true }
        guard let size = Int32(exactly: bytes.count), output.count >= bytes.count else { return false }
        var written: Int32 = 0
        // SAFETY: GCM writes as many bytes as it reads, and there is room for them.
        return EVP_CipherUpdate(context, &output, &written, bytes, size) == 1 && written == size
    }
}
