// SPDX-License-Identifier: MPL-2.0

import Glibc
public import LatchkeyContainers
public import LatchkeyProtection

/// What the trusted clock knows: a value that readings of the machine's clocks and signed times change.
///
/// The latest good time never goes back, but to a signed time; the latest signed time never goes back at all. Within one
/// run of the machine, time goes on with the time since the start, whatever the system clock shows. After a start, the
/// system clock has to show at least the latest good time. Milliseconds throughout; times are since 1970.
public struct TrustedClockState: Hashable, Sendable {
    /// What a change means for others.
    public enum Event: Hashable, Sendable {
        /// The system clock was set back; date-based licenses are disabled until signed time comes.
        case rolledBack
        /// The clock was not trusted and is again.
        case trusted
    }

    /// Where time is counted from within one run of the machine.
    struct Anchor: Hashable, Sendable {
        /// The latest good time at that moment.
        var time: Int64
        /// What the system clock showed, or should have shown where it was behind.
        var wall: Int64
        var sinceBoot: Int64
        var bootID: String
    }

    var trust: TrustedTime.Trust
    var latestGood: Int64
    var latestSigned: Int64?
    /// How long the machine has been running without a trusted clock.
    var untrusted: Int64
    /// How many signed times were taken. Of two states of the same store, the one with more is the later.
    var repairs: UInt64
    var anchor: Anchor?

    /// A clock that knows nothing yet.
    public init() {
        trust = .unset
        latestGood = 0
        untrusted = 0
        repairs = 0
    }

    /// A clock that may have known anything: only signed time makes it good. No license's grace is left.
    static var lost: TrustedClockState {
        var state = TrustedClockState()
        state.trust = .rolledBack
        state.untrusted = 1000 * 365 * 86_400_000
        return state
    }

    /// What the clock says, as of the latest reading.
    public var time: TrustedTime {
        TrustedTime(
            trust: trust, time: Self.seconds(latestGood), untrustedSeconds: untrusted / 1000,
            latestSigned: latestSigned.map(Self.seconds))
    }

    // MARK: Readings

    /// Takes what the machine's clocks show.
    public mutating func observe(_ reading: ClockReading, policy: TrustedClockPolicy) -> Event? {
        let wasTrusted = time.isTrusted
        let wasRolledBack = trust == .rolledBack
        if let anchor, anchor.bootID == reading.bootID {
            goOn(from: anchor, to: reading, policy)
        } else {
            start(with: reading, policy)
        }
        if trust == .rolledBack { return wasRolledBack ? nil : .rolledBack }
        return !wasTrusted && time.isTrusted ? .trusted : nil
    }

    private mutating func goOn(from anchor: Anchor, to reading: ClockReading, _ policy: TrustedClockPolicy) {
        let elapsed = reading.sinceBoot.minus(anchor.sinceBoot)
        guard elapsed >= 0 else {
            // The kernel never does this; a program that can fake it can do anything with the clock.
            if elapsed < -1000 { trust = .rolledBack }
            return
        }
        let expectedWall = anchor.wall.plus(elapsed)
        let drift = reading.wall.minus(expectedWall)
        latestGood = max(latestGood, anchor.time.plus(elapsed))
        if trust == .signed { latestSigned = latestGood }
        switch trust {
        case .signed, .observed:
            if drift < -policy.tolerance {
                trust = .rolledBack
            } else if trust == .observed {
                latestGood = max(latestGood, reading.wall)
            }
        case .unset:
            untrusted = untrusted.plus(elapsed)
            takeSystemClock(reading, policy)
        case .rolledBack:
            untrusted = untrusted.plus(elapsed)
        }
        // A system clock that is ahead of signed time may be put right.
        self.anchor = Anchor(
            time: latestGood, wall: max(expectedWall, min(reading.wall, latestGood)), sinceBoot: reading.sinceBoot,
            bootID: reading.bootID)
    }

    /// The first reading at all, or the first since the machine started.
    private mutating func start(with reading: ClockReading, _ policy: TrustedClockPolicy) {
        if trust != .rolledBack {
            trust = .unset
            takeSystemClock(reading, policy)
        }
        anchor = Anchor(
            time: latestGood, wall: reading.wall, sinceBoot: reading.sinceBoot, bootID: reading.bootID)
    }

    /// Of an unset clock: whether the system clock can be relied on.
    private mutating func takeSystemClock(_ reading: ClockReading, _ policy: TrustedClockPolicy) {
        // A clock that lost its power shows some early time. It is no rollback, and trusted as soon as it is set.
        guard reading.wall >= policy.earliestTime else { return }
        guard reading.wall >= latestGood.minus(policy.tolerance) else {
            trust = .rolledBack
            return
        }
        guard policy.takesSystemClock else { return }
        trust = .observed
        untrusted = 0
        latestGood = max(latestGood, reading.wall)
    }

    // MARK: Signed time

    /// Takes a time that a service vouched for at the moment of the reading. False where it is earlier than one before:
    /// then nothing changes.
    public mutating func repair(signed: UnixTime, at reading: ClockReading, policy: TrustedClockPolicy) -> Bool {
        _ = observe(reading, policy: policy)
        let (milliseconds, isTooMuch) = signed.seconds.multipliedReportingOverflow(by: 1000)
        guard !isTooMuch, milliseconds >= policy.earliestTime else { return false }
        if let latestSigned, milliseconds < latestSigned.minus(policy.tolerance) { return false }
        let time = max(milliseconds, latestSigned ?? .min)
        trust = .signed
        latestGood = time
        latestSigned = time
        untrusted = 0
        repairs &+= 1
        anchor = Anchor(time: time, wall: reading.wall, sinceBoot: reading.sinceBoot, bootID: reading.bootID)
        return true
    }

