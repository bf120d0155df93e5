// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Whether the start of a file is protected ISO media that has samples.
///
/// A file without samples is an initialization section. HLS players look at those alone and stop at a type that they do
/// not know, so it is left to them.
public struct ISORecognition {
    /// Bytes of the file, all of them; nil where they are not there, or not yet.
    public typealias Peek = (_ offset: UInt64, _ count: Int) -> [UInt8]?

    /// More boxes are not looked at.
    private static let limit = 4096
    /// Bytes of the header of a box with a 64-bit size.
    private static let longestHeader: UInt64 = 16
    private static let entries: Set<String> = ["encv", "enca", "enct", "encs"]

    private var left = limit
    private var isProtected = false
    /// A sample entry was there to be looked at.
    private var hasEntry = false
    /// There are samples that are not in fragments.
    private var hasSamples = false

    private enum Verdict {
        case protected
        case other
        /// The bytes end behind media, in front of the `moov` box that tells of it.
        case mediaFirst
    }

    /// Looks at boxes, at most 4096 of them, until it is sure.
    public static func isProtectedFile(_ peek: Peek) -> Bool { verdict(peek, size: nil) == .protected }

    /// Whether the media stands in front of the `moov` box, and the bytes of that are not there yet, as over HTTP: such a
    /// file may be protected.
    ///
    /// - Parameter size: how many bytes are there, if that is known. From GStreamer 1.26 on, a type finder is told the size
    ///   of what has come as that of the file.
    public static func isMediaFirst(size: UInt64?, _ peek: Peek) -> Bool { verdict(peek, size: size) == .mediaFirst }

    private static func verdict(_ peek: Peek, size: UInt64?) -> Verdict {
        var recognition = ISORecognition()
        var position: UInt64 = 0
        var hasMedia = false
        var isFirst = true
        while let header = recognition.header(at: position, peek) {
            if isFirst, !["ftyp", "moov", "styp", "free", "skip", "mdat", "wide", "pdin"].contains(header.type) {
                return .other
            }
            isFirst = false
            guard let end = try? header.end(from: position) else { return .other }
            switch header.type {
            case "moov":
                recognition.look(into: position + UInt64(header.headerSize)..<end, depth: 0, peek)
                // The boxes behind are not looked at for nothing: far away, each may cost a request.
                guard recognition.isProtected else {
                    let isThere = recognition.hasEntry || size.map { end <= $0 } ?? false
                    return hasMedia && !isThere ? .mediaFirst : .other
                }
            // Without a movie, these are fragments of a stream.
            case "moof" where !recognition.isProtected: return .other
            case "moof", "mdat": hasMedia = true
            default: break
            }
            if recognition.isProtected, hasMedia || recognition.hasSamples { return .protected }
            position = end
        }
        // Media to the end of the file has nothing behind it.
        guard hasMedia, recognition.left > 0, position < UInt64(Int64.max) else { return .other }
        return size.map { position + longestHeader > $0 } ?? true ? .mediaFirst : .other
    }

    private mutating func header(at position: UInt64, _ peek: Peek) -> ISOBoxHeader? {
        guard left > 0, position < UInt64(Int64.max) else { return nil }
        left -= 1
        guard let bytes = peek(position, 8) else { return nil }
        if let header = try? ISOBoxHeader(bytes[...], at: position) { return header }
        guard let bytes = peek(position, 16) else { return nil }
        return try? ISOBoxHeader(bytes[...], at: position)
    }

    /// `trak`, `mdia`, `minf` and `stbl` lie in one another.
    private static let depthLimit = 4

    private mutating func look(into range: Range<UInt64>, depth: Int, _ peek: Peek) {
        guard depth <= Self.depthLimit else { return }
        var position = range.lowerBound
        while position < range.upperBound, !isProtected || !hasSamples, let header = header(at: position, peek) {
            guard let end = try? header.end(from: position), end <= range.upperBound else { return }
            let body = position + UInt64(header.headerSize)..<end
            switch header.type {
            case "trak", "mdia", "minf", "stbl": look(into: body, depth: depth + 1, peek)
            case "stsd": lookAtEntries(body, peek)
            case "stts", "stco", "co64":
                // Number of entries. The first may be all that is there of a large table.
                if let bytes = peek(body.lowerBound, 8), bytes[4...].contains(where: { $0 > 0 }) { hasSamples = true }
            case "uuid":
                if peek(body.lowerBound, 16) == ISOExtendedType.protectionSystem { isProtected = true }
            default: break
            }
            position = end
        }
    }

    private mutating func lookAtEntries(_ range: Range<UInt64>, _ peek: Peek) {
        var position = range.lowerBound + 8
        while position < range.upperBound, let header = header(at: position, peek) {
            hasEntry = true
            if Self.entries.contains(header.type) {
                isProtected = true
                return
            }
            guard let end = try? header.end(from: position) else { return }
            position = end
        }
    }
}

