// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection

/// Answers requests for `file` URLs as a web server would. A value.
struct FileTransport: HTTPTransport {
    /// In bytes, of one answer.
    private static let limit = 512 << 20

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        let range = request.headers.first { $0.name.lowercased() == "range" }.flatMap { LoopbackRange($0.value) }
        let path = URIReference(request.url).filePath ?? ""
        guard let file = try? RegularFile(path: path, kind: "file", has: .untrusted) else {
            return HTTPResponse(status: 404, url: request.url)
        }
        let size = Int(clamping: file.size)
        let bounds = (range ?? .from(0)).bounds(in: size) ?? 0..<0
        let limit = min(request.maximumResponseSize, Self.limit)
        guard bounds.count <= limit else { throw .tooLarge(request.url, "more than \(limit) bytes") }
        guard let body = try? file.part(at: UInt64(bounds.lowerBound), count: bounds.count) else {
            return HTTPResponse(status: 404, url: request.url)
        }
        var headers = [HTTPHeader(name: "Content-Length", value: "\(body.count)")]
        guard range != nil else { return HTTPResponse(status: 200, headers: headers, body: body, url: request.url) }
        let place = bounds.isEmpty ? "*" : "\(bounds.lowerBound)-\(bounds.upperBound - 1)"
        headers.append(HTTPHeader(name: "Content-Range", value: "bytes \(place)/\(size)"))
        return HTTPResponse(status: bounds.isEmpty ? 416 : 206, headers: headers, body: body, url: request.url)
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
