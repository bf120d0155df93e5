// SPDX-License-Identifier: MPL-2.0

import Glibc

/// Threads of this process, and what the kernel says of them in `/proc` (see proc(5), `/proc/PID/task`). A value.
package struct KernelThreads: Sendable {
    private let ids: Set<Int32>

    package init(_ ids: Set<Int32>) { self.ids = ids }

    /// All that there are now. None if `/proc` cannot be read.
    package static var now: KernelThreads {
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
    package static var current: KernelThreads {
        guard let id = currentID else { return KernelThreads([]) }
        return KernelThreads([id])
    }

    /// The kernel's number of the thread that asks. Nil if `/proc` cannot be read.
    package static var currentID: Int32? {
        var place = [CChar](repeating: 0, count: 64)
        // "PROCESS/task/THREAD"
        let count = readlink("/proc/thread-self", &place, place.count)
        let text = String(decoding: place.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return text.split(separator: "/").last.flatMap { Int32($0) }
    }

    package var isEmpty: Bool { ids.isEmpty }

    /// Those that were not there before. None if nothing is known of before.
    package func since(_ before: KernelThreads) -> KernelThreads {
        KernelThreads(before.isEmpty ? [] : ids.subtracting(before.ids))
    }

    /// Whether none of them has something to do: each sleeps, or has ended.
    package var areAsleep: Bool {
        files("stat").values.allSatisfy { Self.state(in: $0).map { $0 == UInt8(ascii: "S") } ?? true }
    }

    /// What a file `stat` has for the state. Nil if that is not what it is.
    static func state(in stat: [UInt8]) -> UInt8? {
        // ID (NAME) STATE …
        stat.lastIndex(of: UInt8(ascii: ")")).flatMap { stat.dropFirst($0 + 2).first }
    }

    /// The file of this name of each thread, by its ID. Those that have ended have none.
    package func files(_ name: String) -> [Int32: [UInt8]] {
        var files: [Int32: [UInt8]] = [:]
        for id in ids { files[id] = Self.contents("/proc/self/task/\(id)/\(name)") }
        return files
    }

    /// The beginning of a file of the kernel. Nil if it cannot be read.
    private static func contents(_ path: String) -> [UInt8]? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 1024)
        let count = read(file, &bytes, bytes.count)
        return count < 0 ? nil : Array(bytes.prefix(count))
    }
}
