// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyContainers

/// What is decided for each segment of a media playlist before a line of it is written.
struct HLSPlan {
    struct Placement {
        var delivery: HLSDelivery
        var front: HLSShared<HLSFront>?
        /// Of an enveloped segment: see `HLSEnvelopedSegment`.
        var start: Double = 0
        /// It would stay with its origin and comes through this library all the same.
        var isRelayed = false
    }

    /// One for each segment.
    private(set) var placements: [Placement] = []
    /// Whether a segment has encrypted samples that the decryptor has to be told of.
    private(set) var hasSamples = false
    /// Whether maps and keys are written anew. Otherwise lines stay as they are.
    private(set) var isRewritten = false
    private(set) var segmentToInspect: String?
    private(set) var segmentToProbe: HLSRewriting.SegmentProbe?

    private let relaysSegments: Bool
    private let relaysFiles: Bool

    private let window: HLSWindow
    private let kinds: [HLSSegmentKind]
    /// Where numbers of the origin have fallen.
    private let front: HLSNumbering.Front?

    init(_ media: HLSMediaPlaylist, rewriter: HLSPlaylistRewriter, front: HLSNumbering.Front? = nil) {
        window = rewriter.window
        self.front = front
        let isLong = media.isEnded && media.segments.count > rewriter.relayLimit
        relaysSegments = rewriter.relaysSegments && !isLong || rewriter.relaysClearPlaylists
        relaysFiles = rewriter.relaysFiles
        var kindsByExtension = KindGuess(known: rewriter.segmentKind, isLive: !media.isEnded)
        kinds = media.segments.map { kindsByExtension.kind(of: $0) }
        if rewriter.isEnveloped == true {
            isRewritten = true
            placeEnvelopes(media)
            return
        }
        if rewriter.isEnveloped == nil { segmentToProbe = Self.segmentToProbe(media, kinds) }
        let isKeyed = media.segments.contains { $0.key != nil || $0.map?.decryption != nil }
        hasSamples = zip(media.segments, kinds).contains { segment, kind in
            segment.sampleKey != nil && (segment.map != nil || kind.takesNotes)
        }
        let isExpected = !media.isEnded && !rewriter.sessionKeys.filter(\.method.encryptsSamples).isEmpty
        let needsFronts = hasSamples || window.hasSampleKeys || isExpected || rewriter.hasEncryptedSibling
        isRewritten = isKeyed || needsFronts || window.hasFronts || rewriter.relaysClearPlaylists
        guard isRewritten else {
            var map: HLSShared<HLSMap>?
            var front: HLSShared<HLSFront>?
            placements = media.segments.map { segment in
                if segment.sharedMap != map {
                    map = segment.sharedMap
                    front = map.map { HLSShared(.own($0.value)) }
                }
                return Placement(delivery: .direct, front: front)
            }
            return
        }
        if needsFronts { segmentToInspect = kindsByExtension.unknown.first }

        // A run of clear segments speaks in the terms of the key before it, or of the first one behind it.
        let first = media.segments.first { $0.sampleKey != nil }?.sampleKey
        var likeness = window.sampleKey ?? first ?? rewriter.sessionKeys.first { $0.method.encryptsSamples }
        placements.reserveCapacity(media.segments.count)
        for (segment, kind) in zip(media.segments, kinds) {
            if let key = segment.sampleKey { likeness = key }
            if let record = window.record(segment.sequence), record.url == segment.url,
                record.byteRange == segment.byteRange, record.sharedKey == segment.sharedKey,
                record.sharedMap == segment.sharedMap
            {
                placements.append(record.placement)
                continue
            }
            var placement = Self.placement(segment, kind: kind, hasSamples: needsFronts, likeness: likeness)
            placement.isRelayed = placement.delivery == .direct && isRelayed(segment.url ?? "")
            if let last = placements.last?.front, last == placement.front { placement.front = last }
            placements.append(placement)
        }
    }

