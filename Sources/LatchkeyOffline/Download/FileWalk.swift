// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests

/// Goes through a file from box to box. What the fragments say of their times becomes known on the way. A value.
struct FileWalk: Sendable {
    let store: ItemStore
    let url: String
    /// Sees to it that a part is on disk (nil: to the end), and returns the size of the file.
    let bring: @Sendable (_ offset: UInt64, _ length: UInt64?) async throws(CacheError) -> UInt64
    let read: @Sendable (Range<UInt64>) async throws(CacheError) -> [UInt8]
    /// Whether the index of the fragments is brought early.
    var wantsIndex = true

    /// Goes to the end of the file, or throws what `bring` and `read` throw.
    func run() async throws(CacheError) {
        let size = try await bring(0, 1)
        var timeline: ISOTimeline?
        var parts: [ISOTimeline.Part] = []
        var fragment: UInt64 = 0
        var pieces = PieceCount(known: await store.pieces.count)
        var offset: UInt64 = 0
        while offset < size {
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
