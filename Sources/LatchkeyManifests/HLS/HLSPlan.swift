// SPDX-License-Identifier: MPL-2.0

/// What is decided for each segment of a media playlist before a line of it is written.
struct HLSPlan {
    struct Placement {
        var delivery: HLSDelivery
        var front: HLSShared<HLSFront>?
        /// Of an enveloped segment: see `HLSEnvelopedSegment`.
        var start: Double = 0
    }

    /// One for each segment.
    private(set) var placements: [Placement] = []
    /// Whether a segment has encrypted samples that the decryptor has to be told of.
    private(set) var hasSamples = false
    /// Whether maps and keys are written anew. Otherwise lines stay as they are.
    private(set) var isRewritten = false
    private(set) var segmentToInspect: String?
    private(set) var segmentToProbe: HLSRewriting.SegmentProbe?

    let relaysSegments: Bool
    let relayedOrigin: String?

    private let window: HLSWindow
    private let kinds: [HLSSegmentKind]

    init(_ media: HLSMediaPlaylist, rewriter: HLSPlaylistRewriter) {
        window = rewriter.window
        relaysSegments = rewriter.relaysSegments
        relayedOrigin = rewriter.relayedOrigin
        var kindsByExtension = KindGuess(known: rewriter.segmentKind)
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
        isRewritten = isKeyed || needsFronts || window.hasFronts
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
        if needsFronts { segmentToInspect = kindsByExtension.unknown }

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
            placements.append(Placement(delivery: isServed ? .enveloped : .direct, front: map, start: start))
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
            let note = HLSKeyNote(kind: kind, key: sampleKey, initializationVector: vector)
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
    let known: HLSSegmentKind?
    /// The first segment that nothing tells of, and whose first bytes can tell.
    var unknown: String?

    init(known: HLSSegmentKind?) { self.known = known }

    mutating func kind(of segment: HLSMediaPlaylist.Segment) -> HLSSegmentKind {
        if segment.map != nil { return .fragmentedMP4 }
        if let known { return known }
        guard let url = segment.url else { return .transportStream }
        if let kind = HLSSegmentKind(url: url) { return kind }
        if segment.key?.method != .aes128 { unknown = unknown ?? url }
        return .transportStream
    }
}
