// SPDX-License-Identifier: MPL-2.0

import Glibc

/// One process, told from a later one with its number (see proc(5), `/proc/PID/stat` and
/// `/proc/sys/kernel/random/boot_id`).
public struct ProcessIdentity: Hashable, Sendable {
    /// The process id, as this PID namespace sees it.
    public var pid: Int32
    /// When it started, in clock ticks since the machine did.
    public var start: UInt64
    /// Names this run of the machine.
    public var bootID: String

    /// For a process that was written down before.
    public init(pid: Int32, start: UInt64, bootID: String) {
        self.pid = pid
        self.start = start
        self.bootID = bootID
    }

    /// This process; read once.
    public static let current = ProcessIdentity(pid: getpid(), start: startTime(of: getpid()) ?? 0, bootID: bootID)

    /// Whether the process still runs. One that is there and whose start time cannot be read counts as running.
    public var isRunning: Bool {
        guard bootID == Self.bootID else { return false }
        if kill(pid, 0) != 0, errno == ESRCH { return false }
        // Where other users' processes are hidden, one with this number is taken for it.
        return Self.startTime(of: pid).map { $0 == start } ?? true
    }

    private static let bootID = String(
        decoding: SmallFile.read("/proc/sys/kernel/random/boot_id", upTo: 64)?.prefix { $0 > 0x20 } ?? [], as: UTF8.self
    )

    /// Field 22. The name before it may hold anything, also brackets and spaces.
    private static func startTime(of pid: Int32) -> UInt64? {
        guard let stat = SmallFile.read("/proc/\(pid)/stat", upTo: 4096),
            let bracket = stat.lastIndex(of: UInt8(ascii: ")"))
        else { return nil }
        let fields = String(decoding: stat[stat.index(after: bracket)...], as: UTF8.self).split(separator: " ")
        return fields.count > 19 ? UInt64(fields[19]) : nil
    }
}

/// Files that are read and written whole.
enum SmallFile {
    /// Nil where the file cannot be read, is larger, or is a pipe, a device or the like.
    static func read(_ path: String, upTo size: Int) -> [UInt8]? {
        // A pipe would block the open without O_NONBLOCK.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        var bytes = [UInt8](repeating: 0, count: size + 1)
        var filled = 0
        while filled < bytes.count {
            let count = bytes.withUnsafeMutableBytes { buffer in
                // SAFETY: the rest of the buffer, whose size is given.
                Glibc.read(descriptor, buffer.baseAddress.map { $0 + filled }, buffer.count - filled)
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { return Array(bytes.prefix(filled)) }
            filled += count
        }
        return nil
    }

    /// Replaces the file in one step, on the disk too; only its owner may read it. Returns 0 or the system's error number.
    static func write(_ bytes: [UInt8], to path: String) -> Int32 {
        let temporary = "\(path).\(UInt64.random(in: 0 ... .max)).new"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return errno }
        var rest = bytes[...]
        var code: Int32 = 0
        while !rest.isEmpty, code == 0 {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written >= 0 { rest = rest.dropFirst(written) } else if errno != EINTR { code = errno }
        }
        if code == 0, fdatasync(descriptor) != 0 { code = errno }
        if Glibc.close(descriptor) != 0, code == 0 { code = errno }
        if code == 0, rename(temporary, path) != 0 { code = errno }
        if code != 0 { _ = unlink(temporary) } else { syncFolder(of: path) }
        return code
    }

    /// So that the name outlives a power cut as the content does. A file system that cannot do that is no error.
    private static func syncFolder(of path: String) {
        guard let slash = path.lastIndex(of: "/") else { return }
        let descriptor = open(String(path[..<slash]) + "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }
}
