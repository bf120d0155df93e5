// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL

/// Private keys of any kind in PEM (PKCS #8), without a pass phrase.
enum PrivateKeyPEM {
    /// An `EVP_PKEY`, which the caller frees.
    static func handle(of text: [UInt8]) throws(CryptoError) -> OpaquePointer {
        guard let size = Int32(exactly: text.count), let input = BIO_new(BIO_s_secmem()) else { throw .last() }
        defer { BIO_free(input) }
        // SAFETY: copies `size` bytes.
        guard BIO_write(input, text, size) == size else { throw .last() }
        // The empty pass phrase keeps OpenSSL from asking a terminal.
        var none: [CChar] = [0]
        guard let handle = PEM_read_bio_PrivateKey(input, nil, nil, &none) else { throw .last() }
        return handle
    }

    /// Readable: the caller wipes it. `handle` is an `EVP_PKEY`.
    static func text(of handle: OpaquePointer) throws(CryptoError) -> [UInt8] {
        guard let output = BIO_new(BIO_s_secmem()) else { throw .last() }
        defer { BIO_free(output) }
        guard PEM_write_bio_PrivateKey(output, handle, nil, nil, 0, nil, nil) == 1 else { throw .last() }
        var text = [UInt8](repeating: 0, count: BIO_ctrl_pending(output))
        // SAFETY: reads at most as many bytes as there is room for.
        guard BIO_read(output, &text, Int32(truncatingIfNeeded: text.count)) == Int32(truncatingIfNeeded: text.count)
        else { throw .last() }
        return text
    }
}
