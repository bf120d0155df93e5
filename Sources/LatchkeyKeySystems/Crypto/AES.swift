// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
package import LatchkeyProtection

/// AES as the exchanges use it, over whole blocks and without padding. Keys come as `ContentKey`, so that no copy of
/// one lies in ordinary memory.
package enum AES {
    package enum Direction {
        case encrypt, decrypt
    }

    /// AES-128-ECB over one or more blocks.
    package static func ecb(_ direction: Direction, key: ContentKey, _ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        try run(EVP_aes_128_ecb(), direction, key: key, iv: nil, bytes)
    }

    /// AES-128-CBC over one or more blocks. `iv` has 16 bytes.
    package static func cbc(
        _ direction: Direction, key: ContentKey, iv: [UInt8], _ bytes: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        guard iv.count == 16 else { throw CryptoError(reason: 0) }
        return try run(EVP_aes_128_cbc(), direction, key: key, iv: iv, bytes)
    }

    /// AES-128-CBC over bytes of any number, filled up as PKCS #7 has it.
    static func cbcSeal(key: ContentKey, iv: [UInt8], _ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        let padding = 16 - bytes.count % 16
        var filled = bytes + [UInt8](repeating: UInt8(padding), count: padding)
        defer { wipe(&filled) }
        return try cbc(.encrypt, key: key, iv: iv, filled)
    }

    /// Undoes `cbcSeal`. Throws where the filling is not what it should be; use it only on bytes whose origin is
    /// checked, or where the answer does not tell which check failed.
    static func cbcOpen(key: ContentKey, iv: [UInt8], _ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        var clear = try cbc(.decrypt, key: key, iv: iv, bytes)
        guard let padding = clear.last.map({ Int($0) }), (1...16).contains(padding), clear.count >= padding,
            clear.suffix(padding).allSatisfy({ $0 == UInt8(padding) })
        else {
            wipe(&clear)
            throw CryptoError(reason: 0)
        }
        clear.removeLast(padding)
        return clear
    }

    /// AES-128-CMAC (NIST SP 800-38B), 16 bytes.
    package static func cmac(key: ContentKey, _ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        let zeros = [UInt8](repeating: 0, count: 16)
        func doubled(_ block: [UInt8]) -> [UInt8] {
            var result = block.indices.map { block[$0] << 1 | ($0 + 1 < block.count ? block[$0 + 1] >> 7 : 0) }
            if block[0] & 0x80 != 0 { result[15] ^= 0x87 }
            return result
        }
        var subkey = doubled(try ecb(.encrypt, key: key, zeros))
        defer { wipe(&subkey) }
        var message = bytes
        let isWhole = !bytes.isEmpty && bytes.count % 16 == 0
        if !isWhole {
            message.append(0x80)
            message += [UInt8](repeating: 0, count: (16 - message.count % 16) % 16)
            subkey = doubled(subkey)
        }
        let last = message.count - 16
        for index in 0..<16 { message[last + index] ^= subkey[index] }
        return Array(try cbc(.encrypt, key: key, iv: zeros, message).suffix(16))
    }

    /// AES-128-CTR with a counter in the last 8 bytes of the block, which wraps round without a carry into the first 8, as
    /// ISO/IEC 23001-7 has it. Both directions are one.
    static func counter(key: ContentKey, initial: [UInt8], _ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        guard initial.count == 16 else { throw CryptoError(reason: 0) }
        let first = initial.suffix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        // OpenSSL's counter has 16 bytes: what lies behind the wrap is a run of its own.
        let (wrap, isFarAway) = (UInt64.max - first).addingReportingOverflow(1)
        let size = isFarAway || wrap > UInt64(bytes.count) ? bytes.count : min(bytes.count, Int(wrap) * 16)
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        let ranges = [(initial, 0..<size), (initial.prefix(8) + [UInt8](repeating: 0, count: 8), size..<bytes.count)]
        for (block, range) in ranges {
            var block = block
            for start in stride(from: range.lowerBound, to: range.upperBound, by: pieceSize) {
                let piece = start..<min(start + pieceSize, range.upperBound)
                output += try run(EVP_aes_128_ctr(), .encrypt, key: key, iv: block, Array(bytes[piece]))
                let count = UInt64(pieceSize / 16)
                let next = block.suffix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } &+ count
                block.replaceSubrange(8..<16, with: bigEndian(next))
            }
        }
        return output
    }

    /// Of what runs through a counter at once, so that OpenSSL can count its bytes.
    private static let pieceSize = 1 << 20

    private static func bigEndian(_ value: UInt64) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }

    private static func run(
        _ cipher: OpaquePointer?, _ direction: Direction, key: ContentKey, iv: [UInt8]?, _ bytes: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        let isStream = EVP_CIPHER_get_mode(cipher) == EVP_CIPH_CTR_MODE
        guard let size = Int32(exactly: bytes.count), isStream || bytes.count % 16 == 0 else {
            throw CryptoError(reason: 0)
        }
        guard let context = EVP_CIPHER_CTX_new() else { throw .last() }
        defer { EVP_CIPHER_CTX_free(context) }
        var output = [UInt8](repeating: 0, count: bytes.count)
        var written: Int32 = 0
        let isDone = key.withBytes { keyBytes in
            // SAFETY: 16 key bytes and, where the mode has one, 16 of the IV; OpenSSL copies both. Padding is off and
            // the size is a multiple of 16 or the cipher a stream, so that exactly as many bytes are written as are read.
            EVP_CipherInit_ex2(
                context, cipher, keyBytes.baseAddress?.assumingMemoryBound(to: UInt8.self), iv,
                direction == .encrypt ? 1 : 0, nil) == 1
                && EVP_CIPHER_CTX_set_padding(context, 0) == 1
                && EVP_CipherUpdate(context, &output, &written, bytes, size) == 1
        }
        guard isDone, written == size else {
            wipe(&output)
            throw .last()
        }
        return output
    }
}

