// SPDX-License-Identifier: MPL-2.0

import NIOCore
import NIOHTTP1
import NIOPosix

/// An HTTP/1.1 server for one client in the same process: on 127.0.0.1, on a port that the system chooses, behind a
/// path that nobody can guess.
///
/// Whoever asks without the path's token learns nothing: every such request ends with 404. Only GET and HEAD are
/// answered. Thread-safe. All servers of the process share one thread, which never runs a handler.
public final class LoopbackServer: Sendable {
    /// Answers a request. Runs as a task; cancelled when the client goes or the server closes.
    public typealias Handler = @Sendable (LoopbackRequest) async -> LoopbackResponse

    /// Answers what is at hand; nil leaves the request to the handler. Runs on the thread of all servers: it takes
    /// microseconds, waits for nothing and calls no application.
    public typealias QuickHandler = @Sendable (LoopbackRequest) -> LoopbackResponse?

    /// Of 127.0.0.1; the system chose it.
    public let port: UInt16
    private let token: LoopbackToken
    private let channel: any Channel
    private let connections: LoopbackConnections

    /// Opens the port. Throws where the system gives none. `quick` is asked first.
    public init(
        limits: LoopbackLimits = LoopbackLimits(), quick: @escaping QuickHandler = { _ in nil },
        handler: @escaping Handler
    ) throws(HTTPError) {
        let token = LoopbackToken()
        let connections = LoopbackConnections(limit: limits.connections)
        do {
            channel = try LoopbackThread.acquire { loop in
                try Self.open(on: loop) { channel in
                    let service = LoopbackService(
                        token: token, authority: "127.0.0.1:\(channel.localAddress?.port ?? 0)", limits: limits,
                        quick: quick, handler: handler)
                    return connections.add(channel, service)
                }
            }
        } catch {
            throw .other("", "no loopback server can be opened: \(error)")
        }
        self.token = token
        self.connections = connections
        port = UInt16(clamping: channel.localAddress?.port ?? 0)
    }

    deinit { close() }

    /// The URL of a path under the token. Whoever knows it may ask: it belongs in no log and no message.
    public func url(_ path: String) -> String { "http://127.0.0.1:\(port)/\(token.text)/\(path)" }

    /// Whether the URL leads to this server.
    public func isOwn(_ url: String) -> Bool { url.hasPrefix("http://127.0.0.1:\(port)/\(token.text)/") }

    /// Closes the port and all connections and cancels the handlers that still run. When this returns, nothing is
    /// open any more. A second call does nothing.
    public func close() {
        guard let open = connections.close() else { return }
        let channel = channel
        let closeAll: @Sendable () -> Void = {
            for channel in [channel] + open {
                LoopbackSocket.shutDown(channel)
                channel.close(promise: nil)
            }
        }
        if channel.eventLoop.inEventLoop {
            closeAll()
        } else {
            // The loop's thread only moves bytes, so this takes microseconds.
            try? channel.eventLoop.submit(closeAll).wait()
        }
        LoopbackThread.release()
    }

    var connectionCount: Int { connections.count }

    private static func open(
        on loop: any EventLoop, accept: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>
    ) throws -> any Channel {
        // The channel closes the socket, also when it cannot use it.
        try ServerBootstrap(group: loop)
            .childChannelInitializer(accept)
            .withBoundSocket(LoopbackSocket.bound())
            .wait()
    }
}

extension LoopbackServer: CustomStringConvertible, CustomReflectable {
    /// The port, never the token that is part of its URLs.
    public var description: String { "loopback server on port \(port)" }
    /// The same; the token does not show in `dump`.
    public var customMirror: Mirror { Mirror(self, children: ["port": port]) }
}
