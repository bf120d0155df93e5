// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySession
import LatchkeyProtection

extension StaticKeys {
    /// The keys that are named by a KID.
    var keysByID: [KeyID: ContentKey] {
        var keys: [KeyID: ContentKey] = [:]
        for entry in entries {
            if case .keyID(let keyID) = entry.subject { keys[keyID] = entry.key }
        }
        return keys
    }
}
