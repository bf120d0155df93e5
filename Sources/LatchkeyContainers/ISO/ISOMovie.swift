// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// What a `moov` box says of encryption: the tracks, the samples of those that are not fragmented, the protection
/// systems, and what to change for a demuxer to take the file for clear.
struct ISOMovie: Sendable {
    /// In bytes.
    static let maximumSize: UInt64 = 48 << 20
    static let maximumTracks = 256
    /// The most samples of all protected tracks together: more than 24 hours of sound have.
    static let maximumSamples = 4 << 20

    private(set) var tracks: [UInt32: ISOTrack] = [:]
    private(set) var table = ISOSampleTable()
    private(set) var patches = ISOPatches()
    private(set) var protections: [ISOProtection] = []

    /// Whether a sample may be encrypted.
    var isProtected: Bool { tracks.values.contains(where: \.isProtected) }

    /// For fragments without a `moov`.
    init(defaults: ISOEncryption) { self.defaults = defaults }

    private var defaults: ISOEncryption?

    /// The track of a fragment; nil if the file has none of that id.
    func track(_ id: UInt32) -> ISOTrack? { tracks[id] ?? defaults.map { ISOTrack(id: id, encryption: $0) } }

    /// Takes over what a fragment tells of those behind it.
    mutating func note(_ fragment: ISOFragment) {
        for id in fragment.mappedTracks { tracks[id]?.hasSubsamples = true }
    }

    /// Reads the `moov` box that starts at `offset` of the file and is all of `bytes`.
    ///
    /// `external` gives bytes of the file from elsewhere, nil where they cannot be had: some producers put IVs beside
    /// the media. Throws `malformed`, `truncated` and `unsupported` with the track and the box, `tooLarge` above the
    /// limits.
    init(
        _ bytes: [UInt8], at offset: UInt64, external: (Range<UInt64>) -> ArraySlice<UInt8>?
    ) throws(FormatError) {
        guard let moov = try ISOBox.boxes(in: bytes, range: 0..<bytes.count).first, moov.type == "moov" else {
            throw .malformed("no box “moov” at \(offset)")
        }
        let boxes = try moov.children(in: bytes)
        let isPartial = boxes.contains { Self.namesProducerOfPartialBlocks($0, in: bytes) }
        var order: [ISOTrack] = []
        var traks: [ISOBox] = []
        var found: [ISOPatch] = []
        for box in boxes {
            if box.type == "trak" {
                guard order.count < Self.maximumTracks else {
                    throw .tooLarge("more than \(Self.maximumTracks) tracks")
                }
                traks.append(box)
                order.append(try ISOTrack(box, in: bytes, origin: offset, encryptsPartialBlocks: isPartial))
            } else if box.type == "pssh" || box.isExtended(ISOExtendedType.protectionSystem, in: bytes) {
                found.append(box.freeing(from: offset))
                if let protection = box.protection(in: bytes, origin: .movie) { protections.append(protection) }
            }
        }
        if let best = Self.bestVideo(of: order) {
            for index in order.indices where order[index].quality != nil && index != best {
                order[index].hide(traks[index], from: offset)
            }
        }
        for track in order { tracks[track.id] = track }
        let usedKeyIDs = Self.keyIDs(of: order)
        for index in protections.indices { protections[index].usedKeyIDs = usedKeyIDs }
        for box in boxes where box.type == "mvex" { try readExtends(box, in: bytes) }
        table.auxiliary = bytes
        var left = Self.maximumSamples
        for track in order {
            found += track.patches
            try readSamples(of: track, in: bytes, offset: offset, left: &left, external: external)
        }
        patches = ISOPatches(found)
        try table.sort(place: "box “moov”")
        for id in tracks.keys { tracks[id]?.tables = [] }
    }

    private static func keyIDs(of tracks: [ISOTrack]) -> [KeyID] {
        var seen: Set<KeyID> = []
        return tracks.flatMap { $0.entries.compactMap(\.self) + $0.groups.descriptions }
            .filter(\.isProtected).compactMap(\.keyID).filter { seen.insert($0).inserted }
    }

    /// The video of a PIFF file that is to play, where there are several: files for Smooth Streaming hold one presentation
    /// at several bit rates, and a player of the file alone shows the highest. The first of equals.
    static func bestVideo(of tracks: [ISOTrack]) -> Int? {
        let videos = tracks.indices.filter { tracks[$0].quality != nil }
        guard videos.count > 1, videos.allSatisfy({ tracks[$0].isPIFF }), var best = videos.first else { return nil }
        for index in videos.dropFirst() {
            if let quality = tracks[index].quality, let highest = tracks[best].quality, highest < quality {
                best = index
            }
        }
        return best
    }

