// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestServices
import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection

/// The keys of a keys file, as a key server finds them by content identifier.
struct ContentIdentifierKeys: Sendable {
    private let bySubject: [KeysFile.Subject: KeysFile.Entry]

    /// Of several entries for the same subject the last counts.
    init(_ entries: [KeysFile.Entry]) {
        bySubject = Dictionary(entries.map { ($0.subject, $0) }, uniquingKeysWith: { $1 })
    }

    /// The key for a content identifier.
    ///
    /// Applications make it out of the key's URI in different ways, so that the first of these lines counts: the KID of
    /// the media; the identifier as a URI; with `skd://` or `skd:` in front of it; as a KID, in digits or in 16 bytes;
    /// `*`. Without an IV in the line, the IV is zeros.
    subscript(identifier: [UInt8], mediaKeyID mediaKeyID: KeyID? = nil) -> FairPlayKeyServer.Key? {
        var subjects: [KeysFile.Subject] = mediaKeyID.map { [.keyID($0)] } ?? []
        if let text = String(validating: identifier, as: UTF8.self) {
            subjects += [text, "skd://\(text)", "skd:\(text)"].map { KeysFile.Subject(uri: $0) }
            if let keyID = KeyID(hex: text) { subjects.append(.keyID(keyID)) }
        }
        if let keyID = KeyID(identifier) { subjects.append(.keyID(keyID)) }
        subjects.append(.unnamed)
        return subjects.lazy.compactMap { bySubject[$0] }.first.map {
            FairPlayKeyServer.Key(
                key: $0.key,
                initializationVector: $0.key.initializationVector ?? InitializationVector(high: 0, low: 0))
        }
    }
}
