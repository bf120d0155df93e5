// SPDX-License-Identifier: MPL-2.0

import Glibc

/// A thread beside the test's own, for calls that wait. `join` it.
public final class TestThread: @unchecked Sendable {
    // SAFETY: `thread` is written in `init` alone, and POSIX threads are for use from any thread.
    private var thread = pthread_t()

    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Starts at once.
    public init(_ run: @escaping @Sendable () -> Void) {
        let body = Unmanaged.passRetained(Body(run)).toOpaque()
        pthread_create(
            &thread, nil,
            { argument in
                // SAFETY: the one call takes over the reference that was passed.
                if let argument { Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run() }
                return nil
            }, body)
    }

    /// Waits for the end.
    public func join() { pthread_join(thread, nil) }
}
