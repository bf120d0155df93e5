// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL

extension P256 {
    /// ECDSA signatures: r and s in 64 bytes outside, DER within OpenSSL.
    enum Signature {
        static func raw(_ der: [UInt8]) throws(CryptoError) -> [UInt8] {
            let signature = der.withUnsafeBufferPointer { bytes in
                var position = bytes.baseAddress
                // SAFETY: reads at most `count` bytes.
                return d2i_ECDSA_SIG(nil, &position, bytes.count)
            }
            guard let signature else { throw .last() }
            defer { ECDSA_SIG_free(signature) }
            var output = [UInt8](repeating: 0, count: signatureSize)
            let isWritten = output.withUnsafeMutableBufferPointer { bytes in
                guard let start = bytes.baseAddress else { return false }
                // SAFETY: 32 bytes each, or a failure.
                return BN_bn2binpad(ECDSA_SIG_get0_r(signature), start, 32) == 32
                    && BN_bn2binpad(ECDSA_SIG_get0_s(signature), start + 32, 32) == 32
            }
            guard isWritten else { throw .last() }
            return output
        }

        static func der(_ raw: [UInt8]) throws(CryptoError) -> [UInt8] {
            guard raw.count == signatureSize, let signature = ECDSA_SIG_new() else { throw CryptoError(reason: 0) }
            defer { ECDSA_SIG_free(signature) }
            // SAFETY: reads 32 bytes each.
            let (r, s) = (BN_bin2bn(Array(raw.prefix(32)), 32, nil), BN_bin2bn(Array(raw.suffix(32)), 32, nil))
            // SAFETY: the signature takes both numbers over.
            guard ECDSA_SIG_set0(signature, r, s) == 1 else {
                BN_free(r)
                BN_free(s)
                throw .last()
            }
            var output = [UInt8](repeating: 0, count: Int(max(0, i2d_ECDSA_SIG(signature, nil))))
            let written = output.withUnsafeMutableBufferPointer { bytes in
                var position = bytes.baseAddress
                // SAFETY: writes as many bytes as the call before said.
                return i2d_ECDSA_SIG(signature, &position)
            }
            guard written > 0 else { throw .last() }
            return output
        }
    }

    /// Whether `signature` (r and s) over the SHA-256 of `message` was made with the private half of `publicKey`.
    static func verify(_ signature: [UInt8], of message: [UInt8], by publicKey: [UInt8]) -> Bool {
        guard signature.count == signatureSize, publicKey.count == pointSize, let der = try? Signature.der(signature),
            let key = try? publicHandle(publicKey)
        else { return false }
        defer { EVP_PKEY_free(key) }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        // SAFETY: both are given with their sizes.
        let isGood =
            EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestVerify(context, der, der.count, message, message.count) == 1
        if !isGood { ERR_clear_error() }
        return isGood
    }

    static func publicHandle(_ point: [UInt8]) throws(CryptoError) -> OpaquePointer {
        guard isPoint(point) else { throw CryptoError(reason: 0) }
        var octets = [4] + point
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { throw .last() }
        defer { EVP_PKEY_CTX_free(context) }
        var handle: OpaquePointer?
        let isMade = octets.withUnsafeMutableBytes { octets in
            // SAFETY: the parameters point to constants and into the buffer, and are used only here. OpenSSL reads them.
            var parameters = [
                OSSL_PARAM_construct_utf8_string(
                    P256.groupParameter, UnsafeMutablePointer(mutating: P256.curveName), 0),
                OSSL_PARAM_construct_octet_string(P256.publicParameter, octets.baseAddress, octets.count),
                OSSL_PARAM_construct_end(),
            ]
            return EVP_PKEY_fromdata_init(context) == 1
                && EVP_PKEY_fromdata(context, &handle, Int32(LATCHKEY_PKEY_PUBLIC_KEY), &parameters) == 1
        }
        guard isMade, let handle else { throw .last() }
        return handle
    }
}
