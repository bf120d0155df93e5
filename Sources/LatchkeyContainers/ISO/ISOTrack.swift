// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// What a `trak` box says of a track's encryption, and the `trex` box of what fragments of it leave out.
struct ISOTrack: Sendable {
    /// The most sample entries of one track.
    static let maximumEntries = 256

    var id: UInt32 = 0
    /// Of each sample entry; nil for a clear one.
    var entries: [ISOEncryption?] = []
    /// The four characters of the first sample entry; of an encrypted one those of the clear form.
    private(set) var codec: String?
    /// Sound where its handler says so.
    private(set) var media = OutputPolicy.Media.video
    var groups = ISOSampleGroups()
    /// `default_sample_description_index`
    var defaultEntry: UInt32 = 1
    /// `default_sample_size`
    var defaultSize: UInt32 = 0
    /// Encrypted pictures of a fragment had subsamples: those of another one that has none of the boxes lost them.
    var hasSubsamples = false

    /// The boxes of `stbl`, and those of `trak` behind them, where some producers write `senc`.
    var tables: [ISOBox] = []
    var patches: [ISOPatch] = []

    /// How good its pictures are; nil where it has none.
    var quality: VideoQuality?
    /// Its entries are of PIFF.
    private(set) var isPIFF = false
    /// Another track is shown in its place: a demuxer must not see it.
    private(set) var isHidden = false

    /// Compared by what is known: the bit rate, else the size of the pictures.
    struct VideoQuality: Comparable, Sendable {
        /// In bits a second, of `btrt`; 0: not known.
        var bitRate: UInt32 = 0
        /// Width times height.
        var area: UInt64 = 0

        static func < (left: VideoQuality, right: VideoQuality) -> Bool {
            let areBitRatesKnown = left.bitRate != 0 && right.bitRate != 0 && left.bitRate != right.bitRate
            return areBitRatesKnown ? left.bitRate < right.bitRate : left.area < right.area
        }
    }

    var isProtected: Bool {
        entries.contains { $0?.isProtected == true } || groups.descriptions.contains(where: \.isProtected)
    }

    /// For fragments without a `moov`: what they leave out is as `encryption` says.
    init(id: UInt32, encryption: ISOEncryption) {
        self.id = id
        entries = [encryption]
        media = encryption.media
    }

    /// One that `moov` does not have, and demuxers leave out: its samples are not decrypted.
    init(unknown id: UInt32) { self.id = id }

    /// Reads a `trak` box. `origin` is where `bytes` start in the file.
    init(_ trak: ISOBox, in bytes: [UInt8], origin: UInt64, encryptsPartialBlocks: Bool) throws(FormatError) {
        var outer: [ISOBox] = []
        var area: UInt64 = 0
        for box in try trak.children(in: bytes) {
            switch box.type {
            case "tkhd":
                var (reader, version, _) = try box.fullReader(bytes)
                try reader.skip(version == 0 ? 8 : 16)
                id = try reader.readUInt32()
                area = Self.area(of: box, in: bytes)
            case "mdia": try readMedia(box, in: bytes, origin: origin, encryptsPartialBlocks: encryptsPartialBlocks)
            case "senc", "uuid": outer.append(box)
            default: break
            }
        }
        quality?.area = area
        tables += outer
        for box in tables where Self.isAboutSamples(box, in: bytes) { patches.append(box.freeing(from: origin)) }
        groups = try ISOSampleGroups(tables, in: bytes)
    }

    /// The last fields of `tkhd`: width and height, each with 16 bits behind the point.
    private static func area(of tkhd: ISOBox, in bytes: [UInt8]) -> UInt64 {
        var reader = tkhd.reader(bytes)
        guard reader.remaining >= 8, (try? reader.skip(reader.remaining - 8)) != nil,
            let width = try? reader.readUInt32(),
            let height = try? reader.readUInt32()
        else { return 0 }
        return UInt64(width >> 16) * UInt64(height >> 16)
    }

    /// Of `btrt`: the average, else the highest.
    private static func bitRate(of boxes: [ISOBox], in bytes: [UInt8]) -> UInt32? {
        guard var reader = boxes.first(where: { $0.type == "btrt" })?.reader(bytes), (try? reader.skip(4)) != nil,
            let highest = try? reader.readUInt32(), let average = try? reader.readUInt32()
        else { return nil }
        return average != 0 ? average : highest
    }

