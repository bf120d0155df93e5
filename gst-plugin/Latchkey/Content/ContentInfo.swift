// SPDX-License-Identifier: MPL-2.0

public import LatchkeyKeySystems
public import LatchkeyProtection

/// What is known of some content before it plays: its protection, and the rights that are installed for it. A value.
public struct ContentInfo: Hashable, Sendable {
    /// Whether something of it is encrypted.
    public var isProtected: Bool
    /// The key systems that the content names and that Latchkey has an exchange for, in the order of the content.
    public var keySystems: [KeySystem]
    /// All protection systems that the content names.
    public var protectionSystems: [ProtectionSystem]
    /// Each once. Empty where the content names none before it plays, as with `skd://` keys.
    public var keyIDs: [KeyID]
    /// Whether it may be played now, and why not. `valid` for content that is not protected.
    public var rights: RightsStatus
    /// What to choose an audio track by (`Agent.selectedAudioTrack`). Each once; empty where there is no choice to name.
    public var audioTrackNames: [String]
    /// The tracks and their qualities, in the order of the content. Of a PIFF file only those that play.
    public var tracks: [ContentTrack]
    /// The keys that playback will ask for. Empty where none is needed; keys that the content itself gives away, as
    /// AES-128 of HLS does, need none.
    public var keyNeeds: [ContentKeyNeed]
    /// Where the content says that licenses are. Not trusted: nothing secret is sent there.
    public var licenseURLs: [String]

    /// How the installed rights stand.
    public var rightsStatus: RightsStatus.Kind { rights.kind }
    /// When they begin; nil for no limit.
    public var rightsBegin: UnixTime? { rights.begins }
    /// When they end; nil for no limit, and where the end counts from the first use, before that.
    public var rightsEnd: UnixTime? { rights.ends }
    /// The rights end some time after their first use, which is still to come.
    public var rightsExpireAfterFirstUse: Bool { rights.rightsExpireAfterFirstUse }
}

/// A track of some content, or one of several qualities of it, and how it is encrypted at what times. A value.
///
/// Everything but `kind` is as the content spells it, and nil if the content does not say it.
public struct ContentTrack: Hashable, Sendable {
    /// What a track has for the user.
    public enum Kind: String, Sendable, CaseIterable {
        /// Pictures, with their sound where that comes in the same stream.
        case video
        /// Sound alone.
        case audio
        /// Subtitles and captions.
        case text
        /// Anything else.
        case other
    }

    /// What it has.
    public var kind: Kind
    /// What people choose it by.
    public var name: String?
    /// A tag of BCP 47 or a code of ISO 639-2.
    public var language: String?
    /// The parameter `codecs` of RFC 6381, or four characters.
    public var codecs: String?
    /// In bits a second.
    public var bitRate: UInt64?
    /// In pixels.
    public var width: UInt32?
    /// In pixels.
    public var height: UInt32?
    /// In the order of time; clear periods are among them. Empty for tracks that were not looked into: subtitles.
    public var keyPeriods: [KeyPeriod] = []

    /// Nothing is known yet.
    init(_ kind: Kind) { self.kind = kind }

    /// The same but for its times.
    var withoutTimes: ContentTrack {
        var track = self
        track.keyPeriods = []
        return track
    }
}

/// A time in which one key, or none, is for a track. A value.
public struct KeyPeriod: Hashable, Sendable {
    /// In seconds from the start of the content, of a live playlist from its first segment; nil where that is not known.
    public var start: Double?
    /// In the same seconds; nil where that is not known, or not yet.
    public var end: Double?
    /// The encryption scheme (`cenc`, `cbcs`, …), the METHOD of a playlist, or `envelope`; nil: it is clear.
    public var method: String?
    /// The KEYFORMAT of a playlist.
    public var keyFormat: String?
    /// The URI that names the key, without its query; of a `data:` URI, its media type.
    public var keyURI: String?
    /// Those that the content names before it plays.
    public var keyIDs: [KeyID]

    init(
        start: Double? = nil, end: Double? = nil, method: String? = nil, keyFormat: String? = nil,
        keyURI: String? = nil, keyIDs: [KeyID] = []
    ) {
        self.start = start
        self.end = end
        self.method = method
        self.keyFormat = keyFormat
        self.keyURI = keyURI
        self.keyIDs = keyIDs
    }

    /// Whether nothing is encrypted.
    public var isClear: Bool { method == nil }
}

/// A key that playback will ask for, and the source that will be asked as things are configured now. A value.
public struct ContentKeyNeed: Hashable, Sendable {
    /// The system that will be asked. Where none is configured: the one that the content names, or nil if it names none.
    public var keySystem: KeySystem?
    /// Empty where the content names none.
    public var keyIDs: [KeyID]
    /// The URI that names the key, without its query.
    public var keyURI: String?
    /// Where the key comes from, in words: `the keys file`, `the license store`, a service with its URL; nil: from nowhere,
    /// and playback will wait for a key that does not come.
    public var source: String?
}

/// What a content URL is expected to point to.
public enum ContentType: String, Sendable, CaseIterable {
    /// A playlist of HTTP Live Streaming (RFC 8216), master or media.
    case hls
    /// A client manifest of Smooth Streaming ([MS-SSTR]).
    case smoothStreaming = "smooth"
    /// A PIFF file, `.ismv` or `.isma`, local or at a web server.
    case piff
    /// A manifest of DASH (ISO/IEC 23009-1).
    case dash
    /// An MP4 file, fragmented or not, local or at a web server.
    case mp4

    /// A guess from the end of the URL's path, for people who type URLs. Nil if it says nothing.
    public init?(url: String) {
        let path = url.prefix { $0 != "?" && $0 != "#" }.lowercased()
        if path.hasSuffix(".m3u8") || path.hasSuffix(".m3u") {
            self = .hls
        } else if path.hasSuffix("/manifest") || path.hasSuffix(".ismc") || path.hasSuffix(".ism") {
            self = .smoothStreaming
        } else if path.hasSuffix(".ismv") || path.hasSuffix(".isma") {
            self = .piff
        } else if path.hasSuffix(".mpd") {
            self = .dash
        } else if [".mp4", ".m4v", ".m4a", ".mov"].contains(where: path.hasSuffix) {
            self = .mp4
        } else {
            return nil
        }
    }

    /// What people call it, in a sentence.
    var name: String {
        switch self {
        case .hls: "HLS playlist"
        case .smoothStreaming: "Smooth Streaming manifest"
        case .piff: "PIFF file"
        case .dash: "DASH manifest"
        case .mp4: "MP4 file"
        }
    }
}
