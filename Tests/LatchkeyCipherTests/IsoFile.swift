// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// A small reader of protected ISO media for the corpus: just enough boxes to find the samples and their plans.
///
/// It shares no code with the modules that it helps to test. Bytes that it cannot read throw.
struct IsoFile {
    struct Unreadable: Error, CustomStringConvertible {
        var description: String
    }

    struct Sample {
        var range: Range<Int>
        /// Nil for a sample that is not protected.
        var protection: (kid: KeyID, plan: SamplePlan)?
    }

    struct Box {
        var type: String
        var body: Range<Int>
        /// Of the box with its header.
        var start: Int
    }

    let bytes: [UInt8]
    /// By handler type: `vide` or `soun`. A file of the corpus has at most one track of each.
    private(set) var samples: [String: [Sample]] = [:]

    init(_ bytes: [UInt8]) throws {
        self.bytes = bytes
        let top = try boxes(in: 0..<bytes.count)
        guard let movie = top.first(where: { $0.type == "moov" }) else { throw Unreadable(description: "no moov") }
        var tracks: [IsoTrack] = []
        for box in try boxes(in: movie.body) where box.type == "trak" {
            var track = try IsoTrack(box.body, in: self)
            try track.readExtends(movie.body, in: self)
            samples[track.handler, default: []] += try progressiveSamples(of: track)
            tracks.append(track)
        }
        for fragment in top where fragment.type == "moof" {
            for (handler, added) in try fragmentSamples(fragment, tracks) { samples[handler, default: []] += added }
        }
    }

    func boxes(in range: Range<Int>) throws -> [Box] {
        var boxes: [Box] = []
        var reader = IsoReader(bytes, range)
        while reader.count >= 8 {
            let start = reader.position
            var size = try reader.int(4)
            let type = try reader.text(4)
            if size == 1 { size = try reader.int(8) }
            if size == 0 { size = range.upperBound - start }
            let end = start + size
            guard size >= reader.position - start, end <= range.upperBound else {
                throw Unreadable(description: "box \(type) of \(size) bytes at \(start)")
            }
            boxes.append(Box(type: type, body: reader.position..<end, start: start))
            try reader.skip(end - reader.position)
        }
        return boxes
    }

    /// The first box at a path of types.
    func box(_ path: [String], in range: Range<Int>) throws -> Box? {
        var found: Box?
        var range = range
        for type in path {
            guard let next = try boxes(in: range).first(where: { $0.type == type }) else { return nil }
            found = next
            range = next.body
        }
        return found
    }

    /// A `uuid` box, by its extended type. The body is what follows that.
    func box(uuid: String, in range: Range<Int>) throws -> Range<Int>? {
        for box in try boxes(in: range) where box.type == "uuid" {
            var reader = IsoReader(bytes, box.body)
            if Hex.encode(try reader.bytes(16)) == uuid { return reader.position..<box.body.upperBound }
        }
        return nil
    }
}

/// Reads big-endian numbers; throws at the end.
struct IsoReader {
    private let source: [UInt8]
    private let end: Int
    private(set) var position: Int

    init(_ source: [UInt8], _ range: Range<Int>) {
        self.source = source
        position = range.lowerBound
        end = min(range.upperBound, source.count)
    }

    var count: Int { end - position }

    mutating func bytes(_ count: Int) throws -> [UInt8] {
        guard count >= 0, count <= self.count else {
            throw IsoFile.Unreadable(description: "\(count) bytes wanted at \(position), \(self.count) left")
        }
        defer { position += count }
        return Array(source[position..<position + count])
    }

    mutating func skip(_ count: Int) throws { _ = try bytes(count) }

    mutating func int(_ size: Int) throws -> Int {
        try bytes(size).reduce(0) { $0 << 8 | Int($1) }
    }

    mutating func text(_ size: Int) throws -> String { String(decoding: try bytes(size), as: UTF8.self) }

    /// Version and flags of a full box.
    mutating func versionAndFlags() throws -> (version: Int, flags: Int) { (try int(1), try int(3)) }
}
