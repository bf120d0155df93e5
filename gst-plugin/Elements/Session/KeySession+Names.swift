// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection

extension KeySession {
    /// How people know a key: by the URI of the playlist, where that has named it. A KID that was made for a URI says nothing
    /// to anybody.
    func name(of keyID: KeyID) -> String {
        guard let uri = keyURI(of: keyID) else { return DecryptorFailure.name(keyID) }
        let printable = KeyURI(uri).printable
        return isMade(keyID) ? printable : "\(printable) (\(DecryptorFailure.name(keyID)))"
    }
}
