// SPDX-License-Identifier: MPL-2.0

import COpenSSL
import ProtectionModel

/// AES-256-GCM under one key: what is sealed is a random nonce of 12 bytes, the ciphertext and a tag of 16 bytes.
///
/// Used from the thread of its store alone.
final class Seal {
    static let nonceSize = 12
    static let tagSize = 16
    static let overhead = nonceSize + tagSize

    private let key: SealingKey
    private let cipher: OpaquePointer
    private let context: OpaquePointer

    init(key: SealingKey) throws(LicenseStoreError) {
        guard let cipher = EVP_CIPHER_fetch(nil, "AES-256-GCM", nil) else { throw opensslFailure("AES-256-GCM") }
        guard let context = EVP_CIPHER_CTX_new() else {
            EVP_CIPHER_free(cipher)
            throw opensslFailure("AES-256-GCM")
        }
        self.key = key
        self.cipher = cipher
        self.context = context
    }

    deinit {
        EVP_CIPHER_CTX_free(context)
        EVP_CIPHER_free(cipher)
    }

    func seal(_ bytes: [UInt8], authenticating header: [UInt8]) throws(LicenseStoreError) -> [UInt8] {
        let nonce = try randomBytes(Self.nonceSize)
        var output = nonce + [UInt8](repeating: 0, count: bytes.count + Self.tagSize)
        guard try start(nonce: nonce, header: header, encrypts: true),
            update(bytes, into: &output, at: Self.nonceSize)
        else { throw opensslFailure("sealing") }
        var rest = [UInt8](repeating: 0, count: 16)
        var tag = [UInt8](repeating: 0, count: Self.tagSize)
        var written: Int32 = 0
        // SAFETY: GCM writes nothing at the end; the tag has the size that is asked for.
        guard EVP_CipherFinal_ex(context, &rest, &written) == 1,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(Self.tagSize), &tag) == 1
        else { throw opensslFailure("sealing") }
        output.replaceSubrange((output.count - Self.tagSize)..., with: tag)
        return output
    }

    /// Nil where key, header or bytes are not those that were sealed.
    func open(_ sealed: [UInt8], authenticating header: [UInt8]) throws(LicenseStoreError) -> [UInt8]? {
        guard sealed.count >= Self.overhead else { return nil }
        let bytes = Array(sealed[Self.nonceSize..<sealed.count - Self.tagSize])
        var tag = Array(sealed.suffix(Self.tagSize))
        var output = [UInt8](repeating: 0, count: bytes.count)
        var rest = [UInt8](repeating: 0, count: 16)
        var written: Int32 = 0
        guard try start(nonce: Array(sealed.prefix(Self.nonceSize)), header: header, encrypts: false),
            update(bytes, into: &output, at: 0),
            // SAFETY: OpenSSL copies the 16 bytes of the tag.
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(Self.tagSize), &tag) == 1
        else {
            wipe(&output)
            throw opensslFailure("opening")
        }
        // SAFETY: GCM writes nothing at the end.
        guard EVP_CipherFinal_ex(context, &rest, &written) == 1 else {
            wipe(&output)
            ERR_clear_error()
            return nil
        }
        return output
    }

    private func start(nonce: [UInt8], header: [UInt8], encrypts: Bool) throws(LicenseStoreError) -> Bool {
        guard let headerSize = Int32(exactly: header.count) else { throw .recordTooLarge("a header to authenticate") }
        var written: Int32 = 0
        return key.withBytes { key in
            // SAFETY: key and nonce have the sizes that this cipher takes (12 bytes is GCM's default), and OpenSSL
            // copies them. A null output takes the header in.
            EVP_CipherInit_ex2(
                context, cipher, key.baseAddress?.assumingMemoryBound(to: UInt8.self), nonce, encrypts ? 1 : 0, nil)
                == 1 && EVP_CipherUpdate(context, nil, &written, header, headerSize) == 1
        }
    }

    private func update(_ bytes: [UInt8], into output: inout [UInt8], at place: Int) -> Bool {
        guard !bytes.isEmpty else { return true }
        guard let size = Int32(exactly: bytes.count), output.count - place >= bytes.count else { return false }
        var written: Int32 = 0
        // SAFETY: GCM writes as many bytes as it reads, and there is room for them behind `place`.
        let isDone = output.withUnsafeMutableBytes { output in
            guard let start = output.baseAddress else { return false }
            return EVP_CipherUpdate(
                context, (start + place).assumingMemoryBound(to: UInt8.self), &written, bytes, size) == 1
        }
        return isDone && written == size
    }
}
