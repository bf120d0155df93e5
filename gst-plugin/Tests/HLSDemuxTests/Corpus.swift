// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyKeySession

/// A case of the corpus: media with known answers. Its README tells what each file is.
struct CorpusCase {
    struct Track: Decodable {
        struct Expected: Decodable {
            let packets_framemd5: String?
            let frames_framemd5: String?
        }

        let id: String
        let type: String
        let expected: Expected?
        fileprivate let keys: [Key]?
    }

    fileprivate struct Key: Decodable {
        let kid: String?
        let key: String
    }

    private struct Fields: Decodable {
        let keys: [Key]?
        let tracks: [Track]
    }

    static let all = URL(fileURLWithPath: #filePath)
        .appendingPathComponent("../../../../Tests/Corpus").standardizedFileURL

    let folder: URL
    let tracks: [Track]
    /// A keys file with what the case knows by KID.
    let keys: StaticKeys

    init(_ name: String) throws {
        folder = Self.all.appendingPathComponent(name)
        let fields = try JSONDecoder().decode(
            Fields.self, from: Data(contentsOf: folder.appendingPathComponent("case.json")))
        tracks = fields.tracks
        // Where keys rotate, the tracks name them all.
        let known = (fields.keys ?? []) + fields.tracks.flatMap { $0.keys ?? [] }
        var lines = known.compactMap { key in
            key.kid.flatMap { $0.isEmpty ? nil : "\($0) \(key.key)\n" }
        }
        lines = Set(lines).sorted()
        keys = try StaticKeys.parse(file: Array(lines.joined().utf8), name: "keys")
    }

    /// The playlist to start with.
    var entry: String {
        let names = ["master.m3u8", "stream.m3u8"]
        return names.first { FileManager.default.fileExists(atPath: folder.appendingPathComponent($0).path) } ?? ""
    }

    func bytes(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: folder.appendingPathComponent(name))) }

    /// The MD5 sums of a track's packets, in order.
    func packets(_ type: String) throws -> [String] {
        try sums(tracks.first { $0.type == type }?.expected?.packets_framemd5)
    }

    /// The MD5 sums of a track's decoded frames, in order.
    func frames(_ type: String) throws -> [String] {
        try sums(tracks.first { $0.type == type }?.expected?.frames_framemd5)
    }

    private func sums(_ name: String?) throws -> [String] {
        guard let name else { return [] }
        let text = try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
        return text.split(separator: "\n").filter { !$0.hasPrefix("#") }.compactMap { line in
            let fields = line.split(separator: ",")
            return fields.count > 5 ? fields[5].trimmingCharacters(in: .whitespaces) : nil
        }
    }
}
