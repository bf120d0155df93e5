// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests

/// What the index of an item knows of one resource of the origin.
struct CachedResource: Hashable, Sendable {
    /// What an index may call one.
    static let numbers: ClosedRange<Int64> = 1...1 << 40
    /// In bytes; what is larger is refused, so that no place in one can overflow.
    static let largestSize: UInt64 = 1 << 50

    /// Its number in the index, which names its file; below 0 where the index does not know it.
    var number: Int64
    /// As it is asked for; absolute.
    var url: String
    /// Behind all redirects: what relative references in it are resolved against.
    var answeringURL: String
    /// In bytes; nil where nothing came yet.
    var size: UInt64?
    /// `ETag`, or else `Last-Modified`; empty where the server tells neither.
    var validator: String
    var contentType: String
}

extension CachedResource {
    /// Whether an index may have it.
    var isPossible: Bool { Self.numbers.contains(number) && size ?? 0 <= Self.largestSize }

    /// One of which nothing is known yet.
    init(number: Int64, url: String) {
        self.init(number: number, url: url, answeringURL: url, size: nil, validator: "", contentType: "")
    }
}

/// A part of a presentation with a time of its own: a segment, a fragment of a file, or what there has to be before any
/// (`duration` 0).
struct CachedPiece: Hashable, Sendable {
    /// Of the presentation. Pieces of several tracks play together.
    var track: Int64
    /// The resource that it is in.
    var resource: Int64
    /// In bytes.
    var offset: UInt64
    /// In bytes; nil: to the end of the resource.
    var length: UInt64?
    /// From the start of the presentation.
    var begin: Duration
    var duration: Duration

    var end: Duration { begin + duration }

    /// The first byte behind it; nil: the end of the resource.
    var endOffset: UInt64? {
        length.map { length in
            let (end, overflow) = offset.addingReportingOverflow(length)
            return overflow ? .max : end
        }
    }
}

/// What an item is, as its index has it.
struct ItemRecord: Hashable, Sendable {
    var url: String
    var format: CachedItem.Format
    var selection: TrackSelection
    /// Of the whole presentation; nil where that is not known yet.
    var totalDuration: Duration?
    /// Every piece is known.
    var isPlanned = false
    /// Everything was cached once.
    var isComplete = false
}

// MARK: In the index

extension ItemRecord {
    /// Nil where these are no record.
    init?(values: [String: String]) {
        guard let url = values["url"], let format = values["format"].flatMap(CachedItem.Format.init) else { return nil }
        let tracks = (values["audio"] ?? "").split(separator: "\n").map(String.init)
        self.init(
            url: url, format: format,
            selection: TrackSelection(maximumBitRate: values["bit-rate"].flatMap { UInt64($0) }, audioTracks: tracks),
            totalDuration: values["duration"].flatMap { UInt64($0) }.map { .microseconds(Int64(clamping: $0)) },
            isPlanned: values["planned"] == "yes", isComplete: values["complete"] == "yes")
    }

    var values: [String: String] {
        [
            "url": url, "format": format.rawValue, "bit-rate": selection.maximumBitRate.map { "\($0)" } ?? "",
            "audio": selection.audioTracks.joined(separator: "\n"),
            "duration": totalDuration.map { "\($0.microseconds)" } ?? "", "planned": isPlanned ? "yes" : "no",
            "complete": isComplete ? "yes" : "no",
        ]
    }
}
