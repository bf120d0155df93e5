// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

extension SmoothDemuxer {
    /// The factory. Ranked above the stock demuxer, which urisourcebin would take otherwise.
    static let factory = ElementDescription(
        factory: "latchkeymssdemux", longName: "Smooth Streaming demuxer with keys",
        classification: "Codec/Demuxer/Adaptive",
        summary: "Plays Smooth Streaming, also with encrypted fragments, which GStreamer's own demuxer takes for clear",
        author: "The Latchkey authors", rank: Rank(Rank.primary.value + 2),
        padTemplates: [
            .sink("application/vnd.ms-sstr+xml"), .sometimesSource("video_%02u", "ANY"),
            .sometimesSource("audio_%02u", "ANY"), .sometimesSource("subtitle_%02u", "ANY"),
        ],
        properties: [
            Property(
                "audio-track", nick: "Audio track",
                blurb: "The audio that plays, by its Name in the manifest or else by its Language; unset: the first. "
                    + "May change while it plays",
                kind: .string(default: nil), mutability: .playing,
                get: { .string(($0 as? SmoothDemuxer)?.audioTrack) },
                set: { element, value in
                    guard case .string(let text) = value else { return }
                    (element as? SmoothDemuxer)?.audioTrack = text
                }),
            Property(
                "audio-tracks", nick: "Audio tracks",
                blurb: "The names of the audio tracks, one a line; the language of one without a name",
                kind: .string(default: nil),
                get: { .string(($0 as? SmoothDemuxer)?.audioTracks.joined(separator: "\n")) }),
            outageLimit,
        ] + stockProperties,
        signals: [
            KeyResponse.signal { ($0 as? SmoothDemuxer)?.run?.session },
            SessionEvent.signal { ($0 as? SmoothDemuxer)?.run?.session },
        ],
        implementation: SmoothDemuxer.self)
}
