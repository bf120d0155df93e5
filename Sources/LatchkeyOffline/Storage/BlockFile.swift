// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import Glibc
import LatchkeyHTTP
import LatchkeyStorage

/// The bytes of one resource, with holes where nothing was stored. Used from the thread of the cache alone.
protocol BlockFile: AnyObject {
    /// In bytes.
    func size() throws(CacheError) -> UInt64
    /// Fewer bytes only at the end of the file.
    func read(_ count: Int, at offset: UInt64) throws(CacheError) -> [UInt8]
    func write(_ bytes: ArraySlice<UInt8>, at offset: UInt64) throws(CacheError)
    /// When this returns, what was written survives a loss of power.
    func synchronize() throws(CacheError)
}

/// Opens files of blocks. Tests give one whose disk fails.
struct BlockFiles: Sendable {
    /// The file is made where it is not there, with mode 0600.
    var open: @Sendable (_ path: String) throws(CacheError) -> any BlockFile

    static let system = BlockFiles { path throws(CacheError) in try SystemBlockFile(path) }
}

/// A file of the system.
final class SystemBlockFile: BlockFile {
    private let path: String
    private let descriptor: Int32
    /// Why it cannot be written; nil: it can.
    private let readOnlyReason: CacheError?

    init(_ path: String) throws(CacheError) {
        self.path = path
        let first = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        let failure = first < 0 ? CacheError(system: errno, path) : nil
        descriptor = failure?.code == .notPermitted ? Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : first
        readOnlyReason = failure
        if descriptor < 0, let failure { throw failure }
    }

    deinit { close(descriptor) }

    func size() throws(CacheError) -> UInt64 {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw CacheError(system: errno, path) }
        return UInt64(clamping: status.st_size)
    }

    func read(_ count: Int, at offset: UInt64) throws(CacheError) -> [UInt8] {
        guard count > 0, let start = off_t(exactly: offset) else { return [] }
        var problem: Int32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                // SAFETY: a part of the buffer, whose bounds the slice checks.
                let free = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[filled...])
                let received = pread(descriptor, free.baseAddress, free.count, start + off_t(filled))
                if received < 0, errno == EINTR { continue }
                if received < 0 { problem = errno }
                guard received > 0 else { break }
                filled += received
            }
        }
        guard problem == 0 else { throw CacheError(system: problem, path) }
        return bytes
    }

    func write(_ bytes: ArraySlice<UInt8>, at offset: UInt64) throws(CacheError) {
        if let readOnlyReason { throw readOnlyReason }
        guard let start = off_t(exactly: offset), !start.addingReportingOverflow(off_t(bytes.count)).overflow else {
            throw CacheError(.inputOutput, "\(path): an offset of \(offset)")
        }
        var rest = bytes
        while !rest.isEmpty {
            let place = start + off_t(bytes.count - rest.count)
            // SAFETY: exactly the bytes of the slice.
            let written = rest.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, place) }
            if written < 0, errno == EINTR { continue }
            guard written > 0 else { throw CacheError(system: written == 0 ? EIO : errno, path) }
            rest = rest.dropFirst(written)
        }
    }

    func synchronize() throws(CacheError) {
        guard fdatasync(descriptor) == 0 else { throw CacheError(system: errno, path) }
    }
}

extension CacheError {
    /// What the system says about a file.
    init(system code: Int32, _ path: String) {
        let reason = "\(path): \(errorText(code))"
        switch code {
        case ENOSPC, EDQUOT, EFBIG: self.init(.diskFull, "\(reason); free some room")
        case EACCES, EPERM, EROFS: self.init(.notPermitted, "\(reason); check the permissions of file and folder")
        case ENOENT: self.init(.notCached, reason)
        default: self.init(.inputOutput, "\(reason); check the disk")
        }
    }
}

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
