// SPDX-License-Identifier: MPL-2.0

import ElementKit

/// A frame in one colour that takes the place of others. Its bytes are made once and shared.
final class PlainFrame: @unchecked Sendable {
    // SAFETY: constant after `init`; the buffer's reference count is atomic.
    let caps: Caps
    let isWhite: Bool
    /// Frames of these caps lie in memory of another kind, so the sink has to change over.
    let hasOwnCaps: Bool
    private let buffer: Buffer

    /// Nil where the caps are no raw video of a known format.
    init?(_ caps: Caps, isWhite: Bool) {
        hasOwnCaps = !caps.isInSystemMemory
        self.caps = hasOwnCaps ? caps.inSystemMemory() : caps
        self.isWhite = isWhite
        guard let buffer = Buffer(plainFrame: self.caps, isWhite: isWhite) else { return nil }
        self.buffer = buffer
    }

    func frame(at time: UInt64?, duration: UInt64?) -> Buffer? {
        buffer.sharingBytes(presentationTime: time, duration: duration)
    }
}
