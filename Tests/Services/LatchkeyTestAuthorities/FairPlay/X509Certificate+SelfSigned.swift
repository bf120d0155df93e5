// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyKeySystems

extension X509Certificate {
    /// A certificate for `key`, signed by itself with SHA-256, valid for ten years from now.
    static func selfSigned(
        key: RSAKey, commonName: String, random: RandomSource
    ) throws(CryptoError) -> X509Certificate {
        guard let certificate = X509_new() else { throw .last() }
        defer { X509_free(certificate) }
        let serial = Int64(truncatingIfNeeded: try random.number() >> 1)
        let name = X509_get_subject_name(certificate)
        let isMade =
            X509_set_version(certificate, Int(X509_VERSION_3)) == 1
            && ASN1_INTEGER_set_int64(X509_get_serialNumber(certificate), serial) == 1
            && X509_gmtime_adj(X509_getm_notBefore(certificate), 0) != nil
            && X509_gmtime_adj(X509_getm_notAfter(certificate), 10 * 365 * 24 * 3600) != nil
            && X509_NAME_add_entry_by_txt(
                name, "CN", MBSTRING_UTF8, Array(commonName.utf8), Int32(truncatingIfNeeded: commonName.utf8.count),
                -1, 0) == 1
            && X509_set_issuer_name(certificate, name) == 1
            && X509_set_pubkey(certificate, key.handle) == 1
            && X509_sign(certificate, key.handle, EVP_sha256()) > 0
        guard isMade else { throw .last() }
        let size = i2d_X509(certificate, nil)
        guard size > 0 else { throw .last() }
        var der = [UInt8](repeating: 0, count: Int(size))
        let written = der.withUnsafeMutableBufferPointer { bytes in
            var position = bytes.baseAddress
            // SAFETY: writes as many bytes as the call before said.
            return i2d_X509(certificate, &position)
        }
        guard written == size, let result = X509Certificate(der: der) else { throw .last() }
        return result
    }
}
