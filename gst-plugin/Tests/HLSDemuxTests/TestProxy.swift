// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementTestSupport
import Foundation

/// An HTTP proxy for GET requests that answers in place of all hosts: a body, or 502. One thread a connection.
final class TestProxy: Sendable {
    private let listener: Int32
    let port: UInt16

    var url: String { "http://127.0.0.1:\(port)" }

    /// `answer` gets host and path.
    init(_ answer: @escaping @Sendable (String, String) -> [UInt8]?) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isOpen = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, size) == 0 && listen(listener, 16) == 0 && getsockname(listener, $0, &size) == 0
            }
        }
        guard isOpen else { throw TestFailure("no port for the proxy") }
        self.listener = listener
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread {
            while true {
                let connection = accept(listener, nil, nil)
                guard connection >= 0 else { break }
                Thread.detachNewThread { Self.serve(connection, answer) }
            }
        }
    }

    deinit { shutdown(listener, Int32(SHUT_RDWR)) }

    private static func serve(_ connection: Int32, _ answer: (String, String) -> [UInt8]?) {
        defer { close(connection) }
        var head: [UInt8] = []
        var byte: UInt8 = 0
        while !head.suffix(4).elementsEqual([13, 10, 13, 10]) {
            guard recv(connection, &byte, 1, 0) == 1, head.count < 65_536 else { return }
            head.append(byte)
        }
        let target = String(decoding: head, as: UTF8.self).split(separator: " ").dropFirst().first.map(String.init)
        let url = target.flatMap { URLComponents(string: $0) }
        let body = answer(url?.host ?? "", url?.path ?? "")
        let status = body == nil ? "502 Bad Gateway" : "200 OK"
        let type = url?.path.hasSuffix("m3u8") == true ? "application/vnd.apple.mpegurl" : "application/octet-stream"
        let reply =
            "HTTP/1.1 \(status)\r\nContent-Type: \(type)\r\nContent-Length: \(body?.count ?? 0)\r\n"
            + "Connection: close\r\n\r\n"
        for part in [Array(reply.utf8), body ?? []] {
            var rest = part[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes { send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
                guard count > 0 else { return }
                rest = rest.dropFirst(count)
            }
        }
    }
}
