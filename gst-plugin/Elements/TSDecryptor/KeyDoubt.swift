// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// Whether the first frames behind a key look as if that were the right one. AC-3 and E-AC-3 tell by their checksums: with the
/// right key, a frame without damage has the right one; otherwise, one of 65,536 has. AAC tells by the ends of its frames: with
/// a wrong key, one encrypted end of four looks right. Frames are looked at no longer than that takes.
struct KeyDoubt {
    /// So many wrong frames and no right one are no accident of the transmission.
    static let frameLimit = 8
    /// So many wrong ends, if they are no fewer than the right ones; and so many right ones without a wrong one settle it.
    static let endLimit = 6
    /// So many clear ends, all of them right, show that the stream keeps the rule.
    static let clearLimit = 48

    private var keyID: KeyID?
    private var wrongFrames = 0
    private var ends = AudioFrameEnds()
    private var isSettled = false

    /// Whether frames that were decrypted with this key are still looked at.
    mutating func isOpen(for keyID: KeyID?) -> Bool {
        if keyID != self.keyID { self = KeyDoubt(keyID: keyID) }
        return !isSettled
    }

    init(keyID: KeyID? = nil) { self.keyID = keyID }

    /// Looks at a unit that was decrypted. Why the key has to be a wrong one, once; nil otherwise.
    mutating func reason(by unit: UnsafeRawBufferPointer) -> String? {
        let (right, wrong) = AudioFrameChecksum.count(in: unit, limit: Self.frameLimit - wrongFrames)
        wrongFrames += wrong
        ends.add(unit)
        let areFramesWrong = right == 0 && wrongFrames >= Self.frameLimit
        let areEndsWrong =
            ends.wrong >= max(Self.endLimit, ends.right) && ends.clearRight >= Self.clearLimit && ends.clearWrong == 0
        isSettled =
            right > 0 || areFramesWrong || areEndsWrong || ends.clearWrong > 0
            || (ends.right >= Self.endLimit && ends.wrong == 0)
        guard right == 0 else { return nil }
        if areFramesWrong { return "none of the first \(Self.frameLimit) AC-3 frames has the right checksum" }
        guard areEndsWrong else { return nil }
        return "\(ends.wrong) of \(ends.wrong + ends.right) encrypted ends of AAC frames are no ends"
    }
}
