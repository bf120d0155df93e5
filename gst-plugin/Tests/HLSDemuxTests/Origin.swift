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
        let media = MediaGate()
    }

    /// Serves the folder. `change` answers in place of a file where it gives an answer.
    init(_ folder: URL? = nil, change: @escaping Change = { _ in nil }) throws {
        let log = Log()
        server = try LoopbackServer { request in
            log.requests.withLock { $0.append(request) }
            log.open.withLock { $0 += 1 }
            defer { log.open.withLock { $0 -= 1 } }
            if !request.path.hasSuffix(".m3u8") { await log.media.pass() }
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
    /// Gives out nothing but playlists until `letMediaPass`.
    ///
    /// GStreamer 1.22 calls a presentation that is fetched before it has made its first pad one that cannot be
    /// fetched. On a busy machine a short one can be that quick.
    func holdMedia() { log.media.close() }
    func letMediaPass() { log.media.open() }

    /// Waits until `isOver`, or until nothing was asked for for half a second; for some seconds at most.
    func waitUntilQuiet(unless isOver: () -> Bool) {
        var last = -1
        var quiet = 0
        for _ in 0..<400 where quiet < 50 && !isOver() {
            let isAtWork = last != requests.count || log.open.withLock { $0 > 0 }
            last = requests.count
            quiet = isAtWork ? 0 : quiet + 1
            usleep(10_000)
        }
    }

    func close() { server.close() }

    static func type(of path: String) -> String {
        switch path.split(separator: ".").last {
        case "m3u8": "application/vnd.apple.mpegurl"
        case "mp4", "m4s": "video/mp4"
        case "ts": "video/mp2t"
        case "aac": "audio/aac"
        default: "application/octet-stream"
        }
    }
}

/// Lets tasks pass, or wait until it lets them pass.
private final class MediaGate: Sendable {
    private struct State {
        var isClosed = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    func close() { state.withLock { $0.isClosed = true } }

    func open() {
        let waiting = state.withLock { state in
            state.isClosed = false
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func pass() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state -> Bool in
                if state.isClosed { state.waiting.append(continuation) }
                return !state.isClosed
            }
            if isOpen { continuation.resume() }
        }
    }
}
