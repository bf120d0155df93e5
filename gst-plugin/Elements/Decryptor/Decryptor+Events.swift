// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

extension Decryptor {
    func sinkEvent(_ event: consuming Event) -> Bool {
        switch event.kind {
        case .flushStart: return flushStart(event)
        case .flushStop: return flushStop(event)
        case .protection:
            // Asked for at once, before the samples that need the key: they may wait in the queue.
            if let protection = event.protection { prefetchKeys(protection) }
            return true
        default:
            return event.isSerialized ? sendInOrder(event) : sourcePad.push(event)
        }
    }
}
