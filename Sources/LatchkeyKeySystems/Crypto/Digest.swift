// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyProtection

/// Digests and what is made of them.
package enum Digest {
    /// 20 bytes. The exchange's formats ask for SHA-1; nothing here relies on its collisions being hard to find.
    package static func sha1(_ bytes: [UInt8]) throws(CryptoError) -> [UInt8] { try digest(EVP_sha1(), 20, bytes) }

    /// 32 bytes.
    package static func sha256(_ bytes: [UInt8]) throws(CryptoError) -> [UInt8] { try digest(EVP_sha256(), 32, bytes) }

    /// HMAC-SHA-256, 32 bytes.
    package static func hmac(key: UnsafeRawBufferPointer, _ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        var code = [UInt8](repeating: 0, count: 32)
        var size: UInt32 = 0
        // SAFETY: SHA-256 writes 32 bytes; key and message are given with their sizes.
        let isDone =
            HMAC(
                EVP_sha256(), key.baseAddress, Int32(truncatingIfNeeded: key.count), bytes, bytes.count, &code, &size)
            != nil
        guard isDone, size == 32 else { throw .last() }
        return code
    }

    /// HMAC-SHA-256, 32 bytes.
    package static func hmac(key: [UInt8], _ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        let result: Result<[UInt8], CryptoError> = key.withUnsafeBytes { key in
            do throws(CryptoError) { return .success(try hmac(key: key, bytes)) } catch { return .failure(error) }
        }
        return try result.get()
    }

    private static func digest(
        _ algorithm: OpaquePointer?, _ size: Int, _ bytes: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: size)
        var written: UInt32 = 0
        // SAFETY: the algorithm writes exactly `size` bytes.
        guard EVP_Digest(bytes, bytes.count, &output, &written, algorithm, nil) == 1, Int(written) == size else {
            throw .last()
        }
        return output
    }
}

/// Compares without an early exit, so that the time tells nothing of the bytes.
package func isEqualInConstantTime(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && zip(left, right).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
}