    /// The first segment, where it may be in an envelope: no key is named for it, or one of PlayReady.
    private static func segmentToProbe(
        _ media: HLSMediaPlaylist, _ kinds: [HLSSegmentKind]
    ) -> HLSRewriting.SegmentProbe? {
        guard let (segment, kind) = zip(media.segments, kinds).first(where: { $0.0.url != nil }), let url = segment.url,
            URIReference(url).isHTTP, kind != .webVTT,
            segment.key == nil || segment.key?.keyFormat == HLSKeyFormat.playReady.name
        else { return nil }
        return HLSRewriting.SegmentProbe(url: url, byteRange: segment.byteRange)
    }

    /// All segments but subtitles come from this library, with a time that stays theirs over refreshes.
    private mutating func placeEnvelopes(_ media: HLSMediaPlaylist) {
        // A live window starts anywhere: its numbers tell where, and those of other playlists do alike.
        var start = media.isEnded ? 0 : Double(media.mediaSequence) * (media.targetDuration ?? 0)
        var map: HLSShared<HLSFront>?
        for (segment, kind) in zip(media.segments, kinds) {
            if let record = window.record(segment.sequence), record.url == segment.url {
                start = record.placement.start
            }
            let front = segment.sharedMap.map { HLSFront.own($0.value) }
            if map?.value != front { map = front.map { HLSShared($0) } }
            let isServed = segment.url != nil && kind != .webVTT
            placements.append(
                Placement(
                    delivery: isServed ? .enveloped : .direct, front: map, start: start,
                    isRelayed: !isServed && isRelayed(segment.url ?? "")))
            start += segment.duration
        }
    }

    private static func placement(
        _ segment: HLSMediaPlaylist.Segment, kind: HLSSegmentKind, hasSamples: Bool, likeness: HLSKey?
    ) -> Placement {
        let sampleKey = segment.sampleKey
        // The stock demuxer writes the keys that it gets into its log.
        let isWhole = segment.key?.method == .aes128
        var placement = Placement(delivery: isWhole ? .decrypted : .direct, front: nil)
        if let map = segment.map {
            var protection = HLSInitSegment.Protection.unchanged
            if let sampleKey {
                protection = .key(sampleKey)
            } else if hasSamples {
                protection = .clear(like: likeness)
            }
            let section = HLSInitSegment(
                url: map.url, byteRange: map.byteRange, decryption: map.decryption, protection: protection)
            placement.front = HLSShared(.routed(.initSegment(section)))
        } else if hasSamples, kind.takesNotes {
            let vector = sampleKey?.initializationVector(forSegment: segment.sequence)
            let note = HLSKeyNote(
                kind: kind, sharedKey: sampleKey == nil ? nil : segment.sharedKey, initializationVector: vector)
            placement.front = HLSShared(.routed(.keyNote(note)))
        }
        return placement
    }
}

extension HLSSegmentKind {
    /// Whether keys are named by a note in front. WebVTT is never encrypted by samples.
    fileprivate var takesNotes: Bool { self == .transportStream || self == .packedAudio }
}

/// Finds out what segments are; the answer for a file name extension is found once.
private struct KindGuess {
    /// A live presentation is joined three target durations from its end (RFC 8216, 6.3.3), and the first segments of its playlist
    /// may be gone by then.
    private static let liveCount = 3

    private let known: HLSSegmentKind?
    private let isLive: Bool
    /// Segments that nothing tells of, and whose first bytes can tell: the first one, or the last ones of a live playlist.
    private(set) var unknown: [String] = []

    init(known: HLSSegmentKind?, isLive: Bool) { (self.known, self.isLive) = (known, isLive) }

    mutating func kind(of segment: HLSMediaPlaylist.Segment) -> HLSSegmentKind {
        if segment.map != nil { return .fragmentedMP4 }
        if let known { return known }
        guard let url = segment.url else { return .transportStream }
        // Fragmented MP4 has a map (RFC 8216, 3.3), so a name that says so tells nothing.
        if let kind = HLSSegmentKind(url: url), kind != .fragmentedMP4 { return kind }
        if segment.key?.method != .aes128 { note(url) }
        return .transportStream
    }

    private mutating func note(_ url: String) {
        if isLive, unknown.count == Self.liveCount { unknown.removeFirst() }
        if isLive || unknown.isEmpty { unknown.append(url) }
    }
}

