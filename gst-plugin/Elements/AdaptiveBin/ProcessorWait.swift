// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyProtection
import Synchronization

/// Tells whether a thread of this process waits for a processor most of the time. What looks still may only be slow then, and
/// the time counts as a part of it. A value: the caller says how long each thread has waited, and when, in nanoseconds.
struct ProcessorWait {
    /// Slow time counts as one part in so many.
    static let factor = 4
    /// Looks that are closer have one answer. Those that are further apart say nothing of the time between them.
    private static let shortest: UInt64 = 900_000_000
    private static let longest: UInt64 = 3_000_000_000

    private var waits: [UInt64: UInt64] = [:]
    private var lastLook: UInt64?
    private var isLong = false

    /// `waits`: by thread, since its start.
    mutating func look(at now: UInt64, _ waits: () -> [UInt64: UInt64]) -> Bool {
        let time = now &- (lastLook ?? 0)
        guard lastLook == nil || time >= Self.shortest else { return isLong }
        let new = waits()
        let longest =
            new.map { thread, wait in
                self.waits[thread].map { wait > $0 ? wait - $0 : 0 } ?? 0
            }.max() ?? 0
        isLong = lastLook != nil && time <= Self.longest && longest > time / 2
        (self.waits, lastLook) = (new, now)
        return isLong
    }

    // MARK: This process

    private static let shared = Mutex(ProcessorWait())

    /// Of this process, since the last look. False where the kernel does not tell.
    static var isLong: Bool { shared.withLock { $0.look(at: MonotonicTime.now, threadWaits) } }

    private static func threadWaits() -> [UInt64: UInt64] {
        let folder = "/proc/self/task"
        guard let directory = g_dir_open(folder, 0, nil) else { return [:] }
        defer { g_dir_close(directory) }
        var waits: [UInt64: UInt64] = [:]
        while let name = g_dir_read_name(directory).map({ String(cString: $0) }) {
            let file = try? RegularFile(path: "\(folder)/\(name)/schedstat", kind: "file", has: .untrusted)
            guard let thread = UInt64(name), let text = try? file?.contents(limit: 256) else { continue }
            waits[thread] = wait(in: text)
        }
        return waits
    }

    /// The second number: how long the thread could have run and did not, in nanoseconds.
    static func wait(in text: [UInt8]) -> UInt64? {
        let fields = text.split(whereSeparator: { $0 <= 0x20 })
        return fields.count > 1 ? UInt64(String(decoding: fields[1], as: UTF8.self)) : nil
    }
}
