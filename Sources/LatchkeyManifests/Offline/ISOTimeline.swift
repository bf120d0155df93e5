// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// A box at the top level of a file that is not there as a whole (ISO/IEC 14496-12, 4.2).
public struct ISOTopLevelBox: Hashable, Sendable {
    /// The most bytes of a header that are needed.
    public static let headerSize = ISOBoxHeader.maximumSize

    /// Four characters; one outside printable ASCII is `.`.
    public let type: String
    /// In the file, with the header.
    public let range: Range<UInt64>

    /// Reads the header at `offset` of a file of `size` bytes. Throws `truncated` where it, or the box, goes past the end,
    /// and `malformed`.
    public init(_ bytes: [UInt8], at offset: UInt64, ofFileWith size: UInt64) throws(FormatError) {
        guard let header = try ISOBoxHeader(bytes[...], at: offset) else {
            throw .truncated("the file ends within the header of a box at \(offset)")
        }
        type = header.type
        let end = header.size == nil ? size : try header.end(from: offset)
        guard offset < end, end <= size else {
            throw .truncated("box “\(header.type)” at \(offset) ends at \(end), and the file at \(size)")
        }
        range = offset..<end
    }
}

/// When the fragments of a file play: of `moov`, the time scales and the whole duration; of each `moof`, its times
/// (ISO/IEC 14496-12, 8.8; `tfxd` of [MS-SSTR], 2.2.4.4). A value.
public struct ISOTimeline: Sendable {
    /// In bytes, of a `moov` or `moof` box that is read.
    public static let maximumBoxSize: UInt64 = 64 << 20
    /// The most `traf` boxes of a fragment.
    private static let maximumTracks = 256

    /// What a fragment has of one track.
    public struct Part: Hashable, Sendable {
        /// `track_ID`.
        public var track: UInt32
        /// From the start of the file.
        public var begin: Duration
        /// How long it plays.
        public var duration: Duration
    }

    private struct Track {
        var scale: UInt32 = 0
        var handler = ""
        var defaultDuration: UInt32 = 0
        /// Where the last fragment ended.
        var end: UInt64 = 0
    }

    private var tracks: [UInt32: Track] = [:]
    /// When the first fragment plays, by its own word.
    private var origin: Duration?
    /// Of the file; nil where it does not tell.
    public private(set) var duration: Duration?
    /// Whether the samples are in fragments, behind `moov`.
    public private(set) var isFragmented = false

    /// Whether `moov` has a track of video or sound.
    public var hasMedia: Bool { tracks.values.contains { Self.handlers.contains($0.handler) } }

    private static let handlers = ["vide", "soun"]
    private static let fragmentTimes: [UInt8] = [
        0x6D, 0x1D, 0x9B, 0x05, 0x42, 0xD5, 0x44, 0xE6, 0x80, 0xE2, 0x14, 0x1D, 0xAF, 0xF7, 0x57, 0xB2,
    ]

    /// Reads a whole `moov` box. Throws `malformed`, `truncated`, `tooLarge` and, if QuickTime has compressed it, `unsupported`.
    public init(movie bytes: [UInt8]) throws(FormatError) {
        guard let moov = try ISOBox.boxes(in: bytes, range: 0..<bytes.count).first, moov.type == "moov" else {
            throw .malformed("no box “moov”")
        }
        var scale: UInt32 = 0
        var ticks: UInt64 = 0
        let boxes = try moov.children(in: bytes)
        for box in boxes {
            switch box.type {
            case "mvhd": (scale, ticks) = try Self.header(box, in: bytes)
            case "trak": try readTrack(box, in: bytes)
            case "cmov": throw .unsupported("its box “moov” is compressed (“cmov” of QuickTime)")
            default: break
            }
        }
        for box in boxes where box.type == "mvex" {
            isFragmented = true
            for child in try box.children(in: bytes) {
                var (reader, version, _) = try child.fullReader(bytes)
                if child.type == "mehd" {
                    ticks = version == 1 ? try reader.readUInt64() : UInt64(try reader.readUInt32())
                } else if child.type == "trex" {
                    let id = try reader.readUInt32()
                    try reader.skip(4)
                    tracks[id]?.defaultDuration = try reader.readUInt32()
                }
            }
        }
        // All ones: not known.
        if ticks > 0, ticks != UInt64(UInt32.max), ticks != .max { duration = Duration(ticks: ticks, scale: scale) }
    }