extension HLSPlan {
    /// Writes the lines of `media` as planned.
    func write(_ media: HLSMediaPlaylist, to output: inout HLSOutput) throws(FormatError) {
        output.hasLostParts = losesParts(of: media)
        // The map that the lines written so far leave in force.
        var front: HLSShared<HLSFront>?
        var isNumbered = self.front == nil
        for (segment, placement) in zip(media.segments, placements) {
            var isIntroduced = !isRewritten
            for index in segment.lines {
                let line = media.lines[index]
                if self.front != nil, line.isNumber { continue }
                if !isNumbered, line.isOfSegment {
                    try number(behind: &front, to: &output)
                    isNumbered = true
                }
                if !isIntroduced, line.startsSegment {
                    try introduce(placement, behind: &front, to: &output)
                    isIntroduced = true
                }
                let isLast = index == segment.lines.upperBound - 1
                try write(line, segment, placement, isLast: isLast, to: &output)
            }
        }
        for line in media.lines[(media.segments.last?.lines.upperBound ?? 0)...] {
            try write(line, nil, placements.last, isLast: false, to: &output)
        }
    }

    /// Whether a live playlist has no parts any more, as its segments are served whole.
    private func losesParts(of media: HLSMediaPlaylist) -> Bool {
        guard !media.isEnded, placements.contains(where: { $0.delivery.isServed }) else { return false }
        return !zip(media.segments, placements).contains { segment, placement in
            !placement.delivery.isServed && media.lines[segment.lines].contains { $0.isPart }
        }
    }

    /// Writes the numbers, and what stands in front of the first segment.
    private func number(
        behind front: inout HLSShared<HLSFront>?, to output: inout HLSOutput
    ) throws(FormatError) {
        guard let numbers = self.front else { return }
        if let number = numbers.mediaSequence { try output.write("#EXT-X-MEDIA-SEQUENCE:\(number)") }
        if let number = numbers.discontinuitySequence { try output.write("#EXT-X-DISCONTINUITY-SEQUENCE:\(number)") }
        var discontinuity = numbers.tail.first?.discontinuity
        for kept in numbers.tail {
            if kept.discontinuity != discontinuity { try output.write("#EXT-X-DISCONTINUITY") }
            discontinuity = kept.discontinuity
            try introduce(kept.placement, behind: &front, to: &output)
            try output.write("#EXTINF:\(kept.segment.duration),")
            if !kept.placement.delivery.isServed, let range = kept.segment.byteRange {
                try output.write("#EXT-X-BYTERANGE:\(range.text)")
            }
            try output.write(target(of: kept.segment, kept.placement, to: &output))
        }
        if numbers.needsDiscontinuity { try output.write("#EXT-X-DISCONTINUITY") }
    }

    /// Where the demuxer gets a segment.
    private func target(
        of segment: HLSMediaPlaylist.Segment, _ placement: Placement?, to output: inout HLSOutput
    ) -> String {
        let url = segment.url ?? ""
        output.note(url)
        if let placement, placement.delivery == .enveloped {
            let resource = HLSEnvelopedSegment(
                url: url, byteRange: segment.byteRange, kind: segment.map == nil ? .transportStream : .fragmentedMP4,
                start: Self.ticks(placement.start))
            return output.url(.envelope(resource))
        }
        guard placement?.delivery == .decrypted, let decryption = segment.decryption else {
            return placement?.isRelayed == true ? output.url(.relayedSegment(url: url)) : url
        }
        return output.url(
            .segment(HLSEncryptedSegment(url: url, byteRange: segment.byteRange, decryption: decryption)))
    }

    /// Writes the map of a segment where it changes.
    ///
    /// It goes in front of the segment's own tags: the stock demuxer takes an `EXT-X-BYTERANGE` before a map for the map's.
    private func introduce(
        _ placement: Placement, behind front: inout HLSShared<HLSFront>?, to output: inout HLSOutput
    ) throws(FormatError) {
        guard let next = placement.front, next != front else { return }
        front = next
        switch next.value {
        case .own(let map):
            output.note(map.url)
            let range = map.byteRange.map { ",BYTERANGE=\"\($0.text)\"" } ?? ""
            try output.write("#EXT-X-MAP:URI=\"\(map.url)\"\(range)")
        case .routed(let resource):
            try output.write("#EXT-X-MAP:URI=\"\(output.url(resource))\"")
        }
    }

