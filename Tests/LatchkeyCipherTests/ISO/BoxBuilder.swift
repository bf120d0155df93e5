// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Boxes by hand, for files that no tool writes.
enum BoxBuilder {
    static func box(_ type: String, _ parts: [UInt8]...) -> [UInt8] {
        let body = parts.flatMap(\.self)
        return number(body.count + 8, 4) + Array(type.utf8) + body
    }

    static func full(_ type: String, version: UInt8 = 0, flags: Int = 0, _ parts: [UInt8]...) -> [UInt8] {
        box(type, [version] + number(flags, 3) + parts.flatMap(\.self))
    }

    static func number(_ value: Int, _ size: Int) -> [UInt8] {
        (0..<size).map { UInt8(truncatingIfNeeded: value >> (8 * (size - 1 - $0))) }
    }

    static let keyID: [UInt8] = Array(0x10...0x1F)

    static func tenc(vectorSize: Int = 8, isProtected: Bool = true, keyID: [UInt8] = keyID) -> [UInt8] {
        full("tenc", number(0, 2) + [isProtected ? 1 : 0, UInt8(vectorSize)] + keyID)
    }

    /// A track with one protected sample entry and these boxes behind its `stsd`. `front` and `end`: stand around its `sinf`.
    static func track(
        _ id: Int = 1, scheme: String = "cenc", tenc: [UInt8] = tenc(), table: [[UInt8]] = [], isSound: Bool = false,
        front: [UInt8] = [], end: [UInt8] = []
    ) -> [UInt8] {
        let sinf = front + protection(of: isSound ? "mp4a" : "avc1", scheme: scheme, tenc: tenc) + end
        let entry = box(isSound ? "enca" : "encv", [UInt8](repeating: 0, count: isSound ? 28 : 78), sinf)
        return track(id, entry: entry, table: table, handler: isSound ? "soun" : "vide")
    }

    /// A track whose sample entry says nothing of encryption.
    static func clearTrack(_ id: Int, table: [[UInt8]] = [], end: [UInt8] = []) -> [UInt8] {
        track(id, entry: box("avc1", [UInt8](repeating: 0, count: 78), end), table: table, handler: "vide")
    }

    /// As `track(_:)`, of text, whose sample entry has these fields behind those that all have.
    static func textTrack(_ format: String, fields: [UInt8], in entry: String = "enct") -> [UInt8] {
        track(
            1, entry: box(entry, number(1, 8), fields, protection(of: format, scheme: "cenc", tenc: tenc())),
            table: [],
            handler: "text")
    }

    /// `sinf`
    static func protection(of format: String, scheme: String, tenc: [UInt8]) -> [UInt8] {
        box(
            "sinf", box("frma", Array(format.utf8)), full("schm", Array(scheme.utf8) + number(0x10000, 4)),
            box("schi", tenc))
    }

    private static func track(_ id: Int, entry: [UInt8], table: [[UInt8]], handler: String) -> [UInt8] {
        let stbl = box("stbl", full("stsd", number(1, 4), entry), table.flatMap(\.self))
        return box(
            "trak", full("tkhd", number(0, 8) + number(id, 4)),
            box(
                "mdia", full("hdlr", number(0, 4) + Array(handler.utf8)), box("minf", stbl)))
    }

    static let trackExtends = box("mvex", full("trex", number(1, 4) + number(1, 4) + number(0, 12)))

    static func movie(_ track: [UInt8] = track()) -> [UInt8] {
        box("ftyp", Array("isom".utf8) + number(0, 4)) + box("moov", track, trackExtends)
    }

    /// A fragment of one track; `boxes` are given where `moof` ends, in bytes from its start.
    static func fragment(_ boxes: (_ size: Int) -> [[UInt8]]) -> [UInt8] {
        func make(_ size: Int) -> [UInt8] {
            box("moof", full("mfhd", number(1, 4)), box("traf", boxes(size).flatMap(\.self)))
        }
        return make(make(0).count)
    }

    static func tfhd(_ id: Int = 1, base: Int? = nil) -> [UInt8] {
        full("tfhd", flags: base == nil ? 0x20000 : 1, number(id, 4) + (base.map { number($0, 8) } ?? []))
    }

    static func trun(offset: Int, sizes: [Int]) -> [UInt8] {
        full("trun", flags: 0x201, number(sizes.count, 4) + number(offset, 4) + sizes.flatMap { number($0, 4) })
    }
}
