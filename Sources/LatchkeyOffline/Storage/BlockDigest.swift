// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyHTTP

/// SHA-256 of a block: what tells bytes that were altered on disk.
enum BlockDigest {
    /// 32 bytes.
    static func of(_ bytes: ArraySlice<UInt8>) throws(CacheError) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        var size: UInt32 = 0
        // SAFETY: SHA-256 writes 32 bytes; the message is given with its size.
        let isDone = ExitGate.pass {
            bytes.withUnsafeBytes { EVP_Digest($0.baseAddress, $0.count, &digest, &size, EVP_sha256(), nil) == 1 }
        }
        guard isDone, size == 32 else { throw CacheError(.inputOutput, "OpenSSL has no SHA-256") }
        return digest
    }

    /// Hexadecimal, of a text: a name for a file.
    static func name(of text: String) throws(CacheError) -> String {
        let digits = Array("0123456789abcdef".utf8)
        let bytes = try of(Array(text.utf8)[...]).prefix(16).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return String(decoding: bytes, as: UTF8.self)
    }
}
