// SPDX-License-Identifier: MPL-2.0

/// What is decided for each segment of a media playlist before a line of it is written.
struct HLSPlan {
    struct Placement {
        var delivery: HLSDelivery
        var front: HLSFront?
        var decryption: HLSSegmentDecryption?
    }

    /// One for each segment.
    private(set) var placements: [Placement] = []
    /// Whether a segment has encrypted samples that the decryptor has to be told of.
    private(set) var hasSamples = false
    /// Whether maps and keys are written anew. Otherwise lines stay as they are.
    private(set) var isRewritten = false
    private(set) var segmentToInspect: String?

    private let window: HLSWindow
    private let kinds: [HLSSegmentKind]

    init(_ media: HLSMediaPlaylist, rewriter: HLSPlaylistRewriter) {
        window = rewriter.window
        var kindsByExtension = KindGuess(known: rewriter.segmentKind)
        kinds = media.segments.map { kindsByExtension.kind(of: $0) }
        let isKeyed = media.segments.contains { $0.key != nil || $0.map?.decryption != nil }
        hasSamples = zip(media.segments, kinds).contains { segment, kind in
            segment.key?.method.encryptsSamples == true && (segment.map != nil || kind.takesNotes)
        }
        let isExpected = !media.isEnded && !rewriter.sessionKeys.filter(\.method.encryptsSamples).isEmpty
        let needsFronts = hasSamples || window.hasSampleKeys || isExpected
        let hasMaps = window.hasFronts || media.segments.contains { $0.map != nil }
        isRewritten = isKeyed || needsFronts || window.hasFronts
        guard isRewritten else {
            placements = media.segments.map { segment in
                Placement(delivery: .direct, front: segment.map.map(HLSFront.own), decryption: nil)
            }
            return
        }
        if needsFronts { segmentToInspect = kindsByExtension.unknown }

        // A run of clear segments speaks in the terms of the key before it, or of the first one behind it.
        let first = media.segments.first { $0.key?.method.encryptsSamples == true }?.key
        var likeness = window.sampleKey ?? first ?? rewriter.sessionKeys.first { $0.method.encryptsSamples }
        placements.reserveCapacity(media.segments.count)
        for (segment, kind) in zip(media.segments, kinds) {
            if let key = segment.key, key.method.encryptsSamples { likeness = key }
            if let record = window.record(segment.sequence), record.url == segment.url,
                record.byteRange == segment.byteRange, record.key == segment.key, record.map == segment.map
            {
                placements.append(
                    Placement(
                        delivery: record.delivery, front: record.front, decryption: Self.decryption(of: segment)))
                continue
            }
            let needsServer = needsFronts || hasMaps || kind == .fragmentedMP4
            placements.append(
                Self.placement(
                    segment, kind: kind, needsServer: needsServer, hasSamples: needsFronts, likeness: likeness))
        }
    }

    private static func decryption(of segment: HLSMediaPlaylist.Segment) -> HLSSegmentDecryption? {
        guard let key = segment.key, key.method == .aes128 else { return nil }
        return HLSSegmentDecryption(
            key: key, initializationVector: key.initializationVector(forSegment: segment.sequence))
    }

    private static func placement(
        _ segment: HLSMediaPlaylist.Segment, kind: HLSSegmentKind, needsServer: Bool, hasSamples: Bool,
        likeness: HLSKey?
    ) -> Placement {
        let sampleKey = segment.key.flatMap { $0.method.encryptsSamples ? $0 : nil }
        let decryption = decryption(of: segment)
        var placement = Placement(delivery: .direct, front: nil, decryption: decryption)
        if let decryption {
            // The stock demuxer fetches keys over http(s) only and takes their bytes as they are.
            let isPlain = decryption.key.keyFormat == HLSKeyFormat.identity.name
            let isFetched = decryption.key.uri.map { URIReference($0).isHTTP } ?? false
            placement.delivery = isPlain && isFetched && !needsServer ? .withKey : .decrypted
        }
        if let map = segment.map {
            var protection = HLSInitSegment.Protection.unchanged
            if let sampleKey {
                protection = .key(sampleKey)
            } else if hasSamples {
                protection = .clear(like: likeness)
            }
            placement.front = .routed(
                .initSegment(
                    HLSInitSegment(
                        url: map.url, byteRange: map.byteRange, decryption: map.decryption, protection: protection)))
        } else if hasSamples, kind.takesNotes {
            placement.front = .routed(
                .keyNote(
                    HLSKeyNote(
                        kind: kind, key: sampleKey,
                        initializationVector: sampleKey?.initializationVector(forSegment: segment.sequence))))
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
