// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests

/// Which keys are asked for ahead of need: those of the segments that are fetched next, and not all that a long playlist
/// names. A key server may count what it gives out, and a lease begins with the answer.
struct HLSKeySchedule {
    /// Keys behind the one that is needed now.
    private static let lookAhead = 2
    /// A live presentation is joined three target durations from its end (RFC 8216, 6.3.3), and there new keys come.
    private static let liveTargetDurations = 4.0

    /// Segments in a row with one key URI.
    fileprivate struct Run {
        let uri: String
        let key: HLSKey
        let start: Double
        var end: Double
        var last: UInt64
        /// A key at its own URI is fetched in no time. For fragmented MP4 that waits for the init segment, which tells
        /// whether the tracks have keys of their own.
        var waitsForInitSegment: Bool { key.isQuick && hasInitSegment }
        /// An init segment names it.
        let hasInitSegment: Bool
    }

    fileprivate struct Playlist {
        var runs: [Run] = []
        /// The number of the last segment of the run that was fetched last.
        var last: UInt64?
        /// What was asked for already, of what is in the playlist still.
        var asked: Set<String> = []
        /// The keys of what is fetched first, when the playlist was read last.
        var first: [HLSKey] = []
        var isEnded = false
    }

    private var playlists: [String: Playlist] = [:]
    /// Where the run that was fetched last begins, in seconds from the start of a complete presentation.
    private var position = 0.0

    /// A playlist was read, for the first time or again. Returns the keys to ask for.
    mutating func update(_ rewriting: HLSRewriting, of name: String) -> [HLSKey] {
        guard rewriting.kind == .media else {
            return rewriting.sessionKeys.filter { !$0.isQuick }
        }
        var playlist = playlists[name] ?? Playlist()
        playlist.runs = Self.runs(of: rewriting)
        playlist.isEnded = rewriting.isEnded
        playlist.asked.formIntersection(playlist.runs.map(\.uri) + [rewriting.upcomingKey?.uri].compactMap(\.self))
        let wanted: ArraySlice<Run>
        if rewriting.isEnded {
            let index =
                playlist.last.flatMap { last in playlist.runs.firstIndex { $0.last >= last } }
                ?? playlist.runs.lastIndex { $0.start <= position } ?? 0
            wanted = playlist.runs.dropFirst(index).prefix(1 + Self.lookAhead)
        } else {
            let total = rewriting.durations.reduce(0, +)
            let tail = total - Self.liveTargetDurations * (rewriting.targetDuration ?? 0)
            wanted = playlist.runs.drop { $0.end <= tail }
        }
        playlist.first = (rewriting.isEnded ? wanted.prefix(1) : wanted).map(\.key)
        var keys = playlist.take(wanted)
        if let key = rewriting.upcomingKey, let uri = key.uri, !key.isQuick, playlist.asked.insert(uri).inserted {
            keys.append(key)
        }
        playlists[name] = playlist
        return keys
    }

    /// Whether playlists may go on.
    var isLive: Bool { playlists.contains { !$0.value.isEnded } }

    /// The keys that the playlist cannot be played without from where playback is.
    func firstKeys(of name: String) -> [HLSKey] { playlists[name]?.first ?? [] }

    /// The key that a complete presentation needs where playback is, and those that are asked for ahead.
    func nextKeys(of name: String) -> [HLSKey] {
        guard let playlist = playlists[name], playlist.isEnded else { return [] }
        let index = playlist.runs.lastIndex { $0.start <= position } ?? 0
        return playlist.runs.dropFirst(index).prefix(1 + Self.lookAhead).map(\.key)
    }

    /// Whether init segments of the playlist name its keys.
    func hasNamedKeys(_ name: String) -> Bool { playlists[name]?.runs.contains(where: \.hasInitSegment) ?? false }

    /// What the segments of a key need was asked for. Returns the keys to ask for ahead.
    mutating func didFetch(_ key: HLSKey) -> [HLSKey] {
        guard let uri = key.uri else { return [] }
        var keys: [HLSKey] = []
        for name in playlists.keys {
            guard var playlist = playlists[name],
                let index = playlist.runs.firstIndex(where: { $0.uri == uri && $0.last >= playlist.last ?? 0 })
                    ?? playlist.runs.firstIndex(where: { $0.uri == uri })
            else { continue }
            playlist.last = playlist.runs[index].last
            position = playlist.runs[index].start
            playlist.asked.insert(uri)
            keys += playlist.take(playlist.runs[(index + 1)...].prefix(Self.lookAhead))
            playlists[name] = playlist
        }
        return keys
    }

