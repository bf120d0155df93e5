// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests

/// Finds out of which parts a presentation of HLS or DASH is made, and when each plays. A value.
struct PresentationPlan: Sendable {
    let store: ItemStore
    /// Bytes of an index in a file.
    let read: @Sendable (Range<UInt64>, String) async throws(CacheError) -> [UInt8]

    /// In bytes. An index has at most 65,535 entries of 12 bytes, and a header.
    private static let indexLimit: UInt64 = 1 << 20

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

    /// The parts of a file that has an index; the whole file if the index is an index of indices, or too large for one.
    private func index(
        _ range: HLSByteRange, of piece: DASHOfflinePresentation.Piece,
        _ add: (Range<UInt64>?, Duration, Duration) -> Void
    ) async throws(CacheError) {
        guard range.length <= Self.indexLimit else { return add(nil, piece.begin, piece.duration) }
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

/// Goes through a file from box to box. What the fragments say of their times becomes known on the way. A value.
struct FileWalk: Sendable {
    let store: ItemStore
    let url: String
    /// Sees to it that a part is on disk (nil: to the end), and returns the size of the file.
    let bring: @Sendable (_ offset: UInt64, _ length: UInt64?) async throws(CacheError) -> UInt64
    let read: @Sendable (Range<UInt64>) async throws(CacheError) -> [UInt8]
    /// Whether the index of the fragments is brought early.
    var wantsIndex = true
    /// The most boxes at the top of a file. A day of fragments of one second has 172,800 of `moof` and `mdat`.
    var boxLimit = 1 << 20

    /// Goes to the end of the file, or throws what `bring` and `read` throw. Throws `cancelled` if the task is, and
    /// `unsupportedContent` for too many boxes.
    func run() async throws(CacheError) {
        let size = try await bring(0, 1)
        var timeline: ISOTimeline?
        var parts: [ISOTimeline.Part] = []
        var fragment: UInt64 = 0
        var hasSamples = false
        var pieces = PieceCount(known: await store.pieces.count)
        var offset: UInt64 = 0
        var boxes = 0
        while offset < size {
            // What is on disk is read without a wait that a cancellation would end.
            if Task.isCancelled { throw CacheError(.cancelled, "the download was paused") }
            guard boxes < boxLimit else {
                throw .unsupportedContent("it has more than \(boxLimit) boxes", at: url)
            }
            boxes += 1
            let box = try await box(at: offset, size)
            switch box.type {
            case "moov", "moof":
                guard UInt64(box.range.count) <= ISOTimeline.maximumBoxSize else {
                    throw .unsupportedContent("a box “\(box.type)” of \(box.range.count) bytes", at: url)
                }
                let bytes = try await read(box.range)
                do throws(FormatError) {
                    if box.type == "moov" {
                        timeline = try ISOTimeline(movie: bytes)
                    } else {
                        parts = try timeline?.take(fragment: bytes) ?? []
                        fragment = box.range.lowerBound
                    }
                } catch {
                    throw CacheError(error, at: url)
                }
                if box.type == "moov", let duration = timeline?.duration {
                    try await store.update { $0.totalDuration = duration }
                    // The index of the fragments, for seeking, is at the end.
                    if wantsIndex, timeline?.isFragmented == true { _ = try await bring(size - min(size, 4096), nil) }
                }
            case "mdat":
                hasSamples = hasSamples || box.range.count > 16
                _ = try await bring(box.range.lowerBound, UInt64(box.range.count))
                for part in parts {
                    try await pieces.add(
                        CachedPiece(
                            track: Int64(part.track), resource: store.resource(url).number, offset: fragment,
                            length: box.range.upperBound - fragment, begin: part.begin, duration: part.duration),
                        to: store)
                }
                parts = []
            default: _ = try await bring(box.range.lowerBound, UInt64(box.range.count))
            }
            offset = box.range.upperBound
        }
        guard let timeline else { throw .invalidContent("it has no box “moov”", at: url) }
        guard hasSamples, timeline.hasMedia else { throw .invalidContent("it has neither pictures nor sound", at: url) }
        if !timeline.isFragmented {
            try await pieces.add(
                CachedPiece(
                    track: 0, resource: store.resource(url).number, offset: 0, length: nil, begin: .zero,
                    duration: timeline.duration ?? .zero), to: store)
        }
        try await store.update { $0.isPlanned = true }
    }

    private func box(at offset: UInt64, _ size: UInt64) async throws(CacheError) -> ISOTopLevelBox {
        let header = try await read(offset..<offset + UInt64(ISOTopLevelBox.headerSize))
        do throws(FormatError) {
            return try ISOTopLevelBox(header, at: offset, ofFileWith: size)
        } catch {
            throw CacheError(error, at: url)
        }
    }
}

/// Adds pieces behind those that are known from before.
private struct PieceCount {
    let known: Int
    private var count = 0

    init(known: Int) { self.known = known }

    mutating func add(_ piece: CachedPiece, to store: ItemStore) async throws(CacheError) {
        count += 1
        if count > known { try await store.add(piece) }
    }
}
