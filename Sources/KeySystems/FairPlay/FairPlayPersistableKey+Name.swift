// SPDX-License-Identifier: MPL-2.0

import ProtectionModel

extension FairPlayPersistableKey {
    /// A name for the record of a content identifier, fit for a file: SHA-256 as 64 hexadecimal digits. Throws
    /// `invalidPersistableKey` where OpenSSL refuses.
    public static func recordName(for contentIdentifier: [UInt8]) throws(FairPlayError) -> String {
        do throws(CryptoError) {
            return Hex.encode(try Digest.sha256(contentIdentifier))
        } catch {
            throw .invalidPersistableKey("no name for the record: \(error)")
        }
    }
}
