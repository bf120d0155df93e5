// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// Something of a presentation that the demuxer is to fetch from this library and not from the origin.
///
/// A value that says all there is to know: two that are equal mean the same bytes, so give them the same URL.
public indirect enum HLSResource: Hashable, Sendable {
    /// A playlist, to be fetched and rewritten. The URL is absolute.
    case playlist(url: String)
    /// A media initialization section, to be fetched and changed.
    case initSegment(HLSInitSegment)
    /// A segment that is encrypted as a whole, to be fetched and decrypted as it comes.
    case segment(HLSEncryptedSegment)
    /// A segment that is handed on as it is, with the range that the demuxer asks for. The URL is absolute.
    case relayedSegment(url: String)
    /// A segment that may be in an envelope, to be fetched and handed on in a form that the stock demuxer takes.
    case envelope(HLSEnvelopedSegment)
    /// A note in front of segments of a transport stream or of packed audio, made here: nothing is fetched.
    case keyNote(HLSKeyNote)

    /// In bytes, about: what it costs to serve it, but without the URI of its key. Some 100 are for its places in tables and 50 for
    /// a URL, beside its own bytes. The rest is for the value.
    package var size: Int {
        switch self {
        case .keyNote: 160
        case .playlist(let url), .relayedSegment(let url): 176 + url.utf8.count
        case .segment(let segment): 256 + segment.url.utf8.count
        case .envelope(let segment): 256 + segment.url.utf8.count
        case .initSegment(let section): 352 + section.url.utf8.count
        }
    }

    /// Of the key that it is for.
    package var keyURI: String? {
        switch self {
        case .playlist, .relayedSegment, .envelope: nil
        case .initSegment(let section):
            if case .key(let key) = section.protection { key.uri } else { section.decryption?.key.uri }
        case .segment(let segment): segment.decryption.key.uri
        case .keyNote(let note): note.key?.uri
        }
    }
}

/// A media initialization section of fragmented MP4, and what to make of it.
public struct HLSInitSegment: Hashable, Sendable {
    /// What to change in the section before it is served.
    public enum Protection: Hashable, Sendable {
        /// Nothing.
        case unchanged
        /// The segments behind it are encrypted with this key: put the key's initialization data into it.
        case key(HLSKey)
        /// The segments behind it are clear and stand in a row with encrypted ones: make it say "protected, but not
        /// encrypted", in the terms of this key, so that the decryptor stays in the pipeline.
        case clear(like: HLSKey?)
    }

    /// Where the section is at the origin; absolute.
    public var url: String
    /// Nil for the whole resource.
    public var byteRange: HLSByteRange?
    /// Set where the section itself is encrypted as a whole.
    public var decryption: HLSSegmentDecryption?
    /// Decided by the segments that the section stands in front of.
    public var protection: Protection

    /// `url` is absolute; nothing is checked.
    public init(
        url: String, byteRange: HLSByteRange? = nil, decryption: HLSSegmentDecryption? = nil, protection: Protection
    ) {
        self.url = url
        self.byteRange = byteRange
        self.decryption = decryption
        self.protection = protection
    }

    /// Whether the resource is clear although it is to be encrypted as a whole: some packagers leave it so. Of what is encrypted,
    /// one in 600 million begins as these bytes have to.
    package func isClear(_ bytes: [UInt8]) -> Bool {
        byteRange == nil && HLSSegmentKind(firstBytes: bytes) == .fragmentedMP4
    }
}

/// A segment, or a part of one, that is encrypted as a whole.
public struct HLSEncryptedSegment: Hashable, Sendable {
    /// Where the encrypted segment is at the origin; absolute.
    public var url: String
    /// In the encrypted resource, unless `decryption` is that of a part; nil for all of it.
    public var byteRange: HLSByteRange?
    /// The key, and the IV of this very segment.
    public var decryption: HLSSegmentDecryption

    /// `url` is absolute.
    public init(url: String, byteRange: HLSByteRange? = nil, decryption: HLSSegmentDecryption) {
        self.url = url
        self.byteRange = byteRange
        self.decryption = decryption
    }
}

/// A segment of a presentation whose segments are in envelopes (`EnvelopeParser`).
public struct HLSEnvelopedSegment: Hashable, Sendable {
    /// Where the segment is at the origin; absolute.
    public var url: String
    /// Nil for the whole resource.
    public var byteRange: HLSByteRange?
    /// Of what is inside, as far as the playlist tells.
    public var kind: HLSSegmentKind
    /// When it starts, in ticks of 90 kHz on a clock of the playlist's own: the same for a segment in all refreshes, and
    /// for segments of the same time in other playlists.
    public var start: UInt64

    /// `url` is absolute, `start` in ticks of 90 kHz.
    public init(url: String, byteRange: HLSByteRange? = nil, kind: HLSSegmentKind, start: UInt64) {
        self.url = url
        self.byteRange = byteRange
        self.kind = kind
        self.start = start
    }
}

