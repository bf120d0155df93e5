// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import Synchronization

/// Tells whether a thread of this process waits for a processor most of the time. What looks still may only be slow then, and
/// the time counts as a part of it. A value: the caller says how long each thread has waited, and when, in nanoseconds.
struct ProcessorWait {
    /// Slow time counts as one part in so many.
    static let factor = 4
    /// Looks that are closer have one answer. Those that are further apart say nothing of the time between them.
    private static let shortest: UInt64 = 900_000_000
    private static let longest: UInt64 = 3_000_000_000

    private var waits: [Int32: UInt64] = [:]
    private var lastLook: UInt64?
    private var isLong = false

    /// `waits`: by thread, since its start.
    mutating func look(at now: UInt64, _ waits: () -> [Int32: UInt64]) -> Bool {
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

    private static func threadWaits() -> [Int32: UInt64] {
        KernelThreads.now.files("schedstat").compactMapValues(wait(in:))
    }

    /// The second number: how long the thread could have run and did not, in nanoseconds.
    static func wait(in text: [UInt8]) -> UInt64? {
        let fields = text.split(whereSeparator: { $0 <= 0x20 })
        return fields.count > 1 ? UInt64(String(decoding: fields[1], as: UTF8.self)) : nil
    }
}
