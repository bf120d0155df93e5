// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// A rewritten playlist, and what was found in it. A value; thread-safe.
public struct HLSRewriting: Sendable {
    /// Who decrypts the segments of a key.
    public enum Decryptor: Hashable, Sendable {
        /// The decryptor element, sample by sample: the key session has to have the key.
        case element
        /// The server of the segment (`HLSResource.segment`).
        case server
    }

    /// A key and the run of segments that it is for.
    public struct KeyUse: Hashable, Sendable {
        /// With an absolute URI.
        public var key: HLSKey
        /// Tells whether the key session needs the key at all.
        public var decryptor: Decryptor
        /// The media sequence numbers of the first and the last segment of the run.
        public var segments: ClosedRange<UInt64>
        /// Seconds from the start of the first segment of the playlist.
        public var start: Double
        /// In the same seconds: where the last segment of the run ends.
        public var end: Double

        /// `start` and `end` are seconds, `segments` media sequence numbers.
        public init(
            key: HLSKey, decryptor: Decryptor, segments: ClosedRange<UInt64>, start: Double, end: Double
        ) {
            self.key = key
            self.decryptor = decryptor
            self.segments = segments
            self.start = start
            self.end = end
        }
    }

    /// A playlist that a master playlist names.
    public struct Child: Hashable, Sendable {
        /// What the master playlist names a child for.
        public enum Role: Hashable, Sendable {
            /// By tag and TYPE: `EXT-X-STREAM-INF`, the three of `EXT-X-MEDIA`, `EXT-X-I-FRAME-STREAM-INF`, and all
            /// others.
            case variant, audio, video, subtitles, iFrames, other
        }

        /// Of the playlist at the origin; absolute.
        public var url: String
        /// A URL that is named for two roles stands in the list twice.
        public var role: Role

        /// `url` is absolute.
        public init(url: String, role: Role) {
            self.url = url
            self.role = role
        }
    }

    /// A variant of a master playlist.
    public struct Variant: Hashable, Sendable {
        /// Of its playlist at the origin; absolute.
        public var url: String
        /// In bits a second, the average one where it is told; 0: not told.
        public var bitRate: UInt32
        /// Not where it names its codecs, and all of them are for sound.
        public var hasPictures: Bool

        /// `url` is absolute, `bitRate` in bits a second.
        public init(url: String, bitRate: UInt32, hasPictures: Bool = true) {
            self.url = url
            self.bitRate = bitRate
            self.hasPictures = hasPictures
        }
    }

    /// An audio rendition of a master playlist, with a playlist of its own.
    public struct Sound: Hashable, Sendable {
        /// Of its playlist at the origin; absolute.
        public var url: String
        /// `NAME`, else `LANGUAGE`. Groups have the same renditions under the same names (RFC 8216, 4.3.4.1.1).
        public var name: String

        /// `url` is absolute.
        public init(url: String, name: String) {
            self.url = url
            self.name = name
        }
    }

