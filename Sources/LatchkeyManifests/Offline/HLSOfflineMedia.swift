// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyContainers

/// A media playlist (RFC 8216, 4.3.3) that is played from a cache: its segments with their times, and the playlist as far
/// as it is cached. A value.
public struct HLSOfflineMedia: Sendable {
    /// A segment, or a media initialization section: a duration of 0.
    public struct Piece: Hashable, Sendable {
        /// Absolute.
        public var url: String
        /// What playback asks for, which may end behind the resource. Nil for the whole resource.
        public var byteRange: HLSByteRange?
        /// From the start of the playlist, in seconds.
        public var begin: Double
        /// In seconds.
        public var duration: Double
        /// Its bytes look random without its key.
        package var isEncryptedAsWhole = false
    }

    /// A media initialization section, and the key of the segments behind it.
    public struct KeyedMap: Hashable, Sendable {
        /// As the playlist names it.
        public var key: HLSKey
        /// The section; nil for segments that need none.
        public var map: HLSMap?
    }

    /// In order; what a segment needs first stands in front of it.
    public private(set) var pieces: [Piece] = []
    /// The absolute URLs of keys that any client gets that may read their http or https URL (KEYFORMAT `identity`; RFC 8216,
    /// 4.3.2.4). Of segments alone, each once.
    public private(set) var keys: [String] = []
    /// Keys that FairPlay-style key servers give (KEYFORMAT `com.apple.streamingkeydelivery`), for playback that uses these.
    /// Of segments alone, each URI once.
    public private(set) var serverKeys: [HLSKey] = []
    /// The media initialization sections behind which a key of a key server holds, with that key, each once. Their KIDs may
    /// stand for keys of their own under its URI.
    public private(set) var keyedMaps: [KeyedMap] = []
    /// The URIs of those of `serverKeys` that a segment has without a PlayReady-style key beside. The others are left aside
    /// by playback that uses PlayReady-style licenses. Other key systems do not count: nothing here gets their keys.
    public private(set) var indispensableKeys: Set<String> = []
    /// No segment comes any more. One that is not so is live.
    public let isEnded: Bool
    /// In seconds.
    public private(set) var duration = 0.0

    private let playlist: HLSMediaPlaylist
    private let base: URIBase

    /// Reads what was fetched from `url`. `variables` are those of the master playlist. Throws as the demuxer does.
    public init(
        _ bytes: some Collection<UInt8>, from url: String, variables: [String: String]
    ) throws(FormatError) {
        let text = try HLSPlaylist(bytes)
        guard text.kind == .media else { throw .malformed("a master playlist in the place of a media playlist") }
        base = URIBase(URIReference(url))
        playlist = try HLSMediaPlaylist(
            text, base: base, variables: HLSVariables(imported: variables, url: base.reference),
            keyFormats: [.identity, .fairPlay, .playReady, .widevine], window: HLSWindow(),
            keyLimit: HLSPlaylist.maximumKeysAndMaps)
        isEnded = playlist.isEnded
        var map: HLSMap?
        var seen: Set<String> = []
        var alternatives = Alternatives(base: base.reference)
        for segment in playlist.segments {
            try alternatives.take(playlist.lines[segment.lines])
            guard let url = segment.url else { continue }
            if let url = segment.key?.plainURL, seen.insert(url).inserted { keys.append(url) }
            if let key = segment.key, key.isOfKeyServer, let uri = key.uri {
                if seen.insert(uri).inserted { serverKeys.append(key) }
                let keyed = KeyedMap(key: key, map: segment.map)
                if keyed != keyedMaps.last, !keyedMaps.contains(keyed) { keyedMaps.append(keyed) }
                if !alternatives.hasPlayReady { indispensableKeys.insert(uri) }
            }
            if let next = segment.map, next != map {
                pieces.append(
                    Piece(
                        url: next.url, byteRange: next.encryptedRange, begin: duration, duration: 0,
                        isEncryptedAsWhole: next.decryption != nil))
            }
            map = segment.map
            pieces.append(
                Piece(
                    url: url, byteRange: segment.encryptedRange, begin: duration, duration: segment.duration,
                    isEncryptedAsWhole: segment.decryption != nil))
            duration += segment.duration
        }
        guard duration.isFinite, duration < 1e9 else { throw .malformed("segments of \(duration) seconds") }
    }

