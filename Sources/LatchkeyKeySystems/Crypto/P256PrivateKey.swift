// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
public import LatchkeyProtection

/// A key pair on P-256. Immutable and thread-safe; prints without the key.
package final class P256PrivateKey: @unchecked Sendable {
    // SAFETY: OpenSSL's keys are reference-counted and may be read by several threads; nothing here changes one.
    let handle: OpaquePointer
    /// x and y, 64 bytes.
    package let publicKey: [UInt8]
    /// Where the private half is, if it is in a token and does not come out.
    let tokenURI: [UInt8]?

    /// Takes the reference over. Throws, and gives the reference up, for a key that is not on P-256. The private half
    /// may be in a token.
    package init(taking handle: OpaquePointer, tokenURI: [UInt8]? = nil) throws(CryptoError) {
        guard EVP_PKEY_is_a(handle, "EC") == 1,
            let octets = Self.point(of: handle) ?? Self.exportedPoint(of: handle),
            let point = try? P256.Point(octets: octets), let publicKey = try? point.bytes()
        else {
            EVP_PKEY_free(handle)
            throw .last()
        }
        self.handle = handle
        self.tokenURI = tokenURI
        self.publicKey = publicKey
    }

    deinit { EVP_PKEY_free(handle) }

    /// The point as an octet string (SEC 1, 2.3.3). The engine for tokens gives x and a sign.
    private static func point(of handle: OpaquePointer) -> [UInt8]? {
        var octets = [UInt8](repeating: 0, count: P256.pointSize + 1)
        var size = 0
        // SAFETY: writes at most 65 bytes and says how many.
        guard EVP_PKEY_get_octet_string_param(handle, OSSL_PKEY_PARAM_PUB_KEY, &octets, octets.count, &size) == 1,
            size <= octets.count
        else { return nil }
        return Array(octets.prefix(size))
    }

    /// The same, by way of SubjectPublicKeyInfo: the provider for tokens gives nothing else.
    private static func exportedPoint(of handle: OpaquePointer) -> [UInt8]? {
        ERR_clear_error()
        var der: UnsafeMutablePointer<UInt8>?
        let size = i2d_PUBKEY(handle, &der)
        guard size > 0, let der else { return nil }
        defer { CRYPTO_free(der, nil, 0) }
        var position: UnsafePointer<UInt8>? = UnsafePointer(der)
        // SAFETY: reads at most the `size` bytes that were written.
        guard let key = d2i_PUBKEY(nil, &position, Int(size)) else { return nil }
        defer { EVP_PKEY_free(key) }
        return point(of: key)
    }

    package static func generate(_ random: RandomSource) throws(CryptoError) -> P256PrivateKey {
        try key(scalar: P256.Scalar.random(random))
    }

    package static func key(scalar: P256.Scalar) throws(CryptoError) -> P256PrivateKey {
        let octets = [4] + (try P256.Point.base(times: scalar).bytes())
        guard let builder = OSSL_PARAM_BLD_new() else { throw .last() }
        defer { OSSL_PARAM_BLD_free(builder) }
        // SAFETY: the builder keeps all pointers until `to_param` copies. The names are constants, and the bytes are alive.
        let parameters = octets.withUnsafeBytes { bytes -> UnsafeMutablePointer<OSSL_PARAM>? in
            let isPushed =
                OSSL_PARAM_BLD_push_utf8_string(builder, P256.groupParameter, P256.curveName, 0) == 1
                && OSSL_PARAM_BLD_push_BN(builder, P256.privateParameter, scalar.handle) == 1
                && OSSL_PARAM_BLD_push_octet_string(
                    builder, P256.publicParameter, bytes.baseAddress, bytes.count) == 1
            return isPushed ? OSSL_PARAM_BLD_to_param(builder) : nil
        }
        guard let parameters else { throw .last() }
        defer {
            // Freeing does not wipe the private half.
            if let scalar = OSSL_PARAM_locate(parameters, P256.privateParameter) {
                OPENSSL_cleanse(scalar.pointee.data, scalar.pointee.data_size)
            }
            OSSL_PARAM_free(parameters)
        }
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { throw .last() }
        defer { EVP_PKEY_CTX_free(context) }
        var handle: OpaquePointer?
        guard EVP_PKEY_fromdata_init(context) == 1,
            EVP_PKEY_fromdata(context, &handle, Int32(LATCHKEY_PKEY_KEYPAIR), parameters) == 1, let handle
        else { throw .last() }
        return try P256PrivateKey(taking: handle)
    }

    /// ECDSA with SHA-256: r and s, 64 bytes.
    package func sign(_ message: [UInt8]) throws(CryptoError) -> [UInt8] {
        guard let context = EVP_MD_CTX_new() else { throw .last() }
        defer { EVP_MD_CTX_free(context) }
        var size = 0
        // SAFETY: the first call says how many bytes the second may write at most.
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, handle) == 1,
            EVP_DigestSign(context, nil, &size, message, message.count) == 1
        else { throw .last() }
        var der = [UInt8](repeating: 0, count: size)
        guard EVP_DigestSign(context, &der, &size, message, message.count) == 1, size <= der.count else {
            throw .last()
        }
        return try P256.Signature.raw(Array(der.prefix(size)))
    }

    private func scalar() throws(CryptoError) -> P256.Scalar {
        var number: OpaquePointer?
        guard EVP_PKEY_get_bn_param(handle, OSSL_PKEY_PARAM_PRIV_KEY, &number) == 1, let number else { throw .last() }
        return P256.Scalar(taking: number)
    }

    /// The private half, 32 bytes. The caller wipes it.
    package func scalarBytes() throws(CryptoError) -> [UInt8] {
        let scalar = try scalar()
        var bytes = [UInt8](repeating: 0, count: P256.coordinateSize)
        // SAFETY: writes 32 bytes, or fails.
        guard BN_bn2binpad(scalar.handle, &bytes, Int32(P256.coordinateSize)) == Int32(P256.coordinateSize) else {
            wipe(&bytes)
            throw .last()
        }
        return bytes
    }

    /// Opens what `P256.encrypt` made: `take` gets the x coordinate of the message, 32 bytes, and says by nil that it is
    /// the wrong one.
    ///
    /// A token computes the mask without its sign, so that there are two messages to try. Throws where `take` wants
    /// none.
    package func decrypt<Result>(
        _ cipher: [UInt8], _ take: (borrowing [UInt8]) throws(CryptoError) -> Result?
    ) throws(CryptoError) -> Result {
        guard cipher.count == P256.cipherSize else { throw CryptoError(reason: 0) }
        let front = try P256.Point(Array(cipher.prefix(P256.pointSize)))
        let masked = try P256.Point(Array(cipher.suffix(P256.pointSize)))
        let masks: [P256.Point]
        if tokenURI == nil {
            masks = [try front.times(try scalar())]
        } else {
            var x = try sharedCoordinate(with: front)
            defer { wipe(&x) }
            guard let mask = try P256.Point(x: x) else { throw CryptoError(reason: 0) }
            masks = [mask, try mask.negated()]
        }
        for mask in masks {
            var bytes = try (masked + mask.negated()).bytes()
            defer { wipe(&bytes) }
            var x = Array(bytes.prefix(P256.coordinateSize))
            defer { wipe(&x) }
            if let result = try take(x) { return result }
        }
        throw CryptoError(reason: 0)
    }
}

