// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyProtection

/// Threads of this process, and what the kernel says of them in `/proc` (see proc(5), `/proc/PID/task`). A value.
struct KernelThreads: Sendable {
    private let ids: Set<Int32>

    init(_ ids: Set<Int32>) { self.ids = ids }

    /// All that there are now. None if `/proc` cannot be read.
    static var now: KernelThreads {
        guard let folder = opendir("/proc/self/task") else { return KernelThreads([]) }
        defer { closedir(folder) }
        var ids: Set<Int32> = []
        while let entry = readdir(folder) {
            // SAFETY: the name ends in NUL, within the entry.
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if let id = Int32(name) { ids.insert(id) }
        }
        return KernelThreads(ids)
    }

    /// The one that asks. None if `/proc` cannot be read.
    static var current: KernelThreads {
        guard let id = currentID else { return KernelThreads([]) }
        return KernelThreads([id])
    }

    /// The kernel's number of the thread that asks. Nil if `/proc` cannot be read.
    static var currentID: Int32? {
        var place = [CChar](repeating: 0, count: 64)
        // "PROCESS/task/THREAD"
        let count = readlink("/proc/thread-self", &place, place.count)
        let text = String(decoding: place.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return text.split(separator: "/").last.flatMap { Int32($0) }
    }

    var isEmpty: Bool { ids.isEmpty }

    /// Those that were not there before. None if nothing is known of before.
    func since(_ before: KernelThreads) -> KernelThreads {
        KernelThreads(before.isEmpty ? [] : ids.subtracting(before.ids))
    }

    /// Whether none of them has something to do: each sleeps, or has ended.
    var areAsleep: Bool {
        files("stat").values.allSatisfy { status in
            // ID (NAME) STATE …
            guard let end = status.lastIndex(of: UInt8(ascii: ")")) else { return true }
            return status.dropFirst(end + 2).first == UInt8(ascii: "S")
        }
    }

    /// The file of this name of each thread, by its ID. Those that have ended have none.
    func files(_ name: String) -> [Int32: [UInt8]] {
        var files: [Int32: [UInt8]] = [:]
        for id in ids {
            let file = try? RegularFile(path: "/proc/self/task/\(id)/\(name)", kind: "thread", has: .untrusted)
            files[id] = try? file?.contents(limit: 1024)
        }
        return files
    }
}