    /// `mvhd` and `mdhd` have the same start.
    private static func header(_ box: ISOBox, in bytes: [UInt8]) throws(FormatError) -> (UInt32, UInt64) {
        var (reader, version, _) = try box.fullReader(bytes)
        try reader.skip(version == 1 ? 16 : 8)
        let scale = try reader.readUInt32()
        return (scale, version == 1 ? try reader.readUInt64() : UInt64(try reader.readUInt32()))
    }

    private mutating func readTrack(_ trak: ISOBox, in bytes: [UInt8]) throws(FormatError) {
        guard tracks.count < Self.maximumTracks else { throw .tooLarge("more than \(Self.maximumTracks) tracks") }
        var (id, track) = (UInt32(0), Track())
        for box in try trak.children(in: bytes) {
            if box.type == "tkhd" {
                var (reader, version, _) = try box.fullReader(bytes)
                try reader.skip(version == 1 ? 16 : 8)
                id = try reader.readUInt32()
            } else if box.type == "mdia" {
                let boxes = try box.children(in: bytes)
                track.handler = try InitSegment.handler(boxes, in: bytes)
                if let header = boxes.first(where: { $0.type == "mdhd" }) {
                    track.scale = try Self.header(header, in: bytes).0
                }
            }
        }
        tracks[id] = track
    }

    /// Reads a whole `moof` box: what it has of video and sound. Throws `malformed`, `truncated` and `tooLarge`.
    public mutating func take(fragment bytes: [UInt8]) throws(FormatError) -> [Part] {
        guard let moof = try ISOBox.boxes(in: bytes, range: 0..<bytes.count).first, moof.type == "moof" else {
            throw .malformed("no box “moof”")
        }
        var parts: [Part] = []
        for box in try moof.children(in: bytes) where box.type == "traf" {
            guard parts.count < Self.maximumTracks else {
                throw .tooLarge("more than \(Self.maximumTracks) “traf” boxes")
            }
            if let part = try read(box, in: bytes) { parts.append(part) }
        }
        return parts
    }

    private mutating func read(_ traf: ISOBox, in bytes: [UInt8]) throws(FormatError) -> Part? {
        let boxes = try traf.children(in: bytes)
        guard let tfhd = boxes.first(where: { $0.type == "tfhd" }) else {
            throw .malformed("box “traf” without “tfhd”")
        }
        var (reader, _, flags) = try tfhd.fullReader(bytes)
        let id = try reader.readUInt32()
        guard var track = tracks[id], Self.handlers.contains(track.handler) else { return nil }
        if flags & 0x1 != 0 { try reader.skip(8) }
        if flags & 0x2 != 0 { try reader.skip(4) }
        let sampleDuration = flags & 0x8 != 0 ? try reader.readUInt32() : track.defaultDuration
        var (begin, duration) = (track.end, UInt64(0))
        for box in boxes {
            if box.type == "tfdt" {
                var (reader, version, _) = try box.fullReader(bytes)
                begin = version == 1 ? try reader.readUInt64() : UInt64(try reader.readUInt32())
            } else if box.type == "trun" {
                duration = duration.addingReportingOverflow(try Self.run(box, in: bytes, sampleDuration)).partialValue
            }
        }
        // What Smooth Streaming's own box says counts first: its fragments may have no other.
        for box in boxes where box.isExtended(Self.fragmentTimes, in: bytes) {
            var reader = box.reader(bytes)
            try reader.skip(16)
            let isLong = try reader.readUInt32() >> 24 == 1
            begin = isLong ? try reader.readUInt64() : UInt64(try reader.readUInt32())
            duration = isLong ? try reader.readUInt64() : UInt64(try reader.readUInt32())
        }
        let (end, overflow) = begin.addingReportingOverflow(duration)
        guard !overflow, let start = Duration(ticks: begin, scale: track.scale),
            let length = Duration(ticks: duration, scale: track.scale)
        else { throw .malformed("a fragment of track \(id) at \(begin), of \(duration)") }
        track.end = end
        tracks[id] = track
        // What was taken from a live stream begins anywhere.
        let origin = origin ?? start
        self.origin = origin
        return Part(track: id, begin: max(start - origin, .zero), duration: length)
    }

