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

    private struct Entry {
        let keyID: KeyID?
        let cipher: SampleCipher
        let initializationVector: InitializationVector?
    }

    let sources: KeySources
    private var entries: [KeyID?: Entry] = [:]
    private var revision: UInt64
    private var last: Entry? {
        didSet { if let last, last.keyID != oldValue?.keyID || oldValue == nil { sources.change(to: last.keyID) } }
    }

    /// The IV that came with the key that was found last, for media that has none.
    var initializationVector: InitializationVector? { last?.initializationVector }

    init(_ sources: KeySources) {
        self.sources = sources
        revision = sources.session.revision
    }

    mutating func cipher(for keyID: KeyID?) -> Lookup {
        let current = sources.session.revision
        if current != revision {
            // A key may have been withdrawn: look at every one again.
            revision = current
            entries.removeAll(keepingCapacity: true)
            last = nil
        } else if let last, last.keyID == keyID {
            return .usable(last.cipher)
        }
        if let known = entries[keyID] {
            last = known
            return .usable(known.cipher)
        }
        switch sources.status(of: keyID) {
        case .usable(let key):
            do {
                let entry = Entry(
                    keyID: keyID, cipher: try SampleCipher(key: key), initializationVector: key.initializationVector)
                entries[keyID] = entry
                last = entry
                sources.use(keyID)
                return .usable(entry.cipher)
            } catch {
                return .failed(.cipher("\(error)", keyID))
            }
        case .failed(let error, _): return .failed(.key(keyID, error))
        case .absent, .pending: return .missing
        }
    }
}