    /// GPAC encrypts the partial block at the end of `cens` samples without subsamples, which others leave clear as
    /// ISO/IEC 23001-7, 9.7 says. Nothing else in its files tells.
    private static func namesProducerOfPartialBlocks(_ box: ISOBox, in bytes: [UInt8]) -> Bool {
        guard box.type == "udta" else { return false }
        let name = Array("GPAC".utf8)
        return bytes[box.body].prefix(4096).split(separator: name[0], omittingEmptySubsequences: false)
            .dropFirst().contains { $0.starts(with: name.dropFirst()) }
    }

    private mutating func readExtends(_ mvex: ISOBox, in bytes: [UInt8]) throws(FormatError) {
        for box in try mvex.children(in: bytes) where box.type == "trex" {
            var (reader, _, _) = try box.fullReader(bytes)
            let id = try reader.readUInt32()
            try tracks[id]?.readExtends(&reader)
        }
    }

    private mutating func readSamples(
        of track: ISOTrack, in bytes: [UInt8], offset: UInt64, left: inout Int,
        external: (Range<UInt64>) -> ArraySlice<UInt8>?
    ) throws(FormatError) {
        guard !track.isHidden else { return }
        let information = try ISOAuxiliaryInformation(track.tables, in: bytes)
        guard track.isProtected || information.filledBox != nil else { return }
        var layout = ISOSampleLayout(
            entries: track.entries, groups: track.groups, trackGroups: track.groups.descriptions,
            encryptions: table.encryptions, limit: left, total: Self.maximumSamples, place: "track \(track.id)")
        try ISOChunks(track.tables, in: bytes).place(into: &layout)
        guard !layout.samples.isEmpty else { return }
        left -= layout.samples.count
        try information.join(
            layout, into: &table, box: offset..<offset + UInt64(bytes.count), bases: [0, offset], external: external)
    }
}

/// The sample tables of a track that is not fragmented: `stsz` or `stz2`, `stsc`, `stco` or `co64`
/// (ISO/IEC 14496-12, 8.7.3 to 8.7.5).
struct ISOChunks {
    private var commonSize: UInt32 = 0
    private var sampleCount: UInt32 = 0
    /// Bits of a size in `sizes`.
    private var sizeBits = 32
    private var sizes = ISORows.none
    /// `UInt32 first_chunk, UInt32 samples_per_chunk, UInt32 sample_description_index` each.
    private var toChunks = ISORows.none
    private var offsets = ISORows.none
    private var hasLongOffsets = false

    init(_ boxes: [ISOBox], in bytes: [UInt8]) throws(FormatError) {
        for box in boxes {
            guard ["stsz", "stz2", "stsc", "stco", "co64"].contains(box.type) else { continue }
            var (reader, _, _) = try box.fullReader(bytes)
            switch box.type {
            case "stsz":
                commonSize = try reader.readUInt32()
                sampleCount = try reader.readUInt32()
                if commonSize == 0 { sizes = try ISORows(&reader, count: sampleCount, stride: 4) }
            case "stz2":
                try reader.skip(3)
                sizeBits = Int(try reader.readUInt8())
                sampleCount = try reader.readUInt32()
                switch sizeBits {
                case 4: sizes = try ISORows(&reader, count: sampleCount / 2 + sampleCount % 2, stride: 1)
                case 8, 16: sizes = try ISORows(&reader, count: sampleCount, stride: sizeBits / 8)
                default: throw .malformed("\(reader.place): sizes of \(sizeBits) bits")
                }
            case "stsc": toChunks = try ISORows(&reader, count: try reader.readUInt32(), stride: 12)
            default:
                hasLongOffsets = box.type == "co64"
                offsets = try ISORows(&reader, count: try reader.readUInt32(), stride: hasLongOffsets ? 8 : 4)
            }
        }
    }

    /// Adds the samples to `layout`, each chunk a run.
    func place(into layout: inout ISOSampleLayout) throws(FormatError) {
        guard sampleCount > 0, offsets.count > 0, toChunks.count > 0 else { return }
        try layout.reserve(Int(sampleCount))
        var sample = 0
        var row = 0
        for chunk in 0..<offsets.count {
            guard sample < Int(sampleCount) else { return }
            // Chunks count from 1.
            while row + 1 < toChunks.count, Int(toChunks.uint32(row + 1)) <= chunk + 1 { row += 1 }
            layout.startRun()
            var position = hasLongOffsets ? offsets.uint64(chunk) : UInt64(offsets.uint32(chunk))
            let entry = toChunks.uint32(row, 8)
            let last = min(Int(sampleCount), sample + Int(toChunks.uint32(row, 4)))
            while sample < last {
                let size = size(of: sample)
                try layout.append(offset: position, size: size, entry: entry)
                position += UInt64(size)
                sample += 1
            }
        }
    }

    private func size(of sample: Int) -> UInt32 {
        guard commonSize == 0 else { return commonSize }
        return switch sizeBits {
        case 4: UInt32(sample % 2 == 0 ? sizes.uint8(sample / 2) >> 4 : sizes.uint8(sample / 2) & 15)
        case 8: UInt32(sizes.uint8(sample))
        case 16: UInt32(sizes.uint16(sample))
        default: sizes.uint32(sample)
        }
    }
}
