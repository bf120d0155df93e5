// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyProtection

/// The Smooth Streaming presentation of the corpus as a server has it, with what a test changes about it.
struct SmoothPresentation: Sendable {
    var manifest: String
    /// Fragments that are not those of the presentation of the corpus, by their paths.
    private var fragments: [String: [UInt8]] = [:]

    /// That of the corpus as it is.
    init() throws {
        let folder = try CorpusCase("smooth-piff-ctr").folder
        manifest = try String(contentsOf: folder.appendingPathComponent("Manifest"), encoding: .utf8)
    }

    /// One track of a PIFF file of the corpus, which was made from the same source and so has the same codec settings.
    /// `header` is the PlayReady object in Base64. Each fragment is a second long, or nearly.
    init(track: Int, of name: String, header: String) throws {
        try self.init()
        let file = FragmentedFile(try CorpusCase(name).bytes("media.ismv"))
        let kind = track == 1 ? "video" : "audio"
        guard let scale = file.timescales[track], let stream = text("<StreamIndex Type=\"\(kind)\"", "</StreamIndex>"),
            let level = Self.text("<QualityLevel", "/>", in: stream)
        else { throw TestFailure("no track \(track) in \(name)") }
        let own = file.fragments.filter { $0.track == track }
        for (number, fragment) in own.enumerated() { fragments["\(kind)/\(number * scale)"] = fragment.bytes }
        let chunks = own.indices.map { "<c n=\"\($0)\" t=\"\($0 * scale)\" d=\"\(scale)\" />" }.joined()
        manifest = """
            <?xml version="1.0" encoding="utf-8"?>
            <SmoothStreamingMedia MajorVersion="2" MinorVersion="0" Duration="\(own.count)0000000">
            <StreamIndex Type="\(kind)" TimeScale="\(scale)" QualityLevels="1" Chunks="\(own.count)" \
            Url="\(kind)/{start time}">\(level)\(chunks)</StreamIndex>
            <Protection><ProtectionHeader SystemID="9A04F079-9840-4286-AB92-E65BE0885F95">\(header)\
            </ProtectionHeader></Protection></SmoothStreamingMedia>
            """
    }

    /// Puts a second quality of the pictures in, with the same fragments, which name a key of their own. `header` is a PlayReady
    /// object in Base64, for both. `isAlone`: in the place of the first one.
    mutating func addQuality(rate: Int, keyID: KeyID, header: String, isAlone: Bool) throws {
        guard let level = Self.text("<QualityLevel", "/>", in: manifest),
            let old = Self.text("<ProtectionHeader", "</ProtectionHeader>", in: manifest),
            let end = old.firstIndex(of: ">")
        else { throw TestFailure("no quality, or no header") }
        let other = level.replacingOccurrences(of: "Bitrate=\"200000\"", with: "Bitrate=\"\(rate)\"")
            .replacingOccurrences(of: "Index=\"0\"", with: "Index=\"1\"")
        manifest = manifest.replacingOccurrences(of: level, with: (isAlone ? "" : level) + other)
            .replacingOccurrences(of: old, with: old[...end] + header + "</ProtectionHeader>")
        for start in 0..<4 {
            let name = "Fragments(video=\(start * 10_000_000))"
            var bytes = try CorpusCase("smooth-piff-ctr").bytes("QualityLevels(200000)/\(name)")
            let type: [UInt8] = [0xA2, 0x39, 0x4F, 0x52]
            guard let place = bytes.indices.first(where: { bytes[$0...].starts(with: type) }) else { continue }
            bytes[place + 19] |= 1
            bytes.insert(contentsOf: [0, 0, 1, 8] + keyID.bytes, at: place + 20)
            // Of `moof`, `traf` and the box, and from `moof` to the first sample.
            for size in [2, 26, 70, place - 6] {
                let number = Int(bytes[size]) << 8 + Int(bytes[size + 1]) + 20
                (bytes[size], bytes[size + 1]) = (UInt8(number >> 8), UInt8(number & 255))
            }
            fragments["QualityLevels(\(rate))/\(name)"] = bytes
        }
    }

    private func text(_ start: String, _ end: String) -> String? { Self.text(start, end, in: manifest) }

    private static func text(_ start: String, _ end: String, in text: String) -> String? {
        guard let first = text.range(of: start),
            let last = text.range(of: end, range: first.upperBound..<text.endIndex)
        else { return nil }
        return String(text[first.lowerBound..<last.upperBound])
    }

    /// Puts a stream in front of all others.
    mutating func insert(_ stream: String) {
        guard let place = manifest.range(of: "<StreamIndex") else { return }
        manifest.insert(contentsOf: stream, at: place.lowerBound)
    }

    /// Puts a second audio in, with the first one's fragments under another path, and names both.
    mutating func addAudio(_ first: String, _ second: String) {
        guard let stream = text("<StreamIndex Type=\"audio\"", "</StreamIndex>") else { return }
        func named(_ name: String) -> String {
            stream.replacingOccurrences(of: "<StreamIndex", with: "<StreamIndex Name=\"\(name)\"")
        }
        let other = named(second).replacingOccurrences(of: "Url=\"", with: "Url=\"other/")
        manifest = manifest.replacingOccurrences(of: stream, with: named(first) + other)
    }

    func answer(_ request: LoopbackRequest) -> LoopbackResponse? {
        if request.path == "Manifest" { return LoopbackResponse(body: Array(manifest.utf8)) }
        var path = request.path.removingPercentEncoding ?? ""
        if let own = fragments[path] { return LoopbackResponse(body: own) }
        if path.hasPrefix("other/") { path.removeFirst(6) }
        guard let media = try? CorpusCase("smooth-piff-ctr"), let bytes = try? media.bytes(path) else { return nil }
        return LoopbackResponse(body: bytes)
    }
}