    /// The playlist for the demuxer, without a byte order mark.
    public var bytes: [UInt8] = []
    /// As it came; rewriting does not change it.
    public var kind: HLSPlaylist.Kind
    /// Whether a segment is encrypted, in whatever way; for a master playlist, whether it has session keys.
    public var isProtected = false
    /// In the order of the segments; neighbours with the same key are one use. A change of keys ahead is here as soon
    /// as the playlist has its first segment.
    public var keys: [KeyUse] = []
    /// A key that stands behind the last segment: the next rotation, before its first segment is there.
    public var upcomingKey: HLSKey?
    /// Of a master playlist (`EXT-X-SESSION-KEY`), in the one format that will be used: ask for these early.
    public var sessionKeys: [HLSKey] = []
    /// `EXT-X-TARGETDURATION` in seconds; nil for a master playlist.
    public var targetDuration: Double?
    /// The number of the first segment.
    public var mediaSequence: UInt64 = 0
    /// Whether the numbers are others than those of the origin, which has started anew: it is to be asked for no number.
    public var isNumberedAnew = false
    /// The number of the first segment that is there, which a delta update does not begin with `mediaSequence`.
    public var firstSegment: UInt64?
    /// Seconds of each segment, from `firstSegment` on.
    public var durations: [Double] = []
    /// Whether no segments will be added.
    public var isEnded = false
    /// All that was given a URL by `route`, each once, in order. What is in none of the last few refreshes of any
    /// playlist may be forgotten, but for what a delta update leaves out.
    public var resources: [HLSResource] = []
    /// In bytes, about: what it costs to serve them.
    package var resourceSize = 0
    /// In bytes, about: what it costs to play it. The demuxer keeps the text, too.
    package var memorySize: Int { resourceSize + bytes.count }
    /// The origins (`https://host:443`) of all http and https URLs that the playlist names.
    public var origins: Set<String> = []
    /// Of a media playlist: the absolute URLs that it names, as of segments, parts and init segments.
    public var urls: Set<String> = []
    /// Of these, those of init segments.
    public var initURLs: Set<String> = []
    /// The absolute URLs of the last segment and of its last part, or of the last part of a segment that is not there yet.
    public var lastURLs: Set<String> = []
    /// Whether it leaves out segments that an earlier refresh has named (`EXT-X-SKIP`).
    public var isDelta = false
    /// How many segments it leaves out.
    package var skippedCount: Int {
        guard isDelta else { return 0 }
        return firstSegment.map { Int(clamping: $0 &- mediaSequence) } ?? .max
    }
    /// Of a master playlist: what its children may import.
    public var variables: [String: String] = [:]
    /// Of a master playlist, in order, each once.
    public var children: [Child] = []
    /// Of a master playlist, in order, without those that were left out. Two may have the same playlist.
    public var variants: [Variant] = []
    /// Of a master playlist, by the URL of a variant: the playlist of the sound that goes with it, where there is one
    /// alone or one is the default.
    public var defaultAudio: [String: String] = [:]
    /// Of a master playlist that has several audio renditions: those of each group, in order, at most 64 of a group.
    public var soundGroups: [[Sound]] = []
    /// Of a master playlist: the variants whose size it tells, but for those that were left out.
    public var qualities: [PictureQuality] = []
    /// Of a master playlist: each name once, in the order of the playlist.
    public var audioTracks: [HLSAudioTracks.Track] = []
    /// The segment to look at, if the kind of the segments has to be known and the playlist does not say it. Set
    /// `HLSPlaylistRewriter.segmentKind` and rewrite again; until then it is taken for a transport stream.
    public var segmentToInspect: String?

    /// The segment to look at, if segments may be in envelopes and the playlist does not say so. Set
    /// `HLSPlaylistRewriter.isEnveloped` and rewrite again; until then they are taken for what the playlist says.
    public var segmentToProbe: SegmentProbe?

    /// Where the start of a segment can be fetched.
    public struct SegmentProbe: Hashable, Sendable {
        /// Of the segment at the origin; absolute.
        public var url: String
        /// Nil for the whole resource.
        public var byteRange: HLSByteRange?
    }

    /// Segments behind notes, by their absolute URLs; those that are ranges of something larger are left out.
    public var announcedSegments: [String: AnnouncedSegment] = [:]

    /// A segment that a note stands in front of, somewhere before it.
    public struct AnnouncedSegment: Hashable, Sendable {
        /// `transportStream` or `packedAudio`.
        public var kind: HLSSegmentKind
        /// A note stands right in front.
        public var isFirst: Bool
    }

    /// Whether it names something on a server, such as a segment, a key or another playlist.
    package var namesServers: Bool {
        // libcurl finds a host in `https:///media.example` too.
        !origins.isEmpty || keyURIs.contains { URIReference($0).isHTTP }
            || places.contains { URIReference($0).filePath == nil }
    }

    /// Throws where the playlist came from a server, `url`, and names files of this device.
    package func checkFiles(from url: String) throws(FormatError) {
        guard URIReference(url).filePath == nil,
            let file = places.union(keyURIs).first(where: { URIReference($0).filePath != nil })
        else { return }
        throw .malformed(
            "playlist \(URIReference.printable(url)), on a server, names \(URIReference.printable(file)), a file of this device"
        )
    }

    private var places: Set<String> { urls.union(initURLs).union(children.map(\.url)) }

    private var keyURIs: [String] {
        let ofSections = resources.compactMap {
            if case .initSegment(let section) = $0 { section.decryption?.key } else { nil }
        }
        return (keys.map(\.key) + sessionKeys + ofSections + [upcomingKey].compactMap(\.self)).compactMap(\.uri)
    }

    /// Of a playlist that names one alone, which is what a player fetches next.
    package var onlyInitSegment: HLSInitSegment? {
        let sections = resources.compactMap { if case .initSegment(let section) = $0 { section } else { nil } }
        return sections.count == 1 ? sections.first : nil
    }

    /// The first init segment of what is encrypted with that key.
    package func initSegment(of key: HLSKey?) -> HLSInitSegment? {
        guard let key else { return nil }
        for case .initSegment(let section) in resources where section.protection == .key(key) { return section }
        return nil
    }

    init(kind: HLSPlaylist.Kind) { self.kind = kind }
}
