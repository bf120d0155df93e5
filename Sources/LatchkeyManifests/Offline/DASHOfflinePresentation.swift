// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// A manifest of DASH (ISO/IEC 23009-1) with the tracks alone that are kept for playback offline: their segments with
/// their times, and the manifest as far as they are cached. A value.
public struct DASHOfflinePresentation: Sendable {
    /// A segment, or what there has to be before any: a duration of 0.
    public struct Piece: Hashable, Sendable {
        /// Of the presentation, from 0: pictures, then sound.
        public var track: Int
        /// Absolute.
        public var url: String
        /// Nil for the whole resource.
        public var byteRange: HLSByteRange?
        /// From the start of the presentation.
        public var begin: Duration
        /// How long it plays.
        public var duration: Duration
        /// Where its `sidx` box is, which tells the times within.
        public var index: HLSByteRange?
    }

    /// In order within each track.
    public private(set) var pieces: [Piece] = []
    /// Of the whole.
    public private(set) var duration: Duration?

    /// The most segments of a presentation.
    private static let pieceLimit = 500_000
    /// In bytes, of all their URLs: short templates may stand for long ones.
    private static let urlLimit = 64 << 20

    private struct Period {
        var element: XMLElement
        var begin: Duration
        var end: Duration?
        /// The AdaptationSets that are kept.
        var sets: [(element: XMLElement, representation: XMLElement, addressing: DASHAddressing)] = []
    }

    private let root: XMLElement
    private var urlSize = 0
    private var periods: [Period] = []

    /// Reads what was fetched from `url`. Throws `malformed`, `tooLarge`, and `unsupported` for live streams and for what
    /// comes from elsewhere.
    public init(_ bytes: some Collection<UInt8>, from url: String, selection: TrackSelection) throws(FormatError) {
        root = try XMLElement(reading: bytes, limits: .manifest)
        guard root.localName == "MPD" else { throw .malformed("no MPD: the document is something else") }
        guard root[attribute: "type"] != "dynamic" else { throw .unsupported("a live stream cannot be cached") }
        let whole = root[attribute: "mediaPresentationDuration"].flatMap { Duration(iso8601: $0) }
        duration = whole
        let base = Self.base(of: root, in: URIReference(url))
        var next = Duration.zero
        let elements = root.children.filter { $0.localName == "Period" }
        for (index, element) in elements.enumerated() {
            guard !element.attributes.contains(where: { $0.localName == "href" && !$0.namespace.isEmpty }) else {
                throw .unsupported("a Period that comes from elsewhere cannot be cached")
            }
            let begin = element[attribute: "start"].flatMap { Duration(iso8601: $0) } ?? next
            var end = element[attribute: "duration"].flatMap { Duration(iso8601: $0) }.map { begin + $0 }
            if end == nil, elements.indices.contains(index + 1) {
                end = elements[index + 1][attribute: "start"].flatMap { Duration(iso8601: $0) }
            }
            // The presentation may end before a Period begins, by its own word.
            var period = Period(element: element, begin: begin, end: (end ?? whole).map { max(begin, $0) })
            try choose(selection, in: &period, Self.base(of: element, in: base))
            next = period.end ?? begin
            periods.append(period)
        }
        guard !pieces.isEmpty else { throw .malformed("it has no AdaptationSet with segments") }
        if duration == nil { duration = pieces.map { $0.begin + $0.duration }.max() }
    }

    private static func base(of element: XMLElement, in base: URIReference) -> URIReference {
        guard let text = element.child("BaseURL")?.trimmedText, !text.isEmpty else { return base }
        return URIReference(URIReference.resolve(text, against: base))
    }

    // MARK: Tracks

