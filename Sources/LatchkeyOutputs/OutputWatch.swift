// SPDX-License-Identifier: MPL-2.0

import Glibc
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
