// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A media initialization section: `ftyp` and `moov` of fragmented MP4 (RFC 8216, 3.3), and its rewriting.
///
/// HLS names keys in the playlist and not in the media. For a demuxer to see them, the section gets `pssh` boxes and,
/// where it has others, the KIDs that stand for the playlist's keys.
public struct InitSegment: Sendable {
    /// The largest section that is read, in bytes.
    public static let maximumSize = 16 * 1024 * 1024
    /// The most tracks that are read.
    public static let maximumTracks = 256
    /// The most sample entries of one track that are read.
    public static let maximumEntries = 256

    /// One `trak` box.
    public struct Track: Hashable, Sendable {
        /// `track_ID` of `tkhd` (ISO/IEC 14496-12, 8.3.2); 0 where the box is missing.
        public var id: UInt32
        /// The handler: `vide`, `soun`, `text`, `subt`.
        public var handler: String
        /// The types of the sample entries: `avc1`, `encv`.
        public var formats: [String]
        /// Of each sample entry that has one.
        public var encryptions: [TrackEncryption]

        /// Whether a sample entry says that samples are encrypted.
        public var isProtected: Bool { encryptions.contains(where: \.isProtected) }
        /// Of the first sample entry that has one.
        public var encryption: TrackEncryption? { encryptions.first }
    }

    /// The section as it came, unchanged.
    public let bytes: [UInt8]
    /// In the order of `moov`.
    public let tracks: [Track]
    /// The boxes of `moov` that can be read.
    public let protectionBoxes: [PSSHBox]

    /// Reads a section. What stands beside `moov` is kept and not looked into.
    ///
    /// Throws `malformed` or `truncated` where the boxes are broken or there is no `moov`, `tooLarge` above the limits,
    /// and `unsupported` for a section that has samples, because the places of those would move.
    public init(_ bytes: [UInt8]) throws(FormatError) {
        guard bytes.count <= Self.maximumSize else {
            throw .tooLarge("an initialization section of \(bytes.count) bytes; \(Self.maximumSize) are read")
        }
        self.bytes = bytes
        var tracks: [Track] = []
        var protectionBoxes: [PSSHBox] = []
        for box in try Self.movie(in: bytes) {
            switch box.type {
            case "trak":
                guard tracks.count < Self.maximumTracks else {
                    throw .tooLarge("an initialization section of more than \(Self.maximumTracks) tracks")
                }
                tracks.append(try Self.track(box, in: bytes))
            case "pssh":
                protectionBoxes += PSSHBox.readableBoxes(in: bytes[box.range])
            default: break
            }
        }
        self.tracks = tracks
        self.protectionBoxes = protectionBoxes
    }

    /// Throws where bytes that no key is for are no initialization section: none at all, or those of fragmented MP4 without a
    /// whole moov box. Another format's, such as WebVTT's, is not looked into.
    public static func check(_ bytes: [UInt8]) throws(FormatError) {
        guard !bytes.isEmpty else { throw .malformed("an initialization section without a byte") }
        guard ["ftyp", "styp", "moov"].contains(where: { bytes.dropFirst(4).starts(with: $0.utf8) }) else { return }
        _ = try movie(in: bytes)
    }

    /// The boxes in the moov box.
    private static func movie(in bytes: [UInt8]) throws(FormatError) -> [ISOBox] {
        guard let moov = try ISOBox.boxes(in: bytes, range: 0..<bytes.count).first(where: { $0.type == "moov" }) else {
            throw .malformed("an initialization section without a moov box")
        }
        return try moov.children(in: bytes)
    }

    /// The KIDs of the tracks that are protected, each once, in order.
    public var keyIDs: [KeyID] {
        var seen: Set<KeyID> = []
        return tracks.flatMap(\.encryptions).filter(\.isProtected).map(\.keyID).filter { seen.insert($0).inserted }
    }

    private static func track(_ trak: ISOBox, in bytes: [UInt8]) throws(FormatError) -> Track {
        var track = Track(id: 0, handler: "", formats: [], encryptions: [])
        for box in try trak.children(in: bytes) {
            if box.type == "tkhd" {
                var reader = box.reader(bytes)
                let version = try reader.readUInt8()
                try reader.skip(version == 0 ? 11 : 19)
                track.id = try reader.readUInt32()
            }
            guard box.type == "mdia" else { continue }
            let media = try box.children(in: bytes)
            track.handler = try Self.handler(media, in: bytes)
            for entry in try Self.sampleEntries(media, in: bytes) {
                track.formats.append(entry.box.type)
                for child in try entry.children(in: bytes) where child.type == "sinf" {
                    if let encryption = try TrackEncryption(child, in: bytes) { track.encryptions.append(encryption) }
                }
            }
        }
        return track
    }

    package static func handler(_ media: [ISOBox], in bytes: [UInt8]) throws(FormatError) -> String {
        var reader = media.first { $0.type == "hdlr" }?.reader(bytes)
        try reader?.skip(8)
        return try reader?.readFourCC() ?? ""
    }

    private static func sampleEntries(_ media: [ISOBox], in bytes: [UInt8]) throws(FormatError) -> [SampleEntry] {
        var entries: [SampleEntry] = []
        for information in media where information.type == "minf" {
            for table in try information.children(in: bytes) where table.type == "stbl" {
                for box in try table.children(in: bytes) {
                    if box.type == "stsd" { entries += try SampleEntry.entries(of: box, in: bytes) }
                    guard box.type == "stco" || box.type == "co64" else { continue }
                    var reader = box.reader(bytes)
                    try reader.skip(4)
                    guard try reader.readUInt32() == 0 else {
                        throw .unsupported("an initialization section with samples of its own")
                    }
                }
            }
        }
        return entries
    }
}

/// One sample entry of an `stsd` box (ISO/IEC 14496-12, 8.5.2).
struct SampleEntry {
    let box: ISOBox
    /// What stands in front of the boxes of the entry, behind its header.
    let fieldSize: Int

    static func entries(of stsd: ISOBox, in bytes: [UInt8]) throws(FormatError) -> [SampleEntry] {
        var reader = stsd.reader(bytes)
        let version = try reader.readUInt8()
        let boxes = try stsd.children(in: bytes, skipping: 8)
        guard boxes.count <= InitSegment.maximumEntries else {
            throw .tooLarge("more than \(InitSegment.maximumEntries) sample entries of a track")
        }
        return boxes.map { SampleEntry(box: $0, fieldSize: fieldSize(of: $0, in: bytes, version: version)) }
    }

    func children(in bytes: [UInt8]) throws(FormatError) -> [ISOBox] {
        guard fieldSize <= box.body.count else { return [] }
        // QuickTime ends a list of boxes with four zero bytes, and some entries have other data there.
        let isPlain = !["encv", "enca", "enct", "encs"].contains(box.type)
        if isPlain { return (try? box.children(in: bytes, skipping: fieldSize)) ?? [] }
        return try box.children(in: bytes, skipping: fieldSize)
    }

    private static func fieldSize(of box: ISOBox, in bytes: [UInt8], version: UInt8) -> Int {
        switch box.type {
        case "encv": return 78
        case "enca":
            var reader = box.reader(bytes)
            guard version == 0, (try? reader.skip(8)) != nil, let sound = try? reader.readUInt16() else { return 28 }
            // QuickTime's longer forms; in ISO media they stand in an stsd of version 1, without more fields.
            return sound == 1 ? 44 : sound == 2 ? 64 : 28
        default: return 8
        }
    }
}
