// SPDX-License-Identifier: MPL-2.0

import Glibc

/// Which threads may have looked a plug-in up and not begun to open its file: those that have had no processor for that since. On a
/// busy machine, a thread waits longer for a processor than for anything else. A value: the caller says what the kernel tells.
struct PendingLoads {
    /// In nanoseconds of a processor. Some ten microseconds are enough.
    private static let time: UInt64 = 1_000_000

    /// What the kernel tells of a thread (see proc(5), `/proc/PID/task`).
    struct Thread {
        private(set) var id: Int32
        private(set) var isAsleep: Bool
        /// How long it has run, in nanoseconds.
        private(set) var run: UInt64

        /// Of its files of these names. Nil if that is not what they are.
        init?(stat: [UInt8], schedstat: [UInt8]) {
            // ID (NAME) STATE …
            guard let end = stat.lastIndex(of: UInt8(ascii: ")")), let state = stat.dropFirst(end + 2).first,
                let id = Int32(String(decoding: stat.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self)),
                let run = UInt64(String(decoding: schedstat.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self))
            else { return nil }
            self.id = id
            isAsleep = state == UInt8(ascii: "S")
            self.run = run
        }
    }

    private var threads: [Thread]

    /// `threads`: all that there are as plug-ins can be looked up no more.
    init(_ threads: [Thread]) { self.threads = threads.filter { !$0.isAsleep } }

    /// Whether there may be one, now that `current` are all threads.
    mutating func remain(_ current: [Thread]) -> Bool {
        threads = threads.filter { thread in
            guard let now = current.first(where: { $0.id == thread.id }), !now.isAsleep else { return false }
            return now.run &- thread.run < Self.time
        }
        return !threads.isEmpty
    }

    // MARK: This process

    /// All threads but the one that asks. None if the kernel does not tell.
    static func others() -> [Thread] {
        let own = Thread(stat: contents("/proc/thread-self/stat"), schedstat: contents("/proc/thread-self/schedstat"))
        guard let own, let folder = opendir("/proc/self/task") else { return [] }
        defer { closedir(folder) }
        var threads: [Thread] = []
        while let entry = readdir(folder) {
            // SAFETY: the name ends in NUL, within the entry.
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            let path = "/proc/self/task/\(name)"
            guard let thread = Thread(stat: contents("\(path)/stat"), schedstat: contents("\(path)/schedstat")),
                thread.id != own.id
            else { continue }
            threads.append(thread)
        }
        return threads
    }

    /// The beginning of a file of the kernel. Empty if it cannot be read.
    private static func contents(_ path: String) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return [] }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 512)
        let count = read(file, &bytes, 512)
        return Array(bytes.prefix(max(0, count)))
    }
}
