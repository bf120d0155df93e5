// SPDX-License-Identifier: MPL-2.0

import Foundation
import HTTP
import Synchronization

/// The web server that a presentation comes from: files of one folder, with what a test changes about them.
final class Origin: Sendable {
    typealias Change = @Sendable (LoopbackRequest) async -> LoopbackResponse?

    private let server: LoopbackServer
    private let log: Log

    private final class Log: Sendable {
        let requests = Mutex<[LoopbackRequest]>([])
        let open = Mutex(0)
    }

    /// Serves the folder. `change` answers in place of a file where it gives an answer.
    init(_ folder: URL? = nil, change: @escaping Change = { _ in nil }) throws {
        let log = Log()
        server = try LoopbackServer { request in
            log.requests.withLock { $0.append(request) }
            log.open.withLock { $0 += 1 }
            defer { log.open.withLock { $0 -= 1 } }
            if let answer = await change(request) { return answer }
            guard let folder, !request.path.contains(".."),
                let data = try? Data(contentsOf: folder.appendingPathComponent(request.path))
            else { return .notFound }
            return LoopbackResponse(
                headers: [HTTPHeader(name: "Content-Type", value: Self.type(of: request.path))], body: Array(data))
        }
        self.log = log
    }

    func url(_ path: String) -> String { server.url(path) }
    var requests: [LoopbackRequest] { log.requests.withLock { $0 } }
    func requests(_ path: String) -> [LoopbackRequest] { requests.filter { $0.path == path } }
    /// Waits until nothing is asked for any more. GStreamer 1.22 may use freed memory when it is stopped while a request
    /// is open, with or without a bin around its demuxer.
    func waitUntilQuiet() {
        var last = -1
        for _ in 0..<100 where last != requests.count || log.open.withLock({ $0 > 0 }) {
            last = requests.count
            usleep(40_000)
        }
    }

    func close() { server.close() }

    static func type(of path: String) -> String {
        switch path.split(separator: ".").last {
        case "m3u8": "application/vnd.apple.mpegurl"
        case "mpd": "application/dash+xml"
        case "mp4", "m4s": "video/mp4"
        case "ts": "video/mp2t"
        case "aac": "audio/aac"
        default: "application/octet-stream"
        }
    }
}