    private func write(
        _ line: HLSLine, _ segment: HLSMediaPlaylist.Segment?, _ placement: Placement?, isLast: Bool,
        to output: inout HLSOutput
    ) throws(FormatError) {
        switch line.content {
        case .blank, .comment:
            try output.write(line)
        case .uri(let reference):
            guard isLast, let segment, let url = segment.url else {
                return try output.write(output.absolute(reference), ending: line.ending)
            }
            (output.lastSegment, output.lastPart) = ((url, output.lastPart), nil)
            try output.write(target(of: segment, placement, to: &output), ending: line.ending)
        case .tag(let name, let value):
            try writeTag(line, name, value ?? "", segment, placement, to: &output)
        }
    }

    private func isRelayed(_ url: String) -> Bool {
        guard relaysSegments || relaysFiles else { return false }
        let reference = URIReference(url)
        return relaysSegments && reference.isHTTP || relaysFiles && reference.filePath != nil
    }

    /// Seconds in ticks of 90 kHz, of which the lowest 33 bits are kept.
    private static func ticks(_ seconds: Double) -> UInt64 {
        let ticks = (seconds * 90_000).rounded().truncatingRemainder(dividingBy: Double(1 << 33))
        return UInt64(exactly: ticks) ?? 0
    }

    private func writeTag(
        _ line: HLSLine, _ name: Substring, _ value: Substring, _ segment: HLSMediaPlaylist.Segment?,
        _ placement: Placement?, to output: inout HLSOutput
    ) throws(FormatError) {
        switch name {
        case "EXT-X-KEY":
            // The stock demuxer decrypts nothing itself.
            if !isRewritten { try output.write("#EXT-X-KEY:METHOD=NONE", ending: line.ending) }
        case "EXT-X-MAP":
            guard !isRewritten else { return }
            try output.writeAbsolute(line, tag: name, value: value, names: ["URI"])
        case "EXT-X-BYTERANGE":
            guard isRewritten, let segment, let range = segment.byteRange else { return try output.write(line) }
            // The server applies the range itself; and what follows a routed segment needs its offset.
            guard placement?.delivery.isServed != true else { return }
            try output.write("#EXT-X-BYTERANGE:\(range.text)", ending: line.ending)
        case "EXT-X-PART":
            // Segments that are decrypted here are served whole.
            guard placement?.delivery.isServed != true else { return }
            output.lastPart = (try? HLSAttributeList(parsing: value))?["URI"].map { output.absolute($0) }
            try output.writeAbsolute(line, tag: name, value: value, names: ["URI"])
        case "EXT-X-PART-INF":
            if !output.hasLostParts { try output.write(line) }
        case "EXT-X-SERVER-CONTROL":
            var gone: Set<String> = []
            // The stock demuxer begins so close to the end also if there are no parts.
            if output.hasLostParts { gone.insert("PART-HOLD-BACK") }
            // Without a number, the origin answers at once, and the stock demuxer would ask again at once.
            if front?.isNumberedAnew == true { gone.insert("CAN-BLOCK-RELOAD") }
            guard !gone.isEmpty, var list = try? HLSAttributeList(parsing: value) else { return try output.write(line) }
            list.attributes.removeAll { gone.contains($0.name) }
            if !list.attributes.isEmpty { try output.write("#\(name):\(list.text)", ending: line.ending) }
        case "EXT-X-PRELOAD-HINT":
            // A hint at what will have another URL would be fetched in vain.
            let isMap = (try? HLSAttributeList(parsing: value))?["TYPE"] == "MAP"
            guard placement?.delivery.isServed != true, !isRewritten || !isMap else { return }
            try output.writeAbsolute(line, tag: name, value: value, names: ["URI"])
        case "EXT-X-RENDITION-REPORT":
            guard let list = try? HLSAttributeList(parsing: value) else { return try output.write(line) }
            try output.write(line, tag: name, list: list) { output, attribute in
                guard attribute.name == "URI", !attribute.value.isEmpty else { return nil }
                return output.url(.playlist(url: output.absolute(attribute.value)))
            }
        case "EXT-X-DATERANGE":
            try output.writeAbsolute(line, tag: name, value: value, names: ["X-ASSET-URI", "X-ASSET-LIST"])
        default:
            try output.write(line)
        }
    }
}

