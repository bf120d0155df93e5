// SPDX-License-Identifier: MPL-2.0

import Glibc
import Synchronization

/// What others than this user may do with a file or a folder, as its mode and owner say it.
package struct FileAccess: Sendable, Hashable {
    /// How others may change what is in it, or, in a folder, exchange its files, with what to do. Nil: they may not.
    package let writeFlaw: String?
    /// Others may read it.
    package let othersMayRead: Bool
    /// It is no folder, pipe, device or link.
    package let isRegularFile: Bool
    /// It is a symbolic link; nothing is said of what that leads to.
    package let isLink: Bool

    /// `user`: who this process is.
    init(_ status: stat, user: uid_t = geteuid()) {
        // The group of this process is often the user's own.
        let isOwnGroup = status.st_gid == getegid()
        func others(_ all: mode_t, _ group: mode_t) -> Bool {
            status.st_mode & all != 0 || (status.st_mode & group != 0 && !isOwnGroup)
        }
        // Where the sticky bit is set, as in /tmp, others cannot exchange files that are not theirs.
        let isShared = status.st_mode & S_IFMT == S_IFDIR && status.st_mode & S_ISVTX != 0
        isRegularFile = status.st_mode & S_IFMT == S_IFREG
        isLink = status.st_mode & S_IFMT == S_IFLNK
        // Root may use the files of any user, as in a container.
        if user != 0, status.st_uid != user, status.st_uid != 0 {
            writeFlaw = "another user owns it; run chown on it, or use a copy"
        } else if !isLink, !isShared, others(S_IWOTH, S_IWGRP) {
            writeFlaw = "others may write to it; run chmod go-w on it"
        } else {
            writeFlaw = nil
        }
        othersMayRead = !isLink && others(S_IROTH, S_IRGRP)
    }

    /// Does not open the file, and does not follow a link in its place. Nil where nothing has this name.
    package init?(of path: String) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        self.init(status)
    }

    /// The same for what a link leads to: for folders.
    package init?(ofTarget path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        self.init(status)
    }

    /// Why none of these files and folders should be trusted: the first that others may write to, or that is a link in the
    /// place of a file. Nil: all are as they should be, or not there.
    package static func flaw(files: [String], folders: [String]) -> String? {
        for path in files {
            guard let access = FileAccess(of: path) else { continue }
            if access.isLink { return "\(path): a symbolic link, which is not followed; put the file itself there" }
            if let flaw = access.writeFlaw { return "\(path): \(flaw)" }
        }
        for path in folders {
            if let flaw = FileAccess(ofTarget: path)?.writeFlaw { return "\(path): \(flaw)" }
        }
        return nil
    }

    /// How others may put another file in the place of the one at `path`, with what to do: they may write to its folder, or if
    /// its name is a link, to that of the file to which it leads. Nil: they may not. The folders above these are not looked at.
    package static func folderFlaw(ofFile path: String) -> String? {
        var path = path
        for _ in 0...linkLimit {
            let folder = Self.folder(of: path)
            if let flaw = Self.flaw(files: [], folders: [folder]) { return "its folder \(flaw)" }
            guard !openFiles.contains(where: { path.hasPrefix($0) }), let target = Self.target(ofLink: path) else {
                return nil
            }
            path = target.hasPrefix("/") ? target : "\(folder)/\(target)"
        }
        return nil
    }

    /// As many links behind each other as the kernel follows (path_resolution(7)).
    private static let linkLimit = 40
    /// A link there leads to an open file of a process, and not to a name.
    private static let openFiles = ["/dev/fd/", "/proc/"]

    private static func folder(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// Nil for what is no link.
    private static func target(ofLink path: String) -> String? {
        // The longest path, in bytes.
        var bytes = [CChar](repeating: 0, count: 4096)
        // SAFETY: at most the array's bytes.
        let count = readlink(path, &bytes, bytes.count)
        guard count > 0, count < bytes.count else { return nil }
        return String(decoding: bytes[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// Says once for each file with secrets that others may read it. Thread-safe.
package enum FileWarnings {
    private struct State {
        var told: Set<String> = []
        var handler: (@Sendable (String) -> Void)?
    }

    private static let limit = 1024
    private static let state = Mutex(State())

    /// Where warnings go, in the place of the handler before. Called on any thread.
    package static func setHandler(_ handler: @escaping @Sendable (String) -> Void) {
        state.withLock { $0.handler = handler }
    }

    /// `subject` names the file and what it is.
    package static func othersMayRead(_ subject: String) {
        let handler = state.withLock { state -> (@Sendable (String) -> Void)? in
            guard let handler = state.handler, state.told.count < limit, state.told.insert(subject).inserted else {
                return nil
            }
            return handler
        }
        handler?("\(subject) has secrets in it, and others may read it; run chmod go-r on it")
    }
}
