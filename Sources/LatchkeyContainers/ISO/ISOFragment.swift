// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// What a `moof` box says of encryption (ISO/IEC 14496-12, 8.8; ISO/IEC 23001-7; PIFF 1.1): the encrypted samples, the
/// protection systems, and what to change for a demuxer to take them for clear.
struct ISOFragment: Sendable {
    /// In bytes.
    static let maximumSize: UInt64 = 16 << 20
    /// The most samples of all tracks together: ffmpeg may put all sound of a file into one fragment.
    static let maximumSamples = 1 << 19
    static let maximumTracks = 256

    private(set) var table = ISOSampleTable()
    private(set) var patches = ISOPatches()
    private(set) var protections: [ISOProtection] = []
    /// A demuxer must see nothing of it: it is of hidden tracks alone.
    private(set) var isHidden = false
    /// The tracks whose encrypted pictures have subsamples.
    private(set) var mappedTracks: Set<UInt32> = []

    /// Reads the `moof` box that starts at `offset` of the file and is all of `bytes`. For the rest as `ISOMovie`.
    init(
        _ bytes: [UInt8], at offset: UInt64, of movie: ISOMovie, external: (Range<UInt64>) -> ArraySlice<UInt8>?
    ) throws(FormatError) {
        guard let moof = try ISOBox.boxes(in: bytes, range: 0..<bytes.count).first, moof.type == "moof" else {
            throw .malformed("no box “moof” at \(offset)")
        }
        table.auxiliary = bytes
        // Where the data of the track before ends: a track without a base starts there (8.8.7.1). Nil in front of all data.
        var dataEnd: UInt64?
        var left = Self.maximumSamples
        var (trackCount, hiddenCount) = (0, 0)
        var found: [ISOPatch] = []
        let boxes = try moof.children(in: bytes)
        let shift = Self.shift(ofBasesIn: boxes, in: bytes, at: offset)
        for box in boxes {
            if box.type == "traf" {
                trackCount += 1
                guard trackCount <= Self.maximumTracks else {
                    throw .tooLarge("a fragment of more than \(Self.maximumTracks) tracks")
                }
                let isHidden = try readTrack(
                    box, in: bytes, at: offset, of: movie, shift: shift, dataEnd: &dataEnd, left: &left,
                    patches: &found, external: external)
                hiddenCount += isHidden ? 1 : 0
            } else if box.type == "pssh" || box.isExtended(ISOExtendedType.protectionSystem, in: bytes) {
                found.append(box.freeing(from: offset))
                if let protection = box.protection(in: bytes, origin: .fragment) { protections.append(protection) }
            }
        }
        isHidden = trackCount > 0 && hiddenCount == trackCount
        patches = ISOPatches(isHidden ? [moof.freeing(from: offset)] : found)
        try table.sort(place: "box “moof” at \(offset)")
        if let first = table.samples.first, first.offset < offset + UInt64(bytes.count) {
            throw .malformed("box “moof” at \(offset): an encrypted sample at \(first.offset), in front of its end")
        }
    }

    /// `tfhd`
    private struct Header {
        var track: UInt32
        var base: UInt64
        /// Where the samples are if no offset tells.
        var start: UInt64
        var entry: UInt32
        var size: UInt32
    }

