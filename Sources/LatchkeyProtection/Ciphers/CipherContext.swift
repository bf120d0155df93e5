// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGcrypt
import Glibc

/// The AES-128 modes that the schemes are made of.
enum CipherMode {
    case counter
    case chained

    fileprivate var identifier: Int32 {
        switch self {
        case .counter: Int32(bitPattern: GCRY_CIPHER_MODE_CTR.rawValue)
        case .chained: Int32(bitPattern: GCRY_CIPHER_MODE_CBC.rawValue)
        }
    }

    /// libgcrypt sets itself up at the first look at its version, for all threads.
    private static let isLibraryReady = gcry_check_version("1.8.0") != nil

    static func checkAvailability() throws(DecryptionError) {
        guard isLibraryReady else { throw .cipherUnavailable(reason: UInt(GPG_ERR_NOT_SUPPORTED.rawValue)) }
    }
}

/// One cipher handle of libgcrypt with its key set. A plain value: its owner calls `release` once. Not thread-safe.
///
/// The handle has the expanded key, which begins with the key itself. So the pages that it lies in are locked and left out of
/// core dumps, and libgcrypt wipes it when it is closed.
///
/// libgcrypt and not OpenSSL, whose AES in CTR and CBC mode takes twice the time on processors with vector AES: version
/// 3.0 does not use it.
struct CipherContext {
    private let handle: gcry_cipher_hd_t
    private let mode: CipherMode

    init(_ mode: CipherMode, key: ContentKey) throws(DecryptionError) {
        try CipherMode.checkAvailability()
        var opened: gcry_cipher_hd_t?
        let status = gcry_cipher_open(&opened, Int32(bitPattern: GCRY_CIPHER_AES.rawValue), mode.identifier, 0)
        guard status == 0, let opened else { throw .cipherUnavailable(reason: UInt(status)) }
        Self.protectPages(of: opened)
        let keyStatus = key.withBytes { bytes in
            // SAFETY: 16 key bytes, which libgcrypt copies.
            gcry_cipher_setkey(opened, bytes.baseAddress, bytes.count)
        }
        guard keyStatus == 0 else {
            gcry_cipher_close(opened)
            throw .cipherUnavailable(reason: UInt(keyStatus))
        }
        handle = opened
        self.mode = mode
    }

    /// Pages stay so when the handle is closed: others may have handles in them. libgcrypt's own secure memory is not used:
    /// it is in core dumps, and a library that prepares it later (libssh does) writes a complaint to stderr.
    private static func protectPages(of handle: gcry_cipher_hd_t) {
        let page = UInt(sysconf(Int32(_SC_PAGESIZE)))
        let start = UInt(bitPattern: handle) / page * page
        // A handle has 2,000 bytes in libgcrypt 1.10.
        let end = (UInt(bitPattern: handle) + 4096 + page - 1) / page * page
        guard let address = UnsafeMutableRawPointer(bitPattern: start) else { return }
        // SAFETY: neither call changes a byte. Pages in the range that are not mapped are skipped, which is an error.
        _ = mlock(address, Int(end - start))
        _ = madvise(address, Int(end - start), Int32(MADV_DONTDUMP))
    }

    /// Frees the handle; libgcrypt wipes the key schedule.
    func release() { gcry_cipher_close(handle) }

    /// Starts anew with a counter block or an IV, keeping the key.
    @inline(__always)
    func restart(high: UInt64, low: UInt64) throws(DecryptionError) {
        let block = SIMD2(high.bigEndian, low.bigEndian)
        let status = withUnsafeBytes(of: block) { bytes in
            // SAFETY: 16 bytes, which libgcrypt copies.
            switch mode {
            case .counter: gcry_cipher_setctr(handle, bytes.baseAddress, 16)
            case .chained: gcry_cipher_setiv(handle, bytes.baseAddress, 16)
            }
        }
        guard status == 0 else { throw .cipherFailure(reason: UInt(status)) }
    }

    /// Decrypts `count` bytes and goes on from there at the next call. `source` and `target` are equal or apart. For
    /// `chained`, `count` is a multiple of 16.
    @inline(__always)
    func update(from source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, count: Int) throws(DecryptionError) {
        guard count > 0 else { return }
        // SAFETY: the caller vouches for `count` bytes at both; as many are written.
        let status = gcry_cipher_decrypt(handle, target, count, source, count)
        guard status == 0 else { throw .cipherFailure(reason: UInt(status)) }
    }
}