extension ISORecognition {
    /// What a file or a stream of fragments begins with: ISO/IEC 14496-12, QuickTime's file format, and Motion JPEG 2000.
    private static let firstTypes = ISOStream.typesAtTop.union([
        "mdat", "pdin", "wide", "pnot", "PICT", "junk", "jP  ",
    ])

    /// Throws `otherFormat` where `bytes` are not the start of ISO media. Fewer than 8 are not judged.
    static func checkStart(_ bytes: ArraySlice<UInt8>) throws(FormatError) {
        var reader = ByteReader(bytes, structure: "box header")
        guard reader.remaining >= 8 else { return }
        _ = try reader.readUInt32()
        guard firstTypes.contains(try reader.readFourCC()) else { throw noBox }
    }

    /// The bytes are not quoted: they may be those of a keys file.
    static let noBox = FormatError.otherFormat("no box of ISO media stands at the start")

    /// Whether a fragment has IVs or subsamples, and so encrypted samples, although no `moov` says so: `bytes` are its
    /// start. Nil where more bytes are needed to know. Boxes that cannot be read count as such.
    public static func isEncryptedFragment(_ bytes: [UInt8]) -> Bool? {
        guard let header = try? ISOBoxHeader(bytes.prefix(16), at: 0) else { return bytes.count < 16 ? nil : false }
        guard header.type == "moof", let end = try? header.end(from: 0), end <= ISOFragment.maximumSize else {
            return false
        }
        guard end <= UInt64(bytes.count) else { return nil }
        let boxes = (try? ISOBox.boxes(in: bytes, range: 0..<Int(end)))?.first.flatMap { try? $0.children(in: bytes) }
        return (boxes ?? []).contains { box in
            guard box.type == "traf", let children = try? box.children(in: bytes) else { return false }
            guard let information = try? ISOAuxiliaryInformation(children, in: bytes), information.problem == nil else {
                return true
            }
            return information.filledBox != nil
        }
    }
}

/// What the first fragment of a segment says of encryption by itself.
public enum FragmentSign: Hashable, Sendable {
    case none
    /// More bytes are needed to know. The last `rest` ones belong to a box that goes on there.
    case unknown(rest: Int)
    /// The samples of the track are encrypted, as the box says.
    case encrypted(box: String, track: UInt32)
    /// Those of the track are encrypted with IVs of their own, as the init segment says, and no box has one.
    case silent(track: UInt32)
    /// Those of the track are pictures that are encrypted with a constant IV, as the init segment says, and no box has a subsample.
    case unmapped(track: UInt32)
    /// Those of the track are encrypted, as the init segment says, and the box alone tells how, which a demuxer does not read.
    case unread(box: String, track: UInt32)
}

extension ISORecognition {
    /// Looks for boxes that tell of encrypted samples, in tracks whose samples are clear as far as an init segment says.
    ///
    /// - Parameters:
    ///   - bytes: the start of a segment, with or without an init segment in front of it.
    ///   - tracks: of the init segment. Others count as clear.
    ///   - hasDecryptor: whether a decryptor gets the segment. What PIFF's box has in place of the sample entry is enough for it.
    ///   - findsSilence: whether `silent` and `unread` are looked for: where a decryptor behind a demuxer would take the samples
    ///     for clear.
    ///   - needsMaps: whether `unmapped` is, for the same reason.
    public static func sign(
        inSegment bytes: UnsafeRawBufferPointer, of tracks: [InitSegment.Track] = [], hasDecryptor: Bool = false,
        findsSilence: Bool = false, needsMaps: Bool = false
    ) -> FragmentSign {
        var place = 0
        while bytes.count - place >= 16 {
            let start = Array(bytes[place..<place + 16])
            guard let header = try? ISOBoxHeader(start[...], at: 0), ISOStream.typesAtTop.contains(header.type),
                let size = header.size, size <= ISOFragment.maximumSize
            else { return .none }
            guard Int(size) <= bytes.count - place else { break }
            let end = place + Int(size)
            if header.type == "moof" {
                return sign(inFragment: Array(bytes[place..<end]), tracks, hasDecryptor, findsSilence, needsMaps)
            }
            place = end
        }
        return .unknown(rest: bytes.count - place)
    }

    private static func sign(
        inFragment bytes: [UInt8], _ tracks: [InitSegment.Track], _ hasDecryptor: Bool, _ findsSilence: Bool,
        _ needsMaps: Bool
    ) -> FragmentSign {
        guard let moof = try? ISOBox.boxes(in: bytes, range: 0..<bytes.count).first,
            let boxes = try? moof.children(in: bytes)
        else { return .none }
        for traf in boxes where traf.type == "traf" {
            guard let own = try? traf.children(in: bytes) else { continue }
            var header = own.first { $0.type == "tfhd" }.flatMap { try? $0.fullReader(bytes).reader }
            let id = (try? header?.readUInt32()) ?? 0
            let track = tracks.first { $0.id == id }
            if findsSilence, track?.needsVectors == true, isSilent(own, in: bytes) { return .silent(track: id) }
            if needsMaps, track?.isOfPicturesWithConstantVector == true, isSilent(own, in: bytes) {
                return .unmapped(track: id)
            }
            if findsSilence, track?.needsVectors == true || track?.isOfPicturesWithConstantVector == true,
                let box = unreadBox(among: own, in: bytes)
            {
                return .unread(box: box, track: id)
            }
            guard track?.isClear != false,
                let box = signingBox(among: own, in: bytes, hasDecryptor, of: track)
            else { continue }
            return .encrypted(box: box, track: id)
        }
        return .none
    }

