// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

/// Caps inside the stock demuxer.
enum HLSCaps {
    /// What segments with notes in front are called, so that the element that reads the notes gets them.
    static let withNotes = "application/x-latchkey-ts"

    private static let taken: Set<String> = [
        "video/mpegts", "application/x-id3", "audio/mpeg", "audio/x-ac3", "audio/x-eac3", "audio/ac3",
    ]

    /// The caps for segments that may have notes; nil for others.
    static func renamed(_ caps: Caps) -> Caps? {
        guard let type = caps.mediaType(), taken.contains(type) else { return nil }
        return Caps(withNotes)
    }
}
