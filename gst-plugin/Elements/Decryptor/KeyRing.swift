// SPDX-License-Identifier: MPL-2.0

import LicenseControl
import ProtectionModel
import SampleDecryption

/// The ciphers of one stream, one for each key, made once. Belongs to the stream's thread.
struct KeyRing {
    enum Lookup {
        case usable(SampleCipher)
        case missing
        case failed(DecryptorFailure)
    }

    let sources: KeySources
    private var ciphers: [KeyID?: SampleCipher] = [:]
    private var revision: UInt64
    private var last: (keyID: KeyID?, cipher: SampleCipher)?

    init(_ sources: KeySources) {
        self.sources = sources
        revision = sources.session.revision
    }

    mutating func cipher(for keyID: KeyID?) -> Lookup {
        let current = sources.session.revision
        if current != revision {
            // A key may have been withdrawn: look at every one again.
            revision = current
            ciphers.removeAll(keepingCapacity: true)
            last = nil
        } else if let last, last.keyID == keyID {
            return .usable(last.cipher)
        }
        if let known = ciphers[keyID] {
            last = (keyID, known)
            return .usable(known)
        }
        switch sources.status(of: keyID) {
        case .usable(let key):
            do {
                let cipher = try SampleCipher(key: key)
                ciphers[keyID] = cipher
                last = (keyID, cipher)
                return .usable(cipher)
            } catch {
                return .failed(.cipher("\(error)", keyID))
            }
        case .failed(let error, _): return .failed(.key(keyID, error))
        case .absent, .pending: return .missing
        }
    }
}
