// SPDX-License-Identifier: MPL-2.0

public import LatchkeyKeySystems
public import LatchkeyProtection

/// A track of some content, or one of several qualities of it, and how it is encrypted at what times. A value.
///
/// Everything but `kind` is as the content spells it, and nil where it tells nothing.
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
    func isSame(as other: ContentTrack) -> Bool {
        var (left, right) = (self, other)
        left.keyPeriods = []
        right.keyPeriods = []
        return left == right
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
    /// Those that the content tells before it plays.
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

/// A key that playback will ask for, and who will be asked as things are configured now. A value.
public struct ContentKeyNeed: Hashable, Sendable {
    /// The system that will be asked. Where none is configured: the one that the content names, or nil if it names none.
    public var keySystem: KeySystem?
    /// Empty where the content names none.
    public var keyIDs: [KeyID]
    /// The URI that names the key, without its query.
    public var keyURI: String?
    /// Where the key comes from, in words: `the keys file`, `the licence store`, a service with its URL; nil: from nowhere,
    /// and playback will wait for a key that nobody gives.
    public var source: String?
}
