// SPDX-License-Identifier: MPL-2.0

import HTTP
import MediaFormats

/// Brings everything of one item to disk, from its start to its end, and leaves out what is there. A value.
struct ItemDownload: Sendable {
    /// The pauses between tries where the network or the server fails.
    static let pauses: [Duration] = [.seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(15)]

    let fetcher: ItemFetcher
    /// Waits between two tries. Throws where the task is cancelled.
    let pause: @Sendable (Duration) async throws -> Void

    private var store: ItemStore { fetcher.store }

    /// Returns when everything is on disk. Throws what does not pass, and what did not pass after some tries.
    func run() async throws(CacheError) {
        // What was altered or cut off since is fetched again.
        _ = try await store.verify()
        let record = await store.record
        let presentation = try await trying { () async throws(CacheError) in
            try await CachedPresentation(of: record, fetcher, mustStore: true)
        }
        switch presentation {
        case .file: try await downloadFile(record.url)
        case .hls, .dash:
            if await !store.record.isPlanned { try await plan(presentation, record) }
            try await downloadPieces()
        }
        let end = await store.pieces.map(\.end).max()
        try await store.update {
            $0.isComplete = true
            $0.totalDuration = $0.totalDuration ?? end
        }
    }

    /// Tries again where it may help.
    private func trying<Value: Sendable>(
        _ body: () async throws(CacheError) -> Value
    ) async throws(CacheError) -> Value {
        var failures = 0
        while true {
            do throws(CacheError) {
                return try await body()
            } catch {
                guard error.isTemporary, error.code != .inUse, failures < Self.pauses.count else { throw error }
                do { try await pause(Self.pauses[failures]) } catch {
                    throw CacheError(.cancelled, "the download was paused")
                }
                failures += 1
            }
        }
    }

    @discardableResult
    private func store(_ offset: UInt64, _ length: UInt64?, of url: String) async throws(CacheError) -> UInt64 {
        try await trying { () async throws(CacheError) in try await fetcher.store(offset, length, of: url) }
    }

    private func read(_ range: Range<UInt64>, of url: String) async throws(CacheError) -> [UInt8] {
        try await trying { () async throws(CacheError) in
            try await fetcher.bytes(range, of: url, ahead: fetcher.downloadSize, mustStore: true)
        }
    }

    // MARK: Manifests

    private func downloadPieces() async throws(CacheError) {
        let urls = Dictionary(
            await store.resources.values.map { ($0.number, $0.url) }, uniquingKeysWith: { first, _ in first })
        for piece in await store.pieces {
            if await store.isPresent(piece) { continue }
            guard let url = urls[piece.resource] else { continue }
            try await store(piece.offset, piece.length, of: url)
        }
    }

    /// What there is to fetch, and when it plays.
    private func plan(_ presentation: CachedPresentation, _ record: ItemRecord) async throws(CacheError) {
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
        let resources = await store.resources
        // In the order of their times, so that all tracks come together.
        let ordered = pieces.enumerated().sorted {
            ($0.element.piece.begin, $0.offset) < ($1.element.piece.begin, $1.offset)
        }
        try await store.setPieces(
            ordered.map { entry in
                var piece = entry.element.piece
                piece.resource = resources[entry.element.url]?.number ?? 0
                return piece
            })
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
        let bytes = try await read(range.bounds, of: piece.url)
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

    // MARK: Files

    /// From box to box. What the fragments say of their times becomes known on the way.
    private func downloadFile(_ url: String) async throws(CacheError) {
        let size = try await store(0, 1, of: url)
        let resource = try await store.resource(url).number
        var timeline: ISOTimeline?
        var parts: [ISOTimeline.Part] = []
        var fragment: UInt64 = 0
        var walk = FileWalk(known: await store.pieces.count)
        var offset: UInt64 = 0
        while offset < size {
            let box = try await box(at: offset, size, url)
            switch box.type {
            case "moov", "moof":
                guard UInt64(box.range.count) <= ISOTimeline.maximumBoxSize else {
                    throw .unsupportedContent("a box “\(box.type)” of \(box.range.count) bytes", at: url)
                }
                let bytes = try await read(box.range, of: url)
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
                    if timeline?.isFragmented == true { try await store(size - min(size, 4096), nil, of: url) }
                }
            case "mdat":
                try await store(box.range.lowerBound, UInt64(box.range.count), of: url)
                for part in parts {
                    try await walk.add(
                        CachedPiece(
                            track: Int64(part.track), resource: resource, offset: fragment,
                            length: box.range.upperBound - fragment, begin: part.begin, duration: part.duration),
                        to: store)
                }
                parts = []
            default: try await store(box.range.lowerBound, UInt64(box.range.count), of: url)
            }
            offset = box.range.upperBound
        }
        guard let timeline else { throw .invalidContent("it has no box “moov”", at: url) }
        if !timeline.isFragmented {
            try await walk.add(
                CachedPiece(
                    track: 0, resource: resource, offset: 0, length: nil, begin: .zero,
                    duration: timeline.duration ?? .zero), to: store)
        }
        try await store.update { $0.isPlanned = true }
    }

    private func box(at offset: UInt64, _ size: UInt64, _ url: String) async throws(CacheError) -> ISOTopLevelBox {
        let header = try await read(offset..<offset + UInt64(ISOTopLevelBox.headerSize), of: url)
        do throws(FormatError) {
            return try ISOTopLevelBox(header, at: offset, ofFileWith: size)
        } catch {
            throw CacheError(error, at: url)
        }
    }
}

/// Adds pieces behind those that are known from before.
private struct FileWalk {
    let known: Int
    private var count = 0

    init(known: Int) { self.known = known }

    mutating func add(_ piece: CachedPiece, to store: ItemStore) async throws(CacheError) {
        count += 1
        if count > known { try await store.add(piece) }
    }
}

extension HLSByteRange {
    var bounds: Range<UInt64> { offset..<end }
}