    /// Whether the track is hidden.
    private mutating func readTrack(
        _ traf: ISOBox, in bytes: [UInt8], at offset: UInt64, of movie: ISOMovie, shift: UInt64,
        dataEnd: inout UInt64?, left: inout Int, patches: inout [ISOPatch],
        external: (Range<UInt64>) -> ArraySlice<UInt8>?
    ) throws(FormatError) -> Bool {
        let boxes = try traf.children(in: bytes)
        guard let tfhd = boxes.first(where: { $0.type == "tfhd" }) else {
            throw .malformed("box “traf” without “tfhd”")
        }
        var (reader, _, flags) = try tfhd.fullReader(bytes)
        let id = try reader.readUInt32()
        let known = movie.track(id)
        guard known != nil || !boxes.contains(where: { ISOTrack.isAboutSamples($0, in: bytes) }) else {
            throw .malformed("box “moof”: no track \(id) in this file, and its samples are encrypted")
        }
        let track = known ?? ISOTrack(unknown: id)
        var base = flags & 0x20000 != 0 ? offset : dataEnd ?? offset
        if flags & 0x1 != 0 { base = try reader.readUInt64() &+ shift }
        // Microsoft's encoders write no offset at all: as for GStreamer's demuxer, the media begins in the `mdat` box behind.
        let start = flags & 0x20001 != 0 || dataEnd != nil ? base : offset &+ UInt64(bytes.count) &+ 8
        let number = flags & 0x2 != 0 ? try reader.readUInt32() : track.defaultEntry
        // They count from 1. Some writers leave 0 there.
        let entry = max(number, 1)
        if flags & 0x8 != 0 { try reader.skip(4) }
        let size = flags & 0x10 != 0 ? try reader.readUInt32() : track.defaultSize
        if track.isHidden { patches.append(traf.freeing(from: offset)) }
        let header = Header(track: track.id, base: base, start: start, entry: entry, size: size)

        let information = try ISOAuxiliaryInformation(boxes, in: bytes)
        var entries = track.entries
        if !track.isHidden, let override = information.override, entry >= 1, entry <= entries.count {
            let (media, codec) = (entries[Int(entry) - 1]?.media ?? track.media, entries[Int(entry) - 1]?.codec)
            entries[Int(entry) - 1] = override
            entries[Int(entry) - 1]?.media = media
            entries[Int(entry) - 1]?.codec = codec
        }
        if !entries.contains(where: { $0 != nil }) { entries = [] }
        var layout = ISOSampleLayout(
            entries: entries,
            groups: track.isHidden ? ISOSampleGroups() : try ISOSampleGroups(boxes, in: bytes, of: track.groups),
            trackGroups: track.groups.descriptions,
            encryptions: table.encryptions, limit: left, total: Self.maximumSamples,
            place: "track \(track.id) of the fragment at \(offset)")
        try Self.place(boxes, in: bytes, header, into: &layout, dataEnd: &dataEnd)
        left -= layout.samples.count
        guard !track.isHidden else { return true }
        let count = table.samples.count
        try information.join(
            layout, into: &table, box: offset..<offset + UInt64(bytes.count), bases: [base, offset, 0],
            needsSubsamples: track.hasSubsamples, external: external)
        let hasMap = table.samples[count...].contains {
            $0.hasSubsamples && table.encryptions[Int($0.encryption)].media == .video
        }
        if hasMap { mappedTracks.insert(track.id) }
        for box in boxes where ISOTrack.isAboutSamples(box, in: bytes) { patches.append(box.freeing(from: offset)) }
        return false
    }

    /// What is to be added to base data offsets: they may count in the file that the segment is, or is a part of. The first track
    /// whose samples begin right behind the fragment tells, for all tracks. 0 if none does.
    private static func shift(ofBasesIn boxes: [ISOBox], in bytes: [UInt8], at offset: UInt64) -> UInt64 {
        for traf in boxes where traf.type == "traf" {
            guard let own = try? traf.children(in: bytes), mediaFollows(own, in: bytes),
                let tfhd = own.first(where: { $0.type == "tfhd" }),
                var (reader, _, flags) = try? tfhd.fullReader(bytes), flags & 0x1 != 0,
                (try? reader.skip(4)) != nil, let base = try? reader.readUInt64()
            else { continue }
            return offset &- base
        }
        return 0
    }

    /// Whether the samples begin right behind the header of the `mdat` box behind the fragment, if their offset counts from the
    /// fragment.
    private static func mediaFollows(_ boxes: [ISOBox], in bytes: [UInt8]) -> Bool {
        guard let run = boxes.first(where: { $0.type == "trun" }),
            var (reader, _, flags) = try? run.fullReader(bytes), flags & 0x1 != 0, (try? reader.skip(4)) != nil,
            let distance = try? reader.readUInt32()
        else { return false }
        return [8, 16].contains(Int(distance) - bytes.count)
    }

    /// Adds the samples of the `trun` boxes.
    private static func place(
        _ boxes: [ISOBox], in bytes: [UInt8], _ header: Header, into layout: inout ISOSampleLayout,
        dataEnd: inout UInt64?
    ) throws(FormatError) {
        var position = header.start
        for box in boxes where box.type == "trun" {
            var (reader, _, flags) = try box.fullReader(bytes)
            let count = try reader.readUInt32()
            if flags & 0x1 != 0 {
                let distance = Int64(Int32(truncatingIfNeeded: try reader.readUInt32()))
                let (start, overflow) = Int64(clamping: header.base).addingReportingOverflow(distance)
                guard !overflow, start >= 0 else {
                    throw .malformed("\(layout.place): a data offset of \(distance)")
                }
                position = UInt64(start)
            }
            if flags & 0x4 != 0 { try reader.skip(4) }
            // duration, size, flags, composition offset
            let fields = [0x100, 0x200, 0x400, 0x800].map { flags & $0 != 0 }
            let sizeOffset = fields[0] ? 4 : 0
            let stride = fields.count { $0 } * 4
            let rows = try ISORows(&reader, count: count, stride: stride)
            try layout.check(rows.count)
            layout.startRun()
            for row in 0..<rows.count {
                let size = fields[1] ? rows.uint32(row, sizeOffset) : header.size
                try layout.append(offset: position, size: size, entry: header.entry)
                position += UInt64(size)
            }
            dataEnd = position
        }
    }
}
