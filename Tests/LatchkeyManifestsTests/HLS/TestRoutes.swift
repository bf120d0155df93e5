// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import Synchronization

/// Gives each resource a URL of its own, and the same again for the same resource.
final class TestRoutes: Sendable {
    private struct Known {
        var numbers: [HLSResource: Int] = [:]
        var resources: [HLSResource] = []
    }

    private let known = Mutex(Known())

    func url(_ resource: HLSResource) -> String {
        let number = known.withLock { known in
            if let number = known.numbers[resource] { return number }
            known.numbers[resource] = known.resources.count
            known.resources.append(resource)
            return known.resources.count - 1
        }
        switch resource {
        case .playlist: return "http://127.0.0.1:9/t/\(number).m3u8"
        case .initSegment: return "http://127.0.0.1:9/t/\(number).mp4"
        case .segment: return "http://127.0.0.1:9/t/\(number).m4s"
        case .relayedSegment: return "http://127.0.0.1:9/t/\(number).seg"
        case .envelope: return "http://127.0.0.1:9/t/\(number).env"
        case .keyNote: return "http://127.0.0.1:9/t/\(number).note"
        }
    }

    /// The resource that was given a URL.
    func resource(_ url: String) -> HLSResource? {
        guard url.hasPrefix("http://127.0.0.1:9/t/") else { return nil }
        let number = Int(url.dropFirst(21).prefix { $0 != "." })
        return known.withLock { known in
            number.flatMap { known.resources.indices.contains($0) ? known.resources[$0] : nil }
        }
    }
}

extension HLSPlaylistRewriter {
    /// Rewrites text that was fetched from `https://cdn.example/p/list.m3u8`.
    mutating func rewrite(
        _ text: String, from url: String = "https://cdn.example/p/list.m3u8", routes: TestRoutes
    ) throws(FormatError) -> (text: String, result: HLSRewriting) {
        let result = try rewrite(Array(text.utf8), from: url, route: routes.url)
        return (String(decoding: result.bytes, as: UTF8.self), result)
    }
}

/// What the demuxer sees of a rewritten media playlist: each segment with what holds for it.
struct SeenSegment: Equatable {
    var url: String
    var map: String?
    var key: String?
    var range: String?

    static func segments(of text: String) -> [SeenSegment] {
        var (map, key, range): (String?, String?, String?)
        var segments: [SeenSegment] = []
        for line in text.split(separator: "\n") {
            if line.hasPrefix("#EXT-X-MAP:") {
                map = String(line.dropFirst(11))
            } else if line.hasPrefix("#EXT-X-KEY:") {
                key = line == "#EXT-X-KEY:METHOD=NONE" ? nil : String(line.dropFirst(11))
            } else if line.hasPrefix("#EXT-X-BYTERANGE:") {
                range = String(line.dropFirst(17))
            } else if !line.hasPrefix("#") {
                segments.append(SeenSegment(url: String(line), map: map, key: key, range: range))
                range = nil
            }
        }
        return segments
    }
}
