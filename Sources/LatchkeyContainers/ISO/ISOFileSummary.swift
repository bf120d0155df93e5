// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// What the `moov` box of a file says of its tracks and of their protection (ISO/IEC 14496-12, 8.2; ISO/IEC 23001-7;
/// PIFF 1.1), without its samples: what there is to know before playback. A value.
public struct ISOFileSummary: Hashable, Sendable {
    /// One `trak` box.
    public struct Track: Hashable, Sendable {
        /// `track_ID`.
        public var id: UInt32
        /// The handler: `vide`, `soun`, `text`, `subt`.
        public var handler: String
        /// Of `mdhd`, as ISO 639-2 spells it; nil for `und` and for none.
        public var language: String?
        /// The four characters of the first sample entry, of an encrypted one as it is in the clear.
        public var codec: String?
        /// Of the first sample entry that is encrypted.
        public var scheme: ProtectionScheme?
        /// Of the sample entries that are encrypted, each once.
        public var keyIDs: [KeyID]
        /// A sample entry or a sample group says that samples are encrypted.
        public var isProtected: Bool
    }

    /// In the order of the file. Of several videos of a PIFF file, only the one that plays.
    public var tracks: [Track]
    /// The initialization data of the protection systems, in the order of the file.
    public var protections: [ISOProtection]

    /// Whether a track is encrypted.
    public var isProtected: Bool { tracks.contains(where: \.isProtected) }

    /// The KIDs of all tracks, each once.
    public var keyIDs: [KeyID] {
        var seen: Set<KeyID> = []
        return tracks.flatMap(\.keyIDs).filter { seen.insert($0).inserted }
    }

    /// Reads a whole `moov` box. Throws as `ISOMovie` does for what cannot be played: `malformed`, `truncated`,
    /// `unsupported`, `tooLarge`.
    public init(movie bytes: [UInt8]) throws(FormatError) {
        guard let moov = try ISOBox.boxes(in: bytes, range: 0..<bytes.count).first, moov.type == "moov" else {
            throw .malformed("no box “moov”")
        }
        var found: [(track: ISOTrack, summary: Track)] = []
        protections = []
        for box in try moov.children(in: bytes) {
            if box.type == "trak" {
                guard found.count < ISOMovie.maximumTracks else {
                    throw .tooLarge("more than \(ISOMovie.maximumTracks) tracks")
                }
                let track = try ISOTrack(box, in: bytes, origin: 0, encryptsPartialBlocks: false)
                found.append((track, try Self.summary(of: track, box, in: bytes)))
            } else if let protection = box.protection(in: bytes, origin: .movie) {
                protections.append(protection)
            }
        }
        let best = ISOMovie.bestVideo(of: found.map(\.track))
        tracks = found.enumerated().compactMap { index, entry in
            best != nil && entry.track.quality != nil && index != best ? nil : entry.summary
        }
    }

    private static func summary(
        of track: ISOTrack, _ trak: ISOBox, in bytes: [UInt8]
    ) throws(FormatError) -> Track {
        var seen: Set<KeyID> = []
        let all = track.entries.compactMap(\.self) + track.groups.descriptions
        var summary = Track(
            id: track.id, handler: "", language: nil, codec: track.codec,
            scheme: all.first(where: \.isProtected)?.scheme,
            keyIDs: all.filter(\.isProtected).compactMap(\.keyID).filter { seen.insert($0).inserted },
            isProtected: track.isProtected)
        for media in try trak.children(in: bytes) where media.type == "mdia" {
            let boxes = try media.children(in: bytes)
            summary.handler = try InitSegment.handler(boxes, in: bytes)
            if let header = boxes.first(where: { $0.type == "mdhd" }) {
                summary.language = try language(of: header, in: bytes)
            }
        }
        return summary
    }

    /// Three letters of five bits each (ISO/IEC 14496-12, 8.4.2).
    private static func language(of mdhd: ISOBox, in bytes: [UInt8]) throws(FormatError) -> String? {
        var (reader, version, _) = try mdhd.fullReader(bytes)
        try reader.skip(version == 0 ? 16 : 28)
        let code = try reader.readUInt16()
        let letters = [code >> 10, code >> 5, code].map { UInt8(truncatingIfNeeded: $0 & 0x1F) + 0x60 }
        guard letters.allSatisfy({ UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 }) else { return nil }
        let text = String(decoding: letters, as: UTF8.self)
        return text == "und" ? nil : text
    }
}

/// Looks for the `moov` box of a file whose parts can be fetched, and reads it. A value: it says what to fetch.
public struct ISOMovieSearch: Sendable {
    /// What comes next.
    public enum Step: Sendable {
        /// Give these bytes to `take`: fewer than `count` only where the file ends before.
        case fetch(offset: UInt64, count: Int)
        case found(ISOFileSummary)
    }

    /// What is fetched where nothing is known yet.
    public static let chunk = 65_536
    /// The most boxes in front of `moov`.
    private static let maximumBoxes = 4096

    private var offset: UInt64 = 0
    private var count = Self.chunk
    private var boxes = 0
    private var isFirst = true

    /// Starts at the beginning of the file.
    public init() {}

    /// The first bytes to fetch.
    public var first: Step { .fetch(offset: 0, count: Self.chunk) }

    /// Takes what the last step asked for. Throws `otherFormat` for what is no ISO media, `malformed` where there is no
    /// `moov`, `tooLarge` beyond what players read, and as `ISOFileSummary` does.
    public mutating func take(_ bytes: [UInt8]) throws(FormatError) -> Step {
        var place = 0
        while place < bytes.count {
            guard let header = try ISOBoxHeader(bytes[place...], at: offset + UInt64(place)) else { break }
            boxes += 1
            guard boxes <= Self.maximumBoxes else { throw .tooLarge("\(boxes) boxes, and no “moov” among them") }
            guard !isFirst || Self.starts.contains(header.type) else {
                throw .otherFormat("no ISO media: it starts with “\(header.type)”")
            }
            isFirst = false
            let start = offset + UInt64(place)
            let end = try header.end(from: start)
            if header.type == "moov" {
                guard let size = header.size, size <= ISOMovie.maximumSize else {
                    throw .tooLarge("box “moov” of \(header.size.map { "\($0) bytes" } ?? "unknown size")")
                }
                let whole = Int(size)
                guard bytes.count - place >= whole else {
                    guard bytes.count == count || offset != start else { throw .truncated("box “moov” at \(start)") }
                    return fetch(start, whole)
                }
                return .found(try ISOFileSummary(movie: Array(bytes[place..<place + whole])))
            }
            guard end < UInt64(Int64.max) else { break }
            guard end <= offset + UInt64(bytes.count) else { return fetch(end, Self.chunk) }
            place = Int(end - offset)
        }
        guard bytes.count == count, place > 0 || bytes.count < 16 else { throw .malformed("no box “moov” in the file") }
        return fetch(offset + UInt64(place), Self.chunk)
    }

    private mutating func fetch(_ offset: UInt64, _ count: Int) -> Step {
        (self.offset, self.count) = (offset, count)
        return .fetch(offset: offset, count: count)
    }

    private static let starts: Set<String> = [
        "ftyp", "styp", "moov", "mdat", "free", "skip", "wide", "pdin", "uuid", "sidx", "prft", "emsg",
    ]
}