    /// Takes the track away from the demuxer, and what it needs to be decrypted from everybody.
    mutating func hide(_ trak: ISOBox, from origin: UInt64) {
        isHidden = true
        entries = entries.map { _ in nil }
        groups = ISOSampleGroups()
        patches = [trak.freeing(from: origin)]
    }

    /// Whether a box beside the samples is about encryption, so that a demuxer must not see it.
    static func isAboutSamples(_ box: ISOBox, in bytes: [UInt8]) -> Bool {
        switch box.type {
        case "senc": true
        case "uuid": box.isExtended(ISOExtendedType.sampleEncryption, in: bytes)
        case "saiz", "saio": ISOAuxiliaryInformation.isAboutEncryption(box, in: bytes)
        case "sgpd", "sbgp", "csgp": ISOSampleGroups.isAboutEncryption(box, in: bytes)
        default: false
        }
    }

    private mutating func readMedia(
        _ media: ISOBox, in bytes: [UInt8], origin: UInt64, encryptsPartialBlocks: Bool
    ) throws(FormatError) {
        let parts = try media.children(in: bytes)
        // Demuxers go by the handler too.
        if (try? InitSegment.handler(parts, in: bytes)) == "soun" { self.media = .audio }
        for information in parts where information.type == "minf" {
            if try information.children(in: bytes).contains(where: { $0.type == "vmhd" }) { quality = VideoQuality() }
            for table in try information.children(in: bytes) where table.type == "stbl" {
                tables = try table.children(in: bytes)
                for box in tables where box.type == "stsd" {
                    for entry in try SampleEntry.entries(of: box, in: bytes) {
                        guard entries.count < Self.maximumEntries else {
                            throw .tooLarge("a track of more than \(Self.maximumEntries) sample entries")
                        }
                        entries.append(
                            try readEntry(
                                entry, in: bytes, origin: origin, encryptsPartialBlocks: encryptsPartialBlocks))
                    }
                }
            }
        }
    }

    private mutating func readEntry(
        _ entry: SampleEntry, in bytes: [UInt8], origin: UInt64, encryptsPartialBlocks: Bool
    ) throws(FormatError) -> ISOEncryption? {
        let place = "track \(id), sample entry “\(entry.box.type)”"
        let children = try entry.children(in: bytes)
        if quality != nil, let rate = Self.bitRate(of: children, in: bytes) { quality?.bitRate = rate }
        guard let sinf = try entry.protections(in: bytes).first else {
            codec = codec ?? entry.box.type
            guard ["encv", "enca", "enct", "encs"].contains(entry.box.type) else { return nil }
            throw .malformed("\(place): no box “sinf”, so that nothing tells how it is encrypted")
        }
        let boxes = try sinf.children(in: bytes)
        var format = boxes.first { $0.type == "frma" }?.reader(bytes)
        guard let original = try format?.readBytes(4) else {
            throw .malformed("\(place): no box “frma”, so that nothing tells what it is in the clear")
        }
        codec = codec ?? String(decoding: original, as: UTF8.self)
        var schemeReader = boxes.first { $0.type == "schm" }?.reader(bytes)
        try schemeReader?.skip(4)
        guard let scheme = try schemeReader?.readFourCC() else {
            throw .malformed("\(place): no box “schm”, so that nothing tells the protection scheme")
        }
        guard let information = boxes.first(where: { $0.type == "schi" }) else {
            throw .malformed("\(place): no box “schi”, so that nothing tells how it is encrypted")
        }
        var encryption: ISOEncryption?
        if let known = ProtectionScheme(rawValue: scheme) {
            guard let track = try TrackEncryption(sinf, in: bytes) else {
                throw .malformed("\(place): no box “tenc”, so that nothing tells how it is encrypted")
            }
            encryption = try ISOEncryption(track, scheme: known, place: place)
        } else if scheme == "piff" {
            let box = try information.children(in: bytes).first {
                $0.isExtended(ISOExtendedType.trackEncryption, in: bytes)
            }
            guard var reader = box?.reader(bytes) else {
                throw .malformed("\(place): no track encryption box of PIFF")
            }
            try reader.skip(20)
            encryption = try ISOEncryption(piff: &reader)
            isPIFF = true
        } else {
            throw .unsupported("\(place): the protection scheme “\(scheme)”")
        }
        encryption?.encryptsPartialBlocks = encryptsPartialBlocks
        encryption?.media = entry.box.type == "encv" ? .video : media
        let fourCC = String(decoding: original, as: UTF8.self)
        encryption?.codec =
            fourCC == "mp4a"
            ? Self.audioCodec(children, in: bytes)
            : SampleCodec(
                fourCC: fourCC, lengthSize: Self.lengthSize(children, in: bytes),
                sets: Self.parameterSets(children, in: bytes))
        patches.append(ISOPatch(offset: entry.box.typeOffset(from: origin), type: Array(original)))
        for box in children where box.type == "sinf" { patches.append(box.freeing(from: origin)) }
        return encryption
    }