    private static func runs(of rewriting: HLSRewriting) -> [Run] {
        var fronted: Set<HLSKey> = []
        for case .initSegment(let segment) in rewriting.resources {
            if case .key(let key) = segment.protection { fronted.insert(key) }
        }
        var runs: [Run] = []
        for use in rewriting.keys {
            guard let uri = use.key.uri else { continue }
            if let last = runs.indices.last, runs[last].uri == uri {
                runs[last].end = use.end
                runs[last].last = use.segments.upperBound
            } else {
                runs.append(
                    Run(
                        uri: uri, key: use.key, start: use.start, end: use.end, last: use.segments.upperBound,
                        hasInitSegment: fronted.contains(use.key)))
            }
        }
        return runs
    }
}

extension HLSKeySchedule.Playlist {
    /// The keys of these runs that were not asked for yet.
    fileprivate mutating func take(_ runs: ArraySlice<HLSKeySchedule.Run>) -> [HLSKey] {
        runs.filter { !$0.waitsForInitSegment && asked.insert($0.uri).inserted }.map(\.key)
    }
}

extension HLSKey {
    /// A key at its own URI, which needs no exchange and whose KID is unknown.
    var isQuick: Bool { keyFormat == HLSKeyFormat.identity.name && keyID == nil }
}

extension HLSResource {
    /// The key of what it stands for.
    var key: HLSKey? {
        switch self {
        case .playlist, .relayedSegment, .envelope: nil
        case .initSegment(let segment):
            if case .key(let key) = segment.protection { key } else { segment.decryption?.key }
        case .segment(let segment): segment.decryption.key
        case .keyNote(let note): note.key
        }
    }
}

/// When the segments of a presentation are shown, and with that, which keys what is shown still needs.
///
/// Time counts in seconds from the first segment of the first media playlist that was read, as in the stock demuxer.
struct HLSTimeline {
    /// The segments of one playlist, as it was read last.
    private struct Window {
        var first: UInt64
        var start: Double
        var durations: [Double]

        /// When a segment begins; nil for one that is neither in here nor next.
        func start(of sequence: UInt64) -> Double? {
            guard sequence >= first, let count = Int(exactly: sequence - first), count <= durations.count else {
                return nil
            }
            return start + durations[..<count].reduce(0, +)
        }
    }

    private var windows: [String: Window] = [:]
    /// When the last segment ends that a key is for, by the key's URI. Infinite where that is not known.
    private var ends: [String: Double] = [:]
    /// A playlist that rotates keys for ever names ever more of them. With these many, or bytes of them, all are forgotten.
    static let limit = 16_384
    static let sizeLimit = 16 << 20
    /// Bytes of the keys' URIs.
    private(set) var size = 0

    /// A playlist was read, for the first time or again.
    mutating func update(_ rewriting: HLSRewriting, of playlist: String) {
        guard rewriting.kind == .media, let first = rewriting.firstSegment else { return }
        // Renditions of one presentation number their segments alike.
        let known = windows[playlist]?.start(of: first) ?? windows.values.lazy.compactMap { $0.start(of: first) }.first
        let start = known ?? (windows.isEmpty ? 0 : nil)
        if let start { windows[playlist] = Window(first: first, start: start, durations: rewriting.durations) }
        if ends.count > Self.limit || size > Self.sizeLimit { (ends, size) = ([:], 0) }
        for use in rewriting.keys {
            guard let uri = use.key.uri else { continue }
            if ends[uri] == nil { size += uri.utf8.count }
            ends[uri] = max(ends[uri] ?? 0, start.map { $0 + use.end } ?? .infinity)
        }
    }

    /// Whether something that the key is for is shown at `position` or later, as far as is known.
    func needs(_ uri: String, at position: Double) -> Bool {
        // Segments are not exactly as long as playlists say.
        ends[uri].map { $0 + 1 > position } ?? true
    }
}
