// SPDX-License-Identifier: MPL-2.0

import Glibc

/// What the machine's clocks say at one moment.
public struct ClockReading: Hashable, Sendable {
    /// Milliseconds since 1970 by the system clock, which anybody may have set.
    public var wall: Int64
    /// Milliseconds since the machine started, suspended ones included; nobody can set it back.
    public var sinceBoot: Int64
    /// Names this run of the machine; another one after each start.
    public var bootID: String

    /// For clocks of one's own, as in tests. Times are milliseconds.
    public init(wall: Int64, sinceBoot: Int64, bootID: String) {
        self.wall = wall
        self.sinceBoot = sinceBoot
        self.bootID = bootID
    }
}

/// Where the trusted clock reads the machine's clocks. Thread-safe; must not block.
public protocol ClockSource: Sendable {
    /// All three at one moment.
    func reading() -> ClockReading
}

/// `CLOCK_REALTIME`, `CLOCK_BOOTTIME` and the kernel's boot id (see proc(5), `/proc/sys/kernel/random/boot_id`).
public struct SystemClocks: ClockSource {
    private let bootID: String

    /// Reads the boot id once; it does not change while the process runs.
    public init() { bootID = Self.readBootID() }

    /// Two system calls; does not block.
    public func reading() -> ClockReading {
        ClockReading(
            wall: Self.milliseconds(CLOCK_REALTIME), sinceBoot: Self.milliseconds(CLOCK_BOOTTIME), bootID: bootID)
    }

    private static func milliseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec).multipliedReportingOverflow(by: 1000).partialValue &+ Int64(time.tv_nsec) / 1_000_000
    }

    /// Empty where the kernel gives none: then a start is told by the time since it alone.
    private static func readBootID() -> String {
        let descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        // SAFETY: exactly the array's bytes.
        let count = read(descriptor, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)).prefix { $0 > 0x20 }, as: UTF8.self)
    }
}
