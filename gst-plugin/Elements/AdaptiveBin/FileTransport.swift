// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection

/// Answers requests for `file` URLs as a web server would. A value.
struct FileTransport: HTTPTransport {
    /// In bytes.
    private static let pieceSize = 256 << 10

    /// A file that is open, with what of it is asked for.
    private struct Part: ~Copyable {
        let file: RegularFile
        let bounds: Range<Int>
        /// Without the body.
        let head: HTTPResponse

        /// Nil where there is no such file.
        init?(of request: HTTPRequest) {
            guard let path = URIReference(request.url).filePath,
                let file = try? RegularFile(path: path, kind: "file", has: .untrusted)
            else { return nil }
            let size = Int(clamping: file.size)
            let range = request.headers.first { $0.name.lowercased() == "range" }.flatMap { LoopbackRange($0.value) }
            let bounds = (range ?? .from(0)).bounds(in: size) ?? 0..<0
            var headers = [HTTPHeader(name: "Content-Length", value: "\(bounds.count)")]
            if range != nil {
                let place = bounds.isEmpty ? "*" : "\(bounds.lowerBound)-\(bounds.upperBound - 1)"
                headers.append(HTTPHeader(name: "Content-Range", value: "bytes \(place)/\(size)"))
            }
            let status = range == nil ? 200 : bounds.isEmpty ? 416 : 206
            head = HTTPResponse(status: status, headers: headers, url: request.url)
            self.file = file
            self.bounds = bounds
        }
    }

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        guard let part = Part(of: request) else { return Self.notFound(request) }
        guard part.bounds.count <= request.maximumResponseSize else {
            throw .tooLarge(request.url, "more than \(request.maximumResponseSize) bytes")
        }
        var response = part.head
        response.body = try Self.read(part.bounds, of: part.file, for: request)
        return response
    }

    func send(
        _ request: HTTPRequest, through gate: HTTPBodyGate?, to receiver: @escaping HTTPBodyReceiver
    ) async throws(HTTPError) -> HTTPResponse {
        guard let part = Part(of: request) else { return Self.notFound(request) }
        var rest = part.bounds
        while !rest.isEmpty {
            await Self.wait(for: gate)
            guard !Task.isCancelled else { throw .cancelled(request.url) }
            let end = min(rest.lowerBound + Self.pieceSize, rest.upperBound)
            receiver(part.head, try Self.read(rest.lowerBound..<end, of: part.file, for: request))
            rest = end..<rest.upperBound
        }
        return part.head
    }

    private static func notFound(_ request: HTTPRequest) -> HTTPResponse {
        HTTPResponse(status: 404, url: request.url)
    }

    private static func read(
        _ bounds: Range<Int>, of file: borrowing RegularFile, for request: HTTPRequest
    ) throws(HTTPError) -> [UInt8] {
        let bytes = try? file.part(at: UInt64(bounds.lowerBound), count: bounds.count)
        guard let bytes, bytes.count == bounds.count else {
            throw .other(request.url, "the file cannot be read, or became shorter meanwhile")
        }
        return bytes
    }

    /// Until the receiver has room, or the task is cancelled.
    private static func wait(for gate: HTTPBodyGate?) async {
        guard let gate else { return }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if Task.isCancelled || !gate.holds({ continuation.resume() }) { continuation.resume() }
            }
        } onCancel: {
            gate.open()
        }
    }
}

/// Media in files needs no viewing session, where the configuration allows that.
extension AdaptiveBin {
    /// Reads from a manifest whether it names media in files alone. Before its keys are asked for.
    final func noteFiles(of manifest: [UInt8], from url: String) {
        guard URIReference(url).filePath != nil else { return }
        note(playsFiles: LocalManifest.namesFilesOnly(manifest, from: url))
    }

    /// A manifest or playlist of a presentation in a file names media in files alone, or not.
    final func note(playsFiles: Bool) {
        let (pipeline, playback) = withGuarded { ($0.pipeline, $0.playback) }
        pipeline?.note(playsFiles: playsFiles)
        playback?.setPlaysFile(pipeline?.playsFiles ?? playsFiles)
    }
}