    /// The playlist, with what `route` makes of the URLs of segments, initialization sections, and those of `keys` that are
    /// in `keptKeys`; other key URIs become absolute. Segments that end behind `end`, in seconds, are left out; nil: none.
    public func serialized(
        until end: Double?, keptKeys: Set<String> = [], route: (String) -> String
    ) -> [UInt8] {
        var text = ""
        var time = 0.0
        var written = 0
        for segment in playlist.segments where segment.url != nil {
            time += segment.duration
            // What adds up in two ways may differ in the last digits.
            if let end, time > end + 1e-3 { break }
            for line in playlist.lines[segment.lines] { write(line, segment, to: &text, keptKeys, route) }
            written = segment.lines.upperBound
        }
        if end == nil {
            for line in playlist.lines[written...] where line.content.isTag { text += "\(line.text)\n" }
        } else {
            // The playlist may start with a segment that is missing.
            if written == 0 { for line in playlist.lines.prefix(1) { text += "\(line.text)\n" } }
            text += "#EXT-X-ENDLIST\n"
        }
        return Array(text.utf8)
    }

    private func write(
        _ line: HLSLine, _ segment: HLSMediaPlaylist.Segment, to text: inout String, _ keptKeys: Set<String>,
        _ route: (String) -> String
    ) {
        switch line.content {
        case .blank, .comment: return
        case .uri: text += route(segment.url ?? "")
        case .tag("EXT-X-MAP", let value):
            guard var list = try? HLSAttributeList(parsing: value ?? "") else { return }
            list = list.withAbsoluteURI(base)
            list.set("URI", route(list["URI"] ?? ""))
            text += "#EXT-X-MAP:\(list.text)"
        case .tag("EXT-X-KEY", let value):
            guard var list = try? HLSAttributeList(parsing: value ?? "") else { return }
            // One that cannot be read must not become one that can: players would take another key.
            if (try? HLSKey(list)) != nil {
                list = list.withAbsoluteURI(base)
                list.route(keptKeys, route)
            }
            text += "#EXT-X-KEY:\(list.text)"
        // Of live streams, and of what is not cached.
        case .tag("EXT-X-PART", _), .tag("EXT-X-PRELOAD-HINT", _), .tag("EXT-X-RENDITION-REPORT", _),
            .tag("EXT-X-SERVER-CONTROL", _), .tag("EXT-X-PART-INF", _), .tag("EXT-X-ENDLIST", _):
            return
        case .tag: text += line.text
        }
        text += "\n"
    }
}

extension HLSKey {
    /// Where the bytes of the key are; nil for a key that comes otherwise.
    fileprivate var plainURL: String? {
        guard keyFormat == HLSKeyFormat.identity.name, let uri, URIReference(uri).isHTTP else { return nil }
        return uri
    }
}

extension HLSKey {
    fileprivate var isOfKeyServer: Bool { method != .none && keyFormat == HLSKeyFormat.fairPlay.name }
}

/// Which keys hold for a segment beside the one that the playlist is read with.
private struct Alternatives {
    let base: URIReference
    private var scope = HLSKeyScope()
    private(set) var hasPlayReady = false

    init(base: URIReference) { self.base = base }

    /// Takes the lines of the next segment.
    mutating func take(_ lines: some Sequence<HLSLine>) throws(FormatError) {
        var changes = false
        for line in lines {
            guard case .tag("EXT-X-KEY", let value) = line.content else { continue }
            try scope.apply(value ?? "", line: line.number, base: base)
            changes = true
        }
        guard changes else { return }
        scope.beginSegment()
        let key = try? scope.key(formats: [.playReady])
        hasPlayReady = key?.keyFormat == HLSKeyFormat.playReady.name
    }
}

extension HLSLine.Content {
    fileprivate var isTag: Bool { if case .tag = self { true } else { false } }
}
