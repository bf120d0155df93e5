// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

extension HLSDemuxer {
    /// The factory. Ranked above the stock demuxer, which urisourcebin would take otherwise.
    static let factory = ElementDescription(
        factory: "latchkeyhlsdemux", longName: "HLS demuxer with keys", classification: "Codec/Demuxer/Adaptive",
        summary: "Plays HLS, also with keys that GStreamer's own demuxer does not know: SAMPLE-AES, skd:// and other "
            + "key formats, fragmented MP4 with AES-128",
        author: "The Latchkey authors", rank: Rank(Rank.primary.value + 2),
        padTemplates: [
            .sink("application/x-hls"), .sometimesSource("video_%02u", "ANY"),
            .sometimesSource("audio_%02u", "ANY"), .sometimesSource("subtitle_%02u", "ANY"),
        ],
        properties: [
            Property(
                "key-formats", nick: "Key formats",
                blurb: "KEYFORMATs to use where a playlist offers several, the preferred one first, separated by "
                    + "commas; unset: identity, com.apple.streamingkeydelivery, com.microsoft.playready and "
                    + "Widevine's, those of the configured key system first",
                kind: .string(default: nil),
                get: { .string(($0 as? HLSDemuxer)?.keyFormats) },
                set: { element, value in
                    guard case .string(let text) = value else { return }
                    (element as? HLSDemuxer)?.keyFormats = text
                }),
            outageLimit,
        ] + stockProperties + [startBitrate],
        signals: [
            KeyResponse.signal { ($0 as? HLSDemuxer)?.run?.session },
            SessionEvent.signal { ($0 as? HLSDemuxer)?.run?.session },
        ],
        implementation: HLSDemuxer.self)

    private var keyFormats: String? {
        get { monitor.withLock { settings.keyFormats } }
        set { monitor.withLock { settings.keyFormats = newValue?.isEmpty == true ? nil : newValue } }
    }
}
