// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyProtection

/// The curve P-256: points, ECDSA, and ElGamal over points. Points are written as x and y, 64 bytes.
package enum P256 {
    static let coordinateSize = 32
    static let pointSize = 64
    static let signatureSize = 64
    /// Two points.
    static let cipherSize = 128

    /// A point of the curve that is not at infinity. Used by one thread at a time.
    package final class Point {
        // SAFETY: owned by this object, freed once.
        let handle: OpaquePointer

        package init() throws(CryptoError) {
            guard let handle = EC_POINT_new(group) else { throw .last() }
            self.handle = handle
        }

        deinit { EC_POINT_clear_free(handle) }

        /// Throws for bytes that are no point of the curve.
        package convenience init(_ bytes: [UInt8]) throws(CryptoError) {
            guard bytes.count == pointSize else { throw CryptoError(reason: 0) }
            try self.init(octets: [4] + bytes)
        }

        /// As SEC 1 (2.3.3) writes points, with both coordinates or with x and a sign.
        package convenience init(octets: [UInt8]) throws(CryptoError) {
            try self.init()
            // SAFETY: reads so many bytes, and checks that they are a point of the curve.
            guard EC_POINT_oct2point(group, handle, octets, octets.count, nil) == 1 else { throw .last() }
        }

        /// The point with this x and an even y; nil where there is none.
        package convenience init?(x: [UInt8]) throws(CryptoError) {
            try self.init()
            guard x.count == coordinateSize else { throw CryptoError(reason: 0) }
            var octets = [2] + x
            defer { wipe(&octets) }
            // SAFETY: reads 33 bytes.
            guard EC_POINT_oct2point(group, handle, octets, octets.count, nil) == 1 else {
                ERR_clear_error()
                return nil
            }
        }

        /// x and y. May be a secret: the caller wipes it then.
        package func bytes() throws(CryptoError) -> [UInt8] {
            var octets = [UInt8](repeating: 0, count: pointSize + 1)
            // SAFETY: writes 65 bytes, or fails for the point at infinity, which takes one.
            let size = EC_POINT_point2oct(
                group, handle, POINT_CONVERSION_UNCOMPRESSED, &octets, octets.count, nil)
            guard size == octets.count else {
                wipe(&octets)
                throw .last()
            }
            defer { wipe(&octets) }
            return Array(octets.dropFirst())
        }

        static func + (left: Point, right: Point) throws(CryptoError) -> Point {
            let sum = try Point()
            guard EC_POINT_add(group, sum.handle, left.handle, right.handle, nil) == 1 else { throw .last() }
            return sum
        }

        func negated() throws(CryptoError) -> Point {
            guard let copy = EC_POINT_dup(handle, group) else { throw .last() }
            defer { EC_POINT_clear_free(copy) }
            let result = try Point()
            guard EC_POINT_invert(group, copy, nil) == 1, EC_POINT_copy(result.handle, copy) == 1 else { throw .last() }
            return result
        }

        /// This point times a scalar.
        func times(_ scalar: Scalar) throws(CryptoError) -> Point {
            let result = try Point()
            guard EC_POINT_mul(group, result.handle, nil, handle, scalar.handle, nil) == 1 else { throw .last() }
            return result
        }

        /// The base point times a scalar.
        static func base(times scalar: Scalar) throws(CryptoError) -> Point {
            let result = try Point()
            guard EC_POINT_mul(group, result.handle, scalar.handle, nil, nil, nil) == 1 else { throw .last() }
            return result
        }
    }

    /// A number from 1 to the order of the curve less 1. Secret.
    package final class Scalar {
        // SAFETY: owned by this object, cleared and freed once.
        let handle: OpaquePointer

        init(taking handle: OpaquePointer) {
            self.handle = handle
            BN_set_flags(handle, BN_FLG_CONSTTIME)
        }

        deinit { BN_clear_free(handle) }

        /// Nil for a number out of range or for another size than 32 bytes.
        convenience init?(_ bytes: [UInt8]) {
            // SAFETY: reads 32 bytes.
            guard bytes.count == coordinateSize, let handle = BN_bin2bn(bytes, Int32(coordinateSize), nil) else {
                return nil
            }
            guard BN_is_zero(handle) == 0, BN_cmp(handle, EC_GROUP_get0_order(group)) < 0 else {
                BN_clear_free(handle)
                return nil
            }
            self.init(taking: handle)
        }

        package static func random(_ random: RandomSource) throws(CryptoError) -> Scalar {
            // All but one draw of four thousand million is in range.
            for _ in 0..<64 {
                var bytes = try random.bytes(coordinateSize)
                defer { wipe(&bytes) }
                if let scalar = Scalar(bytes) { return scalar }
            }
            throw CryptoError(reason: 0)
        }
    }

    // SAFETY: made once and only read afterwards, which OpenSSL allows to several threads.
    nonisolated(unsafe) static let group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1)

    // Names that OpenSSL keeps a pointer to for longer than a call.
    static var groupParameter: UnsafePointer<CChar> { constant("group") }
    static var publicParameter: UnsafePointer<CChar> { constant("pub") }
    static var privateParameter: UnsafePointer<CChar> { constant("priv") }
    static var curveName: UnsafePointer<CChar> { constant("prime256v1") }

    private static func constant(_ name: StaticString) -> UnsafePointer<CChar> {
        // SAFETY: a literal stays where it is and ends with a zero.
        UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
    }

    /// Whether `bytes` are a point of the curve.
    static func isPoint(_ bytes: [UInt8]) -> Bool { (try? Point(bytes)) != nil }

    /// ElGamal: k times the base point, then `message` plus k times `receiver`.
    package static func encrypt(_ message: Point, for receiver: [UInt8], random: RandomSource) throws(CryptoError)
        -> [UInt8]
    {
        let scalar = try Scalar.random(random)
        let masked = try message + Point(receiver).times(scalar)
        return try Point.base(times: scalar).bytes() + masked.bytes()
    }
}

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
