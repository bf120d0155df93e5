// SPDX-License-Identifier: MPL-2.0

// For sigset_t, which belongs to whichever C module the compiler reads first.
import CLatchkeyCurl
import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// The one thread that runs all loopback servers of the process. It starts with the first server and ends with the
/// last.
enum LoopbackThread {
    private struct State {
        var group: MultiThreadedEventLoopGroup?
        var users = 0
        var hasOpenedSocket = false
    }

    private static let state = Mutex(State())

    /// Runs `open` with the thread's loop. `release` gives the thread back, also when `open` throws.
    static func acquire<Result: Sendable>(_ open: (any EventLoop) throws -> Result) rethrows -> Result {
        let (loop, isFirst) = state.withLock { state -> (any EventLoop, Bool) in
            let group = state.group ?? makeGroup()
            state.group = group
            state.users += 1
            defer { state.hasOpenedSocket = true }
            return (group.next(), !state.hasOpenedSocket)
        }
        do {
            return isFirst ? try keepingPipeSignal { try open(loop) } : try open(loop)
        } catch {
            release()
            throw error
        }
    }

    /// Nobody of this user's server uses the thread any more.
    static func release() {
        let ended = state.withLock { state -> MultiThreadedEventLoopGroup? in
            state.users -= 1
            guard state.users == 0 else { return nil }
            defer { state.group = nil }
            return state.group
        }
        ended?.shutdownGracefully { _ in }
    }

    private static func makeGroup() -> MultiThreadedEventLoopGroup {
        withSignalsBlocked { MultiThreadedEventLoopGroup(numberOfThreads: 1) }
    }

    /// swift-nio sets SIGPIPE to be ignored with its first socket, once in a process. That is not a library's to
    /// decide, so what was there comes back.
    private static func keepingPipeSignal<Result>(_ body: () throws -> Result) rethrows -> Result {
        var before = sigaction()
        sigaction(SIGPIPE, nil, &before)
        defer { sigaction(SIGPIPE, &before, nil) }
        return try body()
    }
}