    private static func run(
        _ trun: ISOBox, in bytes: [UInt8], _ sampleDuration: UInt32
    ) throws(FormatError) -> UInt64 {
        var (reader, _, flags) = try trun.fullReader(bytes)
        let count = try reader.readUInt32()
        guard flags & 0x100 != 0 else { return UInt64(count) * UInt64(sampleDuration) }
        if flags & 0x1 != 0 { try reader.skip(4) }
        if flags & 0x4 != 0 { try reader.skip(4) }
        let stride = [0x100, 0x200, 0x400, 0x800].count { flags & $0 != 0 } * 4
        let rows = try ISORows(&reader, count: count, stride: stride)
        return (0..<rows.count).reduce(0) { $0 + UInt64(rows.uint32($1, 0)) }
    }
}

/// Where the parts of a file of fragments are, and when they play (`sidx`; ISO/IEC 14496-12, 8.16.3). A value.
public struct ISOSegmentIndex: Hashable, Sendable {
    /// In the order of the file.
    public struct Part: Hashable, Sendable {
        /// From the end of the box, in bytes.
        public var offset: UInt64
        /// In bytes.
        public var size: UInt64
        /// Of the presentation, from the first part on.
        public var begin: Duration
        /// How long it plays.
        public var duration: Duration
    }

    public private(set) var parts: [Part] = []

    /// Reads the box that stands first in `bytes`. Throws `malformed`, `truncated`, and `unsupported` for an index of
    /// indices.
    public init(_ bytes: [UInt8]) throws(FormatError) {
        guard let box = try ISOBox.boxes(in: bytes, range: 0..<bytes.count).first, box.type == "sidx" else {
            throw .malformed("no box “sidx”")
        }
        var (reader, version, _) = try box.fullReader(bytes)
        try reader.skip(4)
        let scale = try reader.readUInt32()
        var offset: UInt64
        if version == 0 {
            try reader.skip(4)
            offset = UInt64(try reader.readUInt32())
        } else {
            try reader.skip(8)
            offset = try reader.readUInt64()
        }
        try reader.skip(2)
        var ticks: UInt64 = 0
        for _ in 0..<(try reader.readUInt16()) {
            let reference = try reader.readUInt32()
            guard reference >> 31 == 0 else { throw .unsupported("a “sidx” that leads to others") }
            let duration = UInt64(try reader.readUInt32())
            try reader.skip(4)
            let size = UInt64(reference)
            guard let begin = Duration(ticks: ticks, scale: scale),
                let length = Duration(ticks: duration, scale: scale),
                !offset.addingReportingOverflow(size).overflow
            else { throw .malformed("box “sidx”: a part at \(ticks), of \(duration)") }
            parts.append(Part(offset: offset, size: size, begin: begin, duration: length))
            offset += size
            ticks += duration
        }
    }
}

extension Duration {
    /// `ticks` of which `scale` make a second; nil for times that no presentation has, of 2^40 seconds and more.
    package init?(ticks: UInt64, scale: UInt32) {
        guard scale > 0 else { return nil }
        let (seconds, rest) = ticks.quotientAndRemainder(dividingBy: UInt64(scale))
        guard seconds < 1 << 40 else { return nil }
        self = .seconds(Int64(seconds)) + .microseconds(Int64(rest * 1_000_000 / UInt64(scale)))
    }
}
