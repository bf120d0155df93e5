// SPDX-License-Identifier: MPL-2.0

import ElementKit

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
                get: { .string(($0 as? HLSDemuxer)?.withGuarded { $0.settings.keyFormats }) },
                set: { element, value in
                    guard case .string(let text) = value else { return }
                    (element as? HLSDemuxer)?.withGuarded {
                        $0.settings.keyFormats = text?.isEmpty == true ? nil : text
                    }
                })
        ] + stockProperties, signals: [KeyResponse.signal { ($0 as? HLSDemuxer)?.run?.session }],
        implementation: HLSDemuxer.self)

    /// Those of the stock demuxer that applications and playbin3 set, passed on to it.
    private static let stockProperties = [
        stock("connection-speed", "Network connection speed in kbps; 0: measured", 0...4_294_967),
        stock("connection-bitrate", "Network connection speed in bits/s; 0: measured", 0...UInt32.max),
        stock("start-bitrate", "Bitrate of the first variant in bits/s; 0: automatic", 0...UInt32.max),
        stock("min-bitrate", "Lowest bitrate of a variant in bits/s", 0...UInt32.max),
        stock("max-bitrate", "Highest bitrate of a variant in bits/s; 0: no limit", 0...UInt32.max),
        stockTime("max-buffering-time", "Upper limit of what is buffered, in ns", 30_000_000_000),
        stockTime("high-watermark-time", "Buffered time above which nothing is fetched, in ns", 30_000_000_000),
        stockTime("low-watermark-time", "Buffered time below which fetching goes on, in ns; 0: automatic", 0),
    ]

    private static func stock(_ name: String, _ blurb: String, _ range: ClosedRange<UInt32>) -> Property {
        Property(
            name, nick: name, blurb: blurb, kind: .uint(default: 0, range: range), mutability: .playing,
            get: { ($0 as? HLSDemuxer)?.child?.pointer.property(name) ?? .none },
            set: { ($0 as? HLSDemuxer)?.child?.pointer.setProperty(name, $1) })
    }

    private static func stockTime(_ name: String, _ blurb: String, _ initial: UInt64) -> Property {
        Property(
            name, nick: name, blurb: blurb, kind: .uint64(default: initial, range: 0...UInt64.max),
            mutability: .playing, get: { ($0 as? HLSDemuxer)?.child?.pointer.property(name) ?? .none },
            set: { ($0 as? HLSDemuxer)?.child?.pointer.setProperty(name, $1) })
    }
}

/// The factories of demuxers with keys.
public enum AdaptiveDemuxerFactory {
    public static let all = [HLSDemuxer.factory]
}