    private mutating func choose(
        _ selection: TrackSelection, in period: inout Period, _ base: URIReference
    ) throws(FormatError) {
        let sets = period.element.children.filter { $0.localName == "AdaptationSet" }
        let trickModes = "http://dashif.org/guidelines/trickmode"
        let playable = sets.filter { set in
            !set.children.contains { $0[attribute: "schemeIdUri"] == trickModes }
        }
        let sounds = playable.filter { Self.kind(of: $0) == "audio" }
        let names = sounds.map { set in
            [set.child("Label")?.trimmedText, set[attribute: "lang"], set[attribute: "id"]].compactMap(\.self)
        }
        let main = sounds.firstIndex { set in
            set.children.contains { $0.localName == "Role" && $0[attribute: "value"] == "main" }
        }
        var chosen = playable.first { Self.kind(of: $0) == "video" }.map { [$0] } ?? []
        chosen += selection.audio(of: names, preferred: main).map { sounds[$0] }
        for (track, set) in chosen.enumerated() {
            let all = set.children.filter { $0.localName == "Representation" }
            let isVideo = Self.kind(of: set) == "video"
            let rates = all.map { $0[attribute: "bandwidth"].flatMap { UInt64($0) } ?? 0 }
            guard let best = (isVideo ? selection : TrackSelection()).variant(of: rates) else { continue }
            let representation = all[best]
            let addressing = try DASHAddressing(
                [period.element, set, representation],
                base: Self.base(of: representation, in: Self.base(of: set, in: base)))
            try addressing.forEachPiece(from: period.begin, to: period.end) { (piece) throws(FormatError) in
                guard pieces.count < Self.pieceLimit else { throw .tooLarge("more than \(Self.pieceLimit) segments") }
                urlSize += piece.url.utf8.count
                guard urlSize <= Self.urlLimit else { throw .tooLarge("more than \(Self.urlLimit) bytes of URLs") }
                var piece = piece
                piece.track = track
                pieces.append(piece)
            }
            period.sets.append((set, representation, addressing))
        }
    }

    private static func kind(of set: XMLElement) -> String {
        if let type = set[attribute: "contentType"] { return type }
        let type = set[attribute: "mimeType"] ?? set.child("Representation")?[attribute: "mimeType"] ?? ""
        return String(type.prefix { $0 != "/" })
    }

    // MARK: Writing

    /// The manifest of the tracks that are kept, with what `route` makes of the URLs of their segments. What ends behind
    /// `end` is left out; nil: nothing is.
    public func serialized(until end: Duration?, route: (String) -> String) -> [UInt8] {
        var result = root
        result.nodes = root.nodes.filter {
            !$0.isElement("Period") && !$0.isElement("BaseURL") && !$0.isElement("Location")
        }
        if let end {
            result.attributes.removeAll { $0.localName == "mediaPresentationDuration" }
            result.attributes.append(.init("mediaPresentationDuration", end.iso8601))
        }
        for period in periods where end.map({ period.begin < $0 || period.begin == .zero }) ?? true {
            var element = period.element
            element.nodes = element.nodes.filter { !$0.isElement("AdaptationSet") && !$0.isElement("BaseURL") }
            if let end, period.end.map({ $0 > end }) ?? true {
                element.attributes.removeAll { $0.localName == "duration" }
                element.attributes.append(.init("duration", (end - period.begin).iso8601))
            }
            for set in period.sets {
                var kept = set.element
                kept.nodes = kept.nodes.filter { !$0.isElement("Representation") && !$0.isElement("BaseURL") }
                let representation = set.addressing.rewritten(
                    set.representation, from: period.begin, to: period.end, until: end, route: route)
                kept.nodes.removeAll { node in DASHAddressing.names.contains(where: node.isElement) }
                kept.nodes.append(.element(representation))
                element.nodes.append(.element(kept))
            }
            element.nodes.removeAll { node in DASHAddressing.names.contains(where: node.isElement) }
            result.nodes.append(.element(element))
        }
        return Array("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\(result.canonicalText)\n".utf8)
    }
}

extension XMLElement.Node {
    func isElement(_ name: String) -> Bool {
        if case .element(let element) = self { element.localName == name } else { false }
    }
}

extension Duration {
    /// `PT…S`, to the millisecond.
    var iso8601: String {
        let (seconds, attoseconds) = components
        let digits = String(1000 + attoseconds / 1_000_000_000_000_000).dropFirst()
        return "PT\(seconds).\(digits)S"
    }
}
