// SPDX-License-Identifier: MPL-2.0

import LicenseControl
import MediaFormats
import ProtectionModel

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
