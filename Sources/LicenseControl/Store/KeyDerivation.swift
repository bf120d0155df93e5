// SPDX-License-Identifier: MPL-2.0

import COpenSSL
import ProtectionModel

/// HKDF with SHA-256 (RFC 5869), through OpenSSL.
enum KeyDerivation {
    /// 32 bytes out of `secret`, for the purpose that `info` names. `salt` is the device, and no secret.
    static func key(
        from secret: UnsafeRawBufferPointer, salt: [UInt8], info: String
    ) throws(LicenseStoreError) -> SealingKey {
        guard let algorithm = EVP_KDF_fetch(nil, OSSL_KDF_NAME_HKDF, nil) else { throw opensslFailure("HKDF") }
        defer { EVP_KDF_free(algorithm) }
        guard let context = EVP_KDF_CTX_new(algorithm) else { throw opensslFailure("HKDF") }
        defer { EVP_KDF_CTX_free(context) }
        var digest = Array("SHA256".utf8CString)
        // OpenSSL's parameters take pointers that may be written, though these are only read.
        var secretBytes = Array(secret)
        var saltBytes = salt
        var infoBytes = Array(info.utf8)
        var output = [UInt8](repeating: 0, count: SealingKey.size)
        defer {
            wipe(&secretBytes)
            wipe(&output)
        }
        let isDone = digest.withUnsafeMutableBytes { digest in
            secretBytes.withUnsafeMutableBytes { secret in
                saltBytes.withUnsafeMutableBytes { salt in
                    infoBytes.withUnsafeMutableBytes { info in
                        // SAFETY: the parameters point into the four buffers, which outlive the call.
                        var parameters = [
                            OSSL_PARAM_construct_utf8_string(
                                OSSL_KDF_PARAM_DIGEST, digest.baseAddress?.assumingMemoryBound(to: CChar.self), 0),
                            OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.baseAddress, secret.count),
                            OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.baseAddress, info.count),
                        ]
                        if !salt.isEmpty {
                            parameters.append(
                                OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt.baseAddress, salt.count))
                        }
                        parameters.append(OSSL_PARAM_construct_end())
                        return EVP_KDF_derive(context, &output, output.count, parameters) == 1
                    }
                }
            }
        }
        guard isDone else { throw opensslFailure("HKDF") }
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
