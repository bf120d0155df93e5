// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// The numbers of a live playlist as the stock demuxer sees them: they go on if those of the origin fall, or rise to a short
/// playlist, as they do when an encoder starts anew. A value.
///
/// The stock demuxer takes a media sequence number for a position that only grows. It finds its place in a refresh by the
/// segments that it knows, so the last ones of before stay in front of the new ones, behind which there is a discontinuity,
/// as long as the new playlist begins with the same segment.
struct HLSNumbering: Sendable {
    /// A segment, and what was given for it.
    struct Kept: Sendable {
        var segment: HLSMediaPlaylist.Segment
        var placement: HLSPlan.Placement
        /// As it was written.
        var discontinuity: UInt64
    }

    /// What is written in front of the first segment.
    struct Front {
        /// Nil: the origin's own stays.
        var mediaSequence: UInt64?
        var discontinuitySequence: UInt64?
        var tail: [Kept] = []
        /// The first new segment has no tag of its own that says that it is one.
        var needsDiscontinuity = false
        /// Segments have other numbers than at the origin, which is asked for none then.
        var isNumberedAnew = false
    }

    /// The stock demuxer plays on from one of the last, as it keeps some distance from the end.
    private static let keptCount = 3
    /// How many windows a server may lag behind, and how many segments at least and at most. An encoder that starts anew with
    /// names and numbers that are not older than that is taken for such a server until it has come to new ones.
    private static let lag = (windows: 4, segments: 64...4096)

    /// What is added to the origin's numbers; they wrap around.
    private(set) var offset: UInt64 = 0
    private var discontinuityOffset: UInt64 = 0
    private var kept: [Kept] = []
    private var tail: [Kept] = []
    /// The origin's number of the first segment behind the tail.
    private var start: UInt64?
    /// The segments of the last versions, in the order in which they came.
    private var seen: [Place] = []
    /// The version that `begin` took has other segments than the last one.
    private var isAnew = false
    /// The origin's number of the first segment of the last version.
    private var first: UInt64?
    /// Segments that stayed in the last version had other names in the one before, as where those have tokens of their own.
    private var changesNames = false

    private struct Place: Equatable {
        var sequence: UInt64
        var url: String
    }

    /// Whether what was fetched is an older version of the playlist, as from a server that lags behind: its last segment is
    /// known, and others have followed that.
    func isOlder(_ media: HLSMediaPlaylist) -> Bool {
        guard !media.isEnded, !media.isDelta, let newest = media.segments.last(where: { $0.url != nil }),
            let url = newest.url, let last = seen.last
        else { return false }
        let place = Place(sequence: newest.sequence, url: url)
        return place != last && seen.contains(place)
    }

    /// Takes the next version of the playlist, before it is written. `known`: the URLs of the last version.
    mutating func begin(_ media: HLSMediaPlaylist, known: @autoclosure () -> Set<String>) {
        isAnew = false
        guard let first = media.segments.first, !media.isDelta else { return }
        if isRestart(media, known), let last = kept.last {
            offset = (last.segment.sequence &+ offset &+ 1) &- first.sequence
            // Behind the tag of its own, if there is one.
            let own = media.discontinuity &+ (media.hasDiscontinuity(first) ? 1 : 0)
            discontinuityOffset = (last.discontinuity &+ 1) &- own
            (tail, start) = (kept, first.sequence)
            isAnew = true
        } else if first.sequence != start {
            (tail, start) = ([], nil)
        }
    }

    /// The numbers fall, or they rise to a few segments that do not follow on: the stock demuxer finds no place in so few, and
    /// waits for ever. Of more, it plays on from one of the last.
    ///
    /// If they fall by so little that the versions overlap, another server may lag behind: then the same segments have other hosts
    /// or queries, or names that change all the time.
    private func isRestart(_ media: HLSMediaPlaylist, _ known: () -> Set<String>) -> Bool {
        guard let oldest = kept.first?.segment.sequence, let last = kept.last?.segment.sequence,
            let first = media.segments.first?.sequence, let newest = media.segments.last(where: { $0.url != nil })
        else { return false }
        if newest.sequence < oldest || first > last && first - last > 1 && media.segments.count <= Self.keptCount {
            return known().isDisjoint(with: media.segments.lazy.compactMap(\.url))
        }
        guard newest.sequence < last || first < self.first ?? 0, !changesNames else { return false }
        let paths = Set(known().map { URIReference($0).path })
        return paths.isDisjoint(with: media.segments.lazy.compactMap { $0.url.map { URIReference($0).path } })
    }

    /// For the version that `begin` took; nil: nothing changes.
    func front(of media: HLSMediaPlaylist) -> Front? {
        guard offset != 0 || discontinuityOffset != 0, let first = media.segments.first else { return nil }
        var front = Front(mediaSequence: media.mediaSequence &+ offset, tail: tail)
        front.discontinuitySequence = media.discontinuity &+ discontinuityOffset
        front.isNumberedAnew = offset != 0
        if let oldest = tail.first {
            front.mediaSequence = first.sequence &+ offset &- UInt64(tail.count)
            front.discontinuitySequence = oldest.discontinuity
            front.needsDiscontinuity = !media.hasDiscontinuity(first)
        }
        return front
    }

    /// Remembers the end of what was written.
    mutating func end(_ media: HLSMediaPlaylist, _ placements: [HLSPlan.Placement]) {
        var discontinuity = firstDiscontinuity(of: media)
        var new: [Kept] = []
        noteNames(media)
        let last = isAnew ? nil : seen.last?.sequence
        for (segment, placement) in zip(media.segments, placements) {
            if media.hasDiscontinuity(segment) { discontinuity &+= 1 }
            guard let url = segment.url else { continue }
            if last.map({ segment.sequence > $0 }) ?? true { seen.append(Place(sequence: segment.sequence, url: url)) }
            new.append(Kept(segment: segment, placement: placement, discontinuity: discontinuity))
            if new.count > Self.keptCount { new.removeFirst() }
        }
        if !new.isEmpty { kept = new }
        let (count, _) = media.segments.count.multipliedReportingOverflow(by: Self.lag.windows)
        let limit = min(max(count, Self.lag.segments.lowerBound), Self.lag.segments.upperBound)
        if seen.count > limit { seen.removeFirst(seen.count - limit) }
    }

    /// The number of the discontinuity in front of the first segment, as it was written. Segments that a delta update leaves out
    /// may have others behind them, so the last segment that is known tells.
    private func firstDiscontinuity(of media: HLSMediaPlaylist) -> UInt64 {
        guard media.isDelta, let last = kept.last else { return media.discontinuity &+ discontinuityOffset }
        let known = media.segments.prefix { $0.sequence <= last.segment.sequence }
        return last.discontinuity &- UInt64(known.count { media.hasDiscontinuity($0) })
    }

    private mutating func noteNames(_ media: HLSMediaPlaylist) {
        guard !media.isDelta, let first = media.segments.first?.sequence else { return }
        self.first = first
        let areSame = media.segments.compactMap { segment -> Bool? in
            guard let url = segment.url else { return nil }
            return kept.first { $0.segment.sequence == segment.sequence }.map { $0.segment.url == url }
        }
        if !isAnew, !areSame.isEmpty { changesNames = !areSame.contains(true) }
    }
}

extension HLSMediaPlaylist {
    fileprivate func hasDiscontinuity(_ segment: Segment) -> Bool {
        lines[segment.lines].contains { if case .tag("EXT-X-DISCONTINUITY", _) = $0.content { true } else { false } }
    }
}
