// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
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
            // A look at the start of a fragment is no media.
            let isLook = request.path.hasPrefix("QualityLevels") && request.range != nil
            if !isLook { await log.media.pass(request.path) }
            let answer = await change(request) ?? Self.file(request.path, in: folder)
            if request.path.hasSuffix(".m3u8") { log.media.note(answer.body) }
            return answer
        }
        self.log = log
    }

    private static func file(_ path: String, in folder: URL?) -> LoopbackResponse {
        guard let folder, !path.contains(".."),
            let data = try? Data(contentsOf: folder.appendingPathComponent(path))
        else { return .notFound }
        return LoopbackResponse(
            headers: [HTTPHeader(name: "Content-Type", value: Self.type(of: path))], body: Array(data))
    }

    func url(_ path: String) -> String { server.url(path) }
    var requests: [LoopbackRequest] { log.requests.withLock { $0 } }
    func requests(_ path: String) -> [LoopbackRequest] { requests.filter { $0.path == path } }
    /// Keeps the last segment of each playlist, and all but the first of a manifest's, back until `letMediaPass`.
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
        case "mpd": "application/dash+xml"
        case "mp4", "m4s": "video/mp4"
        case "ts": "video/mp2t"
        case "aac": "audio/aac"
        default: "application/octet-stream"
        }
    }
}

/// Makes tasks that want the last segment of a playlist, or more than the first of a manifest, wait while it is closed.
private final class MediaGate: Sendable {
    private struct State {
        var isClosed = false
        var lastSegments: Set<String> = []
        /// There is a manifest: of DASH or Smooth Streaming.
        var hasManifest = false
        /// Of which streams something was fetched: the paths without their numbers.
        var begun: Set<String> = []

        mutating func isEarly(_ path: String) -> Bool {
            if lastSegments.contains(path) { return true }
            guard hasManifest, path.hasSuffix(".m4s") || path.contains("Fragments") else { return false }
            return !begun.insert(path.filter { !$0.isNumber }).inserted
        }
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

    /// Finds the last segment, where it is a file of its own and not the only one.
    func note(_ playlist: [UInt8]) {
        let lines = String(decoding: playlist, as: UTF8.self).split(whereSeparator: \.isNewline)
        let segments = lines.filter { !$0.hasPrefix("#") }
        guard lines.contains(where: { $0.hasPrefix("#EXTINF") }), segments.count > 1, let last = segments.last,
            !segments.dropLast().contains(last)
        else { return }
        state.withLock { _ = $0.lastSegments.insert(String(last)) }
    }

    func pass(_ path: String) async {
        await withCheckedContinuation { continuation in
            let mayPass = state.withLock { state -> Bool in
                if path.hasSuffix("Manifest") || path.hasSuffix(".ismc") || path.hasSuffix(".mpd") {
                    state.hasManifest = true
                }
                guard state.isClosed, state.isEarly(path) else { return true }
                state.waiting.append(continuation)
                return false
            }
            if mayPass { continuation.resume() }
        }
    }
}
