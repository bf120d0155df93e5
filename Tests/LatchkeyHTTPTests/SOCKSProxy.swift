// SPDX-License-Identifier: MPL-2.0

import Foundation
import Synchronization
import SwiftOverlayShims

@testable import LatchkeyLoopbackSupport

/// A SOCKS proxy of version 4 or 5 (RFC 1928) on 127.0.0.1 that connects to nothing, and answers HTTP requests itself.
final class SOCKSProxy: Sendable {
    let port: UInt16
    private let listener: Int32
    private let state = Mutex<[String]>([])

    init() throws {
        listener = try ScriptedServer.bind()
        guard listen(listener, 8) == 0 else { throw POSIXError(.EADDRINUSE) }
        port = try ScriptedServer.port(of: listener)
        Thread.detachNewThread { [self] in
            while true {
                let socket = accept(listener, nil, nil)
                guard socket >= 0 else { break }
                serve(socket)
                close(socket)
            }
        }
    }

    /// What clients wanted to be connected to: an address, or a name.
    var places: [String] { state.withLock { $0 } }

    private func serve(_ socket: Int32) {
        func take(_ count: Int) -> [UInt8]? {
            var bytes = [UInt8](repeating: 0, count: count)
            return recv(socket, &bytes, count, Int32(MSG_WAITALL)) == count ? bytes : nil
        }
        func give(_ bytes: [UInt8]) { _ = send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }
        /// Up to and without `end`.
        func take(until end: [UInt8]) -> [UInt8]? {
            var bytes: [UInt8] = []
            while !bytes.suffix(end.count).elementsEqual(end) {
                guard let next = take(1) else { return nil }
                bytes += next
            }
            return bytes.dropLast(end.count)
        }
        func address(_ bytes: some Collection<UInt8>) -> String { bytes.map(String.init).joined(separator: ".") }

        let place: String
        switch take(1)?.first {
        case 4:
            // The command, the port and the address; the user; and with an address of 0.0.0.x the name.
            guard let head = take(7), take(until: [0]) != nil else { return }
            if head[3...5].allSatisfy({ $0 == 0 }) {
                guard let name = take(until: [0]) else { return }
                place = String(decoding: name, as: UTF8.self)
            } else {
                place = address(head[3...])
            }
            give([0, 0x5A, 0, 0, 0, 0, 0, 0])
        case 5:
            guard let methods = take(1)?.first, take(Int(methods)) != nil else { return }
            give([5, 0])
            guard let head = take(4) else { return }
            if head[3] == 3 {
                guard let length = take(1)?.first, let name = take(Int(length)) else { return }
                place = String(decoding: name, as: UTF8.self)
            } else {
                guard let bytes = take(4) else { return }
                place = address(bytes)
            }
            guard take(2) != nil else { return }
            give([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
        default: return
        }
        state.withLock { $0.append(place) }
        guard take(until: Array("\r\n\r\n".utf8)) != nil else { return }
        give(Array("HTTP/1.1 200 OK\r\nContent-Length: 14\r\nConnection: close\r\n\r\nfrom the proxy".utf8))
    }
}
