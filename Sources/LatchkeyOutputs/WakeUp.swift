// SPDX-License-Identifier: MPL-2.0

import Glibc

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
