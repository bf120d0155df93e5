// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import LatchkeyProtection
import Testing

/// The corpus's transport streams and packed audio with SAMPLE-AES.
struct SampleAESCase: Sendable, CustomTestStringConvertible {
    struct Track: Sendable {
        let id: String
        let codec: String
        let files: [String]
        let elementaryStreamMD5: String
        let packets: [(size: Int, md5: String)]
    }

    let name: String
    let key: String
    /// Nil: the segment's number.
    let iv: String?
    let tracks: [Track]

    var testDescription: String { name }

    func iv(ofSegment index: Int) -> String {
        let digits = String(index, radix: 16)
        return iv ?? String(repeating: "0", count: 32 - digits.count) + digits
    }

    func track(_ id: String) throws -> Track {
        guard let track = tracks.first(where: { $0.id == id }) else { throw TestFailure("\(name) has no \(id)") }
        return track
    }

    func path(_ file: String) -> String { Self.folder.appendingPathComponent("\(name)/\(file)").path }

    static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../../Tests/Corpus").standardizedFileURL

    static func read(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appendingPathComponent(path)))
    }

    static let all = [
        "hls-packed-aac-sampleaes", "hls-packed-aac-sampleaes-bento4", "hls-packed-ac3-sampleaes-skd",
        "hls-ts-muxed-sampleaes-bento4", "hls-ts-muxed-sampleaes-bento4-fps", "hls-ts-sampleaes-3drm-eac3",
        "hls-ts-sampleaes-identity-aac", "hls-ts-sampleaes-skd-aac", "hls-ts-sampleaes-skd-ac3",
    ].compactMap(SampleAESCase.init)

    init?(_ name: String) {
        struct File: Decodable {
            struct Key: Decodable { let key: String }
            struct Track: Decodable {
                struct Expected: Decodable { let es_md5, packets_framemd5: String }
                let id, codec: String
                let files: [String]
                let expected: Expected
            }
            let keys: [Key]
            let iv: String?
            let tracks: [Track]
        }
        let folder = Self.folder.appendingPathComponent(name)
        guard let data = try? Data(contentsOf: folder.appendingPathComponent("case.json")),
            let file = try? JSONDecoder().decode(File.self, from: data), let key = file.keys.first
        else { return nil }
        self.name = name
        self.key = key.key
        iv = file.iv
        tracks = file.tracks.map { track in
            let text = try? String(
                contentsOf: folder.appendingPathComponent(track.expected.packets_framemd5), encoding: .utf8)
            let packets = (text ?? "").split(separator: "\n").filter { !$0.hasPrefix("#") }.compactMap { line in
                let fields = line.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
                return fields.count > 5 ? Int(fields[4]).map { ($0, fields[5]) } : nil
            }
            return Track(
                id: track.id, codec: track.codec, files: track.files,
                elementaryStreamMD5: track.expected.es_md5, packets: packets)
        }
    }

    static func md5(_ bytes: some Collection<UInt8>) -> String {
        let bytes = Array(bytes)
        guard let text = g_compute_checksum_for_data(G_CHECKSUM_MD5, bytes, gsize(bytes.count)) else { return "" }
        defer { g_free(text) }
        return String(cString: text)
    }
}

extension SampleAESCase.Track {
    /// The numbers of the packets that are not as expected, where the elementary stream is cut at their sizes.
    func wrongPackets(in stream: [UInt8]) -> [Int] {
        var offset = 0
        var wrong: [Int] = []
        for (index, packet) in packets.enumerated() {
            let end = min(stream.count, offset + packet.size)
            if SampleAESCase.md5(stream[offset..<end]) != packet.md5 { wrong.append(index) }
            offset = end
        }
        return wrong
    }
}
