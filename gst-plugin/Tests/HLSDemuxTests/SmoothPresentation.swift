// SPDX-License-Identifier: MPL-2.0

import ElementTestSupport
import Foundation
import HTTP

/// The Smooth Streaming presentation of the corpus as a server has it, with what a test changes about it.
struct SmoothPresentation: Sendable {
    var manifest: String

    /// That of the corpus as it is.
    init() throws {
        let folder = try CorpusCase("smooth-piff-ctr").folder
        manifest = try String(contentsOf: folder.appendingPathComponent("Manifest"), encoding: .utf8)
    }

    /// Puts a stream in front of all others.
    mutating func insert(_ stream: String) {
        guard let place = manifest.range(of: "<StreamIndex") else { return }
        manifest.insert(contentsOf: stream, at: place.lowerBound)
    }

    /// Puts a second audio in, with the first one's fragments under another path, and names both.
    mutating func addAudio(_ first: String, _ second: String) {
        guard let start = manifest.range(of: "<StreamIndex Type=\"audio\""),
            let end = manifest.range(of: "</StreamIndex>", range: start.upperBound..<manifest.endIndex)
        else { return }
        let stream = String(manifest[start.lowerBound..<end.upperBound])
        func named(_ name: String) -> String {
            stream.replacingOccurrences(of: "<StreamIndex", with: "<StreamIndex Name=\"\(name)\"")
        }
        let other = named(second).replacingOccurrences(of: "Url=\"", with: "Url=\"other/")
        manifest.replaceSubrange(start.lowerBound..<end.upperBound, with: named(first) + other)
    }

    func answer(_ request: LoopbackRequest) -> LoopbackResponse? {
        if request.path == "Manifest" { return LoopbackResponse(body: Array(manifest.utf8)) }
        var path = request.path.removingPercentEncoding ?? ""
        if path.hasPrefix("other/") { path.removeFirst(6) }
        guard let media = try? CorpusCase("smooth-piff-ctr"), let bytes = try? media.bytes(path) else { return nil }
        return LoopbackResponse(body: bytes)
    }
}