extension HLSLine {
    /// Whether it has a number of the first segment.
    fileprivate var isNumber: Bool {
        switch content {
        case .tag("EXT-X-MEDIA-SEQUENCE", _), .tag("EXT-X-DISCONTINUITY-SEQUENCE", _): true
        case .tag, .blank, .comment, .uri: false
        }
    }

    /// Whether it holds for a segment, and not for the playlist (RFC 8216, 4.3.2).
    fileprivate var isOfSegment: Bool {
        switch content {
        case .uri: true
        case .tag(let name, _):
            [
                "EXTINF", "EXT-X-BYTERANGE", "EXT-X-DISCONTINUITY", "EXT-X-KEY", "EXT-X-MAP", "EXT-X-PROGRAM-DATE-TIME",
                "EXT-X-GAP", "EXT-X-BITRATE", "EXT-X-PART", "EXT-X-DATERANGE",
            ].contains(name)
        case .blank, .comment: false
        }
    }

    fileprivate var isPart: Bool { if case .tag("EXT-X-PART", _) = content { true } else { false } }

    /// Whether this is a line of a segment, where a map has to stand in front.
    fileprivate var startsSegment: Bool {
        switch content {
        case .tag("EXTINF", _), .tag("EXT-X-BYTERANGE", _), .tag("EXT-X-PART", _): true
        case .tag, .blank, .comment, .uri: false
        }
    }
}

/// What a refresh of a live playlist leaves behind for the next, so that a segment keeps what it was given.
struct HLSWindow: Sendable {
    /// The most segments that are remembered; a live window has far fewer.
    private static let maximumRecords = 65_536
    /// The most key changes that are remembered, for delta updates.
    static let maximumScopes = 1024

    /// What a segment was given.
    struct Record: Sendable {
        var url: String
        var byteRange: HLSByteRange?
        var sharedKey: HLSShared<HLSKey>?
        /// As the playlist has it.
        var sharedMap: HLSShared<HLSMap>?
        var placement: HLSPlan.Placement
    }

    private(set) var records: [UInt64: Record] = [:]
    private(set) var scopes: [(sequence: UInt64, scope: HLSKeyScope)] = []
    /// Whether a segment with encrypted samples was ever seen.
    var hasSampleKeys = false
    /// Whether a map of our own was ever written.
    var hasFronts = false
    /// The last key of encrypted samples.
    var sampleKey: HLSKey?
    var numbering = HLSNumbering()
    /// What was made of the last version, unless that was a delta update.
    var last: HLSRewriting?

    func record(_ sequence: UInt64) -> Record? { records[sequence] }

    /// What held at a segment.
    func scope(_ sequence: UInt64) -> HLSKeyScope? { scopes.last { $0.sequence <= sequence }?.scope }

    /// Forgets the segments before `first` and takes new ones.
    mutating func advance(
        first: UInt64, records new: [(UInt64, Record)], scopeChanges: [(sequence: UInt64, scope: HLSKeyScope)]
    ) {
        let last = new.last?.0 ?? .max
        // A number that goes back is a new start.
        records = records.filter { first <= $0.key && $0.key <= last }
        for (sequence, record) in new.suffix(Self.maximumRecords) { records[sequence] = record }
        if let start = new.first?.0 { scopes.removeAll { $0.sequence >= start } }
        if scopes.isEmpty { scopes = [(0, HLSKeyScope())] }
        scopes += scopeChanges
        if let needless = scopes.lastIndex(where: { $0.sequence <= first }) { scopes.removeFirst(needless) }
        if scopes.count > Self.maximumScopes { scopes.removeFirst(scopes.count - Self.maximumScopes) }
    }
}

/// A value that many segments have in common, so that each of them costs a reference and not the value's size.
final class HLSShared<Value: Hashable & Sendable>: Hashable, Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }

    static func == (left: HLSShared, right: HLSShared) -> Bool { left === right || left.value == right.value }

    func hash(into hasher: inout Hasher) { value.hash(into: &hasher) }
}