    // MARK: Several processes

    /// What two processes know together. Distrust wins, unless the other has taken a signed time since.
    public func merged(with other: TrustedClockState) -> TrustedClockState {
        if repairs != other.repairs {
            var later = repairs > other.repairs ? self : other
            later.latestSigned = [latestSigned, other.latestSigned].compactMap(\.self).max()
            return later
        }
        // Of the same age: the one that has seen more of this run of the machine.
        var merged = self
        if let theirs = other.anchor,
            anchor.map({ $0.bootID == theirs.bootID && $0.sinceBoot < theirs.sinceBoot }) ?? true
        {
            merged = other
        }
        if trust == .rolledBack || other.trust == .rolledBack { merged.trust = .rolledBack }
        merged.latestGood = max(latestGood, other.latestGood)
        if var anchor = merged.anchor {
            anchor.time = max(anchor.time, merged.latestGood)
            merged.anchor = anchor
        }
        merged.latestSigned = [latestSigned, other.latestSigned].compactMap(\.self).max()
        merged.untrusted = merged.time.isTrusted ? 0 : max(untrusted, other.untrusted)
        return merged
    }

    private static func seconds(_ milliseconds: Int64) -> UnixTime {
        UnixTime(seconds: milliseconds / 1000 - (milliseconds % 1000 < 0 ? 1 : 0))
    }
}

extension Int64 {
    /// The sum, or the end of the range.
    fileprivate func plus(_ other: Int64) -> Int64 {
        let (sum, isTooMuch) = addingReportingOverflow(other)
        return isTooMuch ? (other < 0 ? .min : .max) : sum
    }

    /// The difference, or the end of the range.
    fileprivate func minus(_ other: Int64) -> Int64 {
        let (difference, isTooMuch) = subtractingReportingOverflow(other)
        return isTooMuch ? (other > 0 ? .min : .max) : difference
    }
}

extension TrustedClockState {
    private static let formatVersion: UInt8 = 1
    private static let maximumBootIDSize = 64

    /// Latchkey's own format, version 1; integers are big-endian, times are signed milliseconds:
    ///
    ///     1  version (1)
    ///     1  trust: 0 unset, 1 observed, 2 signed, 3 rolled back
    ///     1  what is there: 1 latest signed time, 2 anchor
    ///     8  latest good time
    ///     8  time that the machine has been running without trust
    ///     8  number of signed times taken
    ///     8  latest signed time, where it is there
    ///     8+8+8+1  anchor, where it is there: time, system clock, time since the start, size of the boot id, then the id
    public func serialized() -> [UInt8] {
        var bytes: [UInt8] = [Self.formatVersion, Self.number(trust)]
        bytes.append((latestSigned == nil ? 0 : 1) | (anchor == nil ? 0 : 2))
        for value in [latestGood, untrusted] { bytes.appendBigEndian(UInt64(bitPattern: value), size: 8) }
        bytes.appendBigEndian(repairs, size: 8)
        if let latestSigned { bytes.appendBigEndian(UInt64(bitPattern: latestSigned), size: 8) }
        if let anchor {
            for value in [anchor.time, anchor.wall, anchor.sinceBoot] {
                bytes.appendBigEndian(UInt64(bitPattern: value), size: 8)
            }
            let bootID = anchor.bootID.utf8.prefix(Self.maximumBootIDSize)
            bytes.append(UInt8(bootID.count))
            bytes += bootID
        }
        return bytes
    }

    /// Reads what `serialized()` writes. Throws `truncated`, `malformed`, and `unsupported` for another version.
    public init(serialized bytes: [UInt8]) throws(FormatError) {
        self.init()
        var reader = ByteReader(bytes, structure: "trusted clock record")
        let version = try reader.readUInt8()
        guard version == Self.formatVersion else { throw .unsupported("trusted clock record, version \(version)") }
        let number = try reader.readUInt8()
        guard let trust = [.unset, .observed, .signed, .rolledBack].first(where: { Self.number($0) == number }) else {
            throw .malformed("\(reader.place): trust \(number)")
        }
        self.trust = trust
        let presence = try reader.readUInt8()
        guard presence < 4 else { throw .malformed("\(reader.place): unknown fields") }
        latestGood = try reader.readTime()
        untrusted = try reader.readTime()
        repairs = try reader.readUInt64()
        if presence & 1 != 0 { latestSigned = try reader.readTime() }
        if presence & 2 != 0 {
            let times = (try reader.readTime(), try reader.readTime(), try reader.readTime())
            let size = try reader.readUInt8()
            guard size <= Self.maximumBootIDSize else { throw .tooLarge("\(reader.place): boot id") }
            guard let bootID = String(validating: try reader.readBytes(UInt64(size)), as: UTF8.self) else {
                throw .malformed("\(reader.place): boot id")
            }
            anchor = Anchor(time: times.0, wall: times.1, sinceBoot: times.2, bootID: bootID)
        }
        guard reader.isAtEnd else { throw .malformed("\(reader.place): \(reader.remaining) bytes too many") }
    }

    private static func number(_ trust: TrustedTime.Trust) -> UInt8 {
        switch trust {
        case .unset: 0
        case .observed: 1
        case .signed: 2
        case .rolledBack: 3
        }
    }
}

extension ByteReader {
    fileprivate mutating func readTime() throws(FormatError) -> Int64 { Int64(bitPattern: try readUInt64()) }
}

/// What the machine's clocks say at one moment.
public struct ClockReading: Hashable, Sendable {
    /// Milliseconds since 1970 by the system clock, which the user may have set.
    public var wall: Int64
    /// Milliseconds since the machine started, suspended ones included; this cannot be set back.
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
