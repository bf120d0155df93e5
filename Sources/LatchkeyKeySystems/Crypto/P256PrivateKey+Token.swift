// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyProtection

/// Private keys that stay in a token: a smart card, a security module, or SoftHSM.
///
/// OpenSSL reaches them by its PKCS #11 provider where there is one (Debian 13: `pkcs11-provider`), else by the PKCS #11
/// engine (Debian 12: `libengine-pkcs11-openssl`). Which module drives the token, and the PIN, are the URI's to say
/// (`module-path`, `pin-value`, `pin-source`) or the system's.
extension P256PrivateKey {
    /// The PKCS #11 URI that stands in place of a key; nil for anything else.
    static func tokenURI(in text: [UInt8]) -> [UInt8]? {
        guard text.starts(with: "pkcs11:".utf8) else { return nil }
        let uri = text.prefix { $0 > 0x20 && $0 < 0x7F }
        let rest = text.dropFirst(uri.count)
        return rest.allSatisfy { $0 == 0x20 || (0x09...0x0D).contains($0) } ? Array(uri) : nil
    }

    /// The key that the URI names. Throws where there is no token, no such key in it, or no way to it.
    static func token(_ uri: [UInt8]) throws(CryptoError) -> P256PrivateKey {
        let handle = (uri + [0]).withUnsafeBufferPointer { text in
            // SAFETY: ends in NUL, and is read only during the call.
            text.baseAddress.flatMap {
                latchkey_token_private_key(UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self))
            }
        }
        guard let handle else { throw .last() }
        return try P256PrivateKey(taking: handle, tokenURI: uri)
    }

    /// The x coordinate of this key times the point (ECDH), 32 bytes: all that a token gives away. The caller wipes it.
    func sharedCoordinate(with point: P256.Point) throws(CryptoError) -> [UInt8] {
        let peer = try P256.publicHandle(try point.bytes())
        defer { EVP_PKEY_free(peer) }
        guard let context = EVP_PKEY_CTX_new(handle, nil) else { throw .last() }
        defer { EVP_PKEY_CTX_free(context) }
        var secret = [UInt8](repeating: 0, count: P256.coordinateSize)
        var size = secret.count
        // SAFETY: writes at most 32 bytes and says how many.
        guard EVP_PKEY_derive_init(context) == 1, EVP_PKEY_derive_set_peer(context, peer) == 1,
            EVP_PKEY_derive(context, &secret, &size) == 1, size == secret.count
        else {
            wipe(&secret)
            throw .last()
        }
        return secret
    }
}
