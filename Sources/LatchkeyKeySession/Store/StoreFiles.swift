// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyProtection
import LatchkeyStorage

/// The files of a store: made in one step, moved aside together, and locked while they are in use.
///
/// The database itself is never opened here: closing it would drop the locks that SQLite holds for the whole process.
enum StoreFiles {
    /// Makes a file of mode 0600 with these contents, in one step and on disk when the call returns. A file that is
    /// already there stays.
    static func create(_ path: String, contents: [UInt8]) throws(LicenseStoreError) {
        let code = RegularFile.write(contents, to: path, replacing: false)
        guard code == 0 else { throw failure(path, code) }
    }

    /// Which file has a name.
    struct Identity: Hashable {
        fileprivate let device: dev_t
        fileprivate let number: ino_t
    }

    /// Nil where nothing has this name.
    static func identity(of path: String) -> Identity? {
        var status = stat()
        return stat(path, &status) == 0 ? Identity(device: status.st_dev, number: status.st_ino) : nil
    }

    /// Whether something has this name.
    static func exists(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// Makes the folder and those above it, with mode 0700.
    static func createFolder(of path: String) throws(LicenseStoreError) {
        let folder = self.folder(of: path)
        if exists(folder) { return }
        if self.folder(of: folder) != folder { try createFolder(of: folder) }
        guard mkdir(folder, 0o700) == 0 || errno == EEXIST else { throw failure(folder, errno) }
    }

    /// Brings a small file to another place, also on another file system, once: a file that is already there stays, as does the
    /// first one then, and one that cannot be removed.
    static func move(_ old: String, to path: String) throws(LicenseStoreError) {
        guard !exists(path) else { return }
        let contents: [UInt8]
        do throws(KeyError) {
            contents = try RegularFile(path: old, kind: "counter", has: .settings, followsLinks: false)
                .contents(limit: 64 * 1024)
        } catch {
            // Another process may have been faster.
            guard !exists(path) else { return }
            throw .cannotOpen(error.reason)
        }
        try create(path, contents: contents)
        try remove(old)
    }

    /// What cannot be removed stays.
    static func remove(_ path: String) throws(LicenseStoreError) {
        if unlink(path) == 0 { try synchronizeFolder(of: path) }
    }

    /// The path without links, of a folder that need not be there yet.
    static func resolved(_ path: String) -> String {
        // SAFETY: null, or a string that ends in NUL and is the caller's to free.
        if let found = realpath(path, nil) {
            defer { free(found) }
            return String(cString: found)
        }
        // A working folder that was removed.
        if path == "." { return path }
        let name = path[(path.lastIndex(of: "/") ?? path.startIndex)...].drop { $0 == "/" }
        let folder = resolved(self.folder(of: path))
        return name.isEmpty ? folder : (folder == "/" ? "" : folder) + "/" + name
    }

    /// Gives the files new names with the same addition, which no file has yet; those that are not there are left out.
    /// Returns the names. The folder of each is on disk when the call returns.
    static func moveAside(_ paths: [String], reason: String) throws(LicenseStoreError) -> [String] {
        let there = paths.filter(exists)
        var number = 1
        while there.contains(where: { exists("\($0).\(reason)-\(number)") }) { number += 1 }
        var moved: [String] = []
        for path in there {
            let target = "\(path).\(reason)-\(number)"
            guard rename(path, target) == 0 else { throw failure(path, errno) }
            moved.append(target)
        }
        for path in Set(there.map(folder(of:))) { try synchronizeFolder(of: path + "/.") }
        return moved
    }

    private static func synchronizeFolder(of path: String) throws(LicenseStoreError) {
        let folder = self.folder(of: path)
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(folder, errno) }
        defer { close(descriptor) }
        // Some file systems cannot; they have no order to keep then.
        guard fsync(descriptor) == 0 || errno == EINVAL else { throw failure(folder, errno) }
    }

    static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    static func failure(_ path: String, _ code: Int32) -> LicenseStoreError {
        let detail = "\(path): \(errorText(code))"
        switch code {
        case ENOSPC, EDQUOT, EFBIG: return .diskFull(detail + "; free some room")
        case EACCES, EPERM, EROFS: return .readOnly(detail + "; check the permissions of file and folder")
        case EIO: return .inputOutput(detail)
        default: return .cannotOpen(detail)
        }
    }
}

/// A lock on the files of a store, for as long as it lives: shared by the stores that use them, exclusive for who moves
/// them. A file of its own carries it, and is never removed.
final class StoreLock {
    private let descriptor: Int32
    /// A child that was forked has the descriptor, and not the lock.
    private let process = getpid()

    /// Shared; waits for a mover to be done.
    init(path: String) throws(LicenseStoreError) {
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw StoreFiles.failure(path, errno) }
        while flock(descriptor, LOCK_SH) != 0 {
            let code = errno
            guard code == EINTR else {
                // A class that throws in its initializer still runs `deinit` once all is set.
                throw StoreFiles.failure(path, code)
            }
        }
    }

    deinit {
        guard descriptor >= 0 else { return }
        // A program that is being started has a copy of the descriptor for a while, and the lock would last as long.
        if process == getpid() { _ = flock(descriptor, LOCK_UN) }
        close(descriptor)
    }

    /// Whether the files are open nowhere else, and from now on cannot be opened elsewhere.
    func becomeExclusive() -> Bool { flock(descriptor, LOCK_EX | LOCK_NB) == 0 }
}
