// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection

/// Keeps keys of content on disk sealed with the secret of this device: whoever has the files alone cannot use them. Used
/// from the thread of the cache alone.
struct KeySeal: Sendable {
    /// In bytes, of a key of AES-128.
    static let keySize = ContentKey.size

    private let secret: any DeviceSecret

    init(_ secret: any DeviceSecret) { self.secret = secret }

    /// `url` is where the key came from: it opens for the same alone. Throws `notPermitted` where the secret cannot be used.
    func seal(_ key: [UInt8], from url: String) throws(CacheError) -> [UInt8] {
        do throws(LicenseStoreError) {
            return try seal(creating: true).seal(key, authenticating: Array(url.utf8))
        } catch {
            throw CacheError(.notPermitted, "keys cannot be kept: \(error)")
        }
    }

    /// Nil where it was sealed on another device, or altered.
    func open(_ sealed: [UInt8], from url: String) -> [UInt8]? {
        let opened = try? seal(creating: false).open(sealed, authenticating: Array(url.utf8))
        return opened.flatMap { $0.count == Self.keySize ? $0 : nil }
    }

    private func seal(creating: Bool) throws(LicenseStoreError) -> Seal {
        try Seal(key: try secret.key(for: "cached keys 1", creating: creating))
    }
}
