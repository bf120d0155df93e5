// SPDX-License-Identifier: MPL-2.0

import COpenSSL
import ProtectionModel

/// Encrypts samples as ISO/IEC 23001-7 words it, one block after the other, on OpenSSL's single-block AES: the other
/// direction of what is tested, and none of its code.
public struct CommonEncryption {
    public let key: [UInt8]
    public var scheme: ProtectionScheme
    /// 8 or 16 bytes.
    public var vector: [UInt8]
    /// Blocks encrypted and blocks left clear, in turn; 0:0 without a pattern.
    public var pattern: (crypt: Int, skip: Int)
    /// Clear and protected bytes, in turn; empty where the whole sample is protected.
    public var subsamples: [(clear: Int, protected: Int)]

    public init(
        key: [UInt8], scheme: ProtectionScheme, vector: [UInt8], pattern: (crypt: Int, skip: Int) = (0, 0),
        subsamples: [(clear: Int, protected: Int)] = []
    ) {
        (self.key, self.scheme, self.vector, self.pattern, self.subsamples) = (key, scheme, vector, pattern, subsamples)
    }

    public func encrypt(_ clear: [UInt8]) -> [UInt8] {
        let start = vector + [UInt8](repeating: 0, count: 16 - vector.count)
        let hasPattern = (scheme == .cens || scheme == .cbcs) && pattern.skip > 0
        // Only cenc, and cens without any pattern in subsamples, encrypt the last partial block.
        let isPartialClear = scheme != .cenc && (scheme != .cens || pattern.crypt > 0 || subsamples.isEmpty)
        let cipher = BlockCipher(key)
        var sample = clear
        var (counter, used, stream) = (start, 16, [UInt8]())
        var previous = start
        var offset = 0
        for range in subsamples.isEmpty ? [(clear: 0, protected: clear.count)] : subsamples {
            offset += range.clear
            if scheme == .cbcs { previous = start }
            let count = isPartialClear ? range.protected / 16 * 16 : range.protected
            for position in 0..<count {
                if hasPattern, position / 16 % (pattern.crypt + pattern.skip) >= pattern.crypt { continue }
                switch scheme {
                case .cenc, .cens:
                    if used == 16 {
                        stream = cipher.encrypt(counter)
                        used = 0
                        increment(&counter)
                    }
                    sample[offset + position] ^= stream[used]
                    used += 1
                case .cbc1, .cbcs:
                    guard position % 16 == 0 else { continue }
                    let block = offset + position..<offset + position + 16
                    previous = cipher.encrypt(zip(clear[block], previous).map { $0 ^ $1 })
                    sample.replaceSubrange(block, with: previous)
                }
            }
            offset += range.protected
        }
        return sample
    }

    /// The low half counts and wraps; the high half stays (ISO/IEC 23001-7, 9.3).
    private func increment(_ counter: inout [UInt8]) {
        for index in (8..<16).reversed() {
            counter[index] &+= 1
            if counter[index] != 0 { return }
        }
    }

}

/// One AES-128 block after the other.
private final class BlockCipher {
    private let context = EVP_CIPHER_CTX_new()
    private var output = [UInt8](repeating: 0, count: 32)

    init(_ key: [UInt8]) { EVP_EncryptInit_ex(context, EVP_aes_128_ecb(), nil, key, nil) }

    deinit { EVP_CIPHER_CTX_free(context) }

    func encrypt(_ block: [UInt8]) -> [UInt8] {
        var length: Int32 = 0
        EVP_EncryptUpdate(context, &output, &length, block, 16)
        return Array(output[..<16])
    }
}
