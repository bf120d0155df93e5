// SPDX-License-Identifier: MPL-2.0

/// Which threads may have looked a plug-in up and not begun to open its file: those that have had no processor for that since. On a
/// busy machine, a thread waits longer for a processor than for anything else. A value: the caller says what the kernel tells.
struct PendingLoads {
    /// In nanoseconds of a processor. Some ten microseconds are enough.
    private static let time: UInt64 = 1_000_000

    /// What the kernel tells of a thread.
    struct Thread {
        let id: Int32
        let isAsleep: Bool
        /// How long it has run, in nanoseconds.
        let run: UInt64

        /// Of its files of these names (see proc(5), `/proc/PID/task`). Nil if that is not what they are.
        init?(id: Int32, stat: [UInt8], schedstat: [UInt8]) {
            guard let state = KernelThreads.state(in: stat),
                let run = UInt64(String(decoding: schedstat.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self))
            else { return nil }
            (self.id, self.run) = (id, run)
            isAsleep = state == UInt8(ascii: "S")
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
        let threads = KernelThreads.now.since(.current)
        let (stats, times) = (threads.files("stat"), threads.files("schedstat"))
        return stats.compactMap { id, stat in
            times[id].flatMap { Thread(id: id, stat: stat, schedstat: $0) }
        }
    }
}
