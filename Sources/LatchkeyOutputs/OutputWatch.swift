// SPDX-License-Identifier: MPL-2.0

import Glibc
public import LatchkeyProtection
import Synchronization

/// Reads outputs again and again, on one thread of its own: at every hint, and at least once in `interval`.
///
/// The first reading comes at once. Thread-safe. Ends with `stop()` or when the last reference goes; a delivery that has
/// begun may still finish then.
public final class OutputWatch: Sendable {
    private let loop: Loop

    /// `deliver` gets every reading, also one that says nothing new, with a time that never goes back. It runs on the
    /// watch's thread and should hold its owner weakly.
    public init(
        _ provider: any OutputProvider, interval: Duration = .milliseconds(250),
        deliver: @escaping @Sendable (OutputFacts, Duration) -> Void
    ) {
        loop = Loop(provider, interval: interval, deliver: deliver)
        loop.start()
    }

    deinit { loop.stop() }

    /// Reads at once, on the watch's thread.
    public func poke() { loop.wake.send() }

    public func stop() { loop.stop() }
}

private final class Loop: Sendable {
    let wake = WakeUp()
    private let provider: any OutputProvider
    private let milliseconds: Int32
    private let deliver: @Sendable (OutputFacts, Duration) -> Void
    private let isStopped = Atomic(false)

    init(
        _ provider: any OutputProvider, interval: Duration, deliver: @escaping @Sendable (OutputFacts, Duration) -> Void
    ) {
        self.provider = provider
        milliseconds = Int32(
            clamping: interval.components.seconds * 1000 + interval.components.attoseconds / 1_000_000_000_000_000)
        self.deliver = deliver
    }

    func start() {
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(self)
        if pthread_create(&thread, nil, runLoop, argument.toOpaque()) == 0 {
            pthread_detach(thread)
        } else {
            argument.release()
            deliver(.unreadable("no thread can be started to watch them"), .zero)
        }
    }

    func stop() {
        isStopped.store(true, ordering: .releasing)
        wake.send()
    }

    func run() {
        let start = ContinuousClock.now
        while !isStopped.load(ordering: .acquiring) {
            deliver(provider.read(), start.duration(to: .now))
            var descriptors = [wake.descriptor, provider.hintDescriptor].compactMap(\.self).map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            _ = poll(&descriptors, nfds_t(descriptors.count), max(milliseconds, 1))
            wake.clear()
            provider.takeHints()
        }
    }
}

private func runLoop(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    // SAFETY: `start` passed a retained Loop to this one call.
    if let argument { Unmanaged<Loop>.fromOpaque(argument).takeRetainedValue().run() }
    return nil
}

/// Which readings count: the first and a bad one at once, a good one behind others only after it was confirmed. A value; time
/// comes from outside.
///
/// A reading that differs from the one before is held against the readings since the last confirmation, and the
/// strictest of all of them counts. It is confirmed by another reading that says the same, `delay` or more after it came.
public struct OutputStability: Sendable {
    /// Links that come and go are rarely more; from then on nothing is known.
    private static let heldLimit = 8

    public let delay: Duration
    private var current: OutputFacts?
    private var since: Duration = .zero
    /// Other readings since the last confirmation.
    private var held: [OutputFacts] = []

    public init(delay: Duration = .milliseconds(500)) { self.delay = delay }

    /// A reading, at a time that never goes back. Whether `facts` are others now.
    public mutating func read(_ facts: OutputFacts, at now: Duration) -> Bool {
        let before = self.facts
        if facts != current {
            if let current, current != .untold, !held.contains(current) { held.append(current) }
            if held.count > Self.heldLimit { held = [.unreadable("they change all the time")] }
            held.removeAll { $0 == facts }
            (current, since) = (facts, now)
        } else if now - since >= delay {
            held = []
        }
        return before != self.facts
    }

    /// The readings that count, the latest first. The strictest decision on any of them holds.
    public var facts: [OutputFacts] { [current ?? .unreadable("they were not read yet")] + held }
    /// Whether nothing but the latest reading counts.
    public var isConfirmed: Bool { current != nil && held.isEmpty }
}

extension OutputEvaluator {
    /// The strictest decision on any of these.
    public func decide(_ policies: [OutputPolicy], facts: [OutputFacts]) -> OutputDecision {
        facts.reduce(.allow) { $0.stricter(decide(policies, facts: $1)) }
    }
}

/// A descriptor that becomes readable: a pair of sockets. Thread-safe.
final class WakeUp: Sendable {
    /// Nil where the process has no descriptor left.
    let descriptor: Int32?
    private let entrance: Int32

    init() {
        var ends: [Int32] = [-1, -1]
        let type = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let isMade = socketpair(AF_UNIX, Int32(type), 0, &ends) == 0
        descriptor = isMade ? ends[0] : nil
        entrance = ends[1]
    }

    deinit {
        guard let descriptor else { return }
        close(descriptor)
        close(entrance)
    }

    /// A full socket is readable already.
    func send() {
        var byte: UInt8 = 1
        if descriptor != nil { _ = write(entrance, &byte, 1) }
    }

    func clear() {
        guard let descriptor else { return }
        withUnsafeTemporaryAllocation(byteCount: 256, alignment: 1) { buffer in
            while read(descriptor, buffer.baseAddress, buffer.count) > 0 {}
        }
    }
}
