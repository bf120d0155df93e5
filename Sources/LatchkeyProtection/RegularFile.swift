// SPDX-License-Identifier: MPL-2.0

import Glibc

/// An open file on disk: no directory, no pipe, no device, and nothing that others may write to.
package struct RegularFile: ~Copyable {
    /// Differs where the contents may differ.
    package struct Stamp: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64
        let size: Int64
        let modified: [Int]
        let changed: [Int]
    }

    package let stamp: Stamp
    /// Others may read it.
    package let othersMayRead: Bool
    private let subject: String
    private let descriptor: Int32

    /// `kind` is for error texts. If others may read a file with secrets, `FileWarnings` says so. A link in the place of the
    /// file is followed unless `followsLinks` is false. Throws `invalidConfiguration` with the path and the reason.
    package init(
        path: String, kind: String = "keys file", hasSecrets: Bool = true, followsLinks: Bool = true
    ) throws(KeyError) {
        guard !path.isEmpty, !path.utf8.contains(0) else {
            throw .invalidConfiguration("\(kind): the path is empty or has a NUL in it")
        }
        // A pipe would block the open without O_NONBLOCK.
        let subject = "\(kind) \(path)"
        let flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (followsLinks ? 0 : O_NOFOLLOW)
        let descriptor = open(path, flags)
        guard descriptor >= 0 else { throw Self.failure(subject, errno) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            let code = errno
            _ = Glibc.close(descriptor)
            throw Self.failure(subject, code)
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            _ = Glibc.close(descriptor)
            throw .invalidConfiguration("\(subject): not a regular file")
        }
        let access = FileAccess(status)
        if let flaw = access.writeFlaw {
            _ = Glibc.close(descriptor)
            throw .invalidConfiguration("\(subject): \(flaw)")
        }
        if hasSecrets, access.othersMayRead { FileWarnings.othersMayRead(subject) }
        othersMayRead = access.othersMayRead
        self.subject = subject
        self.descriptor = descriptor
        stamp = Stamp(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino), size: Int64(status.st_size),
            modified: [Int(status.st_mtim.tv_sec), Int(status.st_mtim.tv_nsec)],
            changed: [Int(status.st_ctim.tv_sec), Int(status.st_ctim.tv_nsec)])
    }

    deinit { _ = Glibc.close(descriptor) }

    /// The whole file. The caller wipes the bytes where they are secret. Throws where there are more than `limit`.
    package func contents(limit: Int) throws(KeyError) -> [UInt8] {
        guard stamp.size <= limit else {
            throw .invalidConfiguration("\(subject): \(stamp.size) bytes are too many; \(limit) are read")
        }
        // Reserved at once, so that growing leaves no copy of a secret behind. One more shows whether the file grew.
        var bytes = [UInt8](repeating: 0, count: Int(stamp.size) + 1)
        var count = 0
        while count < bytes.count {
            let space = count
            let received = bytes.withUnsafeMutableBytes { buffer in
                // SAFETY: a part of the buffer, whose bounds the slice checks.
                let free = UnsafeMutableRawBufferPointer(rebasing: buffer[space...])
                return Glibc.read(descriptor, free.baseAddress, free.count)
            }
            if received < 0 && errno == EINTR { continue }
            guard received >= 0 else {
                let code = errno
                wipe(&bytes)
                throw Self.failure(subject, code)
            }
            if received == 0 { break }
            count += received
        }
        guard count == Int(stamp.size) else {
            wipe(&bytes)
            throw .invalidConfiguration("\(subject): changed while it was read; replace it in one step")
        }
        bytes.removeLast()
        return bytes
    }

    private static func failure(_ subject: String, _ code: Int32) -> KeyError {
        // SAFETY: glibc returns a string that ends in NUL, good until this thread's next call.
        let reason = strerror(code).map { String(cString: $0) } ?? "error \(code)"
        return .invalidConfiguration("\(subject): \(reason)")
    }
}
