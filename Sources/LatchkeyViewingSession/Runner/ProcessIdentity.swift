// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyProtection

/// One process, distinguished from a later one with its number (see proc(5), `/proc/PID/stat` and
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
        decoding: kernelFile("/proc/sys/kernel/random/boot_id", upTo: 64)?.prefix { $0 > 0x20 } ?? [], as: UTF8.self
    )

    /// Field 22. The name before it may hold anything, also brackets and spaces.
    private static func startTime(of pid: Int32) -> UInt64? {
        guard let stat = kernelFile("/proc/\(pid)/stat", upTo: 4096),
            let bracket = stat.lastIndex(of: UInt8(ascii: ")"))
        else { return nil }
        let fields = String(decoding: stat[stat.index(after: bracket)...], as: UTF8.self).split(separator: " ")
        return fields.count > 19 ? UInt64(fields[19]) : nil
    }

    private static func kernelFile(_ path: String, upTo limit: Int) -> [UInt8]? {
        try? RegularFile(path: path, kind: "file", has: .untrusted).contents(limit: limit)
    }
}
