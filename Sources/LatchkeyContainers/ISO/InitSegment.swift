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
        /// Whether a sample group (`seig`) says that samples are encrypted.
        public var hasProtectedGroups = false
        /// Whether one says that samples are clear.
        package var hasClearGroups = false
        /// How many groups are about encryption.
        var groupCount = 0

        /// Whether a sample entry says that samples are encrypted.
        public var isProtected: Bool { encryptions.contains(where: \.isProtected) }
        /// Of the first sample entry that has one.
        public var encryption: TrackEncryption? { encryptions.first }

        /// Whether each sample has an IV of its own, unless a group of a fragment says otherwise.
        package var needsVectors: Bool {
            isAllProtected && encryptions.allSatisfy { $0.initializationVectorSize > 0 }
        }

        /// Whether each sample is a picture of NAL units that is encrypted with a constant IV, unless a group of a fragment says
        /// otherwise.
        package var isOfPicturesWithConstantVector: Bool {
            isAllProtected
                && encryptions.allSatisfy { $0.initializationVectorSize == 0 && Self.hasUnits($0.originalFormat) }
        }

        private var isAllProtected: Bool {
            !formats.isEmpty && formats.allSatisfy { $0.hasPrefix("enc") } && !encryptions.isEmpty && !hasClearGroups
                && encryptions.allSatisfy(\.isProtected)
        }

        private static func hasUnits(_ format: String) -> Bool {
            switch SampleCodec(fourCC: format) {
            case .h264?, .h265?: true
            default: false
            }
        }

        /// Whether its samples are clear, unless a fragment says otherwise. False where the sample entries cannot tell.
        public var isClear: Bool {
            let canTell = !encryptions.isEmpty || !formats.contains { $0.hasPrefix("enc") }
            return canTell && !isProtected && !hasProtectedGroups
        }
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

    /// The section at the start of a file; nil where there is no whole one that can be read.
    package init?(startOf bytes: [UInt8]) {
        var end = 0
        while end <= bytes.count - 8 {
            let size = bytes[end..<end + 4].reduce(0) { $0 << 8 | Int($1) }
            let isMovie = bytes[end + 4..<end + 8].elementsEqual("moov".utf8)
            guard size >= 8, size <= bytes.count - end else { return nil }
            end += size
            if isMovie {
                guard let section = try? InitSegment(Array(bytes[..<end])) else { return nil }
                self = section
                return
            }
        }
        return nil
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
            let groups = Self.groups(media, in: bytes)
            track.hasProtectedGroups = groups.contains(where: \.isProtected)
            track.hasClearGroups = groups.contains { !$0.isProtected }
            track.groupCount = groups.count
            for entry in try Self.sampleEntries(media, in: bytes) {
                track.formats.append(entry.box.type)
                for sinf in try entry.protections(in: bytes) {
                    if let encryption = try TrackEncryption(sinf, in: bytes) { track.encryptions.append(encryption) }
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

    /// What the sample groups of the track say. None where they cannot be read.
    private static func groups(_ media: [ISOBox], in bytes: [UInt8]) -> [ISOEncryption] {
        media.flatMap { information -> [ISOEncryption] in
            guard information.type == "minf", let boxes = try? information.children(in: bytes) else { return [] }
            return boxes.flatMap { table -> [ISOEncryption] in
                guard table.type == "stbl", let boxes = try? table.children(in: bytes),
                    let groups = try? ISOSampleGroups(boxes, in: bytes)
                else { return [] }
                return groups.descriptions
            }
        }
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
        // Some clear entries have other data there.
        let isPlain = !["encv", "enca", "enct", "encs"].contains(box.type)
        if isPlain { return (try? box.children(in: bytes, skipping: fieldSize)) ?? [] }
        return try box.children(in: bytes, skipping: fieldSize)
    }

    /// Behind the last box of an entry, in front of zeros that end the list. `fieldSize`: no more than the entry has.
    static func boxesEnd(of box: ISOBox, in bytes: [UInt8], skipping fieldSize: Int) -> Int {
        guard let boxes = try? box.children(in: bytes, skipping: fieldSize) else { return box.body.upperBound }
        return boxes.last?.range.upperBound ?? box.body.lowerBound + fieldSize
    }

    /// The `sinf` boxes, each of which is a way to decrypt the samples: those of schemes that are known; if none is, all.
    func protections(in bytes: [UInt8]) throws(FormatError) -> [ISOBox] {
        let boxes = try children(in: bytes).filter { $0.type == "sinf" }
        let known = boxes.filter { box in
            var type = (try? box.children(in: bytes))?.first { $0.type == "schm" }?.reader(bytes)
            guard (try? type?.skip(4)) != nil, let scheme = try? type?.readFourCC() else { return false }
            return scheme == "piff" || ProtectionScheme(rawValue: scheme) != nil
        }
        return known.isEmpty ? boxes : known
    }

    private static func fieldSize(of box: ISOBox, in bytes: [UInt8], version: UInt8) -> Int {
        switch box.type {
        case "encv": return 78
        case "enca":
            var reader = box.reader(bytes)
            guard version == 0, (try? reader.skip(8)) != nil, let sound = try? reader.readUInt16() else { return 28 }
            // QuickTime's longer forms; in ISO media they stand in an stsd of version 1, without more fields.
            return sound == 1 ? 44 : sound == 2 ? 64 : 28
        case "enct", "encs": return textFieldSize(of: box, in: bytes)
        default: return 8
        }
    }

    /// The fields of encrypted text are those of its format, which is only told behind them: none for WebVTT, up to three
    /// strings that end with a zero for XML and plain text (ISO/IEC 14496-12, 12.5.3 and 12.6.3), 30 bytes for `tx3g`. Some
    /// writers name subtitles as they do the streams of systems, which have none.
    private static func textFieldSize(of box: ISOBox, in bytes: [UInt8]) -> Int {
        let fields = box.reader(bytes).rest
        let ends = fields.indices.dropFirst(8).lazy.filter { fields[$0] == 0 }.prefix(3)
        let sizes = [8] + ends.map { $0 - fields.startIndex + 1 } + [38]
        return sizes.first { size in
            (try? box.children(in: bytes, skipping: size))?.contains { $0.type == "sinf" } ?? false
        } ?? 8
    }
}

extension InitSegment {
    /// The section with `keyID` for the KID of each protected track, and with `protectionBoxes` and no others. Throws
    /// as the other form does.
    public func rewriting(keyID: KeyID, protectionBoxes: [PSSHBox]) throws(FormatError) -> [UInt8] {
        let keyIDs = Dictionary(tracks.map { ($0.id, keyID) }, uniquingKeysWith: { first, _ in first })
        return try rewriting(keyIDs: keyIDs, protectionBoxes: protectionBoxes, removesOthers: true)
    }

    /// The section with new KIDs for the tracks of `keyIDs`, and with `protectionBoxes` at the end of `moov`.
    ///
    /// With `removesOthers`, the `pssh` boxes that are there go, and so does the PlayReady box of PIFF, for which the
    /// stock demuxer refuses a file. Throws `tooLarge` where a box would need more than 4 GiB.
    public func rewriting(
        keyIDs: [UInt32: KeyID], protectionBoxes: [PSSHBox], removesOthers: Bool
    ) throws(FormatError) -> [UInt8] {
        var changed = bytes
        for track in tracks {
            guard let keyID = keyIDs[track.id] else { continue }
            for encryption in track.encryptions {
                changed.replaceSubrange(encryption.keyIDOffset..<encryption.keyIDOffset + 16, with: keyID.bytes)
            }
        }
        var writer = InitSegmentWriter(source: changed, clearTracks: nil)
        try writer.write(protectionBoxes: protectionBoxes, removesOthers: removesOthers)
        return writer.output
    }

    /// The section of clear segments, made to look like that of encrypted ones: video and audio sample entries become
    /// `encv` and `enca` with `default_isProtected` 0 and `keyID`. Entries that are already so stay, with 0 there too.
    ///
    /// A decryptor that is plugged for them passes such samples on, and can go on with encrypted ones; without it, a
    /// change from clear to encrypted segments is not negotiated. Throws `tooLarge` where a box would need more than 4
    /// GiB.
    public func markingProtected(
        scheme: ProtectionScheme, keyID: KeyID, protectionBoxes: [PSSHBox]
    ) throws(FormatError) -> [UInt8] {
        var changed = bytes
        for encryption in tracks.flatMap(\.encryptions) {
            changed[encryption.protectedOffset] = 0
            changed.replaceSubrange(encryption.keyIDOffset..<encryption.keyIDOffset + 16, with: keyID.bytes)
        }
        var writer = InitSegmentWriter(source: changed, clearTracks: (scheme, keyID))
        try writer.write(protectionBoxes: protectionBoxes, removesOthers: true)
        return writer.output
    }
}

/// Writes a section anew, box by box. Each byte is copied once; the containers on the way get their new sizes.
private struct InitSegmentWriter {
    let source: [UInt8]
    /// What clear sample entries are to become.
    let clearTracks: (scheme: ProtectionScheme, keyID: KeyID)?
    private(set) var output: [UInt8] = []

    init(source: [UInt8], clearTracks: (scheme: ProtectionScheme, keyID: KeyID)?) {
        self.source = source
        self.clearTracks = clearTracks
        output.reserveCapacity(source.count + 1024)
    }

    mutating func write(protectionBoxes: [PSSHBox], removesOthers: Bool) throws(FormatError) {
        var isWritten = false
        for box in try ISOBox.boxes(in: source, range: 0..<source.count) {
            guard box.type == "moov", !isWritten else {
                copy(box)
                continue
            }
            isWritten = true
            let start = begin("moov")
            for child in try box.children(in: source) {
                if child.type == "trak" {
                    try writeTrack(child)
                } else if !removesOthers || !isProtection(child) {
                    copy(child)
                }
            }
            for protection in protectionBoxes {
                guard let bytes = protection.serialized() else { throw .tooLarge("a pssh box of 4 GiB") }
                output += bytes
            }
            try end(start)
        }
    }

    private func isProtection(_ box: ISOBox) -> Bool {
        // PIFF 1.1, 5.3.1
        let uuid: [UInt8] = [
            0xD0, 0x8A, 0x4F, 0x18, 0x10, 0xF3, 0x4A, 0x82, 0xB6, 0xC8, 0x32, 0xD8, 0xAB, 0xA1, 0x83, 0xD3,
        ]
        return box.type == "pssh" || box.type == "uuid" && source[box.body].starts(with: uuid)
    }

    private mutating func writeTrack(_ trak: ISOBox) throws(FormatError) {
        guard let clearTracks else { return copy(trak) }
        let media = try trak.children(in: source).first { $0.type == "mdia" }
        let handler = try media.map { media throws(FormatError) in
            try InitSegment.handler(try media.children(in: source), in: source)
        }
        switch handler {
        case "vide": try writeContainer(trak, path: Self.path, entry: ("encv", 78), clearTracks)
        case "soun": try writeContainer(trak, path: Self.path, entry: ("enca", 28), clearTracks)
        default: copy(trak)
        }
    }

    /// From a track to its sample entries.
    private static let path: ArraySlice<String> = ["mdia", "minf", "stbl", "stsd"]

    /// Goes down `path`, which bounds the depth.
    private mutating func writeContainer(
        _ container: ISOBox, path: ArraySlice<String>, entry: (type: String, fieldSize: Int),
        _ clearTracks: (scheme: ProtectionScheme, keyID: KeyID)
    ) throws(FormatError) {
        let start = begin(container.type)
        let isTable = path.isEmpty
        if isTable { output += source[container.body].prefix(8) }
        for child in try container.children(in: source, skipping: isTable ? 8 : 0) {
            if isTable, !child.type.hasPrefix("enc"), child.body.count >= entry.fieldSize {
                let sample = begin(entry.type)
                // Nothing is read behind the end of a list.
                let boxesEnd = SampleEntry.boxesEnd(of: child, in: source, skipping: entry.fieldSize)
                output += source[child.body.lowerBound..<boxesEnd]
                output += Self.protection(of: source[child.range], clearTracks)
                try end(sample)
            } else if child.type == path.first {
                try writeContainer(child, path: path.dropFirst(), entry: entry, clearTracks)
            } else {
                copy(child)
            }
        }
        try end(start)
    }

    /// The `sinf` box of a sample entry that was clear.
    private static func protection(
        of entry: ArraySlice<UInt8>, _ clearTracks: (scheme: ProtectionScheme, keyID: KeyID)
    ) -> [UInt8] {
        let isConstant = clearTracks.scheme == .cbcs || clearTracks.scheme == .cbc1
        var tenc: [UInt8] = [isConstant ? 1 : 0, 0, 0, 0, 0, 0, 0, 0] + clearTracks.keyID.bytes
        // A constant IV means nothing where nothing is protected. The stock demuxer reads one all the same.
        if isConstant { tenc += [16] + [UInt8](repeating: 0, count: 16) }
        let schm = [0, 0, 0, 0] + Array(clearTracks.scheme.rawValue.utf8) + [0, 1, 0, 0]
        let format = Array(entry.dropFirst(4).prefix(4))
        return box("sinf", box("frma", format) + box("schm", schm) + box("schi", box("tenc", tenc)))
    }

    private static func box(_ type: String, _ body: [UInt8]) -> [UInt8] {
        let size = UInt8(truncatingIfNeeded: body.count + 8)
        return [0, 0, 0, size] + Array(type.utf8) + body
    }

    private mutating func copy(_ box: ISOBox) {
        let start = output.count
        output += source[box.range]
        // A size of 0 means "to the end", and the end is elsewhere now.
        let isOpen = source[box.range].prefix(4).allSatisfy { $0 == 0 }
        if isOpen { setSize(UInt32(truncatingIfNeeded: box.range.count), at: start) }
    }

    private mutating func begin(_ type: String) -> Int {
        defer { output += [0, 0, 0, 0] + Array(type.utf8) }
        return output.count
    }

    private mutating func end(_ start: Int) throws(FormatError) {
        guard let size = UInt32(exactly: output.count - start) else { throw .tooLarge("a box of 4 GiB") }
        setSize(size, at: start)
    }

    private mutating func setSize(_ size: UInt32, at start: Int) {
        for position in 0..<4 { output[start + position] = UInt8(truncatingIfNeeded: size >> (24 - 8 * position)) }
    }
}
