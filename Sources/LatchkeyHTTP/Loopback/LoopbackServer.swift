// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix

/// An HTTP/1.1 server for one client in the same process: on 127.0.0.1, on a port that the system chooses, behind a
/// path that cannot be guessed.
///
/// Every request without the path's token ends with 404 and no other information. Only GET and HEAD are answered.
/// Thread-safe. All servers of the process share one thread, which never runs a handler.
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

    /// The ports of those that wait for the network themselves.
    private static let waitingPorts = Mutex<Set<UInt16>>([])

    /// Whether a server of this process has the URL that waits for the network itself, such as that of a cache. Who asks it
    /// must not give up before.
    package static func waitsForNetwork(at url: String) -> Bool {
        waitingPorts.withLock { ports in ports.contains { url.hasPrefix("http://127.0.0.1:\($0)/") } }
    }

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

    /// It waits for the network itself.
    package func setWaitsForNetwork() { Self.waitingPorts.withLock { _ = $0.insert(port) } }

    /// The URL of a path under the token. Any client that knows it can send requests: keep it out of logs and messages.
    public func url(_ path: String) -> String { "http://127.0.0.1:\(port)/\(token.text)/\(path)" }

    /// Whether the URL leads to this server.
    public func isOwn(_ url: String) -> Bool { url.hasPrefix("http://127.0.0.1:\(port)/\(token.text)/") }

    /// Closes the port and all connections and cancels the handlers that still run. When this returns, nothing is
    /// open any more. A second call does nothing.
    public func close() {
        guard let open = connections.close() else { return }
        Self.waitingPorts.withLock { _ = $0.remove(port) }
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

extension LoopbackServer: Redacted {
    /// The port, never the token that is part of its URLs.
    public var description: String { "loopback server on port \(port)" }
    /// The same; the token does not show in `dump`.
    public var shown: KeyValuePairs<String, Any> { ["port": port] }
}

/// How much a `LoopbackServer` takes from its clients before it ends their connections.
public struct LoopbackLimits: Sendable, Hashable {
    /// Request line and fields together, in bytes.
    public var requestSize = 32_768
    /// Fields of one request.
    public var fieldCount = 100
    /// Connections at one time. One more ends the oldest that never showed the token, or is itself refused.
    public var connections = 32
    /// From the first byte of a request to its end.
    public var requestTime: Duration = .seconds(10)
    /// Between an answer and the next request, and from the start to the first request.
    public var idleTime: Duration = .seconds(60)
    /// The interval of interim responses with the status 102 (RFC 2518, section 10.1) while a handler works: clients
    /// give up after some time without a byte.
    public var interimTime: Duration = .seconds(4)
    /// From an answer to the moment when the client has taken it.
    public var answerTime: Duration = .seconds(60)

    /// The usual limits.
    public init() {}
}

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

    /// Ends one use of the thread; the last use ends the thread.
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

/// The part of a loopback URL that cannot be guessed: 128 random bits. Never printed.
struct LoopbackToken: Sendable {
    /// In hexadecimal digits.
    let text: String

    init() {
        var generator = SystemRandomNumberGenerator()
        let digits = Array("0123456789abcdef".utf8)
        var bytes: [UInt8] = []
        for _ in 0..<2 {
            var word: UInt64 = generator.next()
            for _ in 0..<16 {
                bytes.append(digits[Int(word & 15)])
                word >>= 4
            }
        }
        text = String(decoding: bytes, as: UTF8.self)
    }

    /// Whether a path segment is this token. How long that takes does not depend on where they differ.
    func matches(_ segment: some StringProtocol) -> Bool {
        let mine = Array(text.utf8)
        let other = Array(segment.utf8.prefix(mine.count + 1))
        guard other.count == mine.count else { return false }
        var difference: UInt8 = 0
        for index in mine.indices { difference |= mine[index] ^ other[index] }
        return difference == 0
    }
}

extension LoopbackToken: Redacted {}