/// What the segments behind a note are encrypted with.
public struct HLSKeyNote: Hashable, Sendable {
    /// `transportStream` or `packedAudio`.
    public var kind: HLSSegmentKind
    /// Nil: the segments are clear.
    public var key: HLSKey? {
        get { sharedKey?.value }
        set { sharedKey = newValue.map { HLSShared($0) } }
    }
    private var sharedKey: HLSShared<HLSKey>?
    /// Nil where the answer to the key request brings it, and for clear segments.
    public var initializationVector: InitializationVector?

    /// `kind` is `transportStream` or `packedAudio`: no other segments take a note.
    public init(kind: HLSSegmentKind, key: HLSKey?, initializationVector: InitializationVector?) {
        self.init(kind: kind, sharedKey: key.map { HLSShared($0) }, initializationVector: initializationVector)
    }

    /// For one of many notes with that key.
    init(kind: HLSSegmentKind, sharedKey: HLSShared<HLSKey>?, initializationVector: InitializationVector?) {
        self.kind = kind
        self.sharedKey = sharedKey
        self.initializationVector = initializationVector
    }
}

/// How the demuxer gets a segment.
enum HLSDelivery: Hashable, Sendable {
    /// From the origin; clear, or with encrypted samples.
    case direct
    /// Decrypted, from this library.
    case decrypted
    /// In an envelope, from this library.
    case enveloped

    /// Whether this library serves the segment, whole.
    var isServed: Bool { self == .decrypted || self == .enveloped }
}

/// What a rewritten playlist has for `EXT-X-MAP`.
enum HLSFront: Hashable, Sendable {
    /// The playlist's own, from the origin.
    case own(HLSMap)
    case routed(HLSResource)

    var isRouted: Bool {
        if case .routed = self { true } else { false }
    }
}

/// What the media segments of a playlist are (RFC 8216, 3).
public enum HLSSegmentKind: Hashable, Sendable {
    /// MPEG-2 transport stream (RFC 8216, 3.2).
    case transportStream
    /// AAC, AC-3, E-AC-3 or MP3 frames behind an ID3 tag (RFC 8216, 3.4).
    case packedAudio
    /// Fragments behind an `EXT-X-MAP` (RFC 8216, 3.3).
    case fragmentedMP4
    /// Subtitles, never encrypted by samples (RFC 8216, 3.5).
    case webVTT

    /// A guess from the file name at the end of a URL's path.
    public init?(url: String) {
        let name = URIReference(url).path.utf8.split(separator: UInt8(ascii: "/")).last
        guard let name, let dot = name.lastIndex(of: UInt8(ascii: ".")) else { return nil }
        switch Substring(name[name.index(after: dot)...]).lowercased() {
        case "ts", "tsv", "tsa", "m2ts", "mts", "m2t": self = .transportStream
        case "aac", "ac3", "ec3", "eac3", "adts", "mp3": self = .packedAudio
        case "mp4", "m4s", "m4v", "m4a", "m4f", "cmfv", "cmfa", "cmft", "cmfm", "frag": self = .fragmentedMP4
        case "vtt", "webvtt": self = .webVTT
        default: return nil
        }
    }

    /// A guess from the first bytes of a segment that is not encrypted as a whole; 377 bytes are enough.
    public init?(firstBytes bytes: some Collection<UInt8>) {
        let bytes = Array(bytes.prefix(1024))
        let sync = UInt8(ascii: "G")
        let boxes = ["styp", "ftyp", "moof", "moov", "sidx", "emsg", "prft"].map { Array($0.utf8) }
        let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
        if text.starts(with: "WEBVTT".utf8) {
            self = .webVTT
        } else if bytes.starts(with: "ID3".utf8) || bytes.starts(with: [0x0B, 0x77]) {
            self = .packedAudio
        } else if bytes.count >= 8, boxes.contains(Array(bytes[4..<8])) {
            self = .fragmentedMP4
        } else if bytes.first == sync, stride(from: 0, to: bytes.count, by: 188).allSatisfy({ bytes[$0] == sync }) {
            self = .transportStream
        } else if bytes.count >= 2, bytes[0] == 0xFF, bytes[1] & 0xE0 == 0xE0 {
            self = .packedAudio
        } else {
            return nil
        }
    }

    /// Whether decrypted bytes are the start of media for certain: of wrong keys, one in 60,000 gives such bytes. Where frames
    /// of sound are not behind an ID3 tag, two of them are needed.
    package static func isCertain(start bytes: [UInt8]) -> Bool {
        switch HLSSegmentKind(firstBytes: bytes) {
        case .transportStream: bytes.count > 188
        case .packedAudio: bytes.starts(with: "ID3".utf8) || AudioFrame.areFrames(bytes)
        case .fragmentedMP4, .webVTT: true
        case nil: false
        }
    }
}
