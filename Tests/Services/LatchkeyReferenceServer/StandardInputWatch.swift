// SPDX-License-Identifier: MPL-2.0

import Dispatch
import Glibc
import ServiceLifecycle

/// Ends when standard input does, so that a server does not outlive the process that started it with a pipe.
struct StandardInputWatch: Service {
    func run() async throws {
        let (ends, source) = AsyncStream<Never>.makeStream()
        // A queue of its own, because the read blocks until the very end; it goes with the process.
        DispatchQueue(label: "standard input").async {
            var buffer = [UInt8](repeating: 0, count: 256)
            // SAFETY: reads at most the buffer's size into it.
            while true {
                let count = buffer.withUnsafeMutableBytes { read(STDIN_FILENO, $0.baseAddress, $0.count) }
                if count == 0 || (count < 0 && errno != EINTR) { break }
            }
            source.finish()
        }
        await withGracefulShutdownHandler {
            for await _ in ends {}
        } onGracefulShutdown: {
            source.finish()
        }
    }
}
