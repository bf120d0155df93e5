// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
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
        /// Its bytes look random without its key (ISO/IEC 23009-4).
        package var isEncryptedAsWhole = false
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

    static func base(of element: XMLElement, in base: URIReference) -> URIReference {
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
        let tracks = zip(DASHAudioTracks.names(of: sounds), sounds).map { name, set in
            (name, [set.child("Label")?.trimmedText, set[attribute: "lang"], set[attribute: "id"]].compactMap(\.self))
        }
        let main = sounds.firstIndex { set in
            set.children.contains { $0.localName == "Role" && $0[attribute: "value"] == "main" }
        }
        var chosen = playable.first { Self.kind(of: $0) == "video" }.map { [$0] } ?? []
        chosen += selection.audio(of: tracks, preferred: main).map { sounds[$0] }
        for (track, set) in chosen.enumerated() {
            let all = set.children.filter { $0.localName == "Representation" }
            let isVideo = Self.kind(of: set) == "video"
            let rates = all.map { $0[attribute: "bandwidth"].flatMap { UInt64($0) } ?? 0 }
            guard let best = (isVideo ? selection : TrackSelection()).variant(of: rates) else { continue }
            let representation = all[best]
            let isEncryptedAsWhole = [root, period.element, set, representation].contains { level in
                level.children.contains { $0[attribute: "schemeIdUri"]?.hasPrefix("urn:mpeg:dash:sea:") == true }
            }
            let addressing = try DASHAddressing(
                [period.element, set, representation],
                base: Self.base(of: representation, in: Self.base(of: set, in: base)))
            try addressing.forEachPiece(from: period.begin, to: period.end) { (piece) throws(FormatError) in
                guard pieces.count < Self.pieceLimit else { throw .tooLarge("more than \(Self.pieceLimit) segments") }
                urlSize += piece.url.utf8.count
                guard urlSize <= Self.urlLimit else { throw .tooLarge("more than \(Self.urlLimit) bytes of URLs") }
                var piece = piece
                (piece.track, piece.isEncryptedAsWhole) = (track, isEncryptedAsWhole)
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

/// How the segments of a Representation are found (ISO/IEC 23009-1, 5.3.9): by a template, by a list, or as one resource.
/// A value.
struct DASHAddressing: Sendable {
    /// The elements that say so. They are inherited, attribute by attribute.
    static let names = ["SegmentTemplate", "SegmentList", "SegmentBase"]

    private struct Entry {
        /// Of the media timeline.
        var time: UInt64
        var duration: UInt64
    }

    private let base: URIReference
    private let representation: XMLElement
    /// One of `names`, with what is inherited; nil: the resource of the BaseURL.
    private let element: XMLElement?
    private let scale: UInt32
    private let offset: UInt64
    private let startNumber: UInt64
    private let segmentDuration: UInt64?

    /// `levels` are the Period, the AdaptationSet and the Representation.
    init(_ levels: [XMLElement], base: URIReference) throws(FormatError) {
        self.base = base
        representation = levels[levels.count - 1]
        var merged: XMLElement?
        for name in Self.names {
            for level in levels {
                guard let own = level.child(name) else { continue }
                guard let outer = merged, outer.localName == name else {
                    merged = own
                    continue
                }
                var inner = own
                inner.attributes += outer.attributes.filter { own[attribute: $0.localName] == nil }
                inner.nodes += outer.nodes.filter { node in
                    if case .element(let child) = node { own.child(child.localName) == nil } else { false }
                }
                merged = inner
            }
            if merged != nil { break }
        }
        element = merged
        func number(_ name: String) -> UInt64? { merged?[attribute: name].flatMap { UInt64($0) } }
        scale = UInt32(clamping: number("timescale") ?? 1)
        guard scale > 0 else { throw .malformed("a time scale of 0") }
        offset = number("presentationTimeOffset") ?? 0
        startNumber = number("startNumber") ?? 1
        segmentDuration = number("duration")
        guard offset < 1 << 62, segmentDuration.map({ 0 < $0 && $0 < 1 << 40 }) ?? true else {
            throw .malformed("a time offset of \(offset), or segments of \(segmentDuration ?? 0)")
        }
    }

    // MARK: Segments

    /// Calls `body` with what there has to be first, then with each segment of a Period from `begin` to `end`.
    func forEachPiece(
        from begin: Duration, to end: Duration?,
        _ body: (DASHOfflinePresentation.Piece) throws(FormatError) -> Void
    ) throws(FormatError) {
        func piece(
            _ url: String, _ range: HLSByteRange? = nil, _ start: Duration = .zero, _ duration: Duration = .zero,
            index: HLSByteRange? = nil
        ) throws(FormatError) {
            try body(
                .init(track: 0, url: url, byteRange: range, begin: begin + start, duration: duration, index: index))
        }
        let initialization = element?.child("Initialization")
        if let initialization {
            try piece(
                absolute(initialization[attribute: "sourceURL"] ?? ""),
                try Self.range(initialization[attribute: "range"]))
        }
        switch element?.localName {
        case "SegmentTemplate":
            if let text = element?[attribute: "initialization"] { try piece(absolute(fill(text, 0, 0))) }
            guard let media = element?[attribute: "media"] else { throw .malformed("a SegmentTemplate without media") }
            try forEachEntry(from: begin, to: end, count: nil) { (number, entry) throws(FormatError) in
                let (start, duration) = try times(entry)
                try piece(absolute(fill(media, number, entry.time)), nil, start, duration)
            }
        case "SegmentList":
            let urls = element?.children.filter { $0.localName == "SegmentURL" } ?? []
            try forEachEntry(from: begin, to: end, count: urls.count) { (number, entry) throws(FormatError) in
                guard let index = Int(exactly: number &- startNumber), urls.indices.contains(index) else { return }
                let (start, duration) = try times(entry)
                try piece(
                    absolute(urls[index][attribute: "media"] ?? ""),
                    try Self.range(urls[index][attribute: "mediaRange"]),
                    start, duration)
            }
        default:
            try piece(
                absolute(""), nil, .zero, (end ?? begin) - begin,
                index: try Self.range(element?[attribute: "indexRange"]))
        }
    }

    /// Where the init segment is. The first `size` bytes where a whole file does not tell; nil where there is none.
    func initialization(elseFirst size: UInt64) throws(FormatError) -> (url: String, byteRange: HLSByteRange?)? {
        let own = element?.child("Initialization")
        let range = try Self.range(own?[attribute: "range"])
        if let url = own?[attribute: "sourceURL"] ?? range.map({ _ in "" }) { return (absolute(url), range) }
        if let text = element?[attribute: "initialization"] { return (absolute(fill(text, 0, 0)), nil) }
        guard element?.localName ?? "SegmentBase" == "SegmentBase" else { return nil }
        let end = try Self.range(element?[attribute: "indexRange"])?.offset ?? 0
        return (absolute(""), HLSByteRange(offset: 0, length: end > 0 ? end : size))
    }

    private func times(_ entry: Entry) throws(FormatError) -> (begin: Duration, duration: Duration) {
        // What plays before the Period does not count.
        let (time, skipped) = entry.time >= offset ? (entry.time - offset, 0) : (0, offset - entry.time)
        guard let begin = Duration(ticks: time, scale: scale),
            let duration = Duration(ticks: entry.duration - min(skipped, entry.duration), scale: scale)
        else { throw .malformed("a segment at \(entry.time), of \(entry.duration)") }
        return (begin, duration)
    }

    private func forEachEntry(
        from begin: Duration, to end: Duration?, count: Int?,
        _ body: (UInt64, Entry) throws(FormatError) -> Void
    ) throws(FormatError) {
        var number = startNumber
        func next(_ entry: Entry) throws(FormatError) {
            try body(number, entry)
            guard number < 1 << 62 else { throw .malformed("a segment number of \(number)") }
            number += 1
        }
        if let timeline = element?.child("SegmentTimeline") {
            for entry in try entries(of: timeline, length: end.map { $0 - begin }) { try next(entry) }
            return
        }
        guard let duration = segmentDuration else {
            // One segment for the whole Period.
            let ticks = end.map { self.ticks($0 - begin) } ?? 0
            return try next(Entry(time: offset, duration: ticks))
        }
        var limit = count
        if limit == nil, let end {
            limit = Int(clamping: (ticks(end - begin) + duration - 1) / duration)
        }
        guard let limit else { throw .malformed("segments without an end") }
        guard limit <= 1 << 20 else { throw .tooLarge("\(limit) segments") }
        let whole = end.map { ticks($0 - begin) } ?? .max
        var time: UInt64 = 0
        for _ in 0..<limit {
            try next(
                Entry(
                    time: offset.addingReportingOverflow(time).partialValue,
                    duration: min(duration, whole - min(time, whole))))
            time = time.addingReportingOverflow(duration).partialValue
        }
    }

    private func entries(of timeline: XMLElement, length: Duration?) throws(FormatError) -> [Entry] {
        var entries: [Entry] = []
        var time: UInt64 = 0
        let rows = timeline.children.filter { $0.localName == "S" }
        for (index, row) in rows.enumerated() {
            time = row[attribute: "t"].flatMap { UInt64($0) } ?? time
            guard let duration = row[attribute: "d"].flatMap({ UInt64($0) }), duration > 0, duration < 1 << 40 else {
                throw .malformed("a SegmentTimeline without a duration")
            }
            var count = (row[attribute: "r"].flatMap { Int64($0) } ?? 0)
            if count < 0 {
                let next =
                    rows.indices.contains(index + 1) ? rows[index + 1][attribute: "t"].flatMap { UInt64($0) } : nil
                guard let end = next ?? length.map({ offset.addingReportingOverflow(ticks($0)).partialValue }) else {
                    throw .malformed("a SegmentTimeline without an end")
                }
                guard end < 1 << 62, time < 1 << 62 else { throw .tooLarge("a time in a SegmentTimeline") }
                count = end > time ? Int64(clamping: (end - time + duration - 1) / duration) - 1 : -1
            }
            guard count < 1 << 20, entries.count < 1 << 20, time < 1 << 62 else {
                throw .tooLarge("segments of a timeline")
            }
            for _ in 0..<max(count + 1, 0) {
                entries.append(Entry(time: time, duration: duration))
                time += duration
            }
        }
        return entries
    }

    private func ticks(_ time: Duration) -> UInt64 {
        let (seconds, attoseconds) = max(time, .zero).components
        let (whole, overflow) = UInt64(seconds).multipliedReportingOverflow(by: UInt64(scale))
        guard !overflow, whole < 1 << 62 else { return 1 << 62 }
        return whole + UInt64(Double(attoseconds) / 1e18 * Double(scale))
    }

    private static func range(_ text: String?) throws(FormatError) -> HLSByteRange? {
        guard let parts = text?.split(separator: "-", omittingEmptySubsequences: false), parts.count == 2 else {
            return nil
        }
        guard let first = UInt64(parts[0]), let last = UInt64(parts[1]), first <= last, last < 1 << 62 else {
            throw .malformed("a byte range")
        }
        return HLSByteRange(offset: first, length: last - first + 1)
    }

    private func absolute(_ reference: String) -> String {
        reference.isEmpty ? base.text : URIReference.resolve(reference, against: base)
    }

    /// Fills a template in (5.3.9.4.4): `$Number%05d$`.
    private func fill(_ template: String, _ number: UInt64, _ time: UInt64) -> String {
        let parts = template.split(separator: "$", omittingEmptySubsequences: false)
        var text = ""
        // What is longer is refused, and need not become longer still.
        for (index, part) in parts.enumerated() where text.utf8.count <= URIReference.maximumURLSize {
            guard index % 2 == 1, index < parts.count - 1 else {
                text += part
                continue
            }
            let name = part.prefix { $0 != "%" }
            let width = Int(part.dropFirst(name.count).dropFirst().prefix { $0.isNumber }) ?? 1
            func padded(_ value: String) -> String {
                String(repeating: "0", count: max(0, min(width, 64) - value.count)) + value
            }
            switch name {
            case "": text += "$"
            case "RepresentationID": text += representation[attribute: "id"] ?? ""
            case "Number": text += padded("\(number)")
            case "Time": text += padded("\(time)")
            case "Bandwidth": text += padded(representation[attribute: "bandwidth"] ?? "")
            default: text += "$\(part)$"
            }
        }
        return text
    }

    // MARK: Writing

    /// The Representation with everything it inherits about its segments, with what `route` makes of their URLs, and
    /// without the segments that end behind `limit`.
    func rewritten(
        _ representation: XMLElement, from begin: Duration, to end: Duration?, until limit: Duration?,
        route: (String) -> String
    ) -> XMLElement {
        var result = representation
        result.nodes.removeAll { node in node.isElement("BaseURL") || Self.names.contains(where: node.isElement) }
        let prefix = result.prefix
        // GStreamer's demuxer would ask for segments with this query, also if it is that of the manifest.
        let isPlace = element.map { $0.localName != "SegmentBase" } ?? false
        var written = base
        if isPlace { written.query = nil }
        result.nodes.append(
            .element(
                XMLElement(
                    "BaseURL", prefix: prefix, namespace: result.namespace, nodes: [.text(route(written.text))])))
        guard var element else { return result }
        for (index, attribute) in element.attributes.enumerated()
        where ["media", "initialization"].contains(attribute.localName) {
            element.attributes[index].value = Self.routed(attribute.value, base, route)
        }
        for (index, node) in element.nodes.enumerated() {
            guard case .element(var child) = node else { continue }
            for (place, attribute) in child.attributes.enumerated()
            where ["sourceURL", "media"].contains(attribute.localName) {
                child.attributes[place].value = Self.routed(attribute.value, base, route)
            }
            let name = child.localName == "SegmentURL" ? "media" : "sourceURL"
            if isPlace, base.query != nil, name == "media" || child.localName == "Initialization",
                child[attribute: name]?.isEmpty ?? true
            {
                // The resource of the BaseURL, with its query.
                child.attributes.removeAll { $0.localName == name }
                child.attributes.append(.init(name, route(base.text)))
            }
            if child.localName == "SegmentTimeline", let limit,
                let cut = try? entries(of: child, length: end.map { $0 - begin })
            {
                child.nodes = cut.filter { entry in
                    guard let times = try? times(entry) else { return false }
                    return begin + times.begin + times.duration <= limit + .milliseconds(1)
                }.map { entry in
                    .element(
                        XMLElement(
                            "S", prefix: child.prefix, namespace: child.namespace,
                            attributes: [.init("t", "\(entry.time)"), .init("d", "\(entry.duration)")]))
                }
            }
            element.nodes[index] = .element(child)
        }
        result.nodes.append(.element(element))
        return result
    }

    /// References that stay with their folder are left as they are.
    private static func routed(_ text: String, _ base: URIReference, _ route: (String) -> String) -> String {
        guard text.hasPrefix("/") || URIReference(text).scheme != nil else { return text }
        return route(URIReference.resolve(text, against: base))
    }
}
