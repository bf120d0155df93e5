// SPDX-License-Identifier: MPL-2.0

import Foundation
import Synchronization

/// An HTTP/1.1 server on 127.0.0.1 that sends exactly the bytes a test wants. One thread a connection.
final class ScriptedServer: Sendable {
    struct Request: Sendable {
        var method: String
        var target: String
        var fields: [(name: String, value: String)]
        var body: [UInt8]
        /// Counts from zero in the order of arrival.
        var connection: Int

        /// The values of all fields with this name, in any case.
        func values(_ name: String) -> [String] {
            fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
        }
    }

    enum Reply: Sendable {
        /// The connection stays open for the next request.
        case send(String)
        case sendAndClose(String)
        /// Nothing more comes; the connection stays open until the client ends it.
        case sendAndHold(String)
        /// The server's direction ends; it reads on until the client ends the connection.
        case sendAndHalfClose(String)
        /// The connection ends with a reset (RST).
        case reset

        static func response(_ status: Int = 200, _ fields: [String] = [], body: String = "") -> Reply {
            let lines = ["HTTP/1.1 \(status) Text", "Content-Length: \(body.utf8.count)"] + fields
            return .send(lines.map { $0 + "\r\n" }.joined() + "\r\n" + body)
        }

        static func redirect(_ status: Int, to location: String) -> Reply {
            response(status, ["Location: \(location)"], body: "moved")
        }
    }

    enum Event: Sendable, Equatable {
        case requested(connection: Int)
        case closed(connection: Int)
    }

    let port: UInt16
    /// What happens, in order. For one reader.
    let events: AsyncStream<Event>
    private let listener: Int32
    private let log: Log

    init(_ answer: @escaping @Sendable (Request) -> Reply) throws {
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        let log = Log(events: continuation)
        let listener = try Self.bind()
        guard listen(listener, 128) == 0 else { throw POSIXError(.EADDRINUSE) }
        self.events = events
        self.log = log
        self.listener = listener
        port = try Self.port(of: listener)
        Thread.detachNewThread { Self.accept(listener, log, answer) }
    }

    deinit {
        // Ends the accept call and all connections; their threads close what they own.
        shutdown(listener, Int32(SHUT_RDWR))
        log.shutDown()
    }

    var url: String { "http://127.0.0.1:\(port)" }
    /// All requests so far, in the order of arrival.
    var requests: [Request] { log.state.withLock { $0.requests } }
    var connectionCount: Int { log.state.withLock { $0.connectionCount } }

    /// A socket bound to a free port, without a listener: connections to it are refused for as long as it is open.
    static func bind() throws -> Int32 {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.bind(socket, $0, size) }
        }
        guard socket >= 0, result == 0 else { throw POSIXError(.EADDRNOTAVAIL) }
        return socket
    }

    static func port(of socket: Int32) throws -> UInt16 {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &size) }
        }
        guard result == 0 else { throw POSIXError(.EBADF) }
        return UInt16(bigEndian: address.sin_port)
    }

    private static func accept(_ listener: Int32, _ log: Log, _ answer: @escaping @Sendable (Request) -> Reply) {
        while true {
            let socket = Glibc.accept(listener, nil, nil)
            guard socket >= 0 else { break }
            let number = log.open(socket)
            Thread.detachNewThread {
                var connection = Connection(socket: socket, number: number)
                connection.serve(log, answer)
                log.close(number)
            }
        }
        close(listener)
    }

    /// What all threads of one server share.
    final class Log: Sendable {
        struct State {
            var requests: [Request] = []
            var open: [Int: Int32] = [:]
            var connectionCount = 0
            var isShutDown = false
        }

        let state = Mutex(State())
        private let events: AsyncStream<Event>.Continuation

        init(events: AsyncStream<Event>.Continuation) { self.events = events }

        func open(_ socket: Int32) -> Int {
            state.withLock { state in
                defer { state.connectionCount += 1 }
                state.open[state.connectionCount] = socket
                if state.isShutDown { shutdown(socket, Int32(SHUT_RDWR)) }
                return state.connectionCount
            }
        }

        func add(_ request: Request) {
            state.withLock { $0.requests.append(request) }
            events.yield(.requested(connection: request.connection))
        }

        func close(_ number: Int) {
            state.withLock { state in
                if let socket = state.open.removeValue(forKey: number) { Glibc.close(socket) }
            }
            events.yield(.closed(connection: number))
        }

        func shutDown() {
            state.withLock { state in
                state.isShutDown = true
                for socket in state.open.values { shutdown(socket, Int32(SHUT_RDWR)) }
            }
            events.finish()
        }
    }
}

/// One accepted connection, on its own thread.
private struct Connection {
    let socket: Int32
    let number: Int
    private var buffer: [UInt8] = []

    init(socket: Int32, number: Int) {
        self.socket = socket
        self.number = number
    }

    mutating func serve(_ log: ScriptedServer.Log, _ answer: (ScriptedServer.Request) -> ScriptedServer.Reply) {
        while let request = readRequest() {
            log.add(request)
            switch answer(request) {
            case .send(let text):
                write(text)
            case .sendAndClose(let text):
                write(text)
                return
            case .sendAndHold(let text):
                write(text)
                while read() {}
                return
            case .sendAndHalfClose(let text):
                write(text)
                shutdown(socket, Int32(SHUT_WR))
                while read() {}
                return
            case .reset:
                // To close with a linger time of zero is to reset (socket(7)).
                var linger = linger(l_onoff: 1, l_linger: 0)
                setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
                return
            }
        }
    }

    private mutating func readRequest() -> ScriptedServer.Request? {
        let end = Array("\r\n\r\n".utf8)
        var head: Range<Int>?
        while head == nil {
            head = buffer.firstRange(of: end)
            if head == nil, !read() { return nil }
        }
        guard let head else { return nil }
        let lines = String(decoding: buffer[..<head.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        let words = lines[0].components(separatedBy: " ")
        guard words.count == 3 else { return nil }
        let fields = lines.dropFirst().map { line in
            let parts = line.split(separator: ":", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
            return (name: parts[0], value: parts.count > 1 ? parts[1] : "")
        }
        buffer.removeFirst(head.upperBound)
        let size = fields.first { $0.name.lowercased() == "content-length" }.flatMap { Int($0.value) } ?? 0
        while buffer.count < size { guard read() else { return nil } }
        let body = Array(buffer.prefix(size))
        buffer.removeFirst(size)
        return ScriptedServer.Request(
            method: words[0], target: words[1], fields: Array(fields), body: body, connection: number)
    }

    private mutating func read() -> Bool {
        var chunk = [UInt8](repeating: 0, count: 16_384)
        let count = recv(socket, &chunk, chunk.count, 0)
        guard count > 0 else { return false }
        buffer += chunk.prefix(count)
        return true
    }

    private func write(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }
}
