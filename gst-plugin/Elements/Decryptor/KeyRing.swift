// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

/// The ciphers of one stream, one for each key, made once. Belongs to the stream's thread.
struct KeyRing {
    enum Lookup {
        case usable(SampleCipher)
        case missing
        case failed(DecryptorFailure)
    }

    /// A licence may allow outputs for one medium and not for the other.
    private struct Use: Hashable {
        let keyID: KeyID?
        let media: OutputPolicy.Media
    }

    private struct Entry {
        let use: Use
        let cipher: SampleCipher
        let key: ContentKey
        let initializationVector: InitializationVector?
    }

    let sources: KeySources
    private var entries: [Use: Entry] = [:]
    private var revision: UInt64
    private var last: Entry? {
        didSet {
            if let last, last.use.keyID != oldValue?.use.keyID || oldValue == nil { sources.change(to: last.use.keyID) }
        }
    }

    /// The IV that came with the key that was found last, for media that has none.
    var initializationVector: InitializationVector? { last?.initializationVector }

    /// The key that was found last, for who decrypts elsewhere.
    var key: ContentKey? { last?.key }

    init(_ sources: KeySources) {
        self.sources = sources
        revision = sources.session.revision
    }

    private static let warnOnce: Void = Decryptor.log.log(
        .warning, nil,
        "The kernel does not lock the memory of keys, so that they may be swapped out: raise RLIMIT_MEMLOCK.")

    /// `media` is what is decrypted. What may hold pictures is video.
    mutating func cipher(for keyID: KeyID?, of media: OutputPolicy.Media) -> Lookup {
        let use = Use(keyID: keyID, media: media)
        let current = sources.session.revision
        if current != revision {
            // A key may have been withdrawn: look at every one again.
            revision = current
            entries.removeAll(keepingCapacity: true)
            last = nil
        } else if let last, last.use == use {
            return .usable(last.cipher)
        }
        if let known = entries[use] {
            // The stream comes back to a key: whoever guards the outputs has to know.
            if sources.session.isGuarded, let error = sources.refusal(of: keyID, for: media) {
                return .failed(.key(keyID, error))
            }
            last = known
            return .usable(known.cipher)
        }
        switch sources.status(of: keyID) {
        case .usable(let key):
            if !key.isLocked { Self.warnOnce }
            if let error = sources.refusal(of: keyID, for: media) { return .failed(.key(keyID, error)) }
            do {
                let entry = Entry(
                    use: use, cipher: try SampleCipher(key: key), key: key,
                    initializationVector: key.initializationVector)
                entries[use] = entry
                last = entry
                sources.check(key, of: keyID)
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
