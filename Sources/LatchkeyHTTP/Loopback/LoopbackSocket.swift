// SPDX-License-Identifier: MPL-2.0

import Glibc
import NIOCore

/// Sockets that no child process inherits: a copy there would keep the port open after the server closed it. swift-nio
/// itself does not see to that.
enum LoopbackSocket {
    /// Why there is no socket, in the system's words.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// A socket on 127.0.0.1, on a port that the system chooses. The caller owns it.
    static func bound() throws -> Int32 {
        let type = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let socket = Glibc.socket(AF_INET, Int32(bitPattern: type), 0)
        guard socket >= 0 else { throw failure() }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        // SAFETY: the address lives for the call, and every sockaddr_in is a sockaddr.
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else {
            let failure = failure()
            Glibc.close(socket)
            throw failure
        }
        return socket
    }

    /// Keeps an accepted connection from child processes. On the channel's loop.
    static func keepFromChildren(_ channel: any Channel) throws {
        try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) { socket in
            _ = fcntl(socket, F_SETFD, FD_CLOEXEC)
        }
    }

    /// Ends the socket itself, not only this process's handle: a child process that is being started has a copy until it
    /// runs its program. On the channel's loop.
    static func shutDown(_ channel: any Channel) {
        guard channel.isActive else { return }
        try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) { socket in
            _ = shutdown(socket, Int32(SHUT_RDWR))
        }
    }

    /// Makes the end of the connection a broken one for the client. From anywhere.
    static func resetAtClose(_ channel: any Channel) async {
        try? await (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
    }

    private static func failure() -> Failure { Failure(description: String(cString: strerror(errno))) }
}