    /// Whether there are samples, and nothing about their encryption. Sizes of nothing say that samples are clear.
    private static func isSilent(_ boxes: [ISOBox], in bytes: [UInt8]) -> Bool {
        let hasSamples = boxes.contains { box in
            guard box.type == "trun", var (reader, _, _) = try? box.fullReader(bytes) else { return false }
            return ((try? reader.readUInt32()) ?? 0) > 0
        }
        let hasGroups = boxes.contains {
            ["sgpd", "sbgp", "csgp"].contains($0.type) && ISOSampleGroups.isAboutEncryption($0, in: bytes)
        }
        guard hasSamples, !hasGroups, let information = try? ISOAuxiliaryInformation(boxes, in: bytes) else {
            return false
        }
        return information.override == nil && information.sizes == nil && information.filledBox == nil
    }

    private static func unreadBox(among boxes: [ISOBox], in bytes: [UInt8]) -> String? {
        guard let information = try? ISOAuxiliaryInformation(boxes, in: bytes), !information.isReadWithoutList else {
            return nil
        }
        return information.filledBox
    }

    private static func signingBox(
        among boxes: [ISOBox], in bytes: [UInt8], _ hasDecryptor: Bool, of track: InitSegment.Track?
    ) -> String? {
        // What groups of encrypted samples need besides.
        let hasParameters = track?.encryption != nil
        let information = try? ISOAuxiliaryInformation(boxes, in: bytes)
        if hasDecryptor, information?.override != nil { return nil }
        let groups = try? ISOSampleGroups(boxes, in: bytes, of: ISOSampleGroups())
        if let isEncrypted = groups?.encryptsFragment(trackCount: hasParameters ? track?.groupCount : nil) {
            return isEncrypted && !hasParameters ? "box “sgpd”" : nil
        }
        return information?.filledBox
    }
}

extension ISORecognition {
    /// The keys that PIFF's boxes name for the samples of a fragment, of which `bytes` are the start. `keyID`: of samples of which
    /// they name none. Nil where that cannot be told, as where keys change inside of the fragment.
    package static func keyIDs(ofFragment bytes: [UInt8], else keyID: KeyID?) -> Set<KeyID>? {
        guard let header = try? ISOBoxHeader(bytes.prefix(16), at: 0), header.type == "moof",
            let end = try? header.end(from: 0), end <= UInt64(bytes.count),
            let boxes = (try? ISOBox.boxes(in: bytes, range: 0..<Int(end)))?.first.flatMap({
                try? $0.children(in: bytes)
            })
        else { return nil }
        var found: Set<KeyID> = []
        for box in boxes where box.type == "traf" {
            guard let own = try? box.children(in: bytes),
                let information = try? ISOAuxiliaryInformation(own, in: bytes),
                let groups = try? ISOSampleGroups(own, in: bytes), groups.descriptions.isEmpty
            else { return nil }
            let named = information.override.map { $0.isProtected ? $0.keyID : nil } ?? keyID
            if let named { found.insert(named) }
        }
        return found
    }
}

extension ISOStream {
    /// Whether bytes are the start of a box that stands at the top of a file.
    public static func startsBox(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 8, let header = try? ISOBoxHeader(Array(bytes.prefix(16))[...], at: 0) else {
            return false
        }
        return typesAtTop.contains(header.type)
    }

    /// Whether bytes begin a segment of a presentation: `styp` with a brand, `sidx` with a version, or `moof` with `mfhd` in it.
    /// Sixteen bytes tell: encrypted ones do not look so by chance.
    public static func startsSegment(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 16 else { return false }
        func word(_ index: Int) -> UInt32 {
            var value: UInt32 = 0
            for place in index * 4..<index * 4 + 4 { value = value << 8 | UInt32(bytes[place]) }
            return value
        }
        switch word(1) {
        case moof: return word(2) == 16 && word(3) == mfhd
        case sidx: return word(0) >= 32 && word(0) <= 0xFFFF && word(2) & 0xFEFF_FFFF == 0
        case styp:
            let isShort = word(0) >= 16 && word(0) <= 256 && word(0) % 4 == 0
            return isShort && bytes[8..<12].allSatisfy { $0 >= 0x20 && $0 <= 0x7E }
        default: return false
        }
    }

    private static let moof: UInt32 = 0x6D6F_6F66
    private static let mfhd: UInt32 = 0x6D66_6864
    private static let sidx: UInt32 = 0x7369_6478
    private static let styp: UInt32 = 0x7374_7970
}