    private static func audioCodec(_ boxes: [ISOBox], in bytes: [UInt8]) -> SampleCodec? {
        boxes.first { $0.type == "esds" }.flatMap { try? ElementaryStreamDescriptor($0.reader(bytes)).codec }
    }

    /// Of the lengths in front of NAL units, in bytes (ISO/IEC 14496-15, 5.3.3.1 and 8.3.3.1).
    private static func lengthSize(_ boxes: [ISOBox], in bytes: [UInt8]) -> Int {
        for box in boxes where box.type == "avcC" || box.type == "hvcC" {
            var reader = box.reader(bytes)
            guard (try? reader.skip(box.type == "avcC" ? 4 : 21)) != nil, let byte = try? reader.readUInt8() else {
                continue
            }
            return Int(byte & 3) + 1
        }
        return 4
    }

    private static func parameterSets(_ boxes: [ISOBox], in bytes: [UInt8]) -> H264ParameterSets {
        boxes.first { $0.type == "avcC" }.map { H264ParameterSets(configuration: Array($0.reader(bytes).rest)) }
            ?? H264ParameterSets()
    }

    /// Reads a `trex` box of this track.
    mutating func readExtends(_ bytes: inout ByteReader) throws(FormatError) {
        defaultEntry = try bytes.readUInt32()
        try bytes.skip(4)
        defaultSize = try bytes.readUInt32()
    }
}

/// What an `esds` box says of sound in a sample entry `mp4a` (ISO/IEC 14496-1, 7.2.6; 14496-14, 5.6).
///
/// Many codecs go by these four characters. Only those whose frames are known here are named: the frames of xHE-AAC and
/// of the low-delay kinds of AAC begin in another way.
struct ElementaryStreamDescriptor {
    /// Nil for other codecs.
    private(set) var codec: SampleCodec?

    /// `reader` stands behind the header of the box.
    init(_ reader: ByteReader) throws(FormatError) {
        var reader = reader
        try reader.skip(4)
        try Self.enter(3, in: &reader)
        try reader.skip(2)
        let flags = try reader.readUInt8()
        if flags & 0x80 != 0 { try reader.skip(2) }
        if flags & 0x40 != 0 { try reader.skip(Int(try reader.readUInt8())) }
        if flags & 0x20 != 0 { try reader.skip(2) }
        try Self.enter(4, in: &reader)
        let type = try reader.readUInt8()
        try reader.skip(12)
        switch type {
        case 0x40:
            try Self.enter(5, in: &reader)
            if Self.isAAC(try reader.readBytes(min(reader.remaining, 9))) { codec = .aac }
        case 0x66...0x68: codec = .aac
        case 0x69, 0x6B: codec = .mp3
        case 0xA5, 0xA6: codec = .ac3
        default: break
        }
    }

    /// The tag and the size of a descriptor.
    private static func enter(_ tag: UInt8, in reader: inout ByteReader) throws(FormatError) {
        let place = reader.place
        guard try reader.readUInt8() == tag else { throw .malformed("\(place): no descriptor \(tag)") }
        for _ in 0..<4 {
            if try reader.readUInt8() & 0x80 == 0 { return }
        }
        throw .malformed("\(place): the size of a descriptor has more than four bytes")
    }

    /// Whether an AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1) is of Main, LC, SSR or LTP, with SBR and PS or without.
    private static func isAAC(_ configuration: ArraySlice<UInt8>) -> Bool {
        let bytes = Array(configuration)
        var offset = 0
        // Zero behind the end.
        func take(_ count: Int) -> Int {
            defer { offset += count }
            return (offset..<offset + count).reduce(0) { value, bit in
                value << 1 | (bit / 8 < bytes.count ? Int(bytes[bit / 8] >> (7 - bit % 8) & 1) : 0)
            }
        }
        func takeFrequency() { if take(4) == 15 { _ = take(24) } }

        let kind = take(5)
        guard kind == 5 || kind == 29 else { return 1...4 ~= kind }
        takeFrequency()
        _ = take(4)
        takeFrequency()
        return 1...4 ~= take(5)
    }
}
