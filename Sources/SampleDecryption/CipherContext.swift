// SPDX-License-Identifier: MPL-2.0

import COpenSSL
import ProtectionModel

/// The AES-128 modes that the schemes are made of.
enum CipherMode {
    case counter
    case chained
    /// Blocks on their own; the chaining of `cbcs` is done around it.
    case blocks

    /// Looking a cipher up takes longer than decrypting a small sample, so it happens once per process.
    fileprivate var cipher: OpaquePointer? {
        switch self {
        case .counter: FetchedCiphers.shared.counter
        case .chained: FetchedCiphers.shared.chained
        case .blocks: FetchedCiphers.shared.blocks
        }
    }

    static func checkAvailability() throws(DecryptionError) {
        let all = FetchedCiphers.shared
        guard all.counter != nil, all.chained != nil, all.blocks != nil else {
            throw .cipherUnavailable(reason: CipherContext.takeReason())
        }
    }
}

private struct FetchedCiphers: @unchecked Sendable {
    // SAFETY: an EVP_CIPHER is immutable, reference-counted and made to be shared by threads; these stay until the
    // process ends.
    static let shared = FetchedCiphers()

    let counter = EVP_CIPHER_fetch(nil, "AES-128-CTR", nil)
    let chained = EVP_CIPHER_fetch(nil, "AES-128-CBC", nil)
    let blocks = EVP_CIPHER_fetch(nil, "AES-128-ECB", nil)
}

/// One `EVP_CIPHER_CTX` with its key set. A plain value: its owner calls `release` once. Not thread-safe.
struct CipherContext {
    private let context: OpaquePointer

    init(_ mode: CipherMode, key: ContentKey) throws(DecryptionError) {
        guard let cipher = mode.cipher, let context = EVP_CIPHER_CTX_new() else {
            throw .cipherUnavailable(reason: Self.takeReason())
        }
        let isReady = key.withBytes { bytes in
            // SAFETY: 16 key bytes as AES-128 takes; OpenSSL copies them. A null IV leaves it unset.
            EVP_DecryptInit_ex2(
                context, cipher, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), nil, nil) == 1
                && EVP_CIPHER_CTX_set_padding(context, 0) == 1
        }
        guard isReady else {
            EVP_CIPHER_CTX_free(context)
            throw .cipherUnavailable(reason: Self.takeReason())
        }
        self.context = context
    }

    /// Frees the context; OpenSSL wipes the key schedule.
    func release() { EVP_CIPHER_CTX_free(context) }

    /// Starts anew with a counter block or an IV, keeping the key.
    @inline(__always)
    func restart(high: UInt64, low: UInt64) throws(DecryptionError) {
        let block = SIMD2(high.bigEndian, low.bigEndian)
        let isDone = withUnsafeBytes(of: block) { bytes in
            // SAFETY: 16 bytes, which OpenSSL copies; null cipher and key keep those that are set.
            EVP_DecryptInit_ex2(context, nil, nil, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), nil)
        }
        guard isDone == 1 else { throw .cipherFailure(reason: Self.takeReason()) }
    }

    /// Decrypts `count` bytes and goes on from there at the next call. `source` and `target` are equal or apart. For
    /// `chained` and `blocks`, `count` is a multiple of 16.
    @inline(__always)
    func update(from source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, count: Int) throws(DecryptionError) {
        var done = 0
        while done < count {
            // EVP counts in Int32; the piece stays a multiple of 16.
            let piece = min(count - done, 1 << 30)
            var written: Int32 = 0
            // SAFETY: the caller vouches for `count` bytes at both; padding is off, so OpenSSL writes no more.
            let isDone = EVP_DecryptUpdate(
                context, (target + done).assumingMemoryBound(to: UInt8.self), &written,
                (source + done).assumingMemoryBound(to: UInt8.self), Int32(truncatingIfNeeded: piece))
            guard isDone == 1, Int(written) == piece else { throw .cipherFailure(reason: Self.takeReason()) }
            done += piece
        }
    }

    /// OpenSSL's last error on this thread. The queue is emptied: it belongs to the host application too.
    @inline(never)
    static func takeReason() -> UInt {
        let reason = ERR_peek_last_error()
        ERR_clear_error()
        return reason
    }
}
