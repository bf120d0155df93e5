// SPDX-License-Identifier: MPL-2.0

import Glibc

/// A file that is open for reading: no directory, no pipe and no device. The only reader and writer of small files.
package struct RegularFile: ~Copyable {
    /// What a file has in it, which decides what others may do with it.
    package enum Contents: Sendable {
        /// A file that others may write to, or put another one in the place of, is refused. If others may read it,
        /// `FileWarnings` says so.
        case secrets
        /// A file that others may write to, or put another one in the place of, is refused.
        case settings
        /// Others may own it or write to it: media, and files of the kernel.
        case untrusted
    }

    /// Differs where the contents may differ.
    package struct Stamp: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64
        let size: Int64
        let modified: [Int]
        let changed: [Int]
    }

    package let stamp: Stamp
    /// In bytes, when it was opened.
    package var size: UInt64 { UInt64(clamping: stamp.size) }
    /// Others may read it.
    package let othersMayRead: Bool
    private let subject: String
    private let descriptor: Int32

    /// `kind` is for error texts. A link in the place of the file is followed unless `followsLinks` is false. Throws
    /// `invalidConfiguration` with the path and the reason.
    package init(path: String, kind: String, has contents: Contents, followsLinks: Bool = true) throws(KeyError) {
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
        if contents != .untrusted, let flaw = access.writeFlaw ?? FileAccess.folderFlaw(ofFile: path) {
            _ = Glibc.close(descriptor)
            throw .invalidConfiguration("\(subject): \(flaw)")
        }
        if contents == .secrets, access.othersMayRead { FileWarnings.othersMayRead(subject) }
        othersMayRead = access.othersMayRead
        self.subject = subject
        self.descriptor = descriptor
        stamp = Stamp(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino), size: Int64(status.st_size),
            modified: [Int(status.st_mtim.tv_sec), Int(status.st_mtim.tv_nsec)],
            changed: [Int(status.st_ctim.tv_sec), Int(status.st_ctim.tv_nsec)])
    }

    deinit { _ = Glibc.close(descriptor) }

    /// The whole file. The caller wipes the bytes if they are secret. Throws if there are more than `limit`. Files of the
    /// kernel, such as those in `/proc`, say that they have no bytes, and are read to their end.
    package func contents(limit: Int) throws(KeyError) -> [UInt8] {
        guard stamp.size <= limit else {
            throw .invalidConfiguration("\(subject): \(stamp.size) bytes are too many; \(limit) are read")
        }
        let hasSize = stamp.size > 0
        // One more byte shows whether the file grew.
        let bytes = try read(at: 0, count: (hasSize ? Int(stamp.size) : limit) + 1)
        guard hasSize ? bytes.count == Int(stamp.size) : bytes.count <= limit else {
            var bytes = bytes
            wipe(&bytes)
            throw .invalidConfiguration("\(subject): changed while it was read; replace it in one step")
        }
        return bytes
    }

    /// The bytes from `offset` on, `count` of them; fewer only if the file ends before.
    package func part(at offset: UInt64, count: Int) throws(KeyError) -> [UInt8] {
        guard offset < size else { return [] }
        return try read(at: Int64(offset), count: min(count, Int(size - offset)))
    }

    private func read(at offset: Int64, count: Int) throws(KeyError) -> [UInt8] {
        // Reserved at once, so that growing leaves no copy of a secret behind.
        var bytes = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            let space = filled
            let received = bytes.withUnsafeMutableBytes { buffer in
                // SAFETY: a part of the buffer, whose bounds the slice checks.
                let free = UnsafeMutableRawBufferPointer(rebasing: buffer[space...])
                return pread(descriptor, free.baseAddress, free.count, off_t(offset) + space)
            }
            if received < 0 && errno == EINTR { continue }
            guard received >= 0 else {
                let code = errno
                wipe(&bytes)
                throw Self.failure(subject, code)
            }
            if received == 0 { break }
            filled += received
        }
        bytes.removeLast(count - filled)
        return bytes
    }

    /// Writes a new file next to `path`, and moves it there: a crash leaves the old or the new one, on disk too. Only its
    /// owner may read it. Without `replacing`, a file that is there already stays. Throws `invalidConfiguration` with
    /// `subject` and the reason.
    package static func write(
        _ bytes: [UInt8], to path: String, replacing: Bool = true, subject: String
    ) throws(KeyError) {
        let code = write(bytes, to: path, replacing: replacing)
        guard code == 0 else { throw failure(subject, code) }
    }

    /// The same. Returns 0, or the system's error number.
    package static func write(_ bytes: [UInt8], to path: String, replacing: Bool = true) -> Int32 {
        guard !path.isEmpty, !path.utf8.contains(0) else { return EINVAL }
        let temporary = "\(path).\(UInt64.random(in: 0 ... .max)).new"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return errno }
        var rest = bytes[...]
        var code: Int32 = 0
        while !rest.isEmpty, code == 0 {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written > 0 {
                rest = rest.dropFirst(written)
            } else if written == 0 || errno != EINTR {
                code = written == 0 ? EIO : errno
            }
        }
        if code == 0, fsync(descriptor) != 0 { code = errno }
        if Glibc.close(descriptor) != 0, code == 0 { code = errno }
        if code == 0 {
            // Unlike a rename, a link never replaces.
            let result = replacing ? rename(temporary, path) : link(temporary, path)
            if result != 0, replacing || errno != EEXIST { code = errno }
        }
        // Gone after a rename.
        _ = unlink(temporary)
        if code == 0 { syncFolder(of: path) }
        return code
    }

    /// So that the name outlives a power cut as the content does. A file system that cannot do that is no error.
    private static func syncFolder(of path: String) {
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        _ = Glibc.close(descriptor)
    }

    /// An error number of the system as an error of a file.
    package static func failure(_ subject: String, _ code: Int32) -> KeyError {
        // SAFETY: glibc returns a string that ends in NUL, good until this thread's next call.
        let reason = strerror(code).map { String(cString: $0) } ?? "error \(code)"
        return .invalidConfiguration("\(subject): \(reason)")
    }
}
