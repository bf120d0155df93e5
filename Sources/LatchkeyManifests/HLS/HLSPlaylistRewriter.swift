// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// Makes playlists (RFC 8216) with any keys into playlists that the stock GStreamer demuxer plays.
///
/// The stock demuxer takes each `EXT-X-KEY` for whole-segment AES-128 over http(s). So keys of encrypted samples are
/// taken out, and named in what `EXT-X-MAP` leads to instead: a changed media initialization section, or a note in
/// front of transport streams and packed audio. Other playlists, those sections and notes get URLs by `route`; media
/// segments stay with their origin, unless they are encrypted as a whole in a way that the stock demuxer cannot open.
/// URIs become absolute. Nothing else of an unprotected playlist changes.
///
/// One value for each playlist of a presentation, kept over the refreshes of a live one: a segment keeps what it was
/// given. Pure: nothing is fetched here. A value type: use one from one thread at a time.
public struct HLSPlaylistRewriter: Sendable {
    /// In bytes, of a rewritten playlist.
    public static let maximumResultSize = 32 * 1024 * 1024

    /// The formats of keys that can be used, the preferred one first. AES-128 with `identity` can always be.
    public var keyFormats: [HLSKeyFormat]
    /// The variables of the master playlist, for `EXT-X-DEFINE:IMPORT`.
    public var importedVariables: [String: String]
    /// The session keys of the master playlist. A live playlist whose segments are all clear is prepared for encrypted
    /// ones if there are any.
    public var sessionKeys: [HLSKey]
    /// Whether a playlist that players may change from to this one has encrypted samples. Clear segments are announced then,
    /// so that they are not taken for encrypted ones.
    public var hasEncryptedSibling = false
    /// What the segments are, where it is known. A playlist with `EXT-X-MAP` is fragmented MP4 anyway; otherwise the
    /// file names of the segments tell, where this is nil.
    public var segmentKind: HLSSegmentKind?

    /// Whether segments are in envelopes. Nil as long as nobody has looked: `HLSRewriting.segmentToProbe` says where.
    public var isEnveloped: Bool?

    /// What the outputs have. Variants that want more by their `HDCP-LEVEL` (RFC 8216bis, section 4.4.6.2) are left out,
    /// where there are others. Nil: all variants stay.
    public var outputLevel: OutputRequirement?

    /// Whether segments of playlists with keys that would stay with their origin are to come through this library as
    /// well (`HLSResource.relayedSegment`); their parts (`EXT-X-PART`) stay where they are.
    public var relaysSegments = false

    /// The same for segments at this origin alone (`URIReference.origin`); nil: for none.
    public var relayedOrigin: String?

    var window = HLSWindow()

    /// Where `segmentKind` is nil, the playlist and its file names tell; see `HLSRewriting.segmentToInspect`.
    public init(
        keyFormats: [HLSKeyFormat], importedVariables: [String: String] = [:], sessionKeys: [HLSKey] = [],
        segmentKind: HLSSegmentKind? = nil
    ) {
        self.keyFormats = keyFormats
        self.importedVariables = importedVariables
        self.sessionKeys = sessionKeys
        self.segmentKind = segmentKind
    }

    /// Rewrites what was fetched from `url`, which is the absolute URL behind all redirects.
    ///
    /// `route` gives the URL under which this library will serve a resource, always the same for the same resource.
    /// Throws `malformed`, `tooLarge` or, where no key format of the playlist can be used, `unsupported`; the text names
    /// the playlist and the line. A rewriter that threw is as it was before.
    public mutating func rewrite(
        _ bytes: some Collection<UInt8>, from url: String, route: @escaping (HLSResource) -> String
    ) throws(FormatError) -> HLSRewriting {
        let base = URIBase(URIReference(url))
        do throws(FormatError) {
            let playlist = try HLSPlaylist(bytes)
            var output = HLSOutput(kind: playlist.kind, base: base, route: route)
            switch playlist.kind {
            case .master:
                try rewriteMaster(playlist, to: &output)
            case .media:
                try rewriteMedia(playlist, to: &output)
            }
            return output.result
        } catch {
            throw error.within("playlist \(base.reference.printable)")
        }
    }
}
