// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests

/// Finds out of which parts a presentation of HLS or DASH is made, and when each plays. A value.
struct PresentationPlan: Sendable {
    let store: ItemStore
    /// Bytes of an index in a file.
    let read: @Sendable (Range<UInt64>, String) async throws(CacheError) -> [UInt8]

    /// What there is to fetch, and when it plays.
    func make(of presentation: CachedPresentation, _ record: ItemRecord) async throws(CacheError) {
        var pieces: [(url: String, piece: CachedPiece)] = []
        let manifests = presentation.manifests(of: record)
        func add(
            _ track: Int, _ url: String, _ range: Range<UInt64>?, _ begin: Duration, _ duration: Duration
        ) {
            pieces.append(
                (
                    url,
                    CachedPiece(
                        track: Int64(track), resource: 0, offset: range?.lowerBound ?? 0,
                        length: range.map { UInt64($0.count) }, begin: begin, duration: duration)
                ))
        }
        var total: Duration?
        switch presentation {
        case .file: return
        case .hls(_, let playlists):
            for (track, playlist) in playlists.enumerated() {
                for url in manifests { add(track, url, nil, .zero, .zero) }
                for piece in playlist.media.pieces {
                    add(
                        track, piece.url, piece.byteRange?.bounds, .seconds(piece.begin), .seconds(piece.duration))
                }
            }
            total = playlists.map { .seconds($0.media.duration) }.min()
        case .dash(let dash):
            for track in Set(dash.pieces.map(\.track)).sorted() { add(track, record.url, nil, .zero, .zero) }
            for piece in dash.pieces {
                guard let index = piece.index else {
                    add(piece.track, piece.url, piece.byteRange?.bounds, piece.begin, piece.duration)
                    continue
                }
                try await self.index(index, of: piece) { range, begin, duration in
                    add(piece.track, piece.url, range, begin, duration)
                }
            }
            total = dash.duration
        }
        try await store.addResources(pieces.map(\.url))
        var numbers: [String: Int64] = [:]
        for url in Set(pieces.map(\.url)) { numbers[url] = await store.resource(url).number }
        // In the order of their times, so that all tracks come together.
        let ordered = pieces.enumerated().sorted {
            ($0.element.piece.begin, $0.offset) < ($1.element.piece.begin, $1.offset)
        }
        try await store.setPieces(
            ordered.map { entry in
                var piece = entry.element.piece
                piece.resource = numbers[entry.element.url] ?? 0
                return piece
            })
        // Before anything counts as ready to play.
        try await presentation.noteKeys(in: store)
        let duration = total
        try await store.update {
            $0.totalDuration = duration
            $0.isPlanned = true
        }
    }

    /// The parts of a file that has an index.
    private func index(
        _ range: HLSByteRange, of piece: DASHOfflinePresentation.Piece,
        _ add: (Range<UInt64>?, Duration, Duration) -> Void
    ) async throws(CacheError) {
        let bytes = try await read(range.bounds, piece.url)
        let index: ISOSegmentIndex
        do throws(FormatError) {
            index = try ISOSegmentIndex(bytes)
        } catch {
            guard error.isSameKind(as: .unsupported("")) else { throw CacheError(error, at: piece.url) }
            return add(nil, piece.begin, piece.duration)
        }
        add(0..<range.end, piece.begin, .zero)
        for part in index.parts {
            let (start, overflow) = range.end.addingReportingOverflow(part.offset)
            guard !overflow, start < 1 << 62 else { break }
            add(start..<start + part.size, piece.begin + part.begin, part.duration)
        }
    }
}

extension HLSByteRange {
    fileprivate var bounds: Range<UInt64> { offset..<end }
}
