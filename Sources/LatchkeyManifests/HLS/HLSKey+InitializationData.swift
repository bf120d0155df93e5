// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

extension HLSKey {
    /// The initialization data that names this key to a key session, as a box to put in media.
    ///
    /// Version 1: the protection system of the KEYFORMAT, `keyID` as the only KID, and the attribute list as text for
    /// Data. The URI should be absolute.
    public func initializationData(keyID: KeyID) -> PSSHBox {
        PSSHBox(
            system: HLSKeyFormat(keyFormat).protectionSystem, keyIDs: [keyID], data: Array(attributeList.utf8))
    }

    /// The key that a box of `initializationData(keyID:)` names; nil for any other box.
    public static func key(in box: PSSHBox) -> HLSKey? {
        guard box.data.starts(with: "METHOD=".utf8), let text = String(validating: box.data, as: UTF8.self),
            let key = try? HLSKey(attributeList: text), key.method != .none,
            HLSKeyFormat(key.keyFormat).protectionSystem == box.system
        else { return nil }
        return key
    }
}
