// SPDX-License-Identifier: MPL-2.0

import Foundation
import SwiftOverlayShims

/// A client that sends exactly the bytes a test wants, over one connection. Blocks; a deadline ends every wait.
final class RawClient: @unchecked Sendable {
    // SAFETY: one thread uses it at a time; tests hand it from one call of `onOwnThread` to the next.

    struct Response: Equatable {
        var status: Int
        /// Without the status line, in lower case, sorted.
        var fields: [String]
        var body: String

        func value(_ name: String) -> String? {
            fields.first { $0.hasPrefix(name + ": ") }.map { String($0.dropFirst(name.count + 2)) }
        }
    }

    enum Failure: Error { case refused, ended, reset, timedOut }

    private let socket: Int32
    private var buffer: [UInt8] = []

    init(port: UInt16, address: String = "127.0.0.1") throws {
        socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var limit = timeval()
        limit.tv_sec = 60
        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var target = sockaddr_in()
        target.sin_family = sa_family_t(AF_INET)
        target.sin_port = port.bigEndian
        target.sin_addr.s_addr = inet_addr(address)
        let result = withUnsafePointer(to: &target) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw Failure.refused }
    }

    deinit { close(socket) }

    /// False where the other side has ended the connection.
    @discardableResult
    func send(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        return bytes.withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            == bytes.count
    }

    func get(_ target: String, method: String = "GET", host: String, _ fields: [String] = []) throws -> Response {
        ask(target, method: method, host: host, fields)
        return try response(hasBody: method != "HEAD")
    }

    /// Sends a request, and leaves the responses to others.
    func ask(_ target: String, method: String = "GET", host: String, _ fields: [String] = []) {
        let lines = ["\(method) \(target) HTTP/1.1", "Host: \(host)"] + fields
        send(lines.map { $0 + "\r\n" }.joined() + "\r\n")
    }

    /// The next final response: a slow machine gets interim ones before it.
    func response(hasBody: Bool = true) throws -> Response {
        while true {
            let response = try nextResponse(hasBody: hasBody)
            if !(100..<200).contains(response.status) { return response }
        }
    }

    /// The next response, final or interim.
    func nextResponse(hasBody: Bool = true) throws -> Response {
        let end = Array("\r\n\r\n".utf8)
        while buffer.firstRange(of: end) == nil { try read() }
        guard let head = buffer.firstRange(of: end) else { throw Failure.ended }
        let lines = String(decoding: buffer[..<head.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        buffer.removeFirst(head.upperBound)
        let fields = lines.dropFirst().map { $0.lowercased() }.sorted()
        let words = lines[0].components(separatedBy: " ")
        var response = Response(status: words.count > 1 ? Int(words[1]) ?? 0 : 0, fields: fields, body: "")
        let size = hasBody ? response.value("content-length").flatMap { Int($0) } ?? 0 : 0
        while buffer.count < size { try read() }
        response.body = String(decoding: buffer.prefix(size), as: UTF8.self)
        buffer.removeFirst(size)
        return response
    }

    /// Whether the other side ends the connection, after what it still has to say.
    func isEnded() -> Bool {
        do {
            while true { try read() }
        } catch {
            return error as? Failure == .ended || error as? Failure == .reset
        }
    }

    /// All that comes until the connection ends, and whether the other side broke it.
    func everything() throws -> (text: String, wasReset: Bool) {
        do {
            while true { try read() }
        } catch Failure.ended {
            return (String(decoding: buffer, as: UTF8.self), false)
        } catch Failure.reset {
            return (String(decoding: buffer, as: UTF8.self), true)
        }
    }

    private func read() throws {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let count = recv(socket, &chunk, chunk.count, 0)
        if count < 0, errno == EAGAIN { throw Failure.timedOut }
        if count < 0, errno == ECONNRESET { throw Failure.reset }
        guard count > 0 else { throw Failure.ended }
        buffer += chunk.prefix(count)
    }
}

/// Runs what blocks on a thread of its own: the tasks that answer it share the threads that tests run on.
func onOwnThread<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Swift.Result { try body() }) }
    }
}
