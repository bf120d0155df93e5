// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyManifests

extension DASHDemuxer {
    /// The factory. Ranked above the stock demuxer, which urisourcebin would take otherwise.
    static let factory = ElementDescription(
        factory: "latchkeydashdemux", longName: "DASH demuxer with keys", classification: "Codec/Demuxer/Adaptive",
        summary:
            "Plays DASH, also with keys that change, and with encryption that GStreamer's own demuxers do not know",
        author: "The Latchkey authors", rank: Rank(Rank.primary.value + 2),
        padTemplates: [
            .sink("application/dash+xml"), .sometimesSource("video_%02u", "ANY"),
            .sometimesSource("audio_%02u", "ANY"), .sometimesSource("subtitle_%02u", "ANY"),
        ],
        properties: [
            Property(
                "iso-path", nick: "ISO path",
                blurb: "Where encrypted ISO media is decrypted: “box”, in front of GStreamer's demuxer, or “sample”, "
                    + "behind it; set it before the demuxer starts",
                kind: .string(default: ISOPath.box.rawValue),
                get: { .string(($0 as? DASHDemuxer)?.isoPath.rawValue) },
                set: { element, value in
                    guard case .string(let text?) = value, let path = ISOPath(rawValue: text) else { return }
                    (element as? DASHDemuxer)?.isoPath = path
                }),
            outageLimit,
        ] + stockProperties + frameProperties,
        signals: [
            KeyResponse.signal { ($0 as? DASHDemuxer)?.run?.session },
            SessionEvent.signal { ($0 as? DASHDemuxer)?.run?.session },
        ],
        implementation: DASHDemuxer.self)

    /// GStreamer's own finder takes some manifests that come over HTTP for plain XML.
    static let manifestType = TypeFinder(
        name: "latchkey-dash", rank: Rank(Rank.primary.value + 10), extensions: ["mpd"], caps: "application/dash+xml"
    ) { source in
        // What is there of the file: a server's first bytes, or all of a short manifest.
        var count = DASHManifest.recognitionSize
        while count >= 64 {
            if let bytes = source.bytes(at: 0, count: count) { return DASHManifest.isManifest(start: bytes) }
            count /= 2
        }
        return false
    }
}
