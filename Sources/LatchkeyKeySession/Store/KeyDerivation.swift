// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyProtection

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

/// Whether two are the same, without an early exit.
func isEqualInConstantTime(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && zip(left, right).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
}
