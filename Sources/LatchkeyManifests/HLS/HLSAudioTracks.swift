// SPDX-License-Identifier: MPL-2.0

/// The audio tracks of a multivariant playlist, by the names that people choose them by (`EXT-X-MEDIA` with TYPE=AUDIO;
/// RFC 8216, 4.3.4.1). A value.
public struct HLSAudioTracks: Sendable {
    /// One rendition.
    public struct Track: Hashable, Sendable {
        /// NAME, else LANGUAGE. Groups repeat the names of others.
        public var name: String
        /// LANGUAGE.
        public var language: String?
        fileprivate var list: HLSAttributeList
        /// The index of its line.
        fileprivate var line: Int
    }

    /// Of each group, in the order of the playlist.
    private var groups: [String: [Track]] = [:]
    private let playlist: HLSPlaylist
    /// Each name once, in the order of the playlist.
    public private(set) var tracks: [Track] = []

    /// The most names that are kept.
    private static let limit = 256

    /// Takes a playlist; a media playlist has none.
    public init(_ playlist: HLSPlaylist) {
        self.playlist = playlist
        var seen: Set<String> = []
        for (index, line) in playlist.lines.enumerated() {
            guard case .tag("EXT-X-MEDIA", let value?) = line.content,
                let list = try? HLSAttributeList(parsing: value), list["TYPE"] == "AUDIO"
            else { continue }
            let track = Track(
                name: list["NAME"] ?? list["LANGUAGE"] ?? "audio", language: list["LANGUAGE"], list: list, line: index)
            groups[list["GROUP-ID"] ?? "", default: []].append(track)
            if seen.count < Self.limit, seen.insert(track.name).inserted { tracks.append(track) }
        }
    }

    /// The lines of the playlist with that track, or else with the first of that language, as the first and the default of
    /// each group that has it; nil: as they are.
    ///
    /// `languagesOnce`: of several tracks of a group with one language, the first alone says it.
    func lines(withFirst name: String?, languagesOnce: Bool) -> [HLSLine] {
        var lines = playlist.lines
        for group in groups.values {
            let chosen = name.flatMap { Self.index(of: $0, in: group) }
            var order = group
            if let chosen { order.insert(order.remove(at: chosen), at: 0) }
            var languages: Set<String> = []
            for (place, track) in zip(group.map(\.line), order) {
                var list = track.list
                if let chosen { list = Self.list(list, isDefault: track.line == group[chosen].line) }
                if languagesOnce, let language = track.language, !languages.insert(language).inserted {
                    list.attributes.removeAll { $0.name == "LANGUAGE" }
                }
                guard place != track.line || list != track.list else { continue }
                lines[place] = playlist.lines[track.line]
                lines[place].text = Substring("#EXT-X-MEDIA:\(list.text)")
            }
        }
        return lines
    }

    private static func index(of name: String, in group: [Track]) -> Int? {
        group.firstIndex { $0.name == name } ?? group.firstIndex { $0.language?.lowercased() == name.lowercased() }
    }

    /// What plays by default may be selected without being asked for (RFC 8216, 4.3.4.1).
    private static func list(_ list: HLSAttributeList, isDefault: Bool) -> HLSAttributeList {
        var list = list
        list.attributes.removeAll { $0.name == "DEFAULT" || isDefault && $0.name == "AUTOSELECT" }
        guard isDefault else { return list }
        for name in ["DEFAULT", "AUTOSELECT"] {
            list.attributes.append(HLSAttribute(name: name, value: "YES", isQuoted: false))
        }
        return list
    }
}
