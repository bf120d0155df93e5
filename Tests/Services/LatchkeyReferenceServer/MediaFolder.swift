// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyContainers

/// A folder whose files may be read, and nothing outside of it.
struct MediaFolder: Sendable {
    /// A regular file within the folder.
    struct File: Equatable {
        /// Absolute, without symbolic links.
        var path: String
        /// In bytes.
        var size: Int
    }

    /// Absolute, without symbolic links.
    let path: String

    /// Nil where `path` is no folder.
    init?(path: String) {
        guard let real = Self.realPath(path), Self.status(real)?.isFolder == true else { return nil }
        self.path = real
    }

    /// The file that a path of a URL names, with its escapes; nil where there is none, or where it lies outside.
    ///
    /// Blocks while the file system answers.
    func file(atEscapedPath escaped: some StringProtocol) -> File? {
        guard let relative = PercentEncoding.decodeText(escaped), !relative.utf8.contains(0) else { return nil }
        let names = relative.split(separator: "/", omittingEmptySubsequences: false)
        guard names.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." }) else { return nil }
        // A link may point anywhere, so what counts is where the path leads in the end.
        guard let real = Self.realPath("\(path)/\(relative)"), real.hasPrefix(path == "/" ? "/" : "\(path)/"),
            let status = Self.status(real), status.isFile
        else { return nil }
        return File(path: real, size: status.size)
    }

    private static func realPath(_ path: String) -> String? {
        // SAFETY: realpath allocates the result, which is copied and freed here.
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }

    private static func status(_ path: String) -> (isFile: Bool, isFolder: Bool, size: Int)? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        let type = status.st_mode & S_IFMT
        return (type == S_IFREG, type == S_IFDIR, Int(status.st_size))
    }
}
