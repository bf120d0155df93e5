// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
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

/// HKDF with SHA-256 (RFC 5869), through OpenSSL.
enum KeyDerivation {
    /// 32 bytes out of `secret`, for the purpose that `info` names. `salt` is the device, and no secret.
    static func key(
        from secret: UnsafeRawBufferPointer, salt: [UInt8], info: String
    ) throws(LicenseStoreError) -> SealingKey {
        let infoBytes = Array(info.utf8)
        var output = [UInt8](repeating: 0, count: SealingKey.size)
        defer { wipe(&output) }
        // SAFETY: four buffers, each given with its size, which outlive the call.
        let isDone = latchkey_hkdf_sha256(
            &output, output.count, secret.baseAddress?.assumingMemoryBound(to: UInt8.self), secret.count, salt,
            salt.count, infoBytes, infoBytes.count)
        guard isDone == 1 else { throw opensslFailure("HKDF") }
        guard let key = SealingKey(output) else { throw .cryptography("no memory is left for a key") }
        return key
    }
}

/// OpenSSL's last error on this thread. The queue is emptied: it belongs to the host application too.
@inline(never)
func opensslFailure(_ what: String) -> LicenseStoreError {
    let reason = ERR_peek_last_error()
    ERR_clear_error()
    return .cryptography("\(what): OpenSSL error 0x\(String(reason, radix: 16))")
}

/// Random bytes from OpenSSL.
func randomBytes(_ count: Int) throws(LicenseStoreError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    // SAFETY: exactly the array's bytes.
    guard RAND_bytes(&bytes, Int32(clamping: count)) == 1 else { throw opensslFailure("random numbers") }
    return bytes
}

/// HMAC-SHA-256 under one key. OpenSSL has the key only while it makes a code.
struct KeyedCode {
    let key: SealingKey

    /// 32 bytes.
    func code(of bytes: [UInt8]) throws(LicenseStoreError) -> [UInt8] {
        do throws(CryptoError) {
            return try key.withBytes { key throws(CryptoError) in try Digest.hmac(key: key, bytes) }
        } catch {
            throw .cryptography("HMAC: \(error)")
        }
    }
}
