// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyProtection

/// HMAC-SHA-256 under one key, many times over. Used from the thread of its store alone.
final class KeyedCode {
    private let context: OpaquePointer

    init(key: SealingKey) throws(LicenseStoreError) {
        // SAFETY: the key is given with its size; OpenSSL copies it.
        let made = key.withBytes { latchkey_hmac_sha256($0.baseAddress?.assumingMemoryBound(to: UInt8.self), $0.count) }
        guard let context = made else { throw opensslFailure("HMAC") }
        self.context = context
    }

    deinit { EVP_MAC_CTX_free(context) }

    /// 32 bytes.
    func code(of bytes: [UInt8]) throws(LicenseStoreError) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 32)
        var size = 0
        // SAFETY: a null key keeps the one that is set; SHA-256 gives 32 bytes, and no more than that are written.
        guard EVP_MAC_init(context, nil, 0, nil) == 1, EVP_MAC_update(context, bytes, bytes.count) == 1,
            EVP_MAC_final(context, &output, &size, output.count) == 1, size == output.count
        else { throw opensslFailure("HMAC") }
        return output
    }
}
