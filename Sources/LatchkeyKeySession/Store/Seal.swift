// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
package import LatchkeyProtection

/// AES-256-GCM under one key: what is sealed is a random nonce of 12 bytes, the ciphertext and a tag of 16 bytes.
///
/// Used from the thread of its store alone.
package final class Seal {
    static let overhead = AESGCM.nonceSize + AESGCM.tagSize

    private let cipher: AESGCM

    package init(key: SealingKey) throws(LicenseStoreError) {
        do throws(CryptoError) { cipher = try AESGCM(key) } catch { throw .cryptography("AES-256-GCM: \(error)") }
    }

    package func seal(_ bytes: [UInt8], authenticating header: [UInt8]) throws(LicenseStoreError) -> [UInt8] {
        let nonce = try randomBytes(AESGCM.nonceSize)
        do throws(CryptoError) {
            return nonce + (try cipher.seal(bytes, nonce: nonce, authenticating: header))
        } catch {
            throw .cryptography("sealing: \(error)")
        }
    }

    /// Nil where key, header or bytes are not those that were sealed.
    package func open(_ sealed: [UInt8], authenticating header: [UInt8]) throws(LicenseStoreError) -> [UInt8]? {
        guard sealed.count >= Self.overhead else { return nil }
        do throws(CryptoError) {
            return try cipher.open(
                Array(sealed.dropFirst(AESGCM.nonceSize)), nonce: Array(sealed.prefix(AESGCM.nonceSize)),
                authenticating: header)
        } catch {
            throw .cryptography("opening: \(error)")
        }
    }
}