/// AES-256-GCM under one key, with a nonce of 12 bytes and a tag of 16.
///
/// Not thread-safe: it keeps a context of OpenSSL. Between two uses, that has no key.
package final class AESGCM {
    package static let nonceSize = 12
    package static let tagSize = 16

    private let key: SealingKey
    private let cipher: OpaquePointer
    private let context: OpaquePointer

    package init(_ key: SealingKey) throws(CryptoError) {
        guard let cipher = EVP_CIPHER_fetch(nil, "AES-256-GCM", nil) else { throw .last() }
        guard let context = EVP_CIPHER_CTX_new() else {
            EVP_CIPHER_free(cipher)
            throw .last()
        }
        self.key = key
        self.cipher = cipher
        self.context = context
    }

    deinit {
        EVP_CIPHER_CTX_free(context)
        EVP_CIPHER_free(cipher)
    }

    /// Ciphertext and tag.
    package func seal(
        _ bytes: [UInt8], nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: bytes.count + Self.tagSize)
        var rest = [UInt8](repeating: 0, count: 16)
        var tag = [UInt8](repeating: 0, count: Self.tagSize)
        var written: Int32 = 0
        defer { EVP_CIPHER_CTX_reset(context) }
        guard start(nonce: nonce, header: header, encrypts: true), update(bytes, into: &output),
            // SAFETY: GCM writes nothing at the end; the tag has the size that is asked for.
            EVP_CipherFinal_ex(context, &rest, &written) == 1,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(Self.tagSize), &tag) == 1
        else { throw .last() }
        output.replaceSubrange(bytes.count..., with: tag)
        return output
    }

    /// The clear bytes, or nil where key, nonce, header or bytes are not those that were sealed.
    package func open(
        _ sealed: [UInt8], nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CryptoError) -> [UInt8]? {
        guard sealed.count >= Self.tagSize else { return nil }
        let bytes = Array(sealed.dropLast(Self.tagSize))
        var tag = Array(sealed.suffix(Self.tagSize))
        var output = [UInt8](repeating: 0, count: bytes.count)
        var rest = [UInt8](repeating: 0, count: 16)
        var written: Int32 = 0
        defer { EVP_CIPHER_CTX_reset(context) }
        guard start(nonce: nonce, header: header, encrypts: false), update(bytes, into: &output),
            // SAFETY: OpenSSL copies the 16 bytes of the tag.
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(Self.tagSize), &tag) == 1
        else {
            wipe(&output)
            throw .last()
        }
        // SAFETY: GCM writes nothing at the end.
        guard EVP_CipherFinal_ex(context, &rest, &written) == 1 else {
            wipe(&output)
            ERR_clear_error()
            return nil
        }
        return output
    }

    private func start(nonce: [UInt8], header: [UInt8], encrypts: Bool) -> Bool {
        guard nonce.count == Self.nonceSize, let headerSize = Int32(exactly: header.count) else { return false }
        var written: Int32 = 0
        return key.withBytes { key in
            // SAFETY: key and nonce have the sizes that this cipher takes (12 bytes is GCM's default), and OpenSSL
            // copies them. A null output takes the header in.
            EVP_CipherInit_ex2(
                context, cipher, key.baseAddress?.assumingMemoryBound(to: UInt8.self), nonce, encrypts ? 1 : 0, nil)
                == 1 && EVP_CipherUpdate(context, nil, &written, header, headerSize) == 1
        }
    }

    /// `output` has room for as many bytes, and may have more.
    private func update(_ bytes: [UInt8], into output: inout [UInt8]) -> Bool {
        guard !bytes.isEmpty else { return true }
        guard let size = Int32(exactly: bytes.count), output.count >= bytes.count else { return false }
        var written: Int32 = 0
        // SAFETY: GCM writes as many bytes as it reads, and there is room for them.
        return EVP_CipherUpdate(context, &output, &written, bytes, size) == 1 && written == size
    }
}
