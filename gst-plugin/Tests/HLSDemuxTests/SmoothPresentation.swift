// SPDX-License-Identifier: MPL-2.0

import ElementTestSupport
import Foundation
import HTTP
import KeySystems
import MediaFormats
import ProtectionModel

/// A Smooth Streaming presentation as a server has it, made of a file of the corpus or of its fragments.
struct SmoothPresentation: Sendable {
    var manifest: String
    private(set) var fragments: [String: [UInt8]] = [:]

    private static let video =
        "<QualityLevel Index=\"0\" Bitrate=\"1\" FourCC=\"H264\" MaxWidth=\"320\" MaxHeight=\"180\" CodecPrivateData="
        + "\"00000001674d400deca0a0cfcf80880000030008000003019078a14cb00000000168ebecb2\" />"
    private static let audio =
        "<QualityLevel Index=\"0\" Bitrate=\"1\" FourCC=\"AACL\" SamplingRate=\"48000\" Channels=\"1\" "
        + "BitsPerSample=\"16\" PacketSize=\"4\" AudioTag=\"255\" CodecPrivateData=\"118856e500\" />"

    /// That of the corpus as it is.
    init() throws {
        let folder = try CorpusCase("smooth-piff-ctr").folder
        manifest = try String(contentsOf: folder.appendingPathComponent("Manifest"), encoding: .utf8)
    }

    /// The fragments of a PIFF file. `algorithm` is what the header says of its key.
    init(fragmentsOf name: String, keyID: KeyID, algorithm: WRMHeader.Algorithm) throws {
        let bytes = try CorpusCase(name).bytes("media.ismv")
        var counts: [UInt32: Int] = [:]
        var open: (track: UInt32, start: Int)?
        for box in try ISOBox.boxes(in: bytes, range: 0..<bytes.count) {
            if box.type == "moof" {
                let traf = try box.children(in: bytes).first { $0.type == "traf" }
                guard let header = try traf?.children(in: bytes).first(where: { $0.type == "tfhd" }) else { continue }
                var reader = header.reader(bytes)
                try reader.skip(4)
                open = (try reader.readUInt32(), box.range.lowerBound)
            } else if box.type == "mdat", let (track, start) = open {
                let kind = track == 1 ? "video" : "audio"
                let number = counts[track, default: 0]
                counts[track] = number + 1
                fragments["\(kind)/\(number * 10_000_000)"] = Array(bytes[start..<box.range.upperBound])
                open = nil
            }
        }
        let header = try WRMHeader(version: .v4_3, keys: [.init(keyID, algorithm: algorithm)])
        let object = try PlayReadyObject(header: header).serialized()
        let streams = [("video", UInt32(1), Self.video), ("audio", 2, Self.audio)].map { kind, track, level in
            let chunks = (0..<(counts[track] ?? 0)).map { "<c t=\"\($0 * 10_000_000)\" d=\"10000000\" />" }
            return "<StreamIndex Type=\"\(kind)\" QualityLevels=\"1\" Chunks=\"\(chunks.count)\" "
                + "Url=\"\(kind)/{start time}\">\(level)\(chunks.joined())</StreamIndex>"
        }
        manifest =
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<SmoothStreamingMedia MajorVersion=\"2\" MinorVersion=\"0\" Duration=\"40000000\">\(streams.joined())"
            + "<Protection><ProtectionHeader SystemID=\"9A04F079-9840-4286-AB92-E65BE0885F95\">"
            + "\(Base64.encode(object))</ProtectionHeader></Protection></SmoothStreamingMedia>"
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
        if let fragment = fragments[path] { return LoopbackResponse(body: fragment) }
        guard let media = try? CorpusCase("smooth-piff-ctr"), let bytes = try? media.bytes(path) else { return nil }
        return LoopbackResponse(body: bytes)
    }
}
