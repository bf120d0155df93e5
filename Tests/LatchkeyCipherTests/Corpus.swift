// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import Foundation
import LatchkeyProtection
import Testing

/// The MP4 tracks of `Tests/Corpus` with a scheme of common encryption (or PIFF, which has the same ciphers).
enum Corpus {
    struct Track: Sendable, CustomTestStringConvertible {
        var name: String
        var handler: String
        var files: [URL]
        var keys: [KeyID: String]
        var expected: URL
        /// How many packets differ while they are still encrypted.
        var encrypted: Int?

        var testDescription: String { name }

        /// The bytes of all files in a row: an initialization segment and its media segments are one file then.
        func bytes() throws -> [UInt8] { try files.flatMap { Array(try Data(contentsOf: $0)) } }

        /// Size and MD5 of each packet, from ffmpeg's `framemd5` format.
        func expectedPackets() throws -> [Packet] {
            try String(contentsOf: expected, encoding: .utf8).split(separator: "\n").filter { !$0.hasPrefix("#") }
                .map { line in
                    let fields = line.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
                    return Packet(size: try #require(Int(fields[4])), md5: fields[5])
                }
        }
    }

    struct Packet: Hashable {
        var size: Int
        var md5: String
    }

    private struct Case: Decodable {
        struct Key: Decodable {
            var kid: String
            var key: String
        }
        struct Track: Decodable {
            struct Expected: Decodable {
                var packets_framemd5: String?
                var packets_that_differ_without_a_key: Int?
            }
            var id: String
            var type: String
            var container: String
            var files: [String]
            var keys: [Key]?
            var expected: Expected?
        }
        var name: String
        var scheme: String
        var keys: [Key]?
        var tracks: [Track]?
    }

    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Corpus")

    private static let schemes: Set<String> = [
        "cenc", "cens", "cbc1", "cbcs", "MPEG-CENC", "MPEG-CBC1", "MPEG-CBCS", "PIFF-CTR", "PIFF-CBC",
    ]

    static let tracks: [Track] = {
        let folders = (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
        return folders.sorted { $0.path() < $1.path() }.flatMap { folder -> [Track] in
            guard let data = try? Data(contentsOf: folder.appending(path: "case.json")),
                let found = try? JSONDecoder().decode(Case.self, from: data), schemes.contains(found.scheme)
            else { return [] }
            return (found.tracks ?? []).compactMap { track in
                guard track.container == "mp4", let expected = track.expected, let packets = expected.packets_framemd5
                else { return nil }
                let keys = (track.keys ?? found.keys ?? []).compactMap { key in
                    KeyID(hex: key.kid).map { ($0, key.key) }
                }
                return Track(
                    name: "\(found.name)/\(track.id)", handler: track.type == "audio" ? "soun" : "vide",
                    files: track.files.map { folder.appending(path: $0) },
                    keys: Dictionary(keys, uniquingKeysWith: { first, _ in first }),
                    expected: folder.appending(path: packets), encrypted: expected.packets_that_differ_without_a_key)
            }
        }
    }()

    static func md5(_ bytes: UnsafeRawBufferPointer) throws -> String {
        var digest = [UInt8](repeating: 0, count: 16)
        var size: UInt32 = 0
        // SAFETY: MD5 writes 16 bytes.
        try #require(EVP_Digest(bytes.baseAddress, bytes.count, &digest, &size, EVP_md5(), nil) == 1 && size == 16)
        return Hex.encode(digest)
    }
}
