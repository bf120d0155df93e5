// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

extension Decryptor {
    /// What the sink pad of an element that decrypts a whole container says to queries. Nil: GStreamer's own answer.
    func answerForContainer(_ query: borrowing Query, accepting caps: Caps) -> Bool? {
        switch query.kind {
        case .acceptCaps:
            guard let offered = query.capsToAccept else { return nil }
            query.answerAcceptCaps(offered.isSubset(of: caps))
            return true
        case .caps:
            query.answer(caps: caps)
            return true
        case .allocation:
            // What upstream fills is encrypted, and read once.
            return false
        case .scheduling, .uri, .other:
            return nil
        }
    }
}