extension P256PrivateKey {
    /// Reads a private key in PEM, without a pass phrase, or takes the one in a token that a PKCS #11 URI (RFC 7512)
    /// names.
    package static func key(pem text: [UInt8]) throws(CryptoError) -> P256PrivateKey {
        if let uri = tokenURI(in: text) { return try token(uri) }
        return try P256PrivateKey(taking: PrivateKeyPEM.handle(of: text))
    }

    /// The private key in PEM (PKCS #8), readable, or the URI of one in a token: the caller wipes it.
    package func pem() throws(CryptoError) -> [UInt8] {
        if let tokenURI { return tokenURI }
        return try PrivateKeyPEM.text(of: handle)
    }
}

extension P256PrivateKey: Redacted {}

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
    private func sharedCoordinate(with point: P256.Point) throws(CryptoError) -> [UInt8] {
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

/// Private keys of any kind in PEM (PKCS #8), without a pass phrase.
package enum PrivateKeyPEM {
    /// An `EVP_PKEY`, which the caller frees.
    package static func handle(of text: [UInt8]) throws(CryptoError) -> OpaquePointer {
        guard let size = Int32(exactly: text.count), let input = BIO_new(BIO_s_secmem()) else { throw .last() }
        defer { BIO_free(input) }
        // SAFETY: copies `size` bytes.
        guard BIO_write(input, text, size) == size else { throw .last() }
        // The empty pass phrase keeps OpenSSL from asking a terminal.
        var none: [CChar] = [0]
        guard let handle = PEM_read_bio_PrivateKey(input, nil, nil, &none) else { throw .last() }
        return handle
    }

    /// Readable: the caller wipes it. `handle` is an `EVP_PKEY`.
    package static func text(of handle: OpaquePointer) throws(CryptoError) -> [UInt8] {
        guard let output = BIO_new(BIO_s_secmem()) else { throw .last() }
        defer { BIO_free(output) }
        guard PEM_write_bio_PrivateKey(output, handle, nil, nil, 0, nil, nil) == 1 else { throw .last() }
        var text = [UInt8](repeating: 0, count: BIO_ctrl_pending(output))
        // SAFETY: reads at most as many bytes as there is room for.
        guard BIO_read(output, &text, Int32(truncatingIfNeeded: text.count)) == Int32(truncatingIfNeeded: text.count)
        else { throw .last() }
        return text
    }
}
