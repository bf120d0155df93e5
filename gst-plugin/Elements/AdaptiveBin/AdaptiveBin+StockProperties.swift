// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

extension AdaptiveBin {
    /// Those of the stock demuxers that applications and playbin3 set, passed on to them.
    static let stockProperties =
        rateProperties + [
            stock("min-bitrate", "Lowest bitrate of a variant in bits/s", 0...UInt32.max),
            stockTime("max-buffering-time", "Upper limit of what is buffered, in ns", 30_000_000_000),
            stockTime("high-watermark-time", "Buffered time above which nothing is fetched, in ns", 30_000_000_000),
            stockTime("low-watermark-time", "Buffered time below which fetching goes on, in ns; 0: automatic", 0),
        ]

    /// Of the stock demuxer of HLS alone.
    static let startBitrate = stock(
        "start-bitrate", "Bitrate of the first variant in bits/s; 0: automatic", 0...UInt32.max)

    private static func stock(_ name: String, _ blurb: String, _ range: ClosedRange<UInt32>) -> Property {
        Property(
            name, nick: name, blurb: blurb, kind: .uint(default: 0, range: range), mutability: .playing,
            get: { ($0 as? AdaptiveBin)?.child?.pointer.property(name) ?? .none },
            set: { ($0 as? AdaptiveBin)?.child?.pointer.setProperty(name, $1) })
    }

    private static func stockTime(_ name: String, _ blurb: String, _ initial: UInt64) -> Property {
        Property(
            name, nick: name, blurb: blurb, kind: .uint64(default: initial, range: 0...UInt64.max),
            mutability: .playing, get: { ($0 as? AdaptiveBin)?.child?.pointer.property(name) ?? .none },
            set: { ($0 as? AdaptiveBin)?.child?.pointer.setProperty(name, $1) })
    }
}
