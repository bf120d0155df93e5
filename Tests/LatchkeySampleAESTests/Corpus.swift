// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import Foundation
import LatchkeyProtection
import Testing

/// The transport streams and the packed audio with SAMPLE-AES of `Tests/Corpus`.
enum Corpus {
    struct Track: Sendable, CustomTestStringConvertible {
        var name: String
        var codec: String
        var files: [URL]
        var key: String
        /// Nil: the segment's number.
        var iv: String?
        var elementaryStreamMD5: String
        var expected: URL

        var testDescription: String { name }

        func iv(ofSegment index: Int) -> String {
            let digits = String(index, radix: 16)
            return iv ?? String(repeating: "0", count: 32 - digits.count) + digits
        }

        /// Size and MD5 of each packet, from ffmpeg's `framemd5` format.
        func expectedPackets() throws -> [(size: Int, md5: String)] {
            try String(contentsOf: expected, encoding: .utf8).split(separator: "\n").filter { !$0.hasPrefix("#") }
                .map { line in
                    let fields = line.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
                    return (try #require(Int(fields[4])), fields[5])
                }
        }
    }

    private struct Case: Decodable {
        struct Key: Decodable { var key: String }
        struct Track: Decodable {
            struct Expected: Decodable {
                var packets_framemd5: String?
                var es_md5: String?
            }
            var id: String
            var codec: String?
            var files: [String]
            var expected: Expected?
        }
        var name: String
        var keys: [Key]
        var iv: String?
        var tracks: [Track]
    }

    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Corpus")

    static func read(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: folder.appending(path: path))) }

    static let tracks: [Track] = {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path())) ?? []
        return names.sorted().filter {
            $0.hasPrefix("hls-") && $0.contains("sampleaes") || $0.hasPrefix("hls-ts-sampleaes")
        }
        .flatMap { name -> [Track] in
            guard let data = try? Data(contentsOf: folder.appending(path: "\(name)/case.json")),
                let found = try? JSONDecoder().decode(Case.self, from: data), let key = found.keys.first
            else { return [] }
            return found.tracks.compactMap { track in
                guard let expected = track.expected, let packets = expected.packets_framemd5,
                    let md5 = expected.es_md5, let codec = track.codec
                else { return nil }
                return Track(
                    name: "\(name)/\(track.id)", codec: codec,
                    files: track.files.map { folder.appending(path: "\(name)/\($0)") }, key: key.key, iv: found.iv,
                    elementaryStreamMD5: md5, expected: folder.appending(path: "\(name)/\(packets)"))
            }
        }
    }()

    static func md5(_ bytes: some Collection<UInt8>) throws -> String {
        var digest = [UInt8](repeating: 0, count: 16)
        var size: UInt32 = 0
        let bytes = Array(bytes)
        // SAFETY: MD5 writes 16 bytes.
        try #require(EVP_Digest(bytes, bytes.count, &digest, &size, EVP_md5(), nil) == 1 && size == 16)
        return Hex.encode(digest)
    }
}
