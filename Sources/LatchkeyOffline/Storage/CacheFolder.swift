// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyManifests
import LatchkeyProtection

/// The folders of the cache. All are for the owner alone.
enum CacheFolder {
    /// Makes the folder and those above it, with mode 0700. The error names the part of the path that is in the way.
    static func create(_ path: String) throws(CacheError) {
        if mkdir(path, 0o700) == 0 || errno == EEXIST { return }
        var code = errno
        if code == ENOENT || code == ENOTDIR, let slash = path.lastIndex(of: "/"), slash > path.startIndex {
            let above = String(path[..<slash])
            try create(above)
            if mkdir(path, 0o700) == 0 || errno == EEXIST { return }
            code = errno
            if code == ENOTDIR {
                throw CacheError(.notPermitted, "\(above) is no folder; name another one for the cache")
            }
        }
        guard code == ENOENT else { throw CacheError(system: code, path) }
        throw CacheError(.notPermitted, "the folder \(path) cannot be made there; name another one for the cache")
    }

    /// Makes an empty file for the owner alone, where there is none; one that is there, and that `check` has looked at, is
    /// for the owner alone then. Does not open that: SQLite's locks in this process would end with it.
    static func createFile(_ path: String) throws(CacheError) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
        guard descriptor >= 0 || errno == EEXIST && chmod(path, 0o600) == 0 else {
            throw CacheError(system: errno, path)
        }
    }

    /// Throws `notPermitted` where others may write to the folder of an item, that of the cache, or the index, or where that
    /// is a link.
    static func check(_ folder: String) throws(CacheError) {
        let index = folder + "/index.db"
        let cache = folder.lastIndex(of: "/").map { String(folder[..<$0]) }
        if let flaw = FileAccess.flaw(
            files: [index, index + "-wal", index + "-shm"], folders: [folder] + (cache.map { [$0] } ?? []))
        {
            throw CacheError(.notPermitted, flaw)
        }
    }

    /// The path without links, of a folder that need not be there yet: the same for each spelling.
    static func resolved(_ path: String) -> String {
        // SAFETY: null, or a string that ends in NUL and is the caller's to free.
        if let found = realpath(path, nil) {
            defer { free(found) }
            // What is no UTF-8 would be another name as a string.
            return String(validatingCString: found) ?? path
        }
        // A working folder that was removed.
        if path.isEmpty || path == "." { return path }
        let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let name = slash.map { path[path.utf8.index(after: $0)...] } ?? path[...]
        let folder = resolved(slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? ".")
        if name.isEmpty || name == "." { return folder }
        return (folder == "/" ? "" : folder) + "/" + name
    }

    static func exists(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// Of a file, in bytes; zero where there is none.
    static func size(_ path: String) -> Int {
        var status = stat()
        return lstat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    /// The names in a folder: those that start with a point, or those that do not. Empty where there is no folder.
    static func names(in path: String, hidden: Bool = false) throws(CacheError) -> [String] {
        guard let folder = opendir(path) else {
            if errno == ENOENT { return [] }
            throw CacheError(system: errno, path)
        }
        defer { closedir(folder) }
        return names(of: folder).filter { $0.hasPrefix(".") == hidden }.sorted()
    }

    private static func names(of folder: OpaquePointer) -> [String] {
        var names: [String] = []
        while let entry = readdir(folder) {
            // SAFETY: the name ends in NUL, within the entry.
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    /// Takes a folder of files away: under another name at once, so that it is never there by half.
    static func remove(_ path: String, through temporary: String) throws(CacheError) {
        guard rename(path, temporary) == 0 else {
            if errno == ENOENT { return }
            throw CacheError(system: errno, path)
        }
        try clear(temporary)
    }

    /// Removes a folder with its files. Throws `notPermitted` where that is not all that is in it. `unlink` removes a file of an
    /// open folder, and returns an error number or zero.
    static func clear(
        _ path: String, unlink: (Int32, String) -> Int32 = { unlinkat($0, $1, 0) == 0 ? 0 : errno }
    ) throws(CacheError) {
        try refuseLink(path)
        // What is open is the same folder to the end, whatever has its name by then.
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0, let folder = fdopendir(descriptor) else {
            let code = errno
            if descriptor >= 0 { close(descriptor) }
            if code == ENOENT { return }
            throw CacheError(system: code, path)
        }
        defer { closedir(folder) }
        // Folders are not of the cache. What has gone is none.
        let refusal = names(of: folder).map { unlink(descriptor, $0) }.first { ![0, EISDIR, ENOENT].contains($0) }
        guard rmdir(path) != 0, errno != ENOENT else { return }
        guard errno == ENOTEMPTY || errno == EEXIST else { throw CacheError(system: errno, path) }
        // Of this code, so that it holds up nothing else.
        if let refusal { throw CacheError(.notPermitted, CacheError(system: refusal, path).reason) }
        throw CacheError(.notPermitted, "\(path) has something in it that is not of the cache; move that elsewhere")
    }

    /// Throws `notPermitted` for a link, which could lead to any folder of the user.
    static func refuseLink(_ path: String) throws(CacheError) {
        guard FileAccess(of: path)?.isLink != true else {
            throw CacheError(.notPermitted, "\(path) is a symbolic link, which no removal follows; remove it by hand")
        }
    }

    /// When this returns, the names in the folder survive a loss of power.
    static func synchronize(_ path: String) throws(CacheError) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw CacheError(system: errno, path) }
        defer { close(descriptor) }
        // Some file systems cannot; they have no order to keep then.
        guard fsync(descriptor) == 0 || errno == EINVAL else { throw CacheError(system: errno, path) }
    }

    /// A lock on a folder that ends with this object, or with the process.
    final class Lock: Sendable {
        enum Kind {
            /// The folder stays as long as a lock of this kind exists.
            case use
            /// The folder has no other user: it may go.
            case removal
            /// The folder has no other writer.
            case writing
        }

        private let descriptor: Int32
        /// A child that was forked has the descriptor, and not the lock.
        private let process = getpid()

        /// Throws `inUse`.
        convenience init(_ path: String, for kind: Kind) throws(CacheError) {
            let name = kind == .writing ? "\(path)/writer" : "\(path)/lock"
            try self.init(path, name, flags: O_RDWR | O_CREAT, kind)
        }

        /// A use of what cannot be written. Throws `notCached` if there was never a lock on it.
        convenience init(readOnly path: String) throws(CacheError) {
            try self.init(path, "\(path)/lock", flags: O_RDONLY, .use)
        }

        private init(_ path: String, _ name: String, flags: Int32, _ kind: Kind) throws(CacheError) {
            descriptor = open(name, flags | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard descriptor >= 0 else { throw CacheError(system: errno, path) }
            guard flock(descriptor, (kind == .use ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0 else {
                let reason =
                    kind == .writing
                    ? "downloads the item, or plays it and stores what it fetches" : "downloads or plays the item"
                throw CacheError(.inUse, "\(path): another process \(reason); wait for its end")
            }
            // The folder may have been removed between the two steps: the lock would be on nothing.
            var (mine, there) = (stat(), stat())
            guard fstat(descriptor, &mine) == 0, stat(name, &there) == 0, mine.st_ino == there.st_ino,
                mine.st_dev == there.st_dev
            else { throw CacheError(.inUse, "\(path): another process has just removed it; try again") }
        }

        deinit {
            // A program that is being started has a copy of the descriptor for a while, and the lock would last as long.
            if process == getpid() { _ = flock(descriptor, LOCK_UN) }
            close(descriptor)
        }
    }
}

/// Where the item with a URL is: in a folder with the name of the normalized URL. Before URLs were normalized, the name was
/// that of the spelling that was given. A value; looks at the disk for a moment.
struct ItemFolder: Sendable {
    private let path: String
    /// By the spelling; nil where that is the same.
    private let older: String?

    init(of url: String, in folder: String) {
        // A URL without a digest would be one without OpenSSL.
        func path(_ url: String) -> String { "\(folder)/\((try? BlockDigest.name(of: url)) ?? "unknown")" }
        let normalized = URIReference.normalized(url)
        self.path = path(normalized)
        older = normalized == url ? nil : path(url)
    }

    /// Whether something of the item is on disk.
    var isThere: Bool { Self.hasIndex(path) || older.map(Self.hasIndex) ?? false }

    /// The folder to use. One with the older name gets the new one, unless it is open elsewhere: then it stays for now.
    func settled() -> String {
        guard let older, !Self.hasIndex(path), Self.hasIndex(older) else { return path }
        guard let lock = try? CacheFolder.Lock(older, for: .removal) else { return older }
        return withExtendedLifetime(lock) { rename(older, path) == 0 ? path : older }
    }

    /// Whether an item with this URL may be in the folder.
    static func isPlace(_ folder: String, of url: String) -> Bool {
        let name = folder.split(separator: "/").last.map(String.init)
        return [URIReference.normalized(url), url].contains { (try? BlockDigest.name(of: $0)) == name }
    }

    private static func hasIndex(_ folder: String) -> Bool { CacheFolder.exists(folder + "/index.db") }
}
