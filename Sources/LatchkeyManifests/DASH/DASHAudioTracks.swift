// SPDX-License-Identifier: MPL-2.0

/// The audio tracks of a manifest of DASH, by the names that people choose them by. A value.
///
/// A track is an AdaptationSet of sound. Its name is its Label, else its language, else its id. Where a Period has a name
/// again, a number makes the difference.
public struct DASHAudioTracks: Sendable {
    /// One AdaptationSet.
    public struct Track: Hashable, Sendable {
        /// No other of the Period has it.
        public var name: String
        /// As the manifest spells it.
        public var language: String?
        /// The index in the Period's nodes.
        fileprivate var node: Int
    }

    /// Of each Period, in the order of the manifest.
    public let periods: [[Track]]
    private let root: XMLElement

    /// The most names of a Period.
    private static let limit = 256

    /// Takes the root of a manifest.
    public init(_ root: XMLElement) {
        self.root = root
        periods = root.children.filter { $0.localName == "Period" }.map(Self.tracks)
    }

    /// Of all Periods, each once.
    public var names: [String] {
        var seen: Set<String> = []
        return periods.joined().map(\.name).filter { seen.insert($0).inserted }
    }

    /// The track of that name, or else the first of that language; nil where there is none.
    public static func index(of name: String, in tracks: [Track]) -> Int? {
        tracks.firstIndex { $0.name == name }
            ?? tracks.firstIndex { $0.language?.lowercased() == name.lowercased() }
    }

    /// The manifest with that track in front of the others in each Period that has it: GStreamer's demuxer plays the first.
    public func manifest(withFirst name: String) -> XMLElement {
        var result = root
        var remaining = periods[...]
        result.nodes = root.nodes.map { node in
            guard case .element(var period) = node, period.localName == "Period", let tracks = remaining.popFirst(),
                let chosen = Self.index(of: name, in: tracks), chosen > 0
            else { return node }
            let set = period.nodes.remove(at: tracks[chosen].node)
            period.nodes.insert(set, at: tracks[0].node)
            return .element(period)
        }
        return result
    }

    /// The same as bytes; nil where no Period has it, and where the first is that track already.
    public static func manifest(_ bytes: [UInt8], withFirst name: String) -> [UInt8]? {
        guard let root = try? XMLElement(reading: bytes, limits: .manifest) else { return nil }
        let tracks = DASHAudioTracks(root)
        guard tracks.periods.contains(where: { index(of: name, in: $0).map { $0 > 0 } ?? false }) else { return nil }
        let text = tracks.manifest(withFirst: name).canonicalText
        return text.utf8.count <= XMLLimits.manifest.size ? Array(text.utf8) : nil
    }

    private static func tracks(of period: XMLElement) -> [Track] {
        let sets = period.nodes.enumerated().compactMap { node, content -> (Int, XMLElement)? in
            guard case .element(let set) = content, set.localName == "AdaptationSet", isAudio(set) else { return nil }
            return (node, set)
        }
        return zip(sets, names(of: sets.map(\.1))).map { set, name in
            Track(name: name, language: set.1[attribute: "lang"], node: set.0)
        }
    }

    /// Of the AdaptationSets of sound of a Period; none for those behind the first 256.
    static func names(of sets: [XMLElement]) -> [String] {
        var taken: Set<String> = []
        // The next one of each name.
        var numbers: [String: Int] = [:]
        return sets.prefix(limit).map { set in
            let words = [set.child("Label")?.trimmedText, set[attribute: "lang"], set[attribute: "id"]]
            let own = words.lazy.compactMap { $0 }.first { !$0.isEmpty } ?? "audio"
            var name = own
            while !taken.insert(name).inserted {
                let number = numbers[own, default: 2]
                name = "\(own) \(number)"
                numbers[own] = number + 1
            }
            return name
        }
    }

    private static func isAudio(_ set: XMLElement) -> Bool {
        if let type = set[attribute: "contentType"] { return type == "audio" }
        let kind = set[attribute: "mimeType"] ?? set.child("Representation")?[attribute: "mimeType"]
        return kind?.hasPrefix("audio/") == true
    }
}
