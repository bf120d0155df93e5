// SPDX-License-Identifier: MPL-2.0

public import ProtectionModel

/// Decrypts whole segments: AES-128 in CBC mode with PKCS#7 padding (RFC 8216, 4.3.2.4, METHOD=AES-128).
public enum SegmentCipher {
    /// Decrypts in place and takes the padding away.
    ///
    /// Throws `paddingInvalid` where the segment is no number of blocks or its padding is wrong: the key or the IV is
    /// not the segment's. `bytes` are undefined then.
    public static func decrypt(
        _ bytes: inout [UInt8], key: ContentKey, initializationVector: InitializationVector
    ) throws(DecryptionError) {
        guard !bytes.isEmpty, bytes.count % 16 == 0 else { throw .paddingInvalid(size: bytes.count) }
        try CipherMode.checkAvailability()
        let context = try CipherContext(.chained, key: key)
        defer { context.release() }
        try context.restart(high: initializationVector.high, low: initializationVector.low)
        let count = bytes.count
        var failure: DecryptionError?
        bytes.withUnsafeMutableBytes { bytes in
            guard let start = bytes.baseAddress else { return }
            do throws(DecryptionError) {
                // SAFETY: `count` bytes, a multiple of 16, decrypted where they are.
                try context.update(from: start, to: start, count: count)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        // The comparison may take what time it likes: nobody who does not have the key sends segments to try out.
        let padding = Int(bytes[count - 1])
        guard (1...16).contains(padding), bytes.suffix(padding).allSatisfy({ Int($0) == padding }) else {
            throw .paddingInvalid(size: count)
        }
        bytes.removeLast(padding)
    }
}
