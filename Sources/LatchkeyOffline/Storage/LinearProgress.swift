// SPDX-License-Identifier: MPL-2.0

/// How far a presentation is cached without a gap from its start: the least of its tracks. A value; each call goes on
/// from the last, so that a long presentation costs no more than a short one.
struct LinearProgress: Sendable {
    private struct Track {
        var end = Duration.zero
        var isOpen = true
    }

    private var tracks: [Int64: Track] = [:]
    /// The pieces before this one were looked at.
    private var next = 0
    /// The first pieces that are missing, one of each track that came to its end.
    private var gaps: [Int] = []

    /// `pieces` are in the order of their times within each track, and only grow.
    mutating func advance(through pieces: [CachedPiece], isPresent: (CachedPiece) -> Bool) -> Duration {
        // What stopped a track before may be there now: its later pieces have to be looked at again.
        if let first = gaps.min(), first < pieces.count, gaps.contains(where: { isPresent(pieces[$0]) }) {
            for gap in gaps where gap < pieces.count { tracks[pieces[gap].track]?.isOpen = true }
            next = first
            gaps = []
        }
        while next < pieces.count {
            let piece = pieces[next]
            var track = tracks[piece.track] ?? Track()
            if track.isOpen, piece.end > track.end || piece.duration == .zero {
                if isPresent(piece) {
                    track.end = max(track.end, piece.end)
                } else {
                    track.isOpen = false
                    gaps.append(next)
                }
            }
            tracks[piece.track] = track
            next += 1
        }
        return tracks.values.map(\.end).min() ?? .zero
    }
}
