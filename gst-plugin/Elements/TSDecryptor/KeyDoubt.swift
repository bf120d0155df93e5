// SPDX-License-Identifier: MPL-2.0

import MediaFormats
import ProtectionModel

/// Whether the first frames behind a key look as if that were the right one. Where it is, a frame without damage has the
/// right checksum; where it is not, one of 65,536 has. Only AC-3 and E-AC-3 tell, and they are looked at no longer than
/// that takes.
struct KeyDoubt {
    /// So many wrong frames and no right one are no accident of the transmission.
    static let frameLimit = 8

    private var keyID: KeyID?
    private var wrongFrames = 0
    private var isSettled = false

    /// Whether frames that were decrypted with this key are still looked at.
    mutating func isOpen(for keyID: KeyID?) -> Bool {
        if keyID != self.keyID { self = KeyDoubt(keyID: keyID) }
        return !isSettled
    }

    init(keyID: KeyID? = nil) { self.keyID = keyID }

    /// Looks at a unit that was decrypted. True, once, when the key has to be a wrong one.
    mutating func isConfirmed(by unit: UnsafeRawBufferPointer) -> Bool {
        let (right, wrong) = AudioFrameChecksum.count(in: unit, limit: Self.frameLimit - wrongFrames)
        wrongFrames += wrong
        isSettled = right > 0 || wrongFrames >= Self.frameLimit
        return isSettled && right == 0
    }
}
