// SPDX-License-Identifier: MPL-2.0

import ElementKit
import MediaFormats

/// Caps inside the stock demuxer.
enum HLSCaps {
    private static let transportStream = "video/mpegts"
    private static let taken: Set<String> = [
        transportStream, "application/x-id3", "audio/mpeg", "audio/x-ac3", "audio/x-eac3", "audio/ac3",
    ]

    /// The caps for segments that may have notes, so that the element that reads them gets them; nil for others.
    /// `impliedNote` is the one that transport streams may be without.
    static func renamed(_ caps: Caps, impliedNote: SegmentKey?) -> Caps? {
        guard let type = caps.mediaType(), taken.contains(type) else { return nil }
        return TSDecryptor.plugged(impliedNote: type == transportStream ? impliedNote : nil)
    }
}
