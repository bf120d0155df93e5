// SPDX-License-Identifier: MPL-2.0

import ProtectionModel

/// What a `trak` box says of a track's encryption, and the `trex` box of what fragments of it leave out.
struct ISOTrack: Sendable {
    /// The most sample entries of one track.
    static let maximumEntries = 256

    var id: UInt32 = 0
    /// Of each sample entry; nil for a clear one.
    var entries: [ISOEncryption?] = []
    var groups = ISOSampleGroups()
    /// `default_sample_description_index`
    var defaultEntry: UInt32 = 1
    /// `default_sample_size`
    var defaultSize: UInt32 = 0

    /// The boxes of `stbl`, and those of `trak` behind them, where some producers write `senc`.
    var tables: [ISOBox] = []
    var patches: [ISOPatch] = []

    var isProtected: Bool {
        entries.contains { $0?.isProtected == true } || groups.descriptions.contains(where: \.isProtected)
    }

    /// For fragments without a `moov`: what they leave out is as `encryption` says.
    init(id: UInt32, encryption: ISOEncryption) {
        self.id = id
        entries = [encryption]
    }

    /// Reads a `trak` box. `origin` is where `bytes` start in the file.
    init(_ trak: ISOBox, in bytes: [UInt8], origin: UInt64, encryptsPartialBlocks: Bool) throws(FormatError) {
        var outer: [ISOBox] = []
        for box in try trak.children(in: bytes) {
            switch box.type {
            case "tkhd":
                var (reader, version, _) = try box.fullReader(bytes)
                try reader.skip(version == 0 ? 8 : 16)
                id = try reader.readUInt32()
            case "mdia": try readMedia(box, in: bytes, origin: origin, encryptsPartialBlocks: encryptsPartialBlocks)
            case "senc", "uuid": outer.append(box)
            default: break
            }
        }
        tables += outer
        for box in tables where Self.isAboutSamples(box, in: bytes) { patches.append(box.freeing(from: origin)) }
        groups = try ISOSampleGroups(tables, in: bytes)
    }

    /// Whether a box beside the samples is about encryption, so that a demuxer must not see it.
    static func isAboutSamples(_ box: ISOBox, in bytes: [UInt8]) -> Bool {
        switch box.type {
        case "senc": true
        case "uuid": box.isExtended(ISOExtendedType.sampleEncryption, in: bytes)
        case "saiz", "saio": ISOAuxiliaryInformation.isAboutEncryption(box, in: bytes)
        case "sgpd", "sbgp": ISOSampleGroups.isAboutEncryption(box, in: bytes)
        default: false
        }
    }

    private mutating func readMedia(
        _ media: ISOBox, in bytes: [UInt8], origin: UInt64, encryptsPartialBlocks: Bool
    ) throws(FormatError) {
        for information in try media.children(in: bytes) where information.type == "minf" {
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
        guard let sinf = children.first(where: { $0.type == "sinf" }) else {
            guard ["encv", "enca", "enct", "encs"].contains(entry.box.type) else { return nil }
            throw .malformed("\(place): no box “sinf”, so that nothing tells how it is encrypted")
        }
        let boxes = try sinf.children(in: bytes)
        var format = boxes.first { $0.type == "frma" }?.reader(bytes)
        guard let original = try format?.readBytes(4) else {
            throw .malformed("\(place): no box “frma”, so that nothing tells what it is in the clear")
        }
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
        } else {
            throw .unsupported("\(place): the protection scheme “\(scheme)”")
        }
        encryption?.encryptsPartialBlocks = encryptsPartialBlocks
        patches.append(ISOPatch(offset: entry.box.typeOffset(from: origin), type: Array(original)))
        for box in children where box.type == "sinf" { patches.append(box.freeing(from: origin)) }
        return encryption
    }

    /// Reads a `trex` box of this track.
    mutating func readExtends(_ bytes: inout ByteReader) throws(FormatError) {
        defaultEntry = try bytes.readUInt32()
        try bytes.skip(4)
        defaultSize = try bytes.readUInt32()
    }
}
